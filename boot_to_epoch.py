#!/usr/bin/env -S python3 -I
# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""From crucible's time to the time in a perf recording, and back.

crucible knows the time of a sample in milliseconds since the epoch; perf.data knows it in seconds since the node booted. To look at
one sample of the benchmark only, run this in the data directory of the kernel tool, with the sample's begin and end:

    $ boot_to_epoch.py --sample-start 1796001815300 --sample-stop 1796001816400
    perf report --time 4052.564909663,4053.664909663

The other way round, for times that perf script prints:

    $ boot_to_epoch.py --to-epoch 4053.101
    1796001815836

What is between the two is in the directory's kerneltools-environment.txt (perf_record_clock_offset) and can be given instead,
for recordings of other tools: date -u --date="$(uptime -s)" +%s on the node says it to the second. The options -b, -f, -s1 and
-s2 are those of this program's predecessor.
"""

from __future__ import annotations

import os
import sys

# Without -I an empty entry in PYTHONPATH has Python import what lies in the current directory: data that came from elsewhere
if __name__ == "__main__" and not sys.flags.isolated:
    os.execv(sys.executable, [sys.executable, "-I", *sys.argv])

import argparse
import re
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from kerneltools.clock import CLOCK_FILE  # noqa: E402  (the package lies beside this file, wherever that is)
from kerneltools.log import Log, shown  # noqa: E402
from kerneltools.run import ENVIRONMENT, Run  # noqa: E402

SUBTOOL = "perf-record"
EPOCH_IN_MS = Decimal(10) ** 11  # fewer are 1973, and rather seconds than milliseconds
STEP = Decimal("0.001")  # seconds between the offsets at start and stop that are worth a word
NANOSECOND = Decimal("1e-9")


class Unknown(Exception):
    """What is asked cannot be told, and why."""


class Recording(NamedTuple):
    """What is known of a recording. offset: seconds to add to its times; begin, end: when it went on, seconds since the epoch."""

    offset: Decimal
    begin: Decimal | None = None
    end: Decimal | None = None


def number(text: str) -> Decimal:
    """A number of seconds or milliseconds as argparse takes it: digits, with a decimal point or without."""
    if not re.fullmatch(r"[0-9]{1,19}(\.[0-9]{0,19})?", text):
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is no number")
    return Decimal(text)


def milliseconds(text: str) -> Decimal:
    """A moment as crucible gives it: milliseconds since the epoch."""
    moment = number(text)
    if moment < EPOCH_IN_MS:
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is not in milliseconds since the epoch (13 digits these days)")
    return moment


def offset_in(environment: dict[str, str], key: str) -> Decimal | None:
    """An offset in seconds; None where the environment file has none."""
    try:
        return number(environment.get(key, ""))
    except argparse.ArgumentTypeError:
        return None


def recording_of(directory: Path, last_sample: Decimal | None, notes: list[str]) -> Recording:
    """What kerneltools-start and -stop noted about the directory's perf.data.

    last_sample: the recording's time of its last sample, which was taken when the recording ended; used where the offset is not known.
    """
    log = Log()
    run = Run(directory, log)
    environment = run.environment
    notes += [line.partition(": ")[2] for line in log.lines() if line.startswith("WARNING: ")]
    if not environment:
        raise Unknown(f"{directory / ENVIRONMENT} cannot be read: name the data directory of a run with --dir, or give --sys-boot-time")
    begin, end = (Decimal(str(run.clock[key])) if (key := (SUBTOOL, moment)) in run.clock else None for moment in ("begin", "end"))
    offset = offset_in(environment, "perf_record_clock_offset")
    at_stop = offset_in(environment, "perf_record_clock_offset_at_stop")
    if last_sample is not None:
        if end is None:
            raise Unknown(f"{directory / CLOCK_FILE} does not say when it ended, which --last-sample needs: give --sys-boot-time")
        return Recording(end - last_sample, begin, end)
    if "perf_record_clock" not in environment:
        raise Unknown(f"{directory / ENVIRONMENT} says nothing about perf-record: it was not among the subtools of that run")
    if offset is None:
        raise Unknown(
            f"samples were stamped with {shown(environment['perf_record_clock'])}, and how far that is from the epoch is not known: give "
            "--last-sample as `perf report --header-only` says it, or --sys-boot-time"
        )
    if at_stop is not None and abs(at_stop - offset) > STEP:
        notes.append(
            f"the node's time was set by {at_stop - offset:+.3f} s during the recording; this is by its time at the beginning, and "
            f"--sys-boot-time {at_stop} gives what its time at the end would"
        )
    return Recording(offset, begin, end)


def in_recording(recording: Recording, moment: Decimal) -> Decimal:
    """A moment (milliseconds since the epoch) as a time of the recording, in seconds."""
    time = moment / 1000 - recording.offset
    if time < 0:
        raise Unknown(f"{moment} is {-time:.3f} s before the recording's clock was 0: the numbers do not belong together")
    return time


def check_window(recording: Recording, start: Decimal | None, stop: Decimal | None) -> list[str]:
    """Remarks on a window (milliseconds since the epoch) of which the recording has only a part; Unknown where it has nothing."""
    if start is not None and stop is not None and stop < start:
        raise Unknown(f"the window ends ({stop}) before it begins ({start})")
    begin, end = (None if moment is None else moment * 1000 for moment in (recording.begin, recording.end))
    goes = " ".join(f"{word} {moment:.0f}" for word, moment in (("from", begin), ("to", end)) if moment is not None)
    if (begin is not None and stop is not None and stop < begin) or (end is not None and start is not None and start > end):
        raise Unknown(f"the recording has nothing of that time: it goes {goes} (milliseconds since the epoch)")
    if (begin is not None and start is not None and start < begin) or (end is not None and stop is not None and stop > end):
        return [f"the recording has only a part of that time: it goes {goes} (milliseconds since the epoch)"]
    return []


def parser() -> argparse.ArgumentParser:
    """The command line."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    options = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    options.add_argument("-d", "--dir", type=Path, default=Path(), help="data directory of the kernel tool (default: the current one)")
    options.add_argument("-s1", "--sample-start", type=milliseconds, metavar="MS", help="begin of the window, milliseconds since the epoch")
    options.add_argument("-s2", "--sample-stop", type=milliseconds, metavar="MS", help="its end")
    options.add_argument("-e", "--to-epoch", type=number, nargs="+", metavar="S", help="times in the recording, in seconds")
    options.add_argument("-b", "--sys-boot-time", type=number, metavar="S", help="time 0 of the recording, in seconds since the epoch")
    options.add_argument("-l", "--last-sample", type=number, metavar="S", help="time of the last sample, if --dir knows only when it ended")
    options.add_argument("-f", "--first-sample", type=number, metavar="S", help="time of the first sample: to check the window against it")
    return options


