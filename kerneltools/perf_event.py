# SPDX-License-Identifier: Apache-2.0
"""perf's names of events, in all their spellings, and of places (CPU, core, die, package, node)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

_ALIASES_FILE = Path(__file__).with_name("perf_aliases.tsv")
_ROWS = [line.split("\t") for line in _ALIASES_FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
ALIASES = {alias: names for alias, names, kind in _ROWS if kind == "alias"}
_SAME = {event: names.split(",") for event, names, kind in _ROWS if kind == "same"}
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
_PMU_FORM = re.compile(r"([A-Za-z0-9_.*?-]+)/(.*)/([A-Za-z]*)")
_MODIFIERS = "ukhIGHpPSDWebRX"
_MODIFIED = re.compile(f"(.+):([{_MODIFIERS}]+)")
# perf 6.x writes the modifiers of a core's event within the slashes, later ones behind them
_MODIFIED_WITHIN = re.compile(f"([^:,=]+):([{_MODIFIERS}]+)")
_CORE_PMU = re.compile(r"cpu|cpu_(?:core|atom|lowpower)|cpum_cf|armv[0-9]+_\w+|apple_\w+_pmu")
_PMUS_OF_THE_KERNEL = frozenset(("software", "tracepoint", "breakpoint", "tool"))
# Every CPU core or the kernel itself counts these, one counter a CPU: no other PMU's event of such a name is meant by it.
_GENERIC = frozenset((
    "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles", "ref-cycles",
    "stalled-cycles-frontend", "stalled-cycles-backend", "context-switches", "cpu-migrations", "page-faults", "faults", "minor-faults",
    "major-faults", "alignment-faults", "emulation-faults", "cpu-clock", "task-clock", "cgroup-switches", "bpf-output", "dummy",
    "duration_time", "user_time", "system_time",
))  # fmt: skip
_RAW = re.compile("r[0-9a-fA-F]+")

# perf's own rule for the number of a unit, which decides what it adds up where it adds: "_" and decimal digits, or three and
# more hexadecimal ones (two could be the end of a name: cpum_cf, amd_df)
_UNIT_NUMBER = re.compile("_(?:[0-9]+|[0-9a-fA-F]{3,})")
# Units that are numbered otherwise. HiSilicon's: by super cluster and by unit; of a graphics card: its address; of a CXL
# device: "mem0.1"; else digits behind two letters at least, which "l3" and "24x7" lack and the version in "pmuv3" is not.
_HISILICON = re.compile("(hisi_[a-z]+)[0-9]+(_.*)")
_PCI_ADDRESS = re.compile("_[0-9a-f]{4}_[0-9a-f]{2}_[0-9a-f]{2}\\.[0-7]")
_UNIT_DIGITS = re.compile("(?<=[a-z])[0-9]+(?:\\.[0-9]+)?")


def family_of(pmu: str) -> str:
    """What the units of one kind of PMU have in common: "uncore_imc" for uncore_imc_0, "hisi_sccl_ddrc" for hisi_sccl1_ddrc0."""
    if _CORE_PMU.fullmatch(pmu):
        return pmu
    hisilicon = _HISILICON.fullmatch(pmu)
    if hisilicon:
        pmu = hisilicon.group(1) + hisilicon.group(2)
    address = _PCI_ADDRESS.search(pmu)
    if address and address.end() == len(pmu):
        return pmu[: address.start()]
    head, underscore, tail = pmu.rpartition("_")
    if head and _UNIT_NUMBER.fullmatch(underscore + tail):
        pmu, tail = head, "" if not hisilicon else head.rpartition("_")[2]
    digits = _UNIT_DIGITS.search(tail)
    while digits and digits.end() != len(tail):
        digits = _UNIT_DIGITS.search(tail, digits.end())
    if digits:
        kind = tail[: digits.start()]
        if sum(map(str.isalpha, kind)) > 1 and not kind.endswith("v"):
            pmu = pmu[: len(pmu) - len(tail)] + kind
    return pmu


class Event(NamedTuple):
    """An event as perf names it, taken apart.

    name: without modifiers and a core's PMU, aliases resolved ("cycles" for "cpu-cycles:u"); modifiers: "u" for that;
    pmu: the PMU where perf names one that is not the kernel's own software; family: the same without its unit's number
    ("uncore_imc" for uncore_imc_0); is_core: whether that PMU counts in CPU cores; own_name: without any PMU ("clockticks"
    for "uncore_imc/clockticks/"); in_slashes: whether perf names the PMU as in that.
    """

    name: str
    modifiers: str
    pmu: str
    family: str
    is_core: bool
    own_name: str
    in_slashes: bool

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

    @property
    def is_generic(self) -> bool:
        """Whether its name is one that cores or the kernel itself have, whatever else has it too."""
        return self.own_name in _GENERIC or _CACHE_EVENT.fullmatch(self.own_name) is not None

    @property
    def is_of_the_system(self) -> bool:
        """Whether it is counted by a PMU outside the cores and the kernel."""
        return bool(self.pmu) and not self.is_core

    @property
    def counts_once(self) -> bool:
        """Whether it is sure that a record of it is of one counter for each place: of a core, of the kernel, of the unit that
        it names. Else perf may print a record for each unit, all under this name."""
        return bool(self.pmu) or self.is_generic or ":" in self.own_name or _RAW.fullmatch(self.own_name) is not None

    def in_family(self) -> Event:
        """The same event under the name that says which kind of PMU it is of."""
        return self._replace(name=f"{self.family}/{self.own_name}/")


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
    if form:
        named_pmu, text, modifiers = form.groups()
        # where a list names PMUs by a pattern, perf 7.2 keeps that pattern as a term of the event
        text = ",".join(term for term in text.split(",") if "*" not in term or "=" in term) or text
        within = _MODIFIED_WITHIN.fullmatch(text)
        if within:
            text, modifiers = within.group(1), within.group(2) + modifiers
        pmu = "" if named_pmu in _PMUS_OF_THE_KERNEL else named_pmu
    else:
        modified = _MODIFIED.fullmatch(text)
        if modified:  # the last colon only: a tracepoint's own colon is part of its name
            text, modifiers = modified.groups()
    is_core = bool(_CORE_PMU.fullmatch(pmu))
    family = family_of(pmu)
    in_slashes = bool(form and pmu)
    own_name = name = text if in_slashes and not is_core else _canonical(text)
    if in_slashes and not is_core:
        name = f"{family}/{text}/"
    elif in_slashes and "=" in text.split(",")[0]:
        name = f"{pmu}/{text}/"  # it has no name, and its terms say nothing without the PMU whose terms they are
    return Event(name, modifiers, pmu, family, is_core, own_name, in_slashes)


def same_events(name: str) -> list[str]:
    """The default list's names for what a CPU's own event of this name counts."""
    return _SAME.get(name.lower(), [])


# how CPUs' own lists name what the default list's names stand for
_SOUNDS = {
    "instructions": "ins(t|n)", "cycles": "cyc|cl(oc)?k", "branches": "br", "branch-misses": "br.*mis|mis.*br|br.*mpred",
    "cache-references": "cache|l[23]|llc", "cache-misses": "(cache|l[23]|llc).*(mis|refill)", "L1-dcache-load-misses": "l1d.*(mis|refill)",
    "L1-icache-load-misses": "l1i.*(mis|refill)", "LLC-loads": "ll|l3", "LLC-load-misses": "(ll|l3).*(mis|refill)",
    "dTLB-loads": "d.*tlb", "dTLB-load-misses": "d.*tlb.*(mis|refill|walk)", "iTLB-loads": "i.*tlb",
    "iTLB-load-misses": "i.*tlb.*(mis|refill|walk)", "stalled-cycles-backend": "stall.*back|back.*stall",
    "stalled-cycles-frontend": "stall.*front|front.*stall",
}  # fmt: skip


def sounds_like(own_name: str, name: str) -> bool:
    """Whether a CPU's own event may be what the default list calls `name`, by how it is called."""
    return "=" not in own_name and re.search(_SOUNDS.get(name, "(?!)"), own_name, re.IGNORECASE) is not None


