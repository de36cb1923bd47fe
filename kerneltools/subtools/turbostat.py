# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""turbostat: frequencies, idle states, temperatures and power, each for what it is a property of.

A row of the catalogue names the columns that give a metric, in its formula: "scope:NAME,NAME". The scope (cpu, core,
package, system) is the column's own, wherever its values stand; where it differs between machines both are named
("core|package"). A NAME may hold a placeholder (PLACEHOLDERS), which the type repeats: "Pkg%pc<N>". Where a column is in
another unit than its metric, what makes one of the other follows it: "GHz*1000".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Callable, NamedTuple

from kerneltools import limits
from kerneltools.catalogue import Metric
from kerneltools.clock import Interval, Timeline, Times
from kerneltools.log import Log, shown
from kerneltools.publication import Publication, Value, significant
from kerneltools.publication import Row as PublishedRow
from kerneltools.rawfile import RawFile
from kerneltools.run import Run
from kerneltools.sink import items
from kerneltools.turbostat_table import LEADING, MACHINE, Alike, Block, Form, Header, Row, Table, Where

SUBTOOL = "turbostat"
OUTPUTS = ("turbostat-stdout.txt",)

INTERVAL_KEY = "turbostat_interval"
DEFAULT_INTERVAL = 10.0  # seconds; kerneltools-start's own default
# What CorWatt is a property of.
SCOPE_OF_VENDOR = {"AuthenticAMD": "core", "HygonGenuine": "core", "GenuineIntel": "package"}
# The breakouts that a scope goes down to; a system has none.
BREAKOUTS = {
    "system": (),
    "package": ("package",),
    "core": ("package", "die", "core"),
    "cpu": ("package", "die", "core", "thread", "cpu"),
}
# <state> is an idle state's name as the kernel's idle driver gives it.
PLACEHOLDERS = {"<N>": "[0-9]{1,3}", "<state>": "POLL|C[0-9][0-9A-Za-z_]*|[A-Za-z]+ idle"}
FEW = 3  # times from which a median means something
KNOWN_VALUES = 1 << 16  # texts whose values are kept
COLUMNS_SHOWN = 500  # no turbostat has so many; a damaged output may

_PLACEHOLDER = re.compile("(" + "|".join(PLACEHOLDERS) + ")")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?")
_PLAIN = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")  # what needs no closer look
# "104**" is power that turbostat suspects, as its counter may have wrapped
_UNMEASURED = re.compile(r"[-+]?nan|[-+]?inf|\(neg\)|[0-9]*(?:\.[0-9]*)?\*+(?:\.\*+)?|-")

Names = dict[str, str]


class Column(NamedTuple):
    """A column of the catalogue: its name, its metric, the type its values are published as, what it may be a property of,
    and by what its values are multiplied."""

    name: str
    metric: Metric
    type: str
    scopes: tuple[str, ...]
    factor: int


class Columns:
    """The columns that the catalogue knows."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._patterns: list[tuple[re.Pattern[str], Metric, tuple[str, ...], int]] = []
        for metric in metrics:
            scopes, _, names = metric.field.partition(":")
            for spelling in names.split(","):
                name, _, factor = spelling.partition("*")
                self._patterns.append((re.compile(_name_pattern(name)), metric, tuple(scopes.split("|")), int(factor or 1)))
        self._known: dict[str, Column | None] = {}

    def find(self, name: str) -> Column | None:
        """The column of that name; None where the catalogue has none."""
        if name not in self._known:
            self._known[name] = self._match(name)
        return self._known[name]

    def knows(self, name: str) -> bool:
        """Whether a column of that name gives a metric."""
        return self.find(name) is not None

    def of(self, header: Header) -> list[tuple[int, Column]]:
        """The columns of a header that give metrics, each with its index."""
        found = ((index, self.find(name)) for index, name in enumerate(header.names))
        return [(index, column) for index, column in found if column is not None]

    def _match(self, name: str) -> Column | None:
        for pattern, metric, scopes, factor in self._patterns:
            match = pattern.fullmatch(name)
            if match:
                held = match.group(1).lower().replace("_", "-").replace(" ", "-") if match.groups() else ""
                return Column(name, metric, _PLACEHOLDER.sub(held, metric.type), scopes, factor)
        return None


def _name_pattern(name: str) -> str:
    """The regular expression of a column's name in the catalogue; placeholders are groups."""
    return "".join(f"({PLACEHOLDERS[part]})" if part in PLACEHOLDERS else re.escape(part) for part in _PLACEHOLDER.split(name))


