# SPDX-License-Identifier: Apache-2.0
"""toplev: the nodes of the top-down tree, as toplev.py (CSV) or perf's own metric groups (JSON) give them.

The catalogue's rows name the nodes that have a type of their own, in the spellings of both; every other node is published
as toplev:<its own name>: the last part of its path, in lower case, with hyphens.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from kerneltools import perf_json, toplev_csv
from kerneltools.catalogue import Metric
from kerneltools.clock import Interval, Timeline, placed, start_of_counting
from kerneltools.frames import Frame, Series, SeriesList, Spool
from kerneltools.log import Log, shown
from kerneltools.perf_event import parse_event, place_names
from kerneltools.rawfile import RawFile
from kerneltools.run import Run

SUBTOOL = "toplev"
OUTPUTS = ("toplev-output.csv", "toplev-output.json")

MUX = "MUX"  # toplev's name of the share of time that counters ran
PERCENT = 100
# what perf puts before the names of Intel's nodes
PERF_PREFIX = "tma_"
NOT_SUPPORTED = "<not supported>"

_NUMBER = re.compile(r"[-+]?[0-9]{1,40}(?:\.[0-9]{0,40})?")
_NO_VALUE = re.compile(r"|[-+]?(?:nan|inf)", re.IGNORECASE)
_SHARE = re.compile(r"%|percent\b.*")  # the units of nodes
_NODE = re.compile(r"[A-Za-z_]\w*")
_CORE = re.compile(r"(?:S(?P<package>[0-9]+)(?:-D[0-9]+)?)?-?(?:C(?P<core>[0-9]+))?(?:-T(?P<thread>[0-9]+))?(?:-(?P<kind>core|atom))?")
_CPU = re.compile(r"(?:CPU)?(?P<cpu>[0-9]+)(?:-(?P<kind>core|atom))?")
_KIND = re.compile(r"(?P<kind>core|atom)")

Names = dict[str, str]


class Where(NamedTuple):
    """Whose pipeline a row is about: its breakouts, and the kind of core on machines that have two ("" elsewhere)."""

    names: Names
    device: str


def read_value(value: object) -> float | None:
    """The value of a node in percent, None where it has none; raises ValueError where it is no number."""
    if isinstance(value, str):
        value = value.strip()
        if _NUMBER.fullmatch(value):
            return float(value) + 0.0  # never -0.0
        if _NO_VALUE.fullmatch(value):
            return None
    elif value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) + 0.0
    raise ValueError("no number")


def own_name(node: str) -> str:
    """A node's own name as types spell it: "dram-bound" for "Backend_Bound.Memory_Bound.DRAM_Bound"."""
    return re.sub(r"[^a-z0-9]+", "-", node.rpartition(".")[2].lower()).strip("-")


class _Types:
    """Under which metric and type each node is published."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._known = {own_name(spelling): metric for metric in metrics for spelling in metric.field.split(",")}
        self._open = next(metric for metric in metrics if "<" in metric.type)
        self._prefix = self._open.type.partition("<")[0]

    def of(self, name: str) -> tuple[Metric, str]:
        """The metric and type for a node's name in the spelling of types."""
        metric = self._known.get(name, self._open)
        return metric, metric.type if metric is not self._open else self._prefix + name


def distinct_names(nodes: set[tuple[str, str]], log: Log) -> dict[tuple[str, str], str]:
    """A name for each (device, path): its own name. Where two nodes of one device have the same, the one higher up in
    the tree (of two on one level the first by alphabet) keeps it, and the others are named with their parents."""
    names: dict[tuple[str, str], str] = {}
    taken: dict[tuple[str, str], str] = {}
    for device, path in sorted(nodes, key=lambda node: (node[0], node[1].count("."), node[1])):
        parts = path.split(".")
        name = own_name(path)
        for first in range(len(parts) - 2, -1, -1):
            if (device, name) not in taken:
                break
            name = "-".join(map(own_name, parts[first:]))
        if (device, own_name(path)) in taken:
            log.note(SUBTOOL, "nodes that share their own name are named with their parents", f"{shown(path)} is {shown(name)}")
        taken.setdefault((device, name), path)
        names[device, path] = name
    return names


Sample = tuple[str, Names, float]  # a node's name in the spelling of types, its breakouts, its value


