# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf-stat: the counters of `perf stat -a -I --json`, and the ratios and rates that the catalogue derives from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

from kerneltools import perf_json
from kerneltools.catalogue import SECONDS, Metric
from kerneltools.clock import Interval, Timeline, start_of_counting
from kerneltools.log import Log, shown
from kerneltools.perf_event import Event, parse_event, place, place_names, split_events
from kerneltools.perf_json import UNCOUNTED, Block, Reading, Record, as_record
from kerneltools.publication import Publication, Row, Value, significant
from kerneltools.rawfile import RawFile
from kerneltools.run import Run
from kerneltools.sink import items

SUBTOOL = "perf-stat"
OUTPUTS = ("perf-stat-output.json",)
EVENTS_KEY = "perf_stat_events_counted"  # in the environment file: the list that perf was started with

# A counter from here on went wild: perf subtracted a greater count from a smaller one.
GREATEST_COUNT = 2**63
# perf prints counters with this many decimals
DECIMALS = 6
PERCENT = 100
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?")

Counter = tuple[str, str]  # metric type and device ("" but on machines with several kinds of core)
Place = tuple[str, str]  # perf's key and value


class Derived(NamedTuple):
    """A catalogue row bound to counters of this run; denominator None stands for the interval's length."""

    metric: Metric
    numerator: Counter
    denominator: Counter | None


def read_counter(text: object) -> Value | None:
    """The value of a counter, None where it was not counted; whole counts are integers.

    Raises ValueError where it is no number and OverflowError where no counter can have it (below 0, 2^63 and more).
    """
    if text in UNCOUNTED:
        return None
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        whole, _, decimals = text.partition(".")
        value: Value = float(text) if decimals.strip("0") else int(whole)
    elif isinstance(text, (int, float)) and not isinstance(text, bool):
        value = int(text) if text == text // 1 else text
    else:
        raise ValueError("no number")
    if not math.isfinite(value):
        raise ValueError("no number")
    if not 0 <= value < GREATEST_COUNT:
        raise OverflowError("out of range")
    return value