def read_value(text: str) -> Value | None:
    """A field's value, None where turbostat had none; whole numbers are integers. Raises ValueError where it is no number."""
    text = text.strip()
    if not text or _UNMEASURED.fullmatch(text):
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError("no numbers")
    return float(text) if "." in text else int(text)


def _is_printed(text: str) -> bool:
    """Whether a field holds a value or what turbostat prints for one that it does not have, rather than nothing or garbage."""
    text = text.strip()
    return bool(text and (_NUMBER.fullmatch(text) or _UNMEASURED.fullmatch(text)))


class _Places:
    """The breakouts of every place, from the rows, then the topology snapshot; `learn` all places before asking for names."""

    def __init__(self, run: Run) -> None:
        self._snapshot = run.topology
        self._cpus: dict[int, Where] = {}
        self._counted: dict[int, int] = {}  # CPU -> package, where only counting tells

    def learn(self, where: Where) -> None:
        """Take what a row says of its CPU; rows under another header may say more."""
        if where.cpu is not None:
            known = self._cpus.get(where.cpu, where)
            self._cpus[where.cpu] = Where(*(old if old is not None else new for old, new in zip(known, where)))

    def count_package(self, where: Where, ordinal: int) -> None:
        """Say that by the order of the rows a CPU is of the ordinal-th package."""
        if where.cpu is not None and where.package is None and where.cpu not in self._snapshot:
            self._counted.setdefault(where.cpu, ordinal)

    @property
    def are_packages_counted(self) -> bool:
        """Whether there are several packages, told apart by nothing but the order of the rows."""
        return any(ordinal > 0 for cpu, ordinal in self._counted.items() if self._cpus[cpu].package is None)

    def _told(self, where: Where, name: str) -> str | None:
        """One breakout of a place, from its rows or else the snapshot; None if neither tells."""
        known = self._cpus.get(where.cpu, where) if where.cpu is not None else where
        told = getattr(known, name)
        if told is not None:
            return str(told)
        return self._snapshot.get(where.cpu, {}).get(name) if where.cpu is not None else None

    def package(self, where: Where) -> str:
        """The package; turbostat leaves the column out where it finds only one."""
        return self._told(where, "package") or str(self._counted.get(where.cpu, 0) if where.cpu is not None else 0)

    def _core(self, where: Where) -> tuple[str, str, str | None]:
        return self.package(where), self._told(where, "die") or "0", self._told(where, "core")

    def can_attribute(self, where: Where, scope: str) -> bool:
        """Whether a row of that place tells of which CPU, core or package its value is."""
        return where.cpu is not None or scope == "package" or (scope == "core" and where.core is not None)

    def threads(self) -> dict[int, int]:
        """Each CPU's position among those of its core."""
        cores: dict[tuple[str, str, str | None], list[int]] = {}
        for cpu in sorted({*self._cpus, *self._snapshot}):
            cores.setdefault(self._core(Where(cpu=cpu)), []).append(cpu)
        return {cpu: position for cpus in cores.values() for position, cpu in enumerate(cpus)}

    def names(self, where: Where, scope: str, threads: dict[int, int]) -> Names | None:
        """The breakouts of what has that scope and stands on a row of that place; None where it cannot be attributed.

        A core whose number nothing tells is named by the CPU that its values stand on.
        """
        if not self.can_attribute(where, scope):
            return None
        package, die, core = self._core(where)
        told = {"package": package, "die": die}
        wanted: tuple[str, ...] = BREAKOUTS[scope]
        if core is not None:
            told["core"] = core
            if where.cpu is not None:
                told["thread"] = str(threads[where.cpu])
        elif scope == "core":
            wanted = BREAKOUTS["cpu"]
        if where.cpu is not None:
            told["cpu"] = str(where.cpu)
        return {name: told[name] for name in wanted if name in told}


