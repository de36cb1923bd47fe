# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf's names of events, in all their spellings, and of places (CPU, core, die, package, node)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

_ALIASES_FILE = Path(__file__).with_name("perf_aliases.tsv")
ALIASES = dict(line.split("\t") for line in _ALIASES_FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
# perf takes its cache events as cache[-operation][-result], each word in several spellings (perf-list(1))
_CACHES = {
    "L1-dcache": ("l1-dcache", "l1-d", "l1d", "l1-data"),
    "L1-icache": ("l1-icache", "l1-i", "l1i", "l1-instruction"),
    "LLC": ("llc", "l2"),
    "dTLB": ("dtlb", "d-tlb", "data-tlb"),
    "iTLB": ("itlb", "i-tlb", "instruction-tlb"),
}
_CACHE_BY_SPELLING = {spelling: cache for cache, spellings in _CACHES.items() for spelling in spellings}
_CACHE_EVENT = re.compile(
    "(" + "|".join(sorted(_CACHE_BY_SPELLING, key=len, reverse=True)) + ")"
    "(-(?:loads?|read))?(?:-(?:(misses|miss)|(refs|reference|ops|access)))?",
    re.IGNORECASE,
)
_PMU_SUFFIX = re.compile(r"(.*) \[([^\[\]]+)\]")
_PMU_FORM = re.compile(r"([A-Za-z0-9_.-]+)/(.*)/([A-Za-z]*)")
_MODIFIED = re.compile(r"(.+):([ukhIGHpPSDWebRX]+)")
_CORE_PMU = re.compile(r"cpu|cpu_(?:core|atom|lowpower)|cpum_cf|armv[0-9]+_\w+|apple_\w+_pmu")
_NUMBERED_PMU = re.compile(r"(.+)_[0-9]+")
_PMUS_OF_THE_KERNEL = frozenset(("software", "tracepoint", "breakpoint", "tool"))


class Event(NamedTuple):
    """An event as perf names it, taken apart.

    name: without PMU and modifiers, aliases resolved ("cycles" for "cpu-cycles:u"); modifiers: "u" for that;
    pmu: the PMU where perf names one that is not the kernel's own software; family: the same without its instance
    number ("uncore_imc" for uncore_imc_0); is_core: whether that PMU counts in CPU cores.
    """

    name: str
    modifiers: str
    pmu: str
    family: str
    is_core: bool

    @property
    def type(self) -> str:
        """Its metric type."""
        if self.modifiers and self.name.endswith("/"):
            return self.name + self.modifiers
        return f"{self.name}:{self.modifiers}" if self.modifiers else self.name

    @property
    def is_numbered(self) -> bool:
        """Whether its PMU is one of several alike, whose counts belong together."""
        return self.family != self.pmu


def _canonical(name: str) -> str:
    """The default list's name for an event that perf knows by several."""
    if name in ALIASES:
        return ALIASES[name]
    match = _CACHE_EVENT.fullmatch(name)
    if match and any(match.group(2, 3, 4)):
        return _CACHE_BY_SPELLING[match.group(1).lower()] + ("-load-misses" if match.group(3) else "-loads")
    return name


def parse_event(text: str) -> Event:
    """Take perf's name of an event apart: "cycles:u", "cpu_core/cycles/", "dTLB-loads [cpu]", "sched:sched_switch"."""
    pmu = modifiers = ""
    suffixed = _PMU_SUFFIX.fullmatch(text)
    if suffixed:
        text, pmu = suffixed.groups()
        if pmu in _PMUS_OF_THE_KERNEL:
            pmu = ""
    form = _PMU_FORM.fullmatch(text)
    modified = None if form else _MODIFIED.fullmatch(text)
    if form and form.group(1) in _PMUS_OF_THE_KERNEL:
        text, modifiers = form.group(2, 3)
        form = None
    elif form:
        pmu, text, modifiers = form.groups()
    elif modified:  # the last colon only: a tracepoint's own colon is part of its name
        text, modifiers = modified.groups()
    is_core = bool(_CORE_PMU.fullmatch(pmu))
    numbered = None if is_core else _NUMBERED_PMU.fullmatch(pmu)
    family = numbered.group(1) if numbered else pmu
    name = f"{family}/{text}/" if form and not is_core else _canonical(text)
    return Event(name, modifiers, pmu, family, is_core)


_LIST_PIECE = re.compile(r"mem:[^,{}]*|/[^/]*/|[{},]|[^,{}/]+|/")


def split_events(text: str) -> list[str]:
    """The events of a list in perf's syntax, in order; groups are taken apart. Commas within /.../ are the event's."""
    events = [""]
    in_group = after_group = False
    for piece in _LIST_PIECE.findall(text):
        if piece in ("{", "}"):
            in_group, after_group = piece == "{", piece == "}"
        elif piece == ",":
            events.append("")
            after_group = False
        elif not (after_group and not in_group):  # what follows a group's brace is its modifiers
            events[-1] += piece
    return [event.strip() for event in events if event.strip()]


PLACE_KEYS = ("cpu", "core", "die", "socket", "node")  # what perf calls them; cpu first, the finest
_NOT_A_PLACE_HERE = ("cache", "cluster")  # aggregations that the tool does not ask for and CDM has no breakouts for
_PLACE = re.compile(r"S(-?[0-9]+)(?:-D(-?[0-9]+))?(?:-C(-?[0-9]+))?")
_PLACE_NAMES = {"socket": ("package",), "die": ("package", "die"), "core": ("package", "die", "core")}


def place(record: dict[str, Any]) -> tuple[str, str]:
    """Where a record counts, as (perf's key, its value), ("", "") for the whole system."""
    for key in PLACE_KEYS + _NOT_A_PLACE_HERE:
        value = record.get(key)
        if value is not None:
            return key, str(value)
    return "", ""


def place_names(key: str, value: str, topology: dict[int, dict[str, str]]) -> dict[str, str] | None:
    """The breakout names of a place (strings), None where it cannot be attributed.

    topology: breakout names per CPU (kerneltools.topology.read); a CPU that is not in it has its number only.
    """
    if not key:
        return {}
    if key == "cpu":
        digits = value[3:] if value[:3].upper() == "CPU" else value
        if not re.fullmatch("[0-9]{1,9}", digits):
            return None
        cpu = int(digits)
        return dict(topology.get(cpu, {"cpu": str(cpu)}))
    if key == "node":
        match = re.fullmatch(r"N(-?[0-9]+)", value)
        return {"node": match.group(1)} if match else None
    match = _PLACE.fullmatch(value)
    names = _PLACE_NAMES.get(key)
    if not match or not names or None in match.groups()[: len(names)]:
        return None
    # -1: the firmware does not tell, and then there is one (as in kerneltools.topology)
    return dict(zip(names, ("0" if number == "-1" else number for number in match.groups())))