class Counters:
    """Which counters an output holds and what can be derived from them, decided once for the whole run: `derived` are
    the ratios and rates of them, `never` those without a single count.

    events: as perf_json.survey gives them: per spelling of perf, whether it was ever counted; asked: the events that perf
    was told to count, in their order. perf drops the modifiers of tracepoints, and 6.x those of cache events, when it
    prints them: what was asked for tells which of them a record is of.
    """

    def __init__(self, events: dict[str, bool], asked: list[Event], metrics: list[Metric], log: Log) -> None:
        printed = {text: parse_event(text) for text in events}
        printed_types = {event.type for event in printed.values()}
        self._meant = {text: _meant(event, asked, printed_types) for text, event in printed.items()}
        self.taking_turns = {text: len(meant) for text, meant in self._meant.items() if len(meant) > 1}
        self._reserved = {metric.type for metric in metrics}
        counted = [event for text, ever in events.items() if ever for event in self._meant[text]]
        never = [shown(text) for text, ever in events.items() if not ever]
        if never:
            log.note(SUBTOOL, "events that were never counted: " + ", ".join(never))
        core_pmus = {event.pmu for event in counted if event.is_core}
        self.is_hybrid = len(core_pmus) > 1
        self._families: dict[str, str] = {}
        for event in counted:
            self._families.setdefault(event.type, event.family if not event.is_core else "")
        self._counters: dict[tuple[str, int], tuple[Counter, Event]] = {}
        present = dict(self.of(text, turn) for text, ever in events.items() if ever for turn in range(len(self._meant[text])))
        uncounted = {self.of(text, turn)[0] for text, ever in events.items() if not ever for turn in range(len(self._meant[text]))}
        self.never = uncounted.difference(present)
        self.derived = self._derive(present, metrics, log)

    def of(self, text: str, turn: int = 0) -> tuple[Counter, Event]:
        """The counter for an event as perf spells it, and the event taken apart; turn: how many records of that spelling
        came before this one in its interval and place."""
        found = self._counters.get((text, turn))
        if found is None:
            meant = self._meant.get(text) or [parse_event(text)]
            event = meant[min(turn, len(meant) - 1)]
            metric_type = event.type
            family = "" if event.is_core else event.family
            if self._families.get(metric_type, family) != family and not event.name.endswith("/"):
                # another PMU has an event of this name: it must not count as this one
                metric_type = f"{event.family}/{event.name}/{event.modifiers}"
            if metric_type in self._reserved:
                metric_type = f"event:{metric_type}"  # users may name their events as they like
            found = (metric_type, event.pmu if event.is_core and self.is_hybrid else ""), event
            self._counters[text, turn] = found
        return found

    @staticmethod
    def _derive(present: dict[Counter, Event], metrics: list[Metric], log: Log) -> list[Derived]:
        """Bind each ratio and rate to counters: the unmodified ones, else those of the only modifier they share."""
        by_name: dict[str, dict[str, dict[str, Counter]]] = {}  # event name -> modifiers -> device -> counter
        for counter, event in present.items():
            if counter[0] == event.type:
                by_name.setdefault(event.name, {}).setdefault(event.modifiers, {})[counter[1]] = counter
        derived = []
        for metric in metrics:
            if not metric.denominator:
                continue
            numerators = by_name.get(metric.numerator, {})
            denominators = numerators if metric.denominator == SECONDS else by_name.get(metric.denominator, {})
            shared = [modifiers for modifiers in numerators if modifiers in denominators]
            if "" not in shared and len(shared) != 1:
                if numerators and denominators:
                    spelled = sorted({name for devices in (*numerators.values(), *denominators.values()) for name, _ in devices.values()})
                    log.note(
                        SUBTOOL,
                        f"no {metric.type}: " + ("several modifiers could give it" if shared else "its events share no modifier")
                        + f" ({', '.join(map(shown, spelled))}); it takes the unmodified pair or one modifier that both have",
                    )
                continue
            modifiers = "" if "" in shared else shared[0]
            if modifiers:
                log.note(SUBTOOL, f"computed from events with the modifier :{modifiers}, there are no others", metric.type)
            for device, numerator in numerators[modifiers].items():
                if metric.denominator == SECONDS:
                    derived.append(Derived(metric, numerator, None))
                elif device in denominators[modifiers]:
                    derived.append(Derived(metric, numerator, denominators[modifiers][device]))
        return derived


def _meant(printed: Event, asked: list[Event], printed_types: set[str]) -> list[Event]:
    """What was asked for under a name that perf printed, in the order in which perf counts it."""
    if printed.modifiers:
        return [printed]
    under_this_name = [
        event
        for event in asked
        if event.name == printed.name and event.pmu in ("", printed.pmu) and (not event.modifiers or event.type not in printed_types)
    ]
    if not any(event.modifiers for event in under_this_name):
        return [printed]
    return [printed._replace(modifiers=event.modifiers) for event in under_this_name]


Slot = tuple[Place, Counter]
_Pick = Callable[[Sequence[Any]], Sequence[Any]]


class _Counts(NamedTuple):
    """What was counted in one interval: the values (None: not counted) of slots in their order; per counter the lowest
    share of the time that it ran."""

    slots: tuple[Slot, ...]
    values: Sequence[Value | None]
    running: dict[Counter, float]


class _Summing:
    """The counts of an interval as its records come in, where several may be of one slot."""

    def __init__(self) -> None:
        self.values: dict[Slot, Value | None] = {}
        self.running: dict[Counter, float] = {}
        # of a PMU that is one of several alike: what each of them counted
        self.instances: dict[Slot, dict[str, Value | None]] = {}

    def add(self, slot: Slot, event: Event, value: Value | None, running: object) -> None:
        """Take a record; of the same event of the same PMU the first that was counted stays."""
        if event.is_numbered:
            self.values.setdefault(slot, None)
            instances = self.instances.setdefault(slot, {})
            if instances.get(event.pmu) is not None:
                return
            instances[event.pmu] = value
        elif self.values.get(slot) is None:
            self.values[slot] = value
        else:
            return
        if value is not None and isinstance(running, (int, float)) and not isinstance(running, bool) and 0 <= running <= PERCENT:
            counter = slot[1]
            self.running[counter] = min(running, self.running.get(counter, running))