class _Found:
    """The columns of one header that give metrics; sought: those, with their types, that were not yet seen on a row that
    says of which CPU, core or package (each scope they may have) they are; package and split: the indices of those of a
    package, and of those whose scope differs between machines."""

    def __init__(self, columns: list[tuple[int, Column]]) -> None:
        self.columns = columns
        self.sought = [(index, column.type, scope) for index, column in columns for scope in column.scopes if scope != "system"]
        self.package = [index for index, column in columns if column.scopes == ("package",)]
        self.split = [index for index, column in columns if len(column.scopes) > 1]


class _Survey:
    """What the whole output tells before its values are read.

    intervals, times: of the blocks; carried: the types, with their scopes, that stand on rows that tell the place,
    rather than in the summary alone; outside: the columns that give no metric; split_scope: what a column that differs
    between machines is of, and why_split what told so.
    """

    def __init__(self, table: Table, columns: Columns, places: _Places, vendor_scope: str) -> None:
        self.columns = columns
        self.places = places
        self.intervals = 0
        self.times = Times(origin=None)
        self._early: list[float] = []
        self.carried: set[tuple[str, str]] = set()
        self.outside: dict[str, None] = {}
        self.split_scope = vendor_scope
        self.why_split = "the CPU's vendor" if vendor_scope else ""
        self._headers: dict[str, _Found] = {}
        self._learnt: set[Where] = set()
        for block in table.blocks(Log()):
            self._take(block)

    def found(self, header: Header) -> _Found:
        """What the catalogue has of a header's columns."""
        found = self._headers.get(header.line)
        if found is None:
            found = self._headers[header.line] = _Found(self.columns.of(header))
            outside = (name for name in header.names if name and name not in LEADING and not self.columns.knows(name))
            self.outside.update(dict.fromkeys(outside))
        return found

    def _take(self, block: Block) -> None:
        self.intervals += 1
        if block.time is not None:
            if len(self._early) < FEW:
                self._early.append(block.time)
            self.times.add(block.time)
        if block.alike is not None and self._is_known(block.alike):
            return
        if block.summary is not None:
            self.found(block.summary.header)
        for row in block.rows.values():
            if row.where not in self._learnt:
                self._learnt.add(row.where)
                limits.check(len(self._learnt), limits.MOST_PLACES, "places")
                self.places.learn(row.where)
            found = self.found(row.header)
            if found.sought:
                self._seek(found, row)
        self._count_packages(block)
        if not self.split_scope:
            self._settle_split(block)

    def _is_known(self, alike: Alike) -> bool:
        """Whether a block has nothing to tell that the block whose form it has did not."""
        if not self.split_scope or alike.form.places[1:2] == [] or alike.form.places[1].package is None:
            return False
        return not any(
            index < len(fields) and fields[index] for index, _, _ in self.found(alike.form.header).sought for fields in alike.fields[1:]
        )

    @property
    def first(self) -> float | None:
        """The first time that is to be believed."""
        return next((time for time in self._early if time not in self.times.outliers), None)

    @property
    def typical(self) -> float:
        """The usual distance of two times in seconds, 0.0 where there are not two."""
        if len(self.times) < FEW:
            return self.times.last - (self.first or 0.0) if len(self.times) > 1 else 0.0
        return self.times.typical

    def _seek(self, found: _Found, row: Row) -> None:
        """Look on a row for values of columns that were in no row so far."""
        fields, where = row.fields, row.where
        for entry in found.sought[:]:
            index, metric_type, scope = entry
            if index < len(fields) and self.places.can_attribute(where, scope) and _is_printed(fields[index]):
                self.carried.add((metric_type, scope))
                found.sought.remove(entry)

    def _count_packages(self, block: Block) -> None:
        """Number the packages by the rows that hold package values, where there is no Package column."""
        ordinal = -1
        for row in block.rows.values():
            if row.where.package is not None:
                return
            ordinal += _stands(row, self.found(row.header).package)
            self.places.count_package(row.where, max(ordinal, 0))

    def _settle_split(self, block: Block) -> None:
        """Take a column of "core|package" for the cores' where it stands on more rows than there are packages."""
        rows = [row for row in block.rows.values() if _stands(row, self.found(row.header).split)]
        if len(rows) > len({self.places.package(row.where) for row in rows}):
            self.split_scope = "core"
            self.why_split = "it stands on several rows of a package"

    @property
    def has_split(self) -> bool:
        """Whether there is a column whose scope differs between machines."""
        return any(found.split for found in self._headers.values())

    def scope(self, column: Column, header: Header) -> str:
        """What the column is a property of. turbostat prints a core's columns before those of a package."""
        if len(column.scopes) == 1:
            return column.scopes[0]
        if not self.split_scope:
            found = self.found(header)
            self.split_scope = "core" if found.split and found.package and found.split[0] < found.package[0] else "package"
            self.why_split = "its position among the columns"
        return self.split_scope


