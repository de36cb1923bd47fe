# SPDX-License-Identifier: Apache-2.0
"""The post-processor: a data directory in, CDM metric files, post-process-data.json and a closing table out."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kerneltools import files, inputs, metric_files, page, subtools
from kerneltools.log import Log, cell, print_trace, shown
from kerneltools.publication import Published, TypeSummary
from kerneltools.run import Run

USAGE = """usage: kerneltools-post-process [DIR]
       kerneltools-post-process --compare DIR_A DIR_B

Turns what the kernel tool collected in DIR (default: the current directory) into
CDM metrics under DIR/postprocess, draws them in DIR/postprocess/kernel.html, and
prints a table of them. With --compare: what changed between two runs that were
post-processed, the clearest first (change against spread), and what differs in
their environments; nothing is written.
Environment: TOOLBOX_HOME, where toolbox's metrics API is found (else a built-in
writer makes the same files).
Exit: 0 all that is there was published (or compared); 1 something was lost or
unreadable; 2 usage.
"""
POSTPROCESS = "postprocess"
SUMMARY_FILE = "post-process-data.json"
RECORD = "kerneltools-pids.txt"
START_LOG = "kerneltools-start-stderrout.txt"
PRIMARY_METRIC = "ipc"


def _error(message: str) -> None:
    print(f"ERROR: {message}", file=sys.stderr)


def _directory(arguments: list[str]) -> Path | None:
    """The data directory that the arguments name; None, with the error said, where they are no usage."""
    if len(arguments) > 1 or (arguments and (not arguments[0] or arguments[0].startswith("-"))):
        _error(f"{shown(' '.join(arguments)) or 'an empty name'}: accepted is at most one directory, or --help")
        return None
    directory = Path(arguments[0] if arguments else ".")
    if not directory.is_dir():
        _error(f"{shown(str(directory))}: no such directory; accepted is the data directory of a run")
        return None
    return directory


def write_summary_file(published: list[Published], output: Path) -> None:
    """Write post-process-data.json, whole or not at all."""
    types = [row.type for one in published for row in one.summary]
    primary = PRIMARY_METRIC if PRIMARY_METRIC in types else next(iter(types), None)
    document: dict[str, object] = {
        "rickshaw-bench-metric": {"schema": {"version": "2021.04.12"}},
        "tool": "kernel",
        "primary-period": "measurement",
    }
    if primary is not None:
        document["primary-metric"] = primary
    prefixes = [prefix for one in published for prefix in one.prefixes]
    document["periods"] = [{"name": "measurement", "metric-files": prefixes}]
    files.write_whole(output / SUMMARY_FILE, json.dumps(document, indent=4) + "\n")


def write_page(run: Run, published: list[Published], output: Path) -> None:
    """Write kernel.html; where that fails it is a loss of the run, but the metrics are in their place already."""
    try:
        page.write(run, published, output)
    except Exception as error:  # whatever the page trips over, it costs the page only
        run.log.lost(page.PAGE, "was not written; the metrics are whole", f"{type(error).__name__}: {files.reason(error)}")
        if not isinstance(error, OSError):
            print_trace()


def table(rows: list[TypeSummary]) -> list[str]:
    """The closing table as lines of text."""
    head = ("type", "unit", "series", "samples", "mean", "min", "max")
    cells = [head]
    cells += [
        (cell(row.type), cell(row.unit), str(row.series), str(row.samples), f"{row.mean:.6g}", f"{row.least:.6g}", f"{row.greatest:.6g}")
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
        for line in cells
    ]


def _nothing(directory: Path) -> str:
    """Why there are no metrics, for someone who may be in the wrong place."""
    where = shown(str(directory.resolve()))
    if files.is_there(directory / RECORD):
        return f"nothing to publish in {where}: no subtool that yields metrics ran there, or none of its output holds a sample"
    if files.is_there(directory / START_LOG):
        return f"nothing to publish in {where}: kerneltools-start was called there, but nothing ran; {START_LOG} says why (grep ERROR)"
    return f"nothing to publish in {where}: it does not look like a run's directory; that is the one in which kerneltools-start was called"


def main(arguments: list[str]) -> int:
    """Post-process the directory that the command line names; the exit code is in USAGE."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names come from elsewhere, and the caller's locale may be C
    if arguments in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if arguments[:1] == ["--compare"]:
        from kerneltools import compare  # noqa: PLC0415  (which a post-processing does not need)

        return compare.main(arguments[1:], sys.stdout, sys.stderr)
    directory = _directory(arguments)
    if directory is None:
        return 2
    output = directory / POSTPROCESS
    try:
        with _alone(output) as opened:
            return _post_process(directory, output, opened)
    except OSError as error:
        return _unwritable(output, error)


def _unwritable(output: Path, error: OSError) -> int:
    _error(f"{shown(str(output))} cannot be written: {files.reason(error)}")
    return 1


@contextlib.contextmanager
def _alone(output: Path) -> Iterator[Path]:
    """Make the directory and hold off other post-processings of it; the kernel does so no longer than this process lives.

    The path that is given leads to this directory even if somebody puts a link in its place meanwhile.
    """
    descriptor = files.open_directory(output)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("NOTE: waiting for another post-processing of this directory", flush=True)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield files.path_of(descriptor, output)
    finally:
        os.close(descriptor)


def _post_process(directory: Path, named: Path, output: Path) -> int:
    """Post-process into `output`, which the user knows as `named`."""
    log = Log()
    try:
        files.remove(output / SUMMARY_FILE)  # before the files that it names
        metric_files.remove_stale(output, subtools.names())
        page.remove_stale(output)
        run = Run(directory, log)
        published = inputs.publish_all(run, output)
        write_summary_file(published, output)
    except OSError as error:
        log.write()
        return _unwritable(named, error)
    write_page(run, published, output)
    rows = [row for one in published for row in one.summary]
    try:
        log.write()
        print("\n".join(table(rows)) if rows else _nothing(directory), flush=True)
    except OSError as error:  # the metrics are complete, only their table finds no reader
        sys.stdout = files.nowhere()  # or Python tries once more when it ends
        _error(f"what was published cannot be printed: {error}")
    return 1 if log.any_loss else 0
