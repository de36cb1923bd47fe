# SPDX-License-Identifier: Apache-2.0
"""turbostat: frequencies, idle states, temperatures and power, each for what it is a property of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneltools.clock import Interval, Timeline
from kerneltools.frames import Breakouts, Frame, SeriesList, Spool, Value, admits, items, significant
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile
from kerneltools.run import Run
from kerneltools.turbostat_columns import Column, Columns, Values, is_unmeasured
from kerneltools.turbostat_header import Kind
from kerneltools.turbostat_places import MACHINE, Places, Where
from kerneltools.turbostat_survey import Survey
from kerneltools.turbostat_table import Block, blocks

SUBTOOL = "turbostat"
OUTPUTS = ("turbostat-stdout.txt",)

INTERVAL_KEY = "turbostat_interval"
DEFAULT_INTERVAL = 10.0  # seconds; kerneltools-start's own default
# What CorWatt is a property of.
SCOPE_OF_VENDOR = {"AuthenticAMD": "core", "HygonGenuine": "core", "GenuineIntel": "package"}
COLUMNS_SHOWN = 500  # no turbostat has so many; a damaged output may


class Frames:
    """The frames of an output: every metric that the catalogue has of turbostat's table, for every place it stands for."""

    def __init__(self, run: Run, raw: RawFile, spool: Spool) -> None:
        self.series = SeriesList()
        self._log = run.log
        self._spool = spool
        environment = run.environment
        self._survey = Survey(Places(run.topology), SCOPE_OF_VENDOR.get(environment.get("cpu_vendor", ""), ""))
        spool.extend(self._survey.spooled(blocks(raw, SUBTOOL, Columns(run.metrics(SUBTOOL)), spool, run.log)))
        self.intervals = self._survey.intervals
        if not self.intervals:
            run.log.note(SUBTOOL, f"{raw.path.name} holds no interval")
        self._clock = _Clock(run, raw, self._survey, _collection_interval(environment))
        if raw.damage:
            run.log.lost(SUBTOOL, f"{raw.path.name} is damaged: what follows the damage is lost", raw.damage)

    def __iter__(self) -> Iterator[Frame]:
        """The frames in their order."""
        series = _Series(self._survey, self.series)
        known = Values()
        layout: _Layout | None = None
        for block in self._survey.blocks(self._spool):
            interval = self._clock.interval(block, self._log)
            if interval is None:
                continue
            if layout is None or layout.kinds is not block.kinds:
                layout = _Layout(block.kinds, series)
            yield Frame(interval, layout.values(block, known, interval, self._log))
        _remark(self._survey, series, self._log)


def _collection_interval(environment: dict[str, str]) -> float:
    """--interval in seconds; 0.0 where the environment file does not have it."""
    try:
        interval = float(environment.get(INTERVAL_KEY, ""))
    except ValueError:
        return 0.0
    return interval if 0 < interval < 1e7 else 0.0


class _Clock:
    """The end of each interval in epoch seconds: turbostat's own Time_Of_Day_Seconds, else the clock file's."""

    def __init__(self, run: Run, raw: RawFile, survey: Survey, interval: float) -> None:
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


class _Series:
    """The series that the rows' columns and places stand for, registered as they appear; from_summary: the types of those that
    stand in the summary although they are no property of the whole machine."""

    def __init__(self, survey: Survey, series: SeriesList) -> None:
        self.all = series
        self.from_summary: dict[str, None] = {}
        self._survey = survey
        self._numbers: dict[tuple[str, Where], dict[int, int | None]] = {}  # by the columns' indices

    def of(self, kind: Kind) -> list[int | None]:
        """The series of each of a kind's columns, None where it is not published."""
        columns = kind.header.columns
        key = kind.header.line, kind.where
        if key not in self._numbers:
            self._numbers[key] = {index: self._number(column, kind) for index, column in sorted(columns)}
        return [self._numbers[key][index] for index, _ in columns if index < kind.size]

    def _number(self, column: Column, kind: Kind) -> int | None:
        names = self._names(kind.where, self._survey.scope(column, kind.header), column.type)
        return None if names is None else self.all.number(column.metric, names, column.type, told=column.name)

    def _names(self, where: Where, scope: str, metric_type: str) -> Breakouts | None:
        """The breakouts that a row's value of that type is published under, None where it is not published.

        The summary is for the whole machine, and for what stands on no other row.
        """
        if scope == "system":
            return {}
        if where != MACHINE:
            return self._survey.places.names(where, scope)
        if (metric_type, scope) in self._survey.carried:
            return None
        self.from_summary[metric_type] = None
        return {}