def _stands(row: Row, indices: list[int]) -> bool:
    """Whether any of these columns has something on the row."""
    fields = row.fields
    return any(index < len(fields) and _is_printed(fields[index]) for index in indices)


def _collection_interval(environment: dict[str, str]) -> float:
    """--interval in seconds; 0.0 where the environment file does not have it."""
    try:
        interval = float(environment.get(INTERVAL_KEY, ""))
    except ValueError:
        return 0.0
    return interval if 0 < interval < 1e7 else 0.0


class _Clock:
    """The end of each interval in epoch seconds: turbostat's own Time_Of_Day_Seconds, else the clock file's."""

    def __init__(self, run: Run, raw: RawFile, survey: _Survey, interval: float) -> None:
        self._first, self._step, self._last = survey.first, 0.0, 0.0
        self._block = 0
        self._intervals = survey.intervals
        self._outliers = survey.times.outliers
        begin, end = run.clock.get((SUBTOOL, "begin")), run.clock.get((SUBTOOL, "end"))
        if self._first is not None:
            typical = survey.typical or interval
            self._start = self._stamped_start(self._first, interval or typical, begin, run.log)
        else:
            typical = self._set_unstamped(begin, end or raw.mtime, interval, raw.damage, run.log)
        self.timeline = Timeline(0.0, typical, self._start)

    @staticmethod
    def _stamped_start(first: float, length: float, begin: float | None, log: Log) -> float:
        """When the first interval began, turbostat stamps only their ends."""
        if begin is not None and begin < first:
            return max(begin, first - length) if length else begin
        if not length:
            log.note(SUBTOOL, "there is one interval, and nothing tells when it began: its samples are 1 ms long")
        return first - (length or 0.001)

    def _set_unstamped(self, begin: float | None, end: float, interval: float, damage: str, log: Log) -> float:
        """Settle where intervals lie that have no time of their own; the interval's length in seconds is returned."""
        intervals = max(1, self._intervals)
        how = f"intervals of {interval:g} s"
        if not interval:
            whole = begin is not None and begin < end and not damage
            interval = (end - begin) / intervals if whole and begin is not None else DEFAULT_INTERVAL
            default = f"intervals of {interval:g} s, kerneltools-start's default"
            how = f"the time between launch and end divided by {intervals}" if whole else default
        elif begin is not None and begin < end and not damage and not -interval < end - begin - intervals * interval < interval:
            # turbostat sleeps for the interval and then reads, which takes time, too
            interval = (end - begin) / intervals
            how = f"the time between launch and end divided by {intervals}"
        self._start = begin if begin is not None else end - intervals * interval
        anchor = "the launch of the collector" if begin is not None else "the end of collection, back"
        self._step = interval
        self._last = end if begin is not None and not damage else 0.0
        log.note(SUBTOOL, f"the table has no Time_Of_Day_Seconds: times are counted from {anchor}, by {how}")
        return interval

    def interval(self, block: Block, log: Log) -> Interval | None:
        """The interval of the next block; None, and counted in the log, where it has no time after the one before."""
        self._block += 1
        if self._first is None:
            time = self._start + self._block * self._step
            if self._block == self._intervals and time - self._step < self._last < time:
                time = self._last  # the last one is cut short by the end
        elif block.time is None or block.time in self._outliers:
            what = "without a time" if block.time is None else "ahead of later ones"
            log.lost(SUBTOOL, f"intervals {what} are dropped", f"line {block.line}")
            return None
        else:
            time = block.time
        previous = self.timeline.previous
        interval = self.timeline.interval(time, block.lines_lost)
        if interval is None:
            where = f"line {block.line}, {time:.6f} after {previous:.6f}"
            if time > previous:
                log.note(SUBTOOL, "intervals less than 1 ms after the one before are dropped", where)
            else:
                log.lost(SUBTOOL, "intervals not later than one before are dropped", where)
        return interval


