# SPDX-License-Identifier: Apache-2.0
"""From a collector's own time (seconds since it began to count) to epoch time, and from times to intervals."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import sub
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from kerneltools import files, limits
from kerneltools.log import TEXT_SHOWN, Log, shown

CLOCK_FILE = "kerneltools-clock.txt"
MOST_MOMENTS = 1000  # that it tells of; there are two of each subtool
LAST_EPOCH = 1e11  # seconds; a clock that shows more is none
LONGEST_RUN = 3e8  # seconds, nine years: no collector counts longer
LONGEST_DROPPED = 0.002  # seconds; two times that round to one millisecond are closer
PLAUSIBLE_OPENING = 5.0  # seconds a collector may take from its launch until it counts, before the log mentions it
# why a collector may have counted for less time than passed
WHY_LATE = (
    "the node's clock was set during the run, the machine was suspended (collectors' own clocks stand still meanwhile), or the "
    "collector took that long to open its counters"
)


class Interval(NamedTuple):
    """One interval: first and last millisecond since the epoch (both included), length in seconds, place in the run.

    `ordinal` rises by one from interval to interval, by more where intervals were lost between two.
    """

    begin: int
    end: int
    seconds: float
    ordinal: int


def read_clock(data_directory: Path, log: Log) -> dict[tuple[str, str], float]:
    """The clock file as {(subtool, "begin" or "end"): seconds since the epoch}; a missing file is an empty one."""
    clock: dict[tuple[str, str], float] = {}
    for line in files.read_or_say(data_directory, log, CLOCK_FILE).splitlines():
        words = line.split()
        try:
            subtool, moment, text = words
            epoch = float(text)
            if moment not in ("begin", "end") or not 0 < epoch < LAST_EPOCH or len(subtool) > TEXT_SHOWN:
                raise ValueError
        except ValueError:
            log.note(CLOCK_FILE, "a line that is no '<subtool> begin|end <epoch>' is ignored", shown(line))
            continue
        if len(clock) >= MOST_MOMENTS and (subtool, moment) not in clock:
            log.lost(CLOCK_FILE, f"what it says beyond {MOST_MOMENTS} moments is ignored", shown(line))
            continue
        if moment == "begin":
            clock.pop((subtool, "end"), None)  # an earlier collection's
        clock[subtool, moment] = epoch
    return clock


def start_of_counting(
    clock: dict[tuple[str, str], float], subtool: str, last: float, tail_damage: str, mtime: float, log: Log
) -> float:
    """The epoch time (seconds) at which a collector's own time was 0.

    clock: as read_clock gives it; last: the last time in the output, seconds since counting began; tail_damage: what
    is wrong with the output's end, "" where it is whole; mtime: of the output, seconds since the epoch.

    A collector stamps its last interval when it is told to end, so `end - last` is exact where the output is whole.
    """
    begin, end = clock.get((subtool, "begin")), clock.get((subtool, "end"))
    if end is not None and not tail_damage:
        start = end - last
        if begin is not None and start - begin < -PLAUSIBLE_OPENING:
            log.note(
                subtool,
                f"times are counted from the launch of the collector: its last time, {last:.3f} s, is {begin - start:.3f} s more than "
                "passed between launch and end; the node's clock was set back during the run, or that time is damaged",
            )
            return begin
        if begin is not None and not 0 <= start - begin <= PLAUSIBLE_OPENING:
            log.note(
                subtool,
                f"times are counted back from the end of collection, which puts the start of counting {start - begin:.3f} s after "
                f"the launch: {WHY_LATE}; if it was one of the first two, times from before it are late by as much",
            )
        return start
    if begin is not None and not tail_damage and 0 <= mtime - last - begin <= PLAUSIBLE_OPENING:
        # its last interval was written when it was stamped; the launch is early by the time it took to open its counters
        log.note(subtool, f"times are counted back from the output's modification time: {CLOCK_FILE} has no end for it")
        return mtime - last
    if begin is not None:
        why = f"the output's end is damaged ({tail_damage})" if tail_damage else f"{CLOCK_FILE} has no end for it"
        late = mtime - last - begin
        if not tail_damage and late > PLAUSIBLE_OPENING:
            why += f", and the output's modification time is {late:.3f} s later than its last time: {WHY_LATE}"
        log.note(subtool, f"times are counted from the launch of the collector: {why}")
        return begin
    if end is not None:
        log.note(subtool, f"times are counted back from the end of collection although the output's end is damaged ({tail_damage}): "
                          f"{CLOCK_FILE} has no begin for it")
        return end - last
    log.note(subtool, f"times are counted back from the output's modification time: {CLOCK_FILE} has nothing about it")
    return mtime - last


class Timeline:
    """Turns the times of an output, in its order, into intervals.

    start: epoch time of the collector's time 0, in seconds (0.0 for a collector that stamps epoch times);
    typical: the usual distance between two times, in seconds.
    """

    def __init__(self, start: float, typical: float, previous: float = 0.0) -> None:
        self._start = start
        self._typical = typical
        self._previous = previous
        self._ordinal = -1

    @property
    def previous(self) -> float:
        """The time at which the last interval ended, in the collector's seconds."""
        return self._previous

    def _ms(self, time: float) -> int:
        return round((self._start + time) * 1000)

    def interval(self, time: float, lines_lost: bool) -> Interval | None:
        """The interval that ends at `time`; None where it is not at least 1 ms later than its predecessor.

        lines_lost: whether lines between the previous interval and this one could not be read. Then intervals may be
        missing, and the counts of this one cover the usual distance rather than all the time since the previous.
        """
        end, previous_end = self._ms(time), self._ms(self._previous)
        if end <= max(0, previous_end):
            return None
        seconds = time - self._previous
        steps = 1
        if lines_lost and seconds > self._typical > 0:
            steps = max(1, round(seconds / self._typical))
            seconds = self._typical
            previous_end = max(previous_end, self._ms(time - seconds))
        self._ordinal += steps
        self._previous = time
        # nothing was measured before the epoch, whatever a damaged time says
        return Interval(max(0, min(previous_end + 1, end)), end, seconds, self._ordinal)


