# SPDX-License-Identifier: Apache-2.0
"""perf-stat: the counters of `perf stat -a -I --json`, and the ratios and rates that the catalogue derives from them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, cast

from kerneltools import perf_json
from kerneltools.clock import Interval, Timeline, placed, start_of_counting
from kerneltools.frames import Frame, SeriesList, Spool, Value, all_significant, items, significant
from kerneltools.log import Log, shown
from kerneltools.perf_counters import SUBTOOL, Counter, Counters, Derived
from kerneltools.perf_counts import EVENTS_KEY, CountReader, Counts, Place, Slot
from kerneltools.perf_event import asked_events, place_names
from kerneltools.rawfile import RawFile
from kerneltools.run import Run

OUTPUTS = ("perf-stat-output.json",)

_Pick = Callable[[Sequence[Any]], Sequence[Any]]


class Frames:
    """The frames of an output: every counter, ratio and rate, for every place it was counted in."""

    def __init__(self, run: Run, raw: RawFile, spool: Spool) -> None:
        self.series = SeriesList()
        self._run = run
        self._spool = spool
        reader = perf_json.Reader(raw, SUBTOOL, run.log)
        spool.extend(reader.readings("unit", "event-runtime", "pcnt-running"))
        self._times = reader.times
        self.intervals = len(reader.times)
        if not self.intervals:
            run.log.note(SUBTOOL, f"{raw.path.name} holds no interval")
            return
        self._start = start_of_counting(run.clock, SUBTOOL, reader.times.last, reader.tail_damage, raw.mtime, run.log)
        asked = asked_events(run.environment.get(EVENTS_KEY, ""))
        self._counters = Counters(reader.events, asked, run.metrics(SUBTOOL), run.log)

    def __iter__(self) -> Iterator[Frame]:
        """The frames in their order."""
        if not self.intervals:
            return
        log = self._run.log
        count_reader = CountReader(self._run, self._counters)
        series = _Series(self._run, self.series)
        timeline = Timeline(self._start, self._times.typical)
        layout: _Layout | None = None
        gaps = _Gaps()
        readings = itertools.starmap(perf_json.Reading, self._spool)
        for interval, reading, lines_lost in placed(readings, timeline, self._times.outliers, SUBTOOL, log):
            counts = count_reader.counts(reading, lines_lost)
            if layout is None or layout.slots != counts.slots:
                gaps.add_layout(layout)
                layout = _Layout(counts.slots, self._counters, series, count_reader.units)
            values = layout.values(counts, interval, log)
            if None in values:
                gaps.add(layout.kept_slots, values)
            frame: list[Value | None] = [None] * len(self.series)
            for number, value in zip(layout.numbers, values):
                frame[number] = value
            yield Frame(interval, frame)
        gaps.add_layout(layout)
        gaps.note(log)


class _Series:
    """The series of this output, registered as they appear."""

    def __init__(self, run: Run, series: SeriesList) -> None:
        self._topology = run.topology
        self._series = series
        self._breakouts: dict[tuple[Place, str], dict[str, str]] = {}
        metrics = run.metrics(SUBTOOL)
        self._event_metric = next(metric for metric in metrics if metric.field == "counter")
        self._running_metric = next(metric for metric in metrics if metric.field == "pcnt-running")

    def _names(self, where: Place, device: str) -> dict[str, str]:
        """The breakouts of a counter at a place."""
        if (where, device) not in self._breakouts:
            names = place_names(*where, self._topology) or {}
            self._breakouts[where, device] = {**names, "device": device} if device else names
        return self._breakouts[where, device]

    def of_counter(self, slot: Slot, unit: str) -> int:
        """The series of an event's own counts, in perf's unit ("msec", "Joules", mostly none)."""
        where, (metric_type, device) = slot
        return self._series.number(self._event_metric, self._names(where, device), metric_type, unit)

    def of_derived(self, where: Place, derived: Derived) -> int:
        """The series of a ratio or rate."""
        return self._series.number(derived.metric, self._names(where, derived.numerator[1]))

    def of_running(self, metric_type: str) -> int:
        """The series that tells how much of the time an event was counted."""
        return self._series.number(self._running_metric, {"counter": metric_type})


class _Layout:
    """The values of an interval: the counts of slots, what is derived from them, and how much of the time the events were
    counted; numbers: the series that they are of, intervals: how many had this layout."""

    def __init__(self, slots: tuple[Slot, ...], counters: Counters, series: _Series, units: dict[Counter, str]) -> None:
        self.slots = slots
        kept = [index for index, (_, counter) in enumerate(slots) if counter not in counters.never]
        self._kept = items(kept)
        self.kept_slots = [slots[index] for index in kept]
        numbers = [series.of_counter(slot, units[slot[1]]) for slot in self.kept_slots]
        position = {slot: index for index, slot in enumerate(self.kept_slots)}
        places = dict.fromkeys(where for where, _ in self.kept_slots)
        self._derived: list[tuple[Derived, _Pick, _Pick | None]] = []
        for derived in counters.derived:
            needed = [derived.numerator] if derived.denominator is None else [derived.numerator, derived.denominator]
            there = [where for where in places if all((where, counter) in position for counter in needed)]
            if there:
                picks = [items([position[where, counter] for where in there]) for counter in needed]
                self._derived.append((derived, picks[0], picks[1] if len(picks) > 1 else None))
                numbers += [series.of_derived(where, derived) for where in there]
        self._types = list(dict.fromkeys(metric_type for _, (metric_type, _) in self.kept_slots))
        numbers += map(series.of_running, self._types)
        self.numbers = numbers
        self.intervals = 0

    def values(self, counts: Counts, interval: Interval, log: Log) -> list[Value | None]:
        """The values of an interval; None where there is none."""
        self.intervals += 1
        values = list(self._kept(counts.values))
        counted = values[:]
        for derived, numerators, denominators in self._derived:
            values += _derived_values(derived, numerators(counted), denominators and denominators(counted), interval, log)
        values += map(counts.running.get, self._types)
        return values


def _derived_values(
    derived: Derived, numerators: Sequence[Value | None], denominators: Sequence[Value | None] | None, interval: Interval, log: Log
) -> Sequence[Value | None]:
    """numerator / denominator * scale each, over the interval's length where there are no denominators; None where one
    was not counted or the denominator is 0."""
    scale = derived.metric.scale
    if denominators is None:
        denominators = [interval.seconds] * len(numerators)
    pairs = zip(numerators, denominators)
    try:
        return all_significant([numerator / denominator * scale for numerator, denominator in cast("Iterable[tuple[Value, Value]]", pairs)])
    except (TypeError, ZeroDivisionError):
        pass
    values: list[Value | None] = []
    for numerator, denominator in zip(numerators, denominators):
        if numerator is None or denominator is None:
            values.append(None)
        elif denominator == 0:
            log.note(SUBTOOL, f"no {derived.metric.type} where {derived.metric.denominator} is 0")
            values.append(None)
        else:
            values.append(significant(numerator / denominator * scale))
    return values


class _Gaps:
    """In how many intervals a slot was not counted. A counter that never ran in a place is no loss there: the other kind of
    core does not have it."""

    def __init__(self) -> None:
        self._missing: dict[Slot, int] = {}
        self._intervals: dict[Slot, int] = {}

    def add(self, slots: list[Slot], values: list[Value | None]) -> None:
        """Take the values of an interval; None is none."""
        for slot, value in zip(slots, values):
            if value is None:
                self._missing[slot] = self._missing.get(slot, 0) + 1

    def add_layout(self, layout: _Layout | None) -> None:
        """Take a layout that is not used any more."""
        if layout is not None:
            for slot in layout.kept_slots:
                self._intervals[slot] = self._intervals.get(slot, 0) + layout.intervals

    def note(self, log: Log) -> None:
        """Say which events were not counted in some intervals."""
        for slot, times in self._missing.items():
            if times < self._intervals[slot]:
                where, counter = slot
                log.note(SUBTOOL, f"{shown(counter[0])}: not counted in some intervals", "=".join(where) if where[0] else "", times)
