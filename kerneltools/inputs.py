# SPDX-License-Identifier: Apache-2.0
"""The inputs of a run, what each subtool left, published side by side where there are cores for it.

An input needs nothing of the others, so each is given to a process of its own. Whatever happens to that process, the
others' metrics are published.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Optional

from kerneltools import files, limits, metric_files, rawfile, subtools
from kerneltools.frames import Spool
from kerneltools.log import Log, print_trace
from kerneltools.publication import Publication, Published
from kerneltools.rawfile import RawFile
from kerneltools.run import Run

if TYPE_CHECKING:
    import multiprocessing
    from multiprocessing.connection import Connection

PR_SET_PDEATHSIG = 1  # prctl(2): the signal to get when the parent dies
NOTHING = "nothing is published"
Outcome = tuple[Optional[Published], Log]


class _Process(NamedTuple):
    """A process that publishes one input; it sends an Outcome."""

    process: multiprocessing.process.BaseProcess
    receiver: Connection


def cores() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def publish_all(run: Run, output: Path) -> list[Published]:
    """Publish what each subtool left in the run's directory into `output`; one that fails leaves the others whole.

    The log has what is to be said of one subtool after another, whatever ran at the same time.
    """
    run.read_ahead()
    launched = {subtool for subtool, _ in run.clock}
    found: dict[str, RawFile | None] = {}
    for subtool in subtools.names():
        try:
            found[subtool] = _raw_file(run.directory, subtool)
        except Exception as error:  # a module that cannot be imported
            _say_why(run.log, subtool, error)
    present = {subtool: raw for subtool, raw in found.items() if raw is not None}
    running: dict[str, _Process] = {}
    published = []
    limit = cores() if len(present) > 1 else 0
    for subtool, raw in found.items():
        if raw is None:
            if subtool in launched:
                names = ", ".join(subtools.module(subtool).OUTPUTS)
                run.log.lost(subtool, "was started, but its output is not here", names)
            continue
        if limit > 1:
            for other, its_raw in present.items():
                if other not in running and len(running) < limit:
                    started = _start(run, other, its_raw, output)
                    if started is None:
                        limit = len(running)
                    else:
                        running[other] = started
        outcome = _outcome(running.pop(subtool), run, subtool, output) if subtool in running else _publish(run, subtool, raw, output)
        run.log.add(outcome[1])
        del present[subtool]
        if outcome[0] is not None:
            published.append(outcome[0])
    return published


def _raw_file(directory: Path, subtool: str) -> RawFile | None:
    path = next(filter(None, (rawfile.find(directory, name) for name in subtools.module(subtool).OUTPUTS)), None)
    return RawFile(path) if path is not None else None


def _publish(run: Run, subtool: str, raw: RawFile, output: Path) -> Outcome:
    """Publish one input; what there is to say of it is in a log of its own."""
    run = Run.like(run, Log())
    publication: Publication | None = None
    try:
        raw.check()
        with Spool(output, f"{metric_files.PRIVATE_PREFIX}{run.file_id(subtool)}-") as spool:
            frames = subtools.module(subtool).Frames(run, raw, spool)
            publication = Publication(output, subtool, run.file_id(subtool), run.catalogue, frames.series, frames.intervals, run.log)
            for frame in frames:
                publication.publish(frame)
            return publication.finish(), run.log
    except Exception as error:  # whatever one subtool's data does, the others are published
        _say_why(run.log, subtool, error)
        return None, run.log
    finally:
        if publication is not None:
            publication.abandon()


def _say_why(log: Log, subtool: str, error: Exception) -> None:
    if isinstance(error, (files.Refused, limits.Exceeded)):
        log.lost(subtool, NOTHING, str(error))
        return
    log.lost(subtool, NOTHING, f"{type(error).__name__}: {files.reason(error)}")
    if not isinstance(error, OSError):
        print_trace()


def _start(run: Run, subtool: str, raw: RawFile, output: Path) -> _Process | None:
    """A process for one input; None where there may be no more."""
    import multiprocessing  # noqa: PLC0415  (a run of one subtool does not need it)

    context = multiprocessing.get_context("fork")  # the others would read what this one has read once more
    try:
        receiver, sender = context.Pipe(duplex=False)
    except OSError:
        return None
    process = context.Process(target=_send, args=(sender, run, subtool, raw, output, os.getpid()), daemon=True)
    try:
        process.start()
    except OSError:
        receiver.close()
        return None
    finally:
        sender.close()
    return _Process(process, receiver)


def _send(sender: Connection, run: Run, subtool: str, raw: RawFile, output: Path, parent: int) -> None:
    # without the parent it is in vain, and would change a directory that may be another's by then
    with contextlib.suppress(ImportError, OSError, AttributeError):  # where there is no such call
        import ctypes  # noqa: PLC0415  (some Pythons are built without it)

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent's traceback is enough
    sender.send(_publish(run, subtool, raw, output))
    sender.close()


def _outcome(running: _Process, run: Run, subtool: str, output: Path) -> Outcome:
    """What a process has sent, or how it ended without sending."""
    outcome: Outcome | None = None
    with contextlib.suppress(Exception):  # EOFError, or whatever half a message reads as
        outcome = running.receiver.recv()
    running.receiver.close()
    running.process.join()
    if outcome is not None:
        return outcome
    log = Log()
    code = running.process.exitcode or 0
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    log.lost(subtool, NOTHING, f"the process that read its output {how}")
    metric_files.remove_files(output, run.file_id(subtool))
    return None, log
