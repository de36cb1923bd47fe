# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""toplev: the nodes of the top-down tree, as toplev.py (CSV) or perf's own metric groups (JSON) give them.

The catalogue's rows name the nodes that have a type of their own, in the spellings of both; every other node is published
as toplev:<its own name>: the last part of its path, in lower case, with hyphens.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from kerneltools import perf_json, toplev_csv
from kerneltools.catalogue import Metric
from kerneltools.clock import Interval, Timeline, Times, start_of_counting
from kerneltools.log import Log, shown
from kerneltools.perf_event import parse_event, place, place_names
from kerneltools.perf_json import Record
from kerneltools.publication import Publication
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


class _Series:
    """The series of this output, registered as they appear, and how many samples each got."""

    def __init__(self, run: Run, publication: Publication) -> None:
        self._log = run.log
        self._publication = publication
        self._types = _Types(run.metrics(SUBTOOL))
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], int | None] = {}
        self._breakouts: dict[str, tuple[str, ...]] = {}
        self._described: dict[int, str] = {}
        self._last: dict[int, int] = {}
        self._samples: dict[int, int] = {}

    def _register(self, metric: Metric, metric_type: str, names: Names) -> int | None:
        described = metric_type + "".join(f" {key}={value}" for key, value in names.items())
        breakouts = tuple(names)
        if self._breakouts.setdefault(metric_type, breakouts) != breakouts:
            self._log.lost(SUBTOOL, "parts beside their totals, or the reverse, are not published: one type has one granularity", described)
            return None
        series = self._publication.series(metric, names, metric_type)
        self._described[series] = described
        return series

    def sample(self, name: str, names: Names, interval: Interval, value: float) -> None:
        """Publish a node's value for an interval; a second one in the same interval is not published."""
        metric, metric_type = self._types.of(name)
        key = (metric_type, tuple(names.items()))
        if key not in self._known:
            self._known[key] = self._register(metric, metric_type, names)
        series = self._known[key]
        if series is None:
            return
        if self._last.get(series) == interval.ordinal:
            self._log.lost(SUBTOOL, "nodes that stand twice in an interval: the first counts", self._described[series])
            return
        self._last[series] = interval.ordinal
        self._samples[series] = self._samples.get(series, 0) + 1
        self._publication.sample(series, interval, value)

    def note_gaps(self, intervals: int) -> None:
        """Say which nodes had no value in some of the intervals."""
        for series, samples in self._samples.items():
            if samples < intervals:
                missing = f"{self._described[series]}, {intervals - samples} of {intervals}"
                self._log.note(SUBTOOL, "nodes without a value in some intervals", missing)


def publish(run: Run, raw: RawFile, publication: Publication) -> None:
    """Publish every node of an output, and toplev:mux, the share of the time that its counters ran."""
    series = _Series(run, publication)
    if raw.path.name.startswith(OUTPUTS[0]):
        intervals = _publish_csv(run, raw, publication, series)
    else:
        intervals = _publish_json(run, raw, publication, series)
    series.note_gaps(intervals)


def _timeline(run: Run, raw: RawFile, publication: Publication, times: Times, tail_damage: str) -> Timeline:
    if not len(times):
        run.log.note(SUBTOOL, f"{raw.path.name} holds no interval")
    publication.expect(len(times))
    start = start_of_counting(run.clock, SUBTOOL, times.last, tail_damage, raw.mtime, run.log) if len(times) else 0.0
    return Timeline(start, times.typical)


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