class _Layout:
    """What the fields of blocks are whose rows are of the same kinds: the values of which series.

    A cell is a field, or the mean of several of a row; behind all of them stands one without a value, for series that have
    none. Where cells of several rows are of one series, the first that has a value counts.
    """

    def __init__(self, kinds: list[Kind], series: _Series) -> None:
        self.kinds = kinds
        self._series = series.all
        self._cells: list[tuple[int, Column, int | None]] = []  # row, column, series
        self._means: list[list[int]] = []  # the cells of fields that each is of
        for row, kind in enumerate(kinds):
            for column, number in zip(kind.columns, series.of(kind)):
                if number is not None and column.type in kind.header.averaged:
                    if not self._means or self._cells[self._means[-1][-1]][::2] != (row, number):
                        self._means.append([])
                    self._means[-1].append(len(self._cells))
                self._cells.append((row, column, number))
        averaged = {cell for cells in self._means for cell in cells}
        self._cells += [self._cells[cells[0]] for cells in self._means]
        of_series: dict[int, list[int]] = {}
        for cell, (_, _, number) in enumerate(self._cells):
            if number is not None and cell not in averaged:
                of_series.setdefault(number, []).append(cell)
        self._several = [sorted(cells, key=lambda cell: self._cells[cell][0]) for cells in of_series.values() if len(cells) > 1]
        self._further = items([cell for cells in self._several for cell in cells[1:]])
        self._pick = items([of_series.get(number, [len(self._cells)])[0] for number in range(len(self._series))])

    def values(self, block: Block, known: Values, interval: Interval, log: Log) -> Sequence[Value | None]:
        """The values of the series in a block, in their order."""
        cells = list(map(known.__getitem__, block.texts))
        if known.odd:
            known.odd = False
            self._say_odd(block, cells, log)
        for fields in self._means:
            cells.append(self._mean(fields, cells, interval, log))
        further = self._further(cells)
        if further.count(None) < len(further):
            self._take_first(block, cells, log)
        cells.append(None)
        return self._pick(cells)

    def _say_odd(self, block: Block, cells: list[Value | None], log: Log) -> None:
        """Count in the log the fields that hold something else than a number."""
        for (row, column, number), text, value in zip(self._cells, block.texts, cells):
            if value is None and number is not None and text.strip():
                where = f"line {block.lines[row]}: {column.type} {shown(text)!r}"
                if is_unmeasured(text):
                    log.note(SUBTOOL, "values that turbostat did not have", where)
                else:
                    log.lost(SUBTOOL, "values that are no numbers are not published", where)

    def _mean(self, fields: list[int], cells: list[Value | None], interval: Interval, log: Log) -> Value | None:
        found = []
        for field in fields:
            _, column, number = self._cells[field]
            value = cells[field]
            if value is None or number is None:
                continue
            if column.factor != 1:
                value = significant(value * column.factor)
            # one that cannot be would hide in the mean
            if admits(self._series.all[number], interval, value, log, SUBTOOL, column.name):
                found.append(value)
        return None if not found else found[0] if len(found) == 1 else significant(sum(found) / len(found))

    def _take_first(self, block: Block, cells: list[Value | None], log: Log) -> None:
        """Where several cells of a series have a value, have the first count; the others are counted in the log."""
        beside = []
        for several in self._several:
            there = [cell for cell in several if cells[cell] is not None]
            beside += [self._cells[cell] for cell in there[1:]]
            if there:
                cells[several[0]] = cells[there[0]]
        for row, column, _ in sorted(beside, key=lambda cell: cell[0]):
            log.note(SUBTOOL, f"{column.type}: stands on several rows of one place, the first counts", f"line {block.lines[row]}")


def _remark(survey: Survey, series: _Series, log: Log) -> None:
    """Say what a reader of the numbers should know of where they come from."""
    if survey.outside:
        names = [shown(name) for name in survey.outside]
        more = f" and {len(names) - COLUMNS_SHOWN} more" if len(names) > COLUMNS_SHOWN else ""
        log.note(SUBTOOL, "columns outside the catalogue are not published: " + ", ".join(names[:COLUMNS_SHOWN]) + more)
    for metric_type in series.from_summary:
        log.note(SUBTOOL, "stands in the summary row only, published without breakouts as turbostat summed it up", metric_type)
    if survey.places.are_packages_counted:
        why = "neither a Package column nor the topology tells the packages"
        log.note(SUBTOOL, f"{why}: they are numbered in the order of the rows that hold their values")
    if survey.why_split and survey.has_split:
        log.note(SUBTOOL, f"CorWatt is taken as the power of a {survey.split_scope}: told by {survey.why_split}")