class _Plan(NamedTuple):
    """Where the fields of a row go: (index, series, whether other rows may have it too, column) in the order of the
    fields, and series that are computed, the mean of several columns, as (indices, series, column)."""

    single: list[tuple[int, int, bool, Column]]
    means: list[tuple[list[int], int, Column]]


class _Quick(NamedTuple):
    """The same for a row in which each field has a value, or none, as it had when the row was met first: pick gives
    their texts, for the series `numbers`, of which other rows may have `shared`; the columns `empty` have none."""

    pick: Callable[[Sequence[str]], Sequence[str]]
    numbers: tuple[int, ...]
    shared: tuple[int, ...]
    empty: list[int]
    columns: list[Column]


class _Sampler:
    """Publishes the values of rows, under the series that their columns and places stand for."""

    def __init__(self, survey: _Survey, publication: Publication, log: Log) -> None:
        self._survey = survey
        self._publication = publication
        self._log = log
        self._threads = survey.places.threads()
        self._series: dict[tuple[str, tuple[str, ...]], int] = {}
        self._plans: dict[tuple[str, Where], _Plan] = {}
        self._ordinals: dict[int, int] = {}  # series that several rows may have -> interval of its last sample
        self._values: dict[str, Value] = {}
        self._published = PublishedRow([])
        self._quick: dict[tuple[str, Where, int], _Quick | None] = {}
        self._shape: list[tuple[int, ...]] = []  # of the block before: its rows' series
        # a form of blocks, and how their rows are taken, if they are as long
        self._form: Form | None = None
        self._quicks: list[_Quick] = []
        self._lengths: list[int] = []
        # of the row at hand: series that have a value; of the block, the values
        self._numbers: list[int] = []
        self._sampled: list[Value] = []
        self.from_summary: dict[str, None] = {}

    def publish(self, block: Block, interval: Interval) -> None:
        """Publish what a block holds."""
        if block.alike is not None:
            values = self._at_once(block.alike)
            if values is not None:
                self._publication.publish(self._published, interval, values)
                return
        self._sampled = []
        shape = []
        rows: Iterable[Row] = block.rows.values()
        for row in rows if block.summary is None else (block.summary, *rows):
            key = row.header.line, row.where, len(row.fields)
            quick = self._quick.get(key)
            if quick is not None and self._quickly(quick, row, interval):
                shape.append(quick.numbers)
                continue
            self._numbers = []
            self._row(row, interval)
            shape.append(tuple(self._numbers))
            if key not in self._quick:
                self._quick[key] = self._make_quick(row)
        if shape != self._shape:
            self._shape = shape
            self._published = PublishedRow([*chain.from_iterable(shape)])
        self._publication.publish(self._published, interval, self._sampled)
        self._learn(block.alike)

    def _learn(self, alike: Alike | None) -> None:
        """Keep how the rows of a form are taken, if each has gone the quick way or will."""
        self._form, self._quicks = None, []
        if alike is None or not self._published.is_distinct:
            return
        keys = [(alike.form.header.line, where, len(fields)) for where, fields in zip(alike.form.places, alike.fields)]
        quicks = [self._quick.get(key) for key in keys]
        known = [quick for quick in quicks if quick is not None]
        if len(known) == len(quicks) and [quick.numbers for quick in known] == self._shape:
            self._form, self._quicks = alike.form, known
            self._lengths = [len(fields) for fields in alike.fields]

    def _at_once(self, alike: Alike) -> list[Value] | None:
        """The values of a block of the form that was learnt; None where one of them needs a closer look."""
        if alike.form is not self._form or [len(fields) for fields in alike.fields] != self._lengths:
            return None
        texts: list[str] = []
        for quick, fields in zip(self._quicks, alike.fields):
            for index in quick.empty:
                if fields[index]:
                    return None
            texts += quick.pick(fields)
        values = list(map(self._values.get, texts))
        if None in values:
            for place, text in enumerate(texts):
                if values[place] is None:
                    if not _PLAIN.fullmatch(text):
                        return None
                    values[place] = self._keep(text, read_value(text))
        return values

    def _make_quick(self, row: Row) -> _Quick | None:
        """The quick way for rows like this one; None where there is none."""
        plan = self._plans[row.header.line, row.where]
        if plan.means:
            return None
        there = [entry for entry in plan.single if entry[0] < len(row.fields)]
        full = [entry for entry in there if row.fields[entry[0]]]
        return _Quick(
            items([index for index, _, _, _ in full]),
            tuple(series for _, series, _, _ in full),
            tuple(series for _, series, is_shared, _ in full if is_shared),
            [entry[0] for entry in there if not row.fields[entry[0]]],
            [column for _, _, _, column in full],
        )

    def _quickly(self, quick: _Quick, row: Row, interval: Interval) -> bool:
        """Take a row's values; False, and nothing taken, where one needs a closer look."""
        fields, ordinals, ordinal = row.fields, self._ordinals, interval.ordinal
        for index in quick.empty:
            if fields[index]:
                return False
        for series in quick.shared:
            if ordinals.get(series) == ordinal:
                return False
        texts = quick.pick(fields)
        values = list(map(self._values.get, texts))
        if None in values:
            for place, text in enumerate(texts):
                if values[place] is None:
                    if not _PLAIN.fullmatch(text):
                        return False
                    values[place] = self._value(text, quick.columns[place], row)
        for series in quick.shared:
            ordinals[series] = ordinal
        self._sampled += values
        return True

    def _row(self, row: Row, interval: Interval) -> None:
        plan = self._plans.get((row.header.line, row.where))
        if plan is None:
            plan = self._plans[row.header.line, row.where] = self._make_plan(row)
        fields, values = row.fields, self._values
        size = len(fields)
        numbers, sampled = self._numbers, self._sampled
        for index, series, is_shared, column in plan.single:
            if index >= size:
                break
            text = fields[index]
            if not text:
                continue
            value = values.get(text)
            if value is None:
                value = self._value(text, column, row)
                if value is None:
                    continue
            if not is_shared or self._is_first(series, interval, column, row):
                numbers.append(series)
                sampled.append(value)
        for indices, series, column in plan.means:
            self._mean([index for index in indices if index < size], series, column, row, interval)

    def _mean(self, indices: list[int], series: int, column: Column, row: Row, interval: Interval) -> None:
        found = []
        for index in indices:
            value = self._value(row.fields[index], column, row)
            if value is None:
                continue
            if column.factor != 1:
                value = significant(value * column.factor)
            # one that cannot be would hide in the mean
            if self._publication.admits(series, interval, value, row.header.names[index]):
                found.append(value)
        if found and self._is_first(series, interval, column, row):
            self._numbers.append(series)
            self._sampled.append(found[0] if len(found) == 1 else significant(sum(found) / len(found)))

    def _is_first(self, series: int, interval: Interval, column: Column, row: Row) -> bool:
        """Whether the series has no sample of that interval yet."""
        if self._ordinals.get(series) == interval.ordinal:
            self._log.note(SUBTOOL, f"{column.type}: stands on several rows of one place, the first counts", f"line {row.line}")
            return False
        self._ordinals[series] = interval.ordinal
        return True

    def _value(self, text: str, column: Column, row: Row) -> Value | None:
        """The value of a field; None where there is none, which is counted in the log unless the field is empty."""
        try:
            value = read_value(text)
        except ValueError as error:
            self._log.lost(SUBTOOL, f"values that are {error} are not published", f"line {row.line}: {column.type} {shown(text)!r}")
            return None
        if value is None:
            if text.strip():
                self._log.note(SUBTOOL, "values that turbostat did not have", f"line {row.line}: {column.type} {shown(text)!r}")
        else:
            self._keep(text, value)
        return value

    def _keep(self, text: str, value: Value) -> Value:
        if len(self._values) >= KNOWN_VALUES:
            self._values.clear()
        self._values[text] = value
        return value

    def _make_plan(self, row: Row) -> _Plan:
        by_type: dict[str, list[tuple[int, Column]]] = {}
        for index, column in self._survey.found(row.header).columns:
            by_type.setdefault(column.type, []).append((index, column))
        plan = _Plan([], [])
        for metric_type, found in by_type.items():
            column = found[0][1]
            scope = self._survey.scope(column, row.header)
            names = self._names(row.where, scope, metric_type)
            if names is None:
                continue
            series = self._register(column, names)
            if len(found) == 1 and column.factor == 1:
                plan.single.append((found[0][0], series, scope != "cpu", column))
            else:
                plan.means.append(([index for index, _ in found], series, column))
        return plan

    def _names(self, where: Where, scope: str, metric_type: str) -> Names | None:
        """The breakouts that a row's value of that type is published under, None where it is not published.

        The summary is for the whole machine, and for what stands on no other row.
        """
        if where is MACHINE:
            if scope != "system" and (metric_type, scope) in self._survey.carried:
                return None
            if scope != "system":
                self.from_summary[metric_type] = None
            return {}
        if scope == "system":
            return {}
        return self._survey.places.names(where, scope, self._threads)

    def _register(self, column: Column, names: Names) -> int:
        key = (column.type, tuple(names.values()))
        if key not in self._series:
            self._series[key] = self._publication.series(column.metric, names, column.type, told=column.name)
        return self._series[key]