class _Form:
    """The records of an interval of which each is of another slot: where they stand. Most intervals have the form of the
    one before, and then none of this is to be found out again.

    columns: the keys and values of the records' places, and their events, by which the form is known again; kept: the
    indices of the records that count something.
    """

    def __init__(self, columns: tuple[Sequence[str], ...], kept: list[int], slots: list[Slot]) -> None:
        self.columns = columns
        self.pick = items(kept)
        self.slots = tuple(slots)
        by_counter: dict[Counter, list[int]] = {}
        for index, (_, counter) in enumerate(slots):
            by_counter.setdefault(counter, []).append(index)
        self.by_counter = [(counter, items(indices)) for counter, indices in by_counter.items()]



def _sum(counts: list[Value]) -> Value:
    if all(isinstance(count, int) for count in counts):
        return sum(counts)
    return round(math.fsum(counts), DECIMALS)


class _Series:
    """The series of this output, registered as they appear."""

    def __init__(self, run: Run, publication: Publication, metrics: list[Metric]) -> None:
        self._topology = run.topology
        self._publication = publication
        self._known: dict[tuple[Any, ...], int] = {}
        self._event_metric = next(metric for metric in metrics if metric.field == "counter")
        self._running_metric = next(metric for metric in metrics if metric.field == "pcnt-running")

    def is_published(self, slot: Slot) -> bool:
        """Whether the counts of a slot have a sample."""
        return slot in self._known and self._publication.is_begun(self._known[slot])

    def _names(self, where: Place, device: str) -> dict[str, str]:
        names = place_names(*where, self._topology) or {}
        if device:
            names["device"] = device
        return names

    def of_counter(self, slot: Slot, unit: str) -> int:
        """The series of an event's own counts, in perf's unit ("msec", "Joules", mostly none)."""
        if slot not in self._known:
            where, (metric_type, device) = slot
            self._known[slot] = self._publication.series(self._event_metric, self._names(where, device), metric_type, unit)
        return self._known[slot]

    def of_derived(self, where: Place, derived: Derived) -> int:
        """The series of a ratio or rate."""
        device = derived.numerator[1]
        key = (where, derived.metric.type, device)
        if key not in self._known:
            self._known[key] = self._publication.series(derived.metric, self._names(where, device))
        return self._known[key]

    def of_running(self, counter: Counter) -> int:
        """The series that tells how much of the time an event was counted."""
        key = ("", counter)
        if key not in self._known:
            metric_type, device = counter
            names = {"counter": metric_type, **({"device": device} if device else {})}
            self._known[key] = self._publication.series(self._running_metric, names)
        return self._known[key]