_LIST_PIECE = re.compile(r"mem:[^,{}]*|/[^/]*/|[{},]|[^,{}/]+|/")
_NAME_TERM = re.compile(r"(?:^|,)name=([^,]*)")


class Asked(NamedTuple):
    """An event of the list that perf was given. event: as perf_event.parse_event reads it; alias: the name that the list
    gives it by a term name=, "" where it does not; group: number of the {group} it stands in, -1 where it stands in none."""

    event: Event
    alias: str
    group: int

    def is_printed_as(self, printed: Event) -> bool:
        """Whether perf may mean this event by what it printed."""
        if self.alias:
            return not printed.in_slashes and parse_event(self.alias).own_name == printed.own_name
        if self.event.own_name.lower() != printed.own_name.lower():
            return False
        asked, pmu = self.event.pmu, printed.pmu
        if not asked or fnmatchcase(pmu, asked):
            return True
        if not pmu or self.event.is_numbered:
            return False
        # perf takes uncore_imc by the name imc as well
        return printed.family in (self.event.family, f"uncore_{self.event.family}")


def asked_events(text: str) -> list[Asked]:
    """The events of a list in perf's syntax, in order, with the groups they stand in."""
    found = []
    for event_text, group in _split(text):
        event = parse_event(event_text)
        name = _NAME_TERM.search(event.own_name) if event.in_slashes else None
        found.append(Asked(event, name.group(1).strip("'\"") if name else "", group))
    return found