class Read(Protocol):
    """What was read of one interval: its time in the collector's seconds; the line where it begins in the output; whether
    lines that could not be read stand before it, or within or right behind it."""

    @property
    def time(self) -> float: ...

    @property
    def line(self) -> int: ...

    @property
    def lost_before(self) -> bool: ...

    @property
    def lost_within(self) -> bool: ...


R = TypeVar("R", bound=Read)


def placed(readings: Iterable[R], timeline: Timeline, outliers: set[float], subtool: str, log: Log) -> Iterator[tuple[Interval, R, bool]]:
    """What was read, each with its interval and whether lines of it may be lost.

    An interval that is not later than the one before, or whose time is one of the outliers, is dropped and counted.
    """
    lost = False
    for reading in readings:
        time = reading.time
        where = f"line {reading.line}, interval {time} after {timeline.previous}"
        if time in outliers:
            log.lost(subtool, "intervals ahead of later ones are dropped", where)
            lost = True
            continue
        lost_before, lost = lost or reading.lost_before, False
        later = time - timeline.previous
        interval = timeline.interval(time, lost_before)
        if interval is not None:
            yield interval, reading, lost_before or reading.lost_within
        elif later >= LONGEST_DROPPED:
            log.lost(subtool, "intervals before the epoch are dropped: the file's time is wrong, and there is no clock file", where)
        elif later > 0:
            log.note(subtool, "intervals less than 1 ms after the one before are dropped", where)
        else:
            log.lost(subtool, "intervals not later than one before are dropped", where)


class Times:
    """The times of an output in one pass: how many, the last one, and their usual distance.

    origin: the time at which the first interval begins; None where that is not known, as times are of the epoch.
    outliers: times that are ahead of at least two later ones; the two are believed.
    """

    def __init__(self, origin: float | None = 0.0) -> None:
        self._origin = origin
        self._times = array("d")
        self._overtaken: list[float] = []
        self.outliers: set[float] = set()

    def add(self, time: float) -> None:
        """Take the next time; one that is not later than the last is no new interval."""
        if time > self.last:
            self._times.append(time)
            self._overtaken = []
            limits.check(len(self._times), limits.MOST_INTERVALS, "intervals")
            return
        overtaken = self._overtaken or self._times[-2:-1] or (0.0,)
        if overtaken[-1] < time < self.last:
            self._overtaken.append(time)
        if len(self._overtaken) > 1:
            self.outliers.add(self._times.pop())
            self._times.extend(self._overtaken)
            self._overtaken = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> float:
        """The last time; 0.0 where there is none."""
        return self._times[-1] if self._times else 0.0

    @property
    def typical(self) -> float:
        """The median distance in seconds; 0.0 where there is no time at all."""
        begins = chain((self._origin,), self._times) if self._origin is not None else self._times
        ends = self._times if self._origin is not None else self._times[1:]
        distances = array("d", map(sub, ends, begins))
        ordered = sorted(distances)
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else 0.0


def is_time(value: object) -> bool:
    """Whether `value` can be the time since a collector began to count, in seconds: a number from 0 to LONGEST_RUN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < LONGEST_RUN