class _Reader:
    """Gives the counts of an interval; remembers what the log is to say of the whole output."""

    def __init__(self, run: Run, counters: Counters) -> None:
        self._log = run.log
        self._topology = run.topology
        self._counters = counters
        self._aggregation: str | None = None
        self._attributable: dict[Place, bool] = {}
        self._instances: dict[Slot, set[str]] = {}
        self._form: _Form | None = None
        self.units: dict[Counter, str] = {}

    def counts(self, block: Block) -> _Counts:
        """The counts in the records of an interval."""
        if block.readings and not block.lines_lost:
            counts = self._counts_by_form(block.readings)
            if counts is not None:
                return counts
        return self._summed([*map(as_record, block.readings), *block.records], block.lines_lost)

    def _counts_by_form(self, readings: list[Reading]) -> _Counts | None:
        """The counts of records that are each of another slot; None where they are not."""
        _, keys, places, wholes, others, units, events, runnings = zip(*readings)
        columns = (keys, places, events)
        form = self._form
        if form is None or form.columns != columns:
            form = self._form = self._find_form(columns, units)
        if form is None:
            return None
        wholes, runnings = form.pick(wholes), form.pick(runnings)
        try:
            values: list[Value | None] = list(map(int, wholes))
        except ValueError:
            others, events = form.pick(others), form.pick(events)
            values = [int(whole) if whole else self._value(other, event) for whole, other, event in zip(wholes, others, events)]
        running = {}
        for counter, pick in form.by_counter:
            shares = {share for share, value in zip(pick(runnings), pick(values)) if value is not None}
            possible = [share for share in map(float, shares) if share <= PERCENT]
            if possible:
                running[counter] = min(possible)
        return _Counts(form.slots, values, running)

    def _find_form(self, columns: tuple[Sequence[str], ...], units: Sequence[str]) -> _Form | None:
        kept: list[int] = []
        slots: list[Slot] = []
        for index, (key, value, text) in enumerate(zip(*columns)):
            if not text:
                continue  # a further metric of the event above
            counter, event = self._counters.of(text)
            where = key, value
            if not event.name or event.is_numbered or text in self._counters.taking_turns or not self._is_attributable(where):
                return None
            kept.append(index)
            slots.append((where, counter))
        if not slots or len(set(slots)) < len(slots):
            return None
        for index, (_, counter) in zip(kept, slots):
            self.units.setdefault(counter, units[index])
        return _Form(columns, kept, slots)

    def _value(self, counted: object, text: str) -> Value | None:
        """The value of a counter of the event that perf spells so; what is none is counted in the log."""
        try:
            return read_counter(counted)
        except (ValueError, OverflowError) as error:
            self._log.lost(SUBTOOL, f"counter values that are {error} are not published", f"{shown(text)}: {shown(str(counted))}")
            return None

    def _summed(self, records: list[Record], lines_lost: bool) -> _Counts:
        """The counts in any records; lines_lost: whether some of the interval's records may be missing."""
        counts = _Summing()
        turns: dict[tuple[Place, str], int] = {}
        taking_turns = self._counters.taking_turns
        for record in records:
            text = record.get("event")
            if text is None and "counter-value" not in record:
                continue  # a further metric of the event above
            if not isinstance(text, str) or "counter-value" not in record or not self._counters.of(text)[1].name:
                self._log.lost(SUBTOOL, "records without an event's name or its count", shown(str(text)))
                continue
            where = place(record)
            if not self._is_attributable(where):
                self._log.lost(SUBTOOL, "records that cannot be attributed to a place of this aggregation", shown("=".join(where)))
                continue
            turn = 0
            if text in taking_turns:
                turn = turns.get((where, text), 0)
                turns[where, text] = turn + 1
            counter, event = self._counters.of(text, turn)
            self.units.setdefault(counter, str(record.get("unit") or ""))
            counts.add((where, counter), event, self._value(record["counter-value"], text), record.get("pcnt-running"))
        if lines_lost:
            self._forget_unsure(counts, turns)
        for slot, instances in counts.instances.items():
            total = counts.values[slot] = self._sum(slot, instances, lines_lost)
            if total is None:
                counts.running.pop(slot[1], None)
        return _Counts(tuple(counts.values), list(counts.values.values()), counts.running)

    def _forget_unsure(self, counts: _Summing, turns: dict[tuple[Place, str], int]) -> None:
        """Drop counts of which a lost line makes unclear what they are of: one name stands for several counters."""
        for (where, text), seen in turns.items():
            if seen != self._counters.taking_turns[text]:
                self._log.lost(SUBTOOL, "counts of several events under one name, one of them missing", shown(text))
                for turn in range(seen):
                    counter, _ = self._counters.of(text, turn)
                    counts.values[where, counter] = None
                    counts.running.pop(counter, None)

    def _sum(self, slot: Slot, instances: dict[str, Value | None], lines_lost: bool) -> Value | None:
        """What the instances of a PMU counted together; None where a part is missing, for half a sum is a number that
        nobody counted."""
        known = self._instances.get(slot)
        name = shown(slot[1][0])
        if known is None and not lines_lost:
            known = self._instances[slot] = set(instances)
        if known is None or not known.issubset(instances):
            self._log.lost(SUBTOOL, "sums over PMU instances with a part missing are not published", name)
            return None
        known.update(instances)
        values = [value for value in instances.values() if value is not None]
        if len(values) < len(instances):
            self._log.note(SUBTOOL, "no sum over PMU instances where one was not counted", name)
            return None
        return _sum(values)

    def _is_attributable(self, where: Place) -> bool:
        if where not in self._attributable:
            self._attributable[where] = self._can_attribute(where)
        return self._attributable[where]

    def _can_attribute(self, where: Place) -> bool:
        """Whether the place can be named, and is of the same kind as all: totals beside their parts count twice."""
        if place_names(*where, self._topology) is None:
            return False
        if self._aggregation is None:
            self._aggregation = where[0]
            if where[0] == "cpu" and not self._topology:
                self._log.note(SUBTOOL, "no CPU topology in the data directory: breakouts have the CPU's number only")
        return where[0] == self._aggregation


