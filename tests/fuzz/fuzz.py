#!/usr/bin/env python3
# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of post-processing: see README.md beside this file."""

from __future__ import annotations

import functools
import hashlib
import lzma
import os
import shlex
import shutil
import sys
import tempfile
import traceback
import zlib
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

with atheris.instrument_imports(include=["kerneltools"]):
    from kerneltools import catalogue, rawfile, run, sink, subtools, topology
    from kerneltools.frames import Spool
    from kerneltools.log import Log
    from kerneltools.publication import Publication

    for subtool in subtools.names():
        subtools.module(subtool)

from published import CLOCK, ENVIRONMENT, EPOCH, OUTPUTS, clock_file, read_metric_files, topology_files, write_files  # noqa: E402

USAGE = f"usage: fuzz.py {'|'.join([*OUTPUTS, 'archive'])} [DIRECTORY for new inputs] [libFuzzer options]"
KEEP_GOING = "FUZZ_KEEP_GOING"
IN_MEMORY = "kerneltools-fuzz-"  # and the process's number
PIECE = 61  # bytes that are read at a time by the second reading
# what lies beside an output; the output's checksum says which of them
CLOCKS = ((-0.1, 3), (-0.1, None), (None, 3), (None, None))
ENVIRONMENTS = (
    b"",
    b"cpu_vendor=AuthenticAMD\nturbostat_interval=1\nperf_stat_events_counted=cycles:u,cycles:k,{instructions,branches}:W\n",
)
CPUS = {cpu: (0, 0, cpu // 2, f"{cpu & ~1}-{cpu | 1}") for cpu in range(4)}


def _directory_in_memory() -> Path:
    """A directory of this process's own; what others left is removed, for libFuzzer ends a process without a last word."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        memory = Path(tempfile.gettempdir())
    for left in memory.glob(f"{IN_MEMORY}*"):
        if not Path("/proc", left.name[len(IN_MEMORY) :]).exists():
            shutil.rmtree(left, ignore_errors=True)
    base = memory / f"{IN_MEMORY}{os.getpid()}"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    return base


class Harness:
    """Post-processes inputs for one parser, in a directory in memory where there is one."""

    def __init__(self, parser: str) -> None:
        self.subtool = "perf-stat" if parser == "archive" else parser.replace("-json", "")
        self._name = OUTPUTS["perf-stat"] + ".xz" if parser == "archive" else OUTPUTS[parser]
        base = _directory_in_memory()
        self._directories = []
        for number in range(8):
            directory = base / str(number)
            files = {CLOCK: clock_file(self.subtool, *CLOCKS[number % 4]), ENVIRONMENT: ENVIRONMENTS[number // 4]}
            write_files(directory, {**files, **(topology_files(CPUS) if number % 2 else {})})
            (directory / "postprocess").mkdir()
            self._directories.append(directory)
        # compression and the files beside the output cost more than all else, and are not what is looked at
        sink.open_archive = functools.partial(open, mode="w")
        catalogue.load = functools.lru_cache(catalogue.load)
        read, log = functools.lru_cache(topology.read), Log()
        topology.read = lambda directory, _: read(directory, log)

    def published(self, directory: Path, name: str, content: bytes, read_bytes: int = 1 << 16) -> dict:
        """The series that are published of an output of that name; raises whatever the subtool raises."""
        rawfile.READ_BYTES = read_bytes
        path = directory / name
        path.write_bytes(content)
        os.utime(path, (EPOCH + 3, EPOCH + 3))
        output = directory / "postprocess"
        data = run.Run(directory, Log())
        publication = None
        try:
            with Spool(output) as spool:
                of = subtools.module(self.subtool).Frames(data, rawfile.RawFile(path), spool)
                publication = Publication(
                    output, self.subtool, data.file_id(self.subtool), data.catalogue, of.series, of.intervals, data.log
                )
                for frame in of:
                    publication.publish(frame)
                publication.finish()
            data.log.lines()
            return read_metric_files(output)
        finally:
            if publication is not None:
                publication.abandon()
            path.unlink()
            for left in output.iterdir():
                left.unlink()

    def test(self, content: bytes) -> None:
        """Raises where an input is not taken as it should be, or is taken otherwise when it is read in other pieces."""
        check = zlib.crc32(content)
        directory = self._directories[check % 8]
        whole = self.published(directory, self._name, content)
        how = check // 8 % 4
        if self._name.endswith(".xz"):
            return
        if how == 0:
            other = self.published(directory, self._name, content, PIECE)
        elif how == 1:
            other = self.published(directory, self._name, content.replace(b"\n", b"\n\n"))
        elif how == 2:
            other = self.published(directory, self._name + ".xz", lzma.compress(content, preset=0))
        else:
            return
        assert other == whole, f"read otherwise ({('in pieces', 'with blank lines', 'from an archive')[how]}) it gives other samples"


def _signature(error: BaseException) -> str:
    """What tells one fault from another: the error, and where in the project it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "kerneltools" in Path(frame.filename).parts]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else str(error)[:40]
    return f"{type(error).__name__} {place}"


def main(arguments: list[str]) -> int:
    """Fuzz the parser that the command line names until libFuzzer's options say it is enough."""
    if not arguments or arguments[0] not in [*OUTPUTS, "archive"]:
        print(USAGE, file=sys.stderr)
        return 2
    parser, options = arguments[0], arguments[1:]
    harness = Harness(parser)
    seen: set[str] = set()
    findings = os.environ.get(KEEP_GOING)

    def test_one_input(content: bytes) -> None:
        try:
            harness.test(content)
        except Exception as error:
            if not findings:
                raise
            signature = _signature(error)
            if signature not in seen:
                seen.add(signature)
                Path(findings).mkdir(parents=True, exist_ok=True)
                path = Path(findings) / f"{parser}-{hashlib.sha1(content).hexdigest()[:12]}"
                path.write_bytes(content)
                print(f"FINDING {signature}: {error!s:.200}\n    {path}", file=sys.stderr, flush=True)

    given = [option for option in options if not option.startswith("-")]
    if not given and not any(option.startswith("-merge") for option in options):
        options.append(tempfile.mkdtemp(prefix=f"fuzz-{parser}-"))
        print(f"new inputs go to {options[-1]}", file=sys.stderr)
    if len(given) < 2 and not any(map(os.path.isfile, given)) and (HERE / "corpus" / parser).is_dir():
        options.append(str(HERE / "corpus" / parser))
    if not any(option.startswith("-dict=") for option in options) and (HERE / f"{parser}.dict").is_file():
        options.append(f"-dict={HERE / (parser + '.dict')}")
    # libFuzzer hands this to a shell where it starts itself anew (-merge=1, -minimize_crash=1)
    itself = " ".join(map(shlex.quote, (sys.executable, str(HERE / "fuzz.py"), parser)))
    atheris.Setup([itself, *options], test_one_input)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