class Frames:
    """The frames of an output: every node, and toplev:mux, the share of the time that its counters ran."""

    def __init__(self, run: Run, raw: RawFile, spool: Spool) -> None:
        self.series = SeriesList()
        self._log = run.log
        self._types = _Types(run.metrics(SUBTOOL))
        self._numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int | None] = {}
        self._breakouts: dict[str, tuple[str, ...]] = {}
        self._samples: dict[int, int] = {}  # by series
        self._output: _Csv | _Json = (_Csv if raw.path.name.startswith(OUTPUTS[0]) else _Json)(run, raw, spool)
        times = self._output.reader.times
        self.intervals = len(times)
        if not self.intervals:
            run.log.note(SUBTOOL, f"{raw.path.name} holds no interval")
            return
        start = start_of_counting(run.clock, SUBTOOL, times.last, self._output.reader.tail_damage, raw.mtime, run.log)
        self._timeline = Timeline(start, times.typical)
        self._spool = spool

    def __iter__(self) -> Iterator[Frame]:
        """The frames in their order."""
        if not self.intervals:
            return
        intervals = 0
        for interval, samples in self._output.intervals(self._spool, self._timeline):
            intervals += 1
            found: dict[int, float] = {}
            for name, names, value in samples:
                number = self._number(name, names)
                if number is None:
                    continue
                if number in found:
                    self._log.lost(SUBTOOL, "nodes that stand twice in an interval: the first counts", str(self.series.all[number]))
                    continue
                found[number] = value
                self._samples[number] = self._samples.get(number, 0) + 1
            yield Frame(interval, list(map(found.get, range(len(self.series)))))
        for number, count in self._samples.items():
            if count < intervals:
                missing = f"{self.series.all[number]}, {intervals - count} of {intervals}"
                self._log.note(SUBTOOL, "nodes without a value in some intervals", missing)

    def _number(self, name: str, names: Names) -> int | None:
        """The series of a node; None where the node has another granularity than its type."""
        metric, metric_type = self._types.of(name)
        key = metric_type, tuple(names.items())
        if key not in self._numbers:
            breakouts = tuple(names)
            if self._breakouts.setdefault(metric_type, breakouts) == breakouts:
                self._numbers[key] = self.series.number(metric, names, metric_type)
            else:
                self._numbers[key] = None
                described = str(Series(metric, metric_type, "", names))
                what = "parts beside their totals, or the reverse, are not published: one type has one granularity"
                self._log.lost(SUBTOOL, what, described)
        return self._numbers[key]


# --- toplev.py


class _Places:
    """The CPUs column of toplev, as breakouts."""

    def __init__(self, run: Run) -> None:
        self._log = run.log
        self._topology = run.topology
        self._packages = {names["package"] for names in self._topology.values()}
        self._cpu = {(names["package"], names["core"], names["thread"]): names["cpu"] for names in self._topology.values()}
        self._known: dict[str, Where | None] = {"": Where({}, "")}

    def of(self, text: str) -> Where | None:
        """Breakouts package, core, thread and cpu as far as `text` goes: "S0-C1", "C1-T0", "CPU3", "S1", "core"; None
        where it cannot be attributed. What it leaves out is filled in from the topology, where that leaves no choice."""
        if text not in self._known:
            self._known[text] = self._read(text)
        return self._known[text]

    def _read(self, text: str) -> Where | None:
        match = _KIND.fullmatch(text) or _CPU.fullmatch(text) or _CORE.fullmatch(text)
        found = {key: value for key, value in match.groupdict().items() if value is not None} if match else {}
        kind = found.pop("kind", "")
        if not found and not kind:
            return None
        if "cpu" in found:
            names = dict(self._topology.get(int(found["cpu"]), {"cpu": str(int(found["cpu"]))}))
            names.pop("die", None)
        else:
            names = self._filled(found)
        return Where(names, f"cpu_{kind}" if kind else "")

    def _filled(self, found: Names) -> Names:
        if "core" in found and "package" not in found and len(self._packages) == 1:
            found = {"package": next(iter(self._packages)), **found}
        cpu = self._cpu.get((found.get("package", ""), found.get("core", ""), found.get("thread", "")))
        return {**found, "cpu": cpu} if cpu is not None else found


