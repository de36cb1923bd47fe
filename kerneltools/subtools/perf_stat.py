# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf-stat: the counters of `perf stat -a -I --json`, and the ratios and rates that the catalogue derives from them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

from kerneltools import perf_json
from kerneltools.catalogue import SECONDS, Metric
from kerneltools.clock import Interval, Timeline, start_of_counting
from kerneltools.log import Log, shown
from kerneltools.perf_event import (
    NOT_OF_THE_MACHINE,
    Asked,
    Event,
    asked_events,
    parse_event,
    place,
    place_names,
    same_events,
    sounds_like,
)
from kerneltools.perf_json import UNCOUNTED, Block, Record
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

# By as much of the greater do two counts of one event differ before they contradict each other: as counters start and stop one
# after another; as they took turns, and are estimates, if the time that they could have run differs by less than the last.
COUNTS_APART = 0.1
ESTIMATES_APART = 0.5
ENABLED_APART = 0.1
# The counters of a group run at once; perf adds up the time of each a little differently.
GROUP_APART = 0.01

NAMELESS = "records without an event's name or its count"
PART_MISSING = "sums over PMU instances with a part missing are not published"
NOT_CLEAR = (
    "records that may be of units which add up, of one event asked for again, or of several events under one name, are not published: "
    f"{EVENTS_KEY} in the environment file does not tell"
)
AGREE = "counted more than once, as the event was asked for more than once; the values agree and one is published"
CONTRADICT = "counted more than once, with values that contradict each other: "

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


class Meant(NamedTuple):
    """What a record is of: the counter, the event taken apart, the number of its group in the list of events (-1: in none)."""

    counter: Counter
    event: Event
    group: int


class Spelling(NamedTuple):
    """What a name that perf prints stands for. meant: once for each time that the list of events asks for it, in its order, or
    once where that is not known; asked: how often the list asks for it, 0 where that is not known; unit: of several PMUs alike
    the one that the name tells; request: the name without that unit."""

    meant: list[Meant]
    asked: int
    unit: str
    request: str

    @property
    def counts_once(self) -> bool:
        """Whether there is one record a place for each time that the event was asked for."""
        return self.meant[0].event.counts_once

    @property
    def is_ambiguous(self) -> bool:
        """Whether records of this name are of several counters."""
        return len({counter for counter, _, _ in self.meant}) > 1


