# SPDX-License-Identifier: Apache-2.0
"""Which counters an output of perf holds, whose each name is, and which metrics can be derived from them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kerneltools.catalogue import SECONDS, Metric
from kerneltools.log import Log, shown
from kerneltools.perf_event import Asked, Event, parse_event, same_events, sounds_like

SUBTOOL = "perf-stat"

Counter = tuple[str, str]  # metric type and device ("" but on machines with several kinds of core)


class Derived(NamedTuple):
    """A catalogue row bound to counters of this run; denominator None stands for the interval's length."""

    metric: Metric
    numerator: Counter
    denominator: Counter | None


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

    events: as perf_json.Reader gives them: per spelling of perf, whether it was ever counted; asked: the events that perf
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
