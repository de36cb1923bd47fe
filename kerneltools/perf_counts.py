# SPDX-License-Identifier: Apache-2.0
"""From the records of an interval to what was counted in it: one value for each counter and place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

from kerneltools.frames import Value, items
from kerneltools.log import shown
from kerneltools.perf_counters import SUBTOOL, Counter, Counters, Spelling
from kerneltools.perf_event import NOT_OF_THE_MACHINE, place_names
from kerneltools.perf_json import UNCOUNTED, Reading
from kerneltools.run import Run

EVENTS_KEY = "perf_stat_events_counted"  # in the environment file: the list that perf was started with

# A counter from here on went wild: perf subtracted a greater count from a smaller one.
GREATEST_COUNT = 2**63
# perf prints counters with this many decimals
DECIMALS = 6
WHOLE_COUNT_END = f".{'0' * DECIMALS}\n"  # of a line with a counter
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

Place = tuple[str, str]  # perf's key and value


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


Slot = tuple[Place, Counter]
_Pick = Callable[[Sequence[Any]], Sequence[Any]]


class Counts(NamedTuple):
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
    records without an event's name; lacking: the parts that lack the record of a unit.
    """

    def __init__(self, columns: tuple[Sequence[str], ...], counters: Counters, is_attributable: Callable[[Place], bool]) -> None:
        self.columns = columns
        self.elsewhere: list[Place] = []
        self.nameless: list[int] = []
        self.unclear: dict[Slot, list[int]] = {}
        self.groups: dict[tuple[Place, int], set[int]] = {}
        self.lacking: list[tuple[Slot, _Part]] = []
        kept: list[int] = []
        alike: dict[tuple[Place, str], list[int]] = {}
        for index, (key, value, text) in enumerate(zip(*columns)):
            where = key, value
            if not isinstance(text, str) or not counters.of(text).meant[0].event.own_name:
                self.nameless.append(index)
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
    """A share of the time in percent; None where that is none."""
    found = _amount(share)
    return found if found is not None and found <= PERCENT else None


def _amount(value: object) -> float | None:
    """A time or a share as a record has it; None where that is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < GREATEST_COUNT:
        return float(value)
    return None


def _sum(counts: list[Value]) -> Value:
    if all(isinstance(count, int) for count in counts):
        return sum(counts)
    return round(math.fsum(counts), DECIMALS)


class CountReader:
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

    def counts(self, reading: Reading, lines_lost: bool) -> Counts:
        """The counts in the records of an interval; lines_lost: whether some may be missing."""
        events, counts, units, runtimes, shares = reading.columns
        form = self._form_of((reading.keys, reading.places, events), units, lines_lost)
        for where in form.elsewhere:
            if where[0] in NOT_OF_THE_MACHINE:
                self._log.lost(SUBTOOL, f"records of a {where[0]} are not the whole machine's: not published", shown(where[1]))
            else:
                self._log.lost(SUBTOOL, "records that cannot be attributed to a place of this aggregation", shown("=".join(where)))
        for index in form.nameless:
            if events[index] is not None or counts[index] is not None:  # else it is a further metric of the event above
                self._log.lost(SUBTOOL, NAMELESS, shown(str(events[index])))
        values = self._values(form.pick(counts), form.pick(events))
        shares = [share if isinstance(share, (int, float)) else None for share in form.pick(shares)]
        running = {
            metric_type: {share for share, value in zip(pick(shares), pick(values)) if value is not None}
            for metric_type, pick in form.by_type
        }
        counted = list(form.first(values)) if values else []
        if form.several or form.unclear or form.lacking:
            self._fold(form, values, form.pick(runtimes), shares, counted, running)
        lowest = {metric_type: _lowest(found) for metric_type, found in running.items()}
        return Counts(form.slots, counted, {metric_type: share for metric_type, share in lowest.items() if share is not None})

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
                    times = [_amount(runtimes[position]) for position in positions]
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
        for text, unit in {str(event): (event, unit) for event, unit in zip(columns[2], units)}.values():
            if isinstance(text, str):
                for counter, _, _ in self._counters.of(text).meant:
                    self.units.setdefault(counter, str(unit or ""))
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

    def _values(self, counts: Sequence[Any], events: Sequence[str]) -> Sequence[Value | None]:
        """The values of counters, None where there is none: of all together where each is a whole count as perf prints it."""
        try:
            digits = ("\n".join(counts) + "\n").replace(WHOLE_COUNT_END, " ")
            if digits.isascii() and digits.replace(" ", "").isdecimal():
                values = list(map(int, digits.split()))
                if len(values) == len(counts) and max(values) < GREATEST_COUNT:
                    return values
        except (TypeError, ValueError):
            pass
        return list(map(self._value, counts, events))

    def _value(self, counted: object, text: str) -> Value | None:
        """The value of a counter of the event that perf spells so; what is none is counted in the log."""
        if counted is None:
            self._log.lost(SUBTOOL, NAMELESS, shown(text))
            return None
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
    others = [_amount(runtimes[position]) for position in groups.get((where, found.part.group), set()) - own]
    return all(
        any(runtime and other and abs(runtime - other) <= GROUP_APART * other for other in others) for runtime in found.runtimes
    )