class _Csv:
    """The output of toplev.py."""

    def __init__(self, run: Run, raw: RawFile, spool: Spool) -> None:
        self._log = run.log
        self._places = _Places(run)
        self.reader = toplev_csv.Reader(raw, SUBTOOL, run.log)
        spool.extend(self.reader.readings())
        told = [(where, area) for cpus, area in self.reader.nodes.seen if (where := self._places.of(cpus)) is not None]
        nodes = {(where.device, area) for where, area in told}
        self._names = distinct_names(nodes, run.log)
        self._is_hybrid = len({device for device, _ in nodes} - {""}) > 1

    def intervals(self, spool: Spool, timeline: Timeline) -> Iterator[tuple[Interval, Iterator[Sample]]]:
        """The intervals, each with its samples."""
        readings = itertools.starmap(toplev_csv.Reading, spool)
        for interval, reading, _ in placed(readings, timeline, self.reader.times.outliers, SUBTOOL, self._log):
            yield interval, self._samples(reading)

    def _samples(self, reading: toplev_csv.Reading) -> Iterator[Sample]:
        """Every node that has a value."""
        for cpus, area, text, unit in reading.rows:
            where = self._places.of(cpus)
            if where is None:
                self._log.lost(SUBTOOL, "rows that cannot be attributed to a CPU, core or package", shown(cpus))
                continue
            if not unit.lstrip().startswith("%"):
                self._log.note(SUBTOOL, "metrics that are no percentage are not published", shown(area))
                continue
            value = _value(text, area, self._log)
            if value is not None:
                breakouts = {**where.names, "device": where.device} if self._is_hybrid and where.device else where.names
                yield self._names[where.device, area], breakouts, value


def _value(text: object, node: str, log: Log) -> float | None:
    try:
        return read_value(text)
    except ValueError:
        log.lost(SUBTOOL, "values that are no number are not published", f"{shown(node)}: {shown(str(text))}")
        return None


# --- perf's metric groups


class _Json:
    """The output of perf with its metric groups."""

    def __init__(self, run: Run, raw: RawFile, spool: Spool) -> None:
        self._log = run.log
        self._topology = run.topology
        self.reader = perf_json.Reader(raw, SUBTOOL, run.log)
        spool.extend(self.reader.readings("pcnt-running", "metric-unit", "metric-value"))
        events = self.reader.events
        self._devices = {text: event.pmu for text in events if (event := parse_event(text)).is_core}
        self._is_hybrid = len({self._devices[text] for text, ever in events.items() if ever and text in self._devices}) > 1
        self._aggregation: str | None = None
        self._places: dict[tuple[str, str], Names | None] = {}

    def intervals(self, spool: Spool, timeline: Timeline) -> Iterator[tuple[Interval, Iterator[Sample]]]:
        """The intervals, each with its samples."""
        readings = itertools.starmap(perf_json.Reading, spool)
        for interval, reading, _ in placed(readings, timeline, self.reader.times.outliers, SUBTOOL, self._log):
            yield interval, self._samples(reading)

    def _place(self, where: tuple[str, str]) -> Names | None:
        """Breakouts of a place; None where it has none or is not of the same kind as all before it."""
        if where not in self._places:
            names = place_names(*where, self._topology)
            if names is not None and self._aggregation is None:
                self._aggregation = where[0]
            self._places[where] = names if where[0] == self._aggregation else None
        return self._places[where]

    def _samples(self, reading: perf_json.Reading) -> Iterator[Sample]:
        """Every node that has a value, and the least share of the time that an event was counted."""
        device = ""
        running = []
        for key, place, event, counted, share, unit, value in zip(reading.keys, reading.places, *reading.columns):
            if isinstance(event, str):
                device = self._devices.get(event, "")
            if counted != NOT_SUPPORTED and isinstance(share, (int, float)) and not isinstance(share, bool) and 0 <= share <= PERCENT:
                running.append(float(share))
            node = _node(unit)
            if not node:
                continue
            names = self._place((key, place))
            if names is None:
                what = "records that cannot be attributed to a place of this aggregation"
                self._log.lost(SUBTOOL, what, shown(f"{key}={place}"))
                continue
            number = _value(value, node, self._log)
            if number is not None:
                breakouts = {**names, "device": device} if self._is_hybrid and device else names
                yield own_name(node.removeprefix(PERF_PREFIX)), breakouts, number
        if running:
            yield own_name(MUX), {}, min(running)


def _node(unit: object) -> str:
    """The node that a metric's unit names, "" where it is none: "%  backend_bound", "percent of slots  retiring"."""
    words = unit.rsplit(None, 1) if isinstance(unit, str) and unit[-1:].strip() else []
    return words[1] if len(words) > 1 and _SHARE.fullmatch(words[0]) and _NODE.fullmatch(words[1]) else ""