def publish(run: Run, raw: RawFile, publication: Publication) -> None:
    """Publish every metric that the catalogue has of turbostat's table, for every place it stands for."""
    log = run.log
    columns = Columns(run.metrics(SUBTOOL))
    table = Table(raw, SUBTOOL, columns.knows)
    environment = run.environment
    survey = _Survey(table, columns, _Places(run), SCOPE_OF_VENDOR.get(environment.get("cpu_vendor", ""), ""))
    if not survey.intervals:
        log.note(SUBTOOL, f"{raw.path.name} holds no interval")
    publication.expect(survey.intervals)
    clock = _Clock(run, raw, survey, _collection_interval(environment))
    sampler = _Sampler(survey, publication, log)
    for block in table.blocks(log):
        interval = clock.interval(block, log)
        if interval is not None:
            sampler.publish(block, interval)
    if raw.damage:
        log.lost(SUBTOOL, f"{raw.path.name} is damaged: what follows the damage is lost", raw.damage)
    _remark(survey, sampler, log)


def _remark(survey: _Survey, sampler: _Sampler, log: Log) -> None:
    """Say what a reader of the numbers should know of where they come from."""
    if survey.outside:
        names = [shown(name) for name in survey.outside]
        more = f" and {len(names) - COLUMNS_SHOWN} more" if len(names) > COLUMNS_SHOWN else ""
        log.note(SUBTOOL, "columns outside the catalogue are not published: " + ", ".join(names[:COLUMNS_SHOWN]) + more)
    for metric_type in sampler.from_summary:
        log.note(SUBTOOL, "stands in the summary row only, published without breakouts as turbostat summed it up", metric_type)
    if survey.places.are_packages_counted:
        why = "neither a Package column nor the topology tells the packages"
        log.note(SUBTOOL, f"{why}: they are numbered in the order of the rows that hold their values")
    if survey.why_split and survey.has_split:
        log.note(SUBTOOL, f"CorWatt is taken as the power of a {survey.split_scope}: told by {survey.why_split}")