class Counters:
    """Which counters an output holds and what can be derived from them, decided once for the whole run: `derived` are
    the ratios and rates of them, `never` those without a single count.

    events: as perf_json.survey gives them: per spelling of perf, whether it was ever counted; asked: the events that perf
    was told to count, in their order. perf drops the modifiers of tracepoints, and 6.x those of cache events, when it
    prints them: what was asked for tells which of them a record is of.

    Whose a name is does not depend on the order of records: cores and the kernel own the names that they have, and of the
    PMUs beside them one that is alone with a name.
    """

    def __init__(self, events: dict[str, bool], asked: list[Asked], metrics: list[Metric], log: Log) -> None:
        self._asked = asked
        self._reserved = {metric.type for metric in metrics}
        printed = {text: parse_event(text) for text in events}
        self._printed_types = {event.type for event in printed.values()}
        meant = {text: self._meant(event) or [(event, -1)] for text, event in printed.items()}
        never = [shown(text) for text, ever in events.items() if not ever]
        if never:
            log.note(SUBTOOL, "events that were never counted: " + ", ".join(never))
        core_pmus = {event.pmu for text, ever in events.items() if ever for event, _ in meant[text] if event.is_core}
        self.is_hybrid = len(core_pmus) > 1
        self._owners: dict[str, set[str]] = {}
        for found in meant.values():
            for event, _ in found:
                if self._may_have_plain_name(event):
                    self._owners.setdefault(event.own_name, set()).add(event.family if event.is_of_the_system else "")
        self._spellings: dict[str, Spelling] = {}
        present = {counter: event for text, ever in events.items() if ever for counter, event, _ in self.of(text).meant}
        self.never = {counter for text in events for counter, _, _ in self.of(text).meant}.difference(present)
        self.derived = self._derive(present, metrics, log)

    def of(self, text: str) -> Spelling:
        """What an event as perf spells it stands for."""
        found = self._spellings.get(text)
        if found is None:
            printed = parse_event(text)
            asked = self._meant(printed)
            named = [(self._named(event), group) for event, group in asked or [(printed, -1)]]
            unit = printed.pmu if printed.is_numbered else ""
            found = self._spellings[text] = Spelling(
                meant=[Meant(self._counter(event), event, group) for event, group in named],
                asked=len(asked),
                unit=unit,
                request=text.replace(unit, printed.family, 1) if unit else text,
            )
        return found

    def _meant(self, printed: Event) -> list[tuple[Event, int]]:
        """What was asked for under a name that perf printed, in the order in which perf counts it, with its group; empty where
        nothing is known of it."""
        asked = [
            one for one in self._asked
            if one.is_printed_as(printed) and (
                one.alias or one.event.modifiers == printed.modifiers
                or (not printed.modifiers and one.event.type not in self._printed_types)
            )
        ]  # fmt: skip
        families = {one.event.family for one in asked}
        meant = []
        for one in asked:
            event = printed
            if not one.alias or printed.is_generic:
                event = event._replace(modifiers=one.event.modifiers)
            if not printed.pmu and len(families) > 1 and one.event.pmu:  # one name for events of several PMUs
                event = event._replace(pmu=one.event.pmu, family=one.event.family, is_core=one.event.is_core)
            meant.append((event, one.group))
        return meant

    def _may_have_plain_name(self, event: Event) -> bool:
        """Whether an event may be published under its name alone, if no other has it."""
        if not event.is_of_the_system:
            return True
        if event.is_generic:
            return False
        if not event.in_slashes:
            return True
        asked = [one.event.pmu for one in self._asked if one.is_printed_as(event)]
        return bool(asked) and not any(asked)  # perf names the PMU, whoever asked did not

    def _named(self, event: Event) -> Event:
        """The event under the name that it is published by."""
        if not event.is_of_the_system:
            return event
        if self._may_have_plain_name(event) and self._owners.get(event.own_name) == {event.family}:
            return event._replace(name=event.own_name)
        return event.in_family()

    def _counter(self, event: Event) -> Counter:
        metric_type = event.type
        if metric_type in self._reserved:
            metric_type = f"event:{metric_type}"  # users may name their events as they like
        return metric_type, event.pmu if event.is_core and self.is_hybrid else ""

    @staticmethod
    def _derive(present: dict[Counter, Event], metrics: list[Metric], log: Log) -> list[Derived]:
        """Bind each ratio and rate to counters: the unmodified ones, else those of the only modifier they share."""
        by_name: dict[str, dict[str, dict[str, Counter]]] = {}  # event name -> modifiers -> device -> counter
        with_same: dict[str, dict[str, dict[str, Counter]]] = {}  # also what CPUs' own lists call the same
        understood = set()
        of_cores = {counter: event for counter, event in present.items() if not event.is_of_the_system and counter[0] == event.type}
        for counter, event in of_cores.items():
            for found in (by_name, with_same):
                found.setdefault(event.name, {}).setdefault(event.modifiers, {})[counter[1]] = counter
        for counter, event in of_cores.items():
            for name in same_events(event.name):  # the default list's own name comes first where both are there
                with_same.setdefault(name, {}).setdefault(event.modifiers, {}).setdefault(counter[1], counter)
                understood.add(event.name)
        derived = []
        for metric in metrics:
            if not metric.denominator:
                continue
            numerators = (by_name if metric.denominator == SECONDS else with_same).get(metric.numerator, {})
            denominators = numerators if metric.denominator == SECONDS else with_same.get(metric.denominator, {})
            shared = [modifiers for modifiers in numerators if modifiers in denominators]
            if "" not in shared and len(shared) != 1:
                if numerators and denominators:
                    spelled = sorted({name for devices in (*numerators.values(), *denominators.values()) for name, _ in devices.values()})
                    log.note(
                        SUBTOOL,
                        f"no {metric.type}: " + ("several modifiers could give it" if shared else "its events share no modifier")
                        + f" ({', '.join(map(shown, spelled))}); it takes the unmodified pair or one modifier that both have",
                    )
                elif metric.denominator != SECONDS:
                    _note_unknown_names(metric, with_same, [event for event in of_cores.values() if event.name not in understood], log)
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


def _note_unknown_names(metric: Metric, known: dict[str, Any], events: list[Event], log: Log) -> None:
    """Say where a ratio is missing although both its events may be there, under names that nobody told to be the same."""
    wanted = [name for name in (metric.numerator, metric.denominator) if name not in known]
    alike = {name: [event.type for event in events if sounds_like(event.own_name, name)] for name in wanted}
    if all(alike.values()):
        log.note(
            SUBTOOL,
            f"no {metric.type}: it is not known that "
            + " and ".join(f"{', '.join(map(shown, types[:3]))} counts {name}" for name, types in alike.items())
            + "; ask for the names of the default list",
        )