def say(notes: list[str]) -> None:
    """Print remarks for whoever is at the terminal."""
    for note in notes:
        print(f"NOTE: {note}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Exit 0: converted; 1: it cannot be told; 2: usage."""
    options = parser()
    given = options.parse_args(arguments)
    window = (given.sample_start, given.sample_stop)
    if (window == (None, None)) == (given.to_epoch is None):
        options.error("give --sample-start, --sample-stop or both, or --to-epoch")
    if given.sys_boot_time is not None and given.last_sample is not None:
        options.error("--sys-boot-time and --last-sample say the same: give one of them")
    notes: list[str] = []
    try:
        known = given.sys_boot_time is not None
        recording = Recording(given.sys_boot_time) if known else recording_of(given.dir, given.last_sample, notes)
        if given.first_sample is not None:
            recording = recording._replace(begin=recording.offset + given.first_sample)
        if given.to_epoch is not None:
            print(*(round((time + recording.offset) * 1000) for time in given.to_epoch), sep="\n")
        else:
            notes += check_window(recording, *window)
            times = ("" if moment is None else str(in_recording(recording, moment).quantize(NANOSECOND)) for moment in window)
            print("perf report --time", ",".join(times))
    except Unknown as reason:
        say(notes)
        print(f"ERROR: {reason}", file=sys.stderr)
        return 1
    say(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