def _publish_csv(run: Run, raw: RawFile, publication: Publication, series: _Series) -> int:
    log = run.log
    survey = toplev_csv.survey(raw)
    places = _Places(run)
    nodes = {(where.device, area) for cpus, area in survey.places if (where := places.of(cpus)) is not None}
    names = distinct_names(nodes, log)
    is_hybrid = len({device for device, _ in nodes} - {""}) > 1
    timeline = _timeline(run, raw, publication, survey.times, survey.tail_damage)
    intervals = 0
    for interval, rows in toplev_csv.blocks(raw, timeline, survey.times.outliers, SUBTOOL, log):
        intervals += 1
        for row in rows:
            where = places.of(row.cpus)
            if where is None:
                log.lost(SUBTOOL, "rows that cannot be attributed to a CPU, core or package", shown(row.cpus))
                continue
            if not row.unit.lstrip().startswith("%"):
                log.note(SUBTOOL, "metrics that are no percentage are not published", shown(row.area))
                continue
            try:
                value = read_value(row.value)
            except ValueError:
                log.lost(SUBTOOL, "values that are no number are not published", f"{shown(row.area)}: {shown(row.value)}")
                continue
            if value is not None:
                breakouts = {**where.names, "device": where.device} if is_hybrid and where.device else where.names
                # a row that was salvaged from a broken line may be of a node that the survey did not see
                name = names.get((where.device, row.area)) or own_name(row.area)
                series.sample(name, breakouts, interval, value)
    return intervals


# --- perf's metric groups


class _Metrics:
    """The nodes among the records of perf."""

    def __init__(self, run: Run, events: dict[str, bool]) -> None:
        self._log = run.log
        self._topology = run.topology
        self._devices = {text: event.pmu for text in events if (event := parse_event(text)).is_core}
        self._is_hybrid = len({self._devices[text] for text, ever in events.items() if ever and text in self._devices}) > 1
        self._aggregation: str | None = None
        self._places: dict[tuple[str, str], Names | None] = {}

    def _place(self, where: tuple[str, str]) -> Names | None:
        """Breakouts of a place; None where it has none or is not of the same kind as all before it."""
        if where not in self._places:
            names = place_names(*where, self._topology)
            if names is not None and self._aggregation is None:
                self._aggregation = where[0]
            self._places[where] = names if where[0] == self._aggregation else None
        return self._places[where]

    def samples(self, records: list[Record]) -> list[tuple[str, Names, float]]:
        """Node name, breakouts and value of every node that has one, in the records of one interval."""
        found = []
        device = ""
        for record in records:
            if isinstance(record.get("event"), str):
                device = self._devices.get(record["event"], "")
            node = _node(record.get("metric-unit"))
            if not node:
                continue
            where = place(record)
            names = self._place(where)
            if names is None:
                self._log.lost(SUBTOOL, "records that cannot be attributed to a place of this aggregation", shown("=".join(where)))
                continue
            try:
                value = read_value(record.get("metric-value"))
            except ValueError:
                self._log.lost(
                    SUBTOOL, "values that are no number are not published", f"{shown(node)}: {shown(str(record['metric-value']))}"
                )
                continue
            if value is not None:
                breakouts = {**names, "device": device} if self._is_hybrid and device else names
                found.append((own_name(node.removeprefix(PERF_PREFIX)), breakouts, value))
        return found


def _node(unit: object) -> str:
    """The node that a metric's unit names, "" where it is none: "%  backend_bound", "percent of slots  retiring"."""
    words = unit.rsplit(None, 1) if isinstance(unit, str) and unit[-1:].strip() else []
    return words[1] if len(words) > 1 and _SHARE.fullmatch(words[0]) and _NODE.fullmatch(words[1]) else ""


def lowest_running(records: list[Record]) -> float | None:
    """The least share of the interval, in percent, that an event of these records was counted; None where none says it."""
    shares = (record.get("pcnt-running") for record in records if record.get("counter-value") != NOT_SUPPORTED)
    return min(
        (float(share) for share in shares if isinstance(share, (int, float)) and not isinstance(share, bool) and 0 <= share <= PERCENT),
        default=None,
    )


def _publish_json(run: Run, raw: RawFile, publication: Publication, series: _Series) -> int:
    survey = perf_json.survey(raw)
    metrics = _Metrics(run, survey.events)
    timeline = _timeline(run, raw, publication, survey.times, survey.tail_damage)
    intervals = 0
    for interval, records, _, _ in perf_json.blocks(raw, timeline, survey.times.outliers, SUBTOOL, run.log):
        intervals += 1
        for name, breakouts, value in metrics.samples(records):
            series.sample(name, breakouts, interval, value)
        running = lowest_running(records)
        if running is not None:
            series.sample(own_name(MUX), {}, interval, running)
    return intervals