Slot = tuple[Place, Counter]
_Pick = Callable[[Sequence[Any]], Sequence[Any]]


class _Counts(NamedTuple):
    """What was counted in one interval: the values (None: not counted) of slots in their order; per metric type the lowest
    share of the time that it ran, over places and kinds of core."""

    slots: tuple[Slot, ...]
    values: Sequence[Value | None]
    running: dict[str, float]


class _Part(NamedTuple):
    """The records that hold what one of the times that an event was asked for counted in a slot.

    request: which of those times; group: number of its group in the list of events, -1: none; units: by unit of the PMU, where
    its record stands.
    """

    request: tuple[str, int]
    group: int
    units: dict[str, int]


def _split(spelling: Spelling, where: Place, number: int) -> list[tuple[int, str]] | None:
    """For each of a number of records that have one name in one place: which of the times that the event was asked for it is
    of, and of which unit; None where that cannot be told.

    perf writes all records of the first time before those of the second. It prints no units where it adds them up, which it
    does (6.1 always, later versions for all places but CPUs) unless their names do not show that they are units.
    """
    asked = spelling.asked
    if spelling.counts_once or number == 1 or (not asked and where[0] != "cpu"):
        is_sure = not spelling.is_ambiguous or number == len(spelling.meant)
        return [(time, spelling.unit) for time in range(number)] if is_sure else None
    if not asked or number % asked or (spelling.is_ambiguous and number != asked):
        return None
    units = number // asked
    return [(index // units, str(index % units)) for index in range(number)]


class _Form:
    """What the records of an interval are of, by their places and events. Most intervals have the form of the one before, and
    then none of this is to be found out again.

    columns: the keys and values of the records' places, and their events, by which the form is known again; pick takes the
    records that count something, positions are among those. slots: what they are of; index: where each slot is among them;
    first: takes a position for each slot; several: the parts of slots that have more than one record; of_units: the parts
    that may have a record for each unit of a PMU; unclear: the positions of records of which it cannot be told what they
    are of, by slot; groups: positions of what counted together; elsewhere: the places that cannot be published; nameless:
    events without a name; lacking: the parts that lack the record of a unit.
    """

    def __init__(self, columns: tuple[Sequence[str], ...], counters: Counters, is_attributable: Callable[[Place], bool]) -> None:
        self.columns = columns
        self.elsewhere: list[Place] = []
        self.nameless: list[str] = []
        self.unclear: dict[Slot, list[int]] = {}
        self.groups: dict[tuple[Place, int], set[int]] = {}
        self.lacking: list[tuple[Slot, _Part]] = []
        kept: list[int] = []
        alike: dict[tuple[Place, str], list[int]] = {}
        for index, (key, value, text) in enumerate(zip(*columns)):
            if not text:
                continue  # a further metric of the event above
            where = key, value
            if not counters.of(text).meant[0].event.own_name:
                self.nameless.append(text)
            elif not is_attributable(where):
                self.elsewhere.append(where)
            else:
                alike.setdefault((where, text), []).append(len(kept))
                kept.append(index)
        self.pick = items(kept)
        parts: dict[Slot, dict[tuple[str, int], _Part]] = {}
        may_be_units = set()
        for (where, text), positions in alike.items():
            spelling = counters.of(text)
            split = _split(spelling, where, len(positions))
            if split is None:
                for counter, _, _ in spelling.meant:
                    self.unclear.setdefault((where, counter), [])
                self.unclear[where, spelling.meant[0].counter] += positions
                continue
            for position, (time, unit) in zip(positions, split):
                counter, _, group = spelling.meant[min(time, len(spelling.meant) - 1)]
                slot = where, counter
                request = spelling.request, time
                part = parts.setdefault(slot, {}).setdefault(request, _Part(request, group, {}))
                part.units[unit] = position
                if unit or not spelling.counts_once:
                    may_be_units.add(slot)
                if group >= 0:
                    self.groups.setdefault((where, group), set()).add(position)
        for slot in self.unclear.keys() & parts.keys():
            self.unclear[slot] += [position for part in parts.pop(slot).values() for position in part.units.values()]
        self._parts = {slot: list(of_slot.values()) for slot, of_slot in parts.items()}
        self.several = {slot: found for slot, found in self._parts.items() if len(found) > 1 or len(found[0].units) > 1}
        self.of_units = [(slot, part) for slot, found in self._parts.items() if slot in may_be_units for part in found]
        self.slots = (*self._parts, *self.unclear)
        self.index = {slot: index for index, slot in enumerate(self.slots)}
        self.first = items([self._first_of(slot) for slot in self.slots])
        self.by_type: list[tuple[str, _Pick]] = []

    def _first_of(self, slot: Slot) -> int:
        return next(iter(self._parts[slot][0].units.values())) if slot in self._parts else 0

    def without(self, lacking: list[tuple[Slot, _Part]]) -> None:
        """Take it that these parts lack a record; then by_type gives the positions of the slots with a single record."""
        self.lacking = lacking
        for slot, part in lacking:
            if slot in self.several:
                self.several[slot] = [other for other in self.several[slot] if other is not part]
        by_type: dict[str, list[int]] = {}
        for slot in self._parts.keys() - self.several.keys() - {slot for slot, _ in lacking}:
            by_type.setdefault(slot[1][0], []).append(self._first_of(slot))
        self.by_type = [(metric_type, items(positions)) for metric_type, positions in by_type.items()]


class _Sum(NamedTuple):
    """What an event counted in a slot for one of the times that it was asked for; of each unit of the PMU the ns that it ran,
    and the same in percent (None: not known)."""

    part: _Part
    value: Value
    runtimes: list[float | None]
    shares: list[float | None]

    @property
    def least_share(self) -> float:
        """The least share of the time that it ran, in percent."""
        return min([share for share in self.shares if share is not None], default=PERCENT)

    @property
    def enabled(self) -> float | None:
        """The ns in which it could have run, added over all counters; None where that is not known."""
        if all(runtime and share for runtime, share in zip(self.runtimes, self.shares)):
            return sum(runtime / share * PERCENT for runtime, share in zip(self.runtimes, self.shares) if runtime and share)
        return None

    def agrees_with(self, other: _Sum) -> bool:
        """Whether both can be counts of the same: not farther apart than counters are that start and stop one after another; or,
        where they took turns, than estimates are, if the one is not of more counters than the other."""
        greater = max(self.value, other.value)
        apart = abs(self.value - other.value) - (3 * math.sqrt(greater) if isinstance(greater, int) else 0)
        if apart <= COUNTS_APART * greater:
            return True
        ours, others = self.enabled, other.enabled
        are_as_many = not (ours and others) or abs(ours - others) <= ENABLED_APART * max(ours, others)
        took_turns = min(self.least_share, other.least_share) < PERCENT
        return took_turns and are_as_many and apart <= ESTIMATES_APART * greater


def _lowest(shares: Iterable[object]) -> float | None:
    """The lowest of shares of the time, in percent; None where none is known."""
    return min((share for share in map(_share, shares) if share is not None), default=None)


def _share(share: object) -> float | None:
    found = _number(share)
    return found if found is not None and 0 <= found <= PERCENT else None


def _number(value: Any) -> float | None:
    """A time or share as a usual record has it (text) or any other (a number, or "" for none)."""
    return float(value) if value != "" else None


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < GREATEST_COUNT


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

    def of_running(self, metric_type: str) -> int:
        """The series that tells how much of the time an event was counted."""
        key = ("", metric_type)
        if key not in self._known:
            self._known[key] = self._publication.series(self._running_metric, {"counter": metric_type})
        return self._known[key]


class _Columns(NamedTuple):
    """What the records say that count something: their counts (None: not counted), the ns that each ran, the same in percent."""

    values: Sequence[Value | None]
    runtimes: Sequence[object]
    shares: Sequence[object]


class _Reader:
    """Gives the counts of an interval; remembers what the log is to say of the whole output.

    Whatever perf counted and this does not give is in the log, with its values.
    """

    def __init__(self, run: Run, counters: Counters) -> None:
        self._log = run.log
        self._topology = run.topology
        self._counters = counters
        self._aggregation: str | None = None
        self._attributable: dict[Place, bool] = {}
        self._spelled: dict[tuple[tuple[str, str], ...], Place] = {}
        self._units: dict[tuple[Slot, tuple[str, int]], set[str]] = {}
        self._form: _Form | None = None
        self.units: dict[Counter, str] = {}

    def counts(self, block: Block) -> _Counts:
        """The counts in the records of an interval."""
        readings = block.readings or self._as_readings(block.records)
        if not readings:
            return _Counts((), [], {})
        _, keys, places, wholes, others, units, events, runtimes, shares = zip(*readings)
        form = self._form_of((keys, places, events), units, block.lines_lost)
        for text in form.nameless:
            self._log.lost(SUBTOOL, NAMELESS, shown(text))
        for where in form.elsewhere:
            self._log.lost(SUBTOOL, "records that cannot be attributed to a place of this aggregation", shown("=".join(where)))
        wholes = form.pick(wholes)
        try:
            values: Sequence[Value | None] = list(map(int, wholes))
        except ValueError:
            others, events = form.pick(others), form.pick(events)
            values = [int(whole) if whole else self._value(other, event) for whole, other, event in zip(wholes, others, events)]
        shares = form.pick(shares)
        running = {
            metric_type: {share for share, value in zip(pick(shares), pick(values)) if value is not None}
            for metric_type, pick in form.by_type
        }
        counted = list(form.first(values)) if values else []
        if form.several or form.unclear or form.lacking:
            self._fold(form, values, form.pick(runtimes), shares, counted, running)
        lowest = {metric_type: _lowest(found) for metric_type, found in running.items()}
        return _Counts(form.slots, counted, {metric_type: share for metric_type, share in lowest.items() if share is not None})

    def _fold(
        self, form: _Form, values: Sequence[Value | None], runtimes: Sequence[Any], shares: Sequence[Any],
        counted: list[Value | None], running: dict[str, set[Any]],
    ) -> None:  # fmt: skip
        """Put the counts of slots that have several records, or lack one, into their places in `counted`, and the shares of the
        time that they ran into `running`."""
        for slot, positions in form.unclear.items():
            counted[form.index[slot]] = None
            self._drop(NOT_CLEAR, slot, [values[position] for position in positions])
        for slot, part in form.lacking:
            counted[form.index[slot]] = None
            self._drop(PART_MISSING, slot, [values[position] for position in part.units.values()])
        for slot, parts in form.several.items():
            sums = []
            for part in parts:
                positions = list(part.units.values())
                of_units = [values[position] for position in positions]
                counts = [value for value in of_units if value is not None]
                if len(counts) == len(of_units):
                    times = [_number(runtimes[position]) for position in positions]
                    sums.append(_Sum(part, _sum(counts), times, [_share(shares[position]) for position in positions]))
                elif len(of_units) > 1:  # half a sum is a number that nobody counted
                    self._drop("no sum over PMU instances where one was not counted", slot, counts, is_loss=False)
            chosen = self._choose(slot, sums, form, runtimes)
            counted[form.index[slot]] = chosen.value if chosen else None
            if chosen:
                running.setdefault(slot[1][0], set()).update(share for share in chosen.shares if share is not None)

    def _choose(self, slot: Slot, sums: list[_Sum], form: _Form, runtimes: Sequence[Any]) -> _Sum | None:
        """Of what one event counted for each time that it was asked for, the best; None where they contradict each other, and
        none of them is known to be right."""
        if len(sums) < 2:
            return sums[0] if sums else None
        most = max(len(found.part.units) for found in sums)
        whole = [found for found in sums if len(found.part.units) == most]  # asked for again, of one unit
        others = [found for found in sums if len(found.part.units) < most]
        if all(found.agrees_with(whole[0]) for found in whole):
            best = max(whole, key=lambda found: found.least_share)
            self._drop(AGREE, slot, [found.value for found in (*others, *whole) if found is not best], is_loss=False)
            return best
        own = {position for found in sums for position in found.part.units.values()}
        with_group = [found for found in whole if _ran_with_group(found, form.groups, slot[0], own, runtimes)]
        if with_group and len(with_group) < len(whole) and all(found.agrees_with(with_group[0]) for found in with_group):
            values = [found.value for found in sums]
            self._drop(CONTRADICT + "the one that ran as long as its group is published", slot, values, len(sums) - 1)
            return with_group[0]
        self._drop(CONTRADICT + "none is published", slot, [found.value for found in sums])
        return None

    def _drop(self, why: str, slot: Slot, values: Sequence[Value | None], times: int | None = None, is_loss: bool = True) -> None:
        """Say that counts are not published."""
        counted = [value for value in values if value is not None]
        if counted:
            (where, (metric_type, _)), say = slot, self._log.lost if is_loss else self._log.note
            what = f"{shown(metric_type)} {shown('='.join(where))}" if where[0] else shown(metric_type)
            say(SUBTOOL, why, f"{what}: {', '.join(map(str, counted))}", len(counted) if times is None else times)

    def _form_of(self, columns: tuple[Sequence[str], ...], units: Sequence[str], lines_lost: bool) -> _Form:
        """The form of an interval's records; lines_lost: whether some may be missing."""
        if self._form is not None and self._form.columns == columns and not lines_lost:
            return self._form
        form = _Form(columns, self._counters, self._is_attributable)
        for text, unit in dict(zip(columns[2], units)).items():
            if text:
                for counter, _, _ in self._counters.of(text).meant:
                    self.units.setdefault(counter, unit)
        form.without([(slot, part) for slot, part in form.of_units if not self._has_all(slot, part, lines_lost)])
        self._form = None if lines_lost else form
        return form

    def _has_all(self, slot: Slot, part: _Part, lines_lost: bool) -> bool:
        """Whether the units of a PMU that counted before are all there."""
        known = self._units.get((slot, part.request))
        if known is None and not lines_lost:
            known = self._units[slot, part.request] = set()
        if known is None or not known.issubset(part.units):
            return False
        known.update(part.units)
        return True

    def _as_readings(self, records: list[Record]) -> list[Any]:
        """Any records as the usual ones are read, as far as they may be published, with what they hold in place of texts."""
        found = []
        for record in records:
            text = record.get("event")
            if text is None and "counter-value" not in record:
                continue  # a further metric of the event above
            where = place(record)
            if not isinstance(text, str) or not text or "counter-value" not in record:
                self._log.lost(SUBTOOL, NAMELESS, shown(str(text)))
            elif where[0] in NOT_OF_THE_MACHINE:
                self._log.lost(SUBTOOL, f"records of a {where[0]} are not the whole machine's: not published", shown(where[1]))
            else:
                runtime, share = (value if _is_amount(value) else "" for value in map(record.get, ("event-runtime", "pcnt-running")))
                found.append(("", *where, "", record["counter-value"], str(record.get("unit") or ""), text, runtime, share))
        return found

    def _value(self, counted: object, text: str) -> Value | None:
        """The value of a counter of the event that perf spells so; what is none is counted in the log."""
        try:
            return read_counter(counted)
        except (ValueError, OverflowError) as error:
            self._log.lost(SUBTOOL, f"counter values that are {error} are not published", f"{shown(text)}: {shown(str(counted))}")
            return None

    def _is_attributable(self, where: Place) -> bool:
        if where not in self._attributable:
            self._attributable[where] = self._can_attribute(where)
        return self._attributable[where]

    def _can_attribute(self, where: Place) -> bool:
        """Whether the place can be named, is spelled as before, and is of the same kind as all: totals beside their parts count
        twice."""
        names = place_names(*where, self._topology)
        if names is None or self._spelled.setdefault(tuple(names.items()), where) != where:
            return False
        if self._aggregation is None:
            self._aggregation = where[0]
            if where[0] == "cpu" and not self._topology:
                self._log.note(SUBTOOL, "no CPU topology in the data directory: breakouts have the CPU's number only")
        return where[0] == self._aggregation


def _ran_with_group(found: _Sum, groups: dict[tuple[Place, int], set[int]], where: Place, own: set[int], runtimes: Sequence[Any]) -> bool:
    """Whether what counted together with it, by the list of events, ran as long as it did. perf 6 adds up too many counters
    of an event that was asked for twice, but not of the others in its group."""
    others = [_number(runtimes[position]) for position in groups.get((where, found.part.group), set()) - own]
    return all(
        any(runtime and other and abs(runtime - other) <= GROUP_APART * other for other in others) for runtime in found.runtimes
    )


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
        self._types = list(dict.fromkeys(metric_type for _, (metric_type, _) in self.kept_slots))
        numbers += map(series.of_running, self._types)
        self.row = Row(numbers)

    def values(self, counts: _Counts, interval: Interval, log: Log) -> list[Value | None]:
        """The values of the row; None where there is none."""
        values = list(self._kept(counts.values))
        counted = values[:]
        for derived, numerators, denominators in self._derived:
            values += _derived_values(derived, numerators(counted), denominators and denominators(counted), interval, log)
        values += map(counts.running.get, self._types)
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
    counters = Counters(survey.events, asked_events(run.environment.get(EVENTS_KEY, "")), metrics, log)
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