class _Layout:
    """The samples of an interval in one row of the publication: the counts of slots, what is derived from them, and how
    much of the time the events were counted."""

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
        self._counters = list(dict.fromkeys(counter for _, counter in self.kept_slots))
        numbers += map(series.of_running, self._counters)
        self.row = Row(numbers)

    def values(self, counts: _Counts, interval: Interval, log: Log) -> list[Value | None]:
        """The values of the row; None where there is none."""
        values = list(self._kept(counts.values))
        counted = values[:]
        for derived, numerators, denominators in self._derived:
            values += _derived_values(derived, numerators(counted), denominators and denominators(counted), interval, log)
        values += map(counts.running.get, self._counters)
        return values


def publish(run: Run, raw: RawFile, publication: Publication) -> None:
    """Publish every counter, ratio and rate of a perf-stat output, for every place it was counted in."""
    log = run.log
    metrics = run.metrics(SUBTOOL)
    survey = perf_json.survey(raw)
    times = survey.times
    if not len(times):
        log.note(SUBTOOL, f"{raw.path.name} holds no interval")
    start = start_of_counting(run.clock, SUBTOOL, times.last, survey.tail_damage, raw.mtime, log) if len(times) else 0.0
    asked = [parse_event(text) for text in split_events(run.environment.get(EVENTS_KEY, ""))]
    counters = Counters(survey.events, asked, metrics, log)
    publication.expect(len(times))
    series = _Series(run, publication, metrics)
    reader = _Reader(run, counters)
    layout: _Layout | None = None
    gaps: dict[Slot, int] = {}
    timeline = Timeline(start, times.typical)
    for block in perf_json.blocks(raw, timeline, times.outliers, SUBTOOL, log, with_readings=True):
        counts = reader.counts(block)
        if layout is None or layout.slots != counts.slots:
            layout = _Layout(counts.slots, counters, series, reader.units)
        values = layout.values(counts, block.interval, log)
        if None in values:
            for slot, value in zip(layout.kept_slots, values):
                if value is None:
                    gaps[slot] = gaps.get(slot, 0) + 1
        publication.publish(layout.row, block.interval, values)
    _note_gaps(gaps, series, log)


def _derived_values(
    derived: Derived, numerators: Sequence[Value | None], denominators: Sequence[Value | None] | None, interval: Interval, log: Log
) -> list[Value | None]:
    """numerator / denominator * scale each, over the interval's length where there are no denominators; None where one
    was not counted or the denominator is 0."""
    scale = derived.metric.scale
    if denominators is None:
        denominators = [interval.seconds] * len(numerators)
    try:
        return [significant(numerator / denominator * scale) for numerator, denominator in zip(numerators, denominators)]
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


def _note_gaps(gaps: dict[Slot, int], series: _Series, log: Log) -> None:
    """Say which events were not counted in some intervals. A counter that never ran in a place is no loss there: the
    other kind of core does not have it."""
    for slot, times in gaps.items():
        if series.is_published(slot):
            where, counter = slot
            log.note(SUBTOOL, f"{shown(counter[0])}: not counted in some intervals", "=".join(where) if where[0] else "", times)