def split_events(text: str) -> list[str]:
    """The events of a list in perf's syntax, in order; groups are taken apart. Commas within /.../ are the event's."""
    return [event for event, _ in _split(text)]


def _split(text: str) -> list[tuple[str, int]]:
    events = [("", -1)]
    in_group = after_group = False
    groups = 0
    for piece in _LIST_PIECE.findall(text):
        if piece in ("{", "}"):
            in_group, after_group = piece == "{", piece == "}"
            groups += in_group
        elif piece == ",":
            events.append(("", -1))
            after_group = False
        elif not (after_group and not in_group):  # what follows a group's brace is its modifiers
            events[-1] = events[-1][0] + piece, groups if in_group else -1
    return [(event.strip(), group) for event, group in events if event.strip()]


PLACE_KEYS = ("cpu", "core", "die", "socket", "node")  # what perf calls them; cpu first, the finest
NOT_OF_THE_MACHINE = ("cgroup", "thread")  # what else perf may count for
_ALL_CGROUPS = "/"  # everything runs in it or in one below it
_NOT_A_PLACE_HERE = (*NOT_OF_THE_MACHINE, "cache", "cluster")  # the tool does not ask for them and CDM has no breakouts for them
PLACE_FIELDS = frozenset((*PLACE_KEYS, *_NOT_A_PLACE_HERE))
_PLACE = re.compile(r"S(-?[0-9]+)(?:-D(-?[0-9]+))?(?:-C(-?[0-9]+))?")
_PLACE_NAMES = {"socket": ("package",), "die": ("package", "die"), "core": ("package", "die", "core")}


def place(record: dict[str, Any]) -> tuple[str, str]:
    """Where a record counts, as (perf's key, its value), ("", "") for the whole system."""
    for key in _NOT_A_PLACE_HERE + PLACE_KEYS:
        value = record.get(key)
        if value is not None and (key in PLACE_KEYS or value not in ("", _ALL_CGROUPS)):
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
        return {"node": _number(match.group(1))} if match else None
    match = _PLACE.fullmatch(value)
    names = _PLACE_NAMES.get(key)
    if not match or not names or None in match.groups()[: len(names)]:
        return None
    return dict(zip(names, map(_number, match.groups())))


def _number(text: str) -> str:
    """-1: the firmware or a kernel without NUMA does not tell, and then there is one (as in kerneltools.topology)."""
    return "0" if text == "-1" else text
