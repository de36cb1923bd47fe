# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What a chart needs of the samples that are published, kept while they pass, in memory that the run's length does not change.

Time is cut into columns of so many intervals that a curve has about COLUMNS of them at most, and all curves together
about CELLS cells. Of each column a curve keeps the mean (weighted by duration), and, unless there are very many curves,
the least and the greatest value; a run with fewer intervals is kept as it is.

Each type has a folded curve (its series added or averaged in each interval, as its default-aggregation says) and one
curve for each series. Samples wait in a buffer, a row for each of some intervals, and go into the curves from there,
many at a time.
"""

from __future__ import annotations

import math
import traceback
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import nan
from operator import mul
from typing import Union

from kerneltools.catalogue import Metric
from kerneltools.clock import Interval
from kerneltools.sink import items

COLUMNS = 400  # of a curve; more than a chart has pixels
CELLS = 300_000  # of all curves of one kind, of 8 bytes each
BAND_COLUMNS = 100  # least and greatest values are kept where there is room for so many of them
BUFFERED = 100_000  # values that wait to go into curves
BREAKS = 100  # holes of the whole output that may begin a new column

Value = Union[int, float]
Piece = tuple[int, int, int]  # a column, and from where to where (exclusive) its intervals are in the buffer


class Axis:
    """The columns of time: first and last ms of each, both included; how many intervals make one."""

    def __init__(self) -> None:
        self.begins = array("q")
        self.ends = array("q")
        self.stride = 1
        self.has_bands = True  # whether its curves keep least and greatest values
        self._in_column = 0
        self._breaks = 0

    def fit(self, intervals: int, curves: int) -> None:
        """Choose how many intervals make a column, by how many intervals and curves there will be."""
        room = max(1, CELLS // max(1, curves))
        if intervals > min(COLUMNS, room):
            self.has_bands = room // 3 >= min(BAND_COLUMNS, COLUMNS)
            room = room // 3 if self.has_bands else room
        self.stride = max(1, math.ceil(intervals / min(COLUMNS, room)))

    def extend(self, begins: Sequence[int], ends: Sequence[int], behind_hole: Sequence[bool]) -> list[Piece]:
        """Continue with the intervals of a buffer; one behind a hole begins a column of its own, so that it is seen."""
        pieces: list[Piece] = []
        for place, (begin, end, after) in enumerate(zip(begins, ends, behind_hole)):
            breaks = after and self._in_column < self.stride and self._breaks < BREAKS
            self._breaks += breaks
            if self.ends and self._in_column < self.stride and not breaks:
                self.ends[-1] = end
                self._in_column += 1
            else:
                self.begins.append(begin)
                self.ends.append(end)
                self._in_column = 1
            column = len(self.ends) - 1
            if pieces and pieces[-1][0] == column:
                pieces[-1] = (column, pieces[-1][1], place + 1)
            else:
                pieces.append((column, place, place + 1))
        return pieces


class Curve:
    """Mean, least and greatest value in each column of an axis; nan where there is no value.

    Where a column is one interval, the three are the same array; without has_bands they are too, and hold the means only.
    """

    __slots__ = ("_column", "_duration", "_greatest", "_least", "_weighted", "exact", "greatest", "has_bands", "least", "means")

    def __init__(self, stride: int, has_bands: bool) -> None:
        self.has_bands = has_bands
        self.means = array("d")
        self.exact = stride == 1  # whether each column is one interval
        alone = self.exact or not has_bands
        self.least = self.means if alone else array("d")
        self.greatest = self.means if alone else array("d")
        self._column = -1
        self._duration = 0
        self._weighted = 0.0
        self._least = 0.0
        self._greatest = 0.0

    def extend(self, pieces: list[Piece], values: Sequence[float], durations: Sequence[int]) -> None:
        """Continue with the values (nan: none) of a buffer's intervals of these durations."""
        if not pieces:
            return
        if self.exact:
            self.means.extend([nan] * (pieces[0][0] - len(self.means)))
            self.means.extend(values[pieces[0][1] : pieces[-1][2]])
            return
        for column, first, stop in pieces:
            part, weights = values[first:stop], durations[first:stop]
            weighted = sum(map(mul, part, weights))
            if weighted != weighted:  # a nan: intervals without a value
                there = [place for place, value in enumerate(part) if value == value]
                if not there:
                    continue
                part, weights = [part[place] for place in there], [weights[place] for place in there]
                weighted = sum(map(mul, part, weights))
            self.add(column, sum(weights), weighted, min(part), max(part))

    def add(self, column: int, duration: int, weighted: float, least: float, greatest: float) -> None:
        """Add to a column, not before the last: so many ms, value times ms, least and greatest value of it."""
        if column == self._column:
            self._duration += duration
            self._weighted += weighted
            self._least = min(self._least, least)
            self._greatest = max(self._greatest, greatest)
            return
        self.close()
        missing = [nan] * (column - len(self.means))
        for cells in (self.means, self.least, self.greatest) if self.has_bands else (self.means,):
            cells.extend(missing)
        self._column, self._duration, self._weighted, self._least, self._greatest = column, duration, weighted, least, greatest

    def close(self) -> None:
        """Complete the last column."""
        if self._duration:
            self.means.append(self._weighted / self._duration)
            if self.has_bands:
                self.least.append(self._least)
                self.greatest.append(self._greatest)
        self._duration = 0


class SeriesCurve:
    """One series: its breakouts and its curve (None: it began late, when there were too many already)."""

    __slots__ = ("begun", "curve", "names", "number")

    def __init__(self, number: int, names: dict[str, str]) -> None:
        self.number = number
        self.names = names
        self.begun = False
        self.curve: Curve | None = None


class TypeCurves:
    """One metric type, its series and their fold.

    folded: sum or mean over the series in each interval; a sum only where each series has a value: a part of it is none.
    lowest, highest: of the series' own values. partial: intervals that have no sum for that reason.
    """

    def __init__(self, metric: Metric, published_type: str, unit: str) -> None:
        self.type = published_type
        self.unit = unit
        self.meaning = metric.meaning
        self.sums = metric.aggregation == "sum"
        self.series: list[SeriesCurve] = []
        self.folded: Curve | None = None
        self.lowest: Curve | None = None
        self.highest: Curve | None = None
        self.partial = 0

    def begun(self) -> list[SeriesCurve]:
        """The series that have a sample."""
        return [series for series in self.series if series.begun]

    def begin(self, axis: Axis) -> None:
        """Begin the fold anew, in the columns of that axis."""
        self.folded, self.lowest, self.highest = (Curve(axis.stride, axis.has_bands) for _ in range(3))

    def fold(self, rows: Iterable[Sequence[float]]) -> tuple[array[float], array[float], array[float]]:
        """The fold of the series' values in each interval, the least, and the greatest value of them; nan is no value."""
        folded, least, greatest = array("d"), array("d"), array("d")
        for row in rows:
            series = number = len(row)
            total = sum(row)
            if total != total:
                row = [value for value in row if value == value]  # noqa: PLW2901
                total = sum(row)
                number = len(row)
                self.partial += self.sums and number > 0
            if number == 0 or (self.sums and number < series):
                folded.append(nan)
            else:
                folded.append(total if self.sums else total / number)
            least.append(min(row, default=nan))
            greatest.append(max(row, default=nan))
        return folded, least, greatest


class Curves:
    """The curves of one subtool. Call `expect` once, then `series` and `sample` as Publication does, then `finish`.

    fault: what went wrong here ("": nothing), after which nothing is kept any more; it must not cost the metrics.
    """

    def __init__(self, subtool: str) -> None:
        self.subtool = subtool
        self.fault = ""
        self.types: dict[str, TypeCurves] = {}
        self.axis = Axis()  # of the folded curves
        self.series_axis = Axis()
        self.intervals = 0
        self.without_curve = 0  # series
        self._reach_back = 0
        self._expected = 1
        self._series: list[SeriesCurve] = []
        self._kept = 0  # series that have a curve
        self._buffer_length = 0
        self._drained = 0
        self._place = -1
        self._begins = array("q")
        self._ends = array("q")
        self._behind_hole: list[bool] = []
        self._rows: list[array[float]] = []  # the buffer: of each interval the values of all series, by their numbers
        self._in_order: Sequence[int] = ()  # the numbers of all series, as row gets them
        self._end = -1
        self._ordinal = -1

    def expect(self, intervals: int, reach_back: int) -> None:
        """Say how many intervals there can be at most, and over how many missing ones a sample may reach back."""
        self._expected = max(1, intervals)
        self._reach_back = reach_back

    def series(self, metric: Metric, published_type: str, unit: str, names: dict[str, str]) -> None:
        """Register the next series; they are numbered in the order of the calls, from 0."""
        of = self.types.get(published_type)
        if of is None:
            of = self.types[published_type] = TypeCurves(metric, published_type, unit)
        self._series.append(SeriesCurve(len(self._series), names))
        of.series.append(self._series[-1])

    def sample(self, number: int, interval: Interval, begin: int, value: Value) -> None:
        """Take a sample of the series of that number: its interval, and where it begins, which may be earlier."""
        if self.fault:
            return
        try:
            if interval.end != self._end:
                self._next(interval)
            self._row_of(self._place)[number] = value
            if begin < self._begins[-1]:
                self._reach(number, begin, value)
        except Exception:
            self.fault = traceback.format_exc()

    def row(
        self, numbers: Sequence[int], interval: Interval, values: Sequence[Value], reaching: Sequence[tuple[int, int, Value]] = ()
    ) -> None:
        """Take samples of an interval, of the series of these numbers; nan is none.

        reaching: of the series that had none in the interval before, the number, where its sample begins, and its value.
        """
        if self.fault:
            return
        try:
            if interval.end != self._end:
                self._next(interval)
            if numbers is self._in_order or tuple(numbers) == tuple(range(len(self._series))):
                self._in_order = numbers
                self._rows[-1] = array("d", values)
            else:
                row = self._row_of(self._place)
                for number, value in zip(numbers, values):
                    row[number] = value
            for number, begin, value in reaching:
                self._reach(number, begin, value)
        except Exception:
            self.fault = traceback.format_exc()

    def _row_of(self, place: int) -> array[float]:
        """The row of an interval in the buffer, with a place for each series."""
        row = self._rows[place]
        if len(row) < len(self._series):
            row.extend([nan] * (len(self._series) - len(row)))
        return row

    def _reach(self, number: int, begin: int, value: Value) -> None:
        """Have the present sample of a series begin earlier."""
        place = self._place
        if place == 0 or self._ends[place - 1] < begin:
            self._begins[place] = min(begin, self._begins[place])  # the output lacks the intervals between
        while place > 0 and self._ends[place - 1] >= begin:
            place -= 1
            self._row_of(place)[number] = value

    def _next(self, interval: Interval) -> None:
        if self.intervals == 1:  # as a rule all series are known by now
            self.axis.fit(self._expected, len(self.types))
            self.series_axis.fit(self._expected, len(self._series))
        if self.intervals and len(self._ends) >= self._buffer_length:
            self._buffer_length = max(2 * self._reach_back + 2, min(BUFFERED // len(self._series), 10 * COLUMNS))
            if len(self._ends) >= self._buffer_length:
                self._drain(len(self._ends) - self._reach_back)
        self._behind_hole.append(self._ordinal >= 0 and interval.ordinal - self._ordinal - 1 > self._reach_back)
        self._rows.append(array("d", [nan]) * len(self._series))
        self._begins.append(interval.begin)
        self._ends.append(interval.end)
        self._place = len(self._ends) - 1
        self._end = interval.end
        self._ordinal = interval.ordinal
        self.intervals += 1

    def _drain(self, intervals: int) -> None:
        """Move so many intervals from the buffer into the curves."""
        begins, ends, behind_hole = self._begins[:intervals], self._ends[:intervals], self._behind_hole[:intervals]
        durations = [end - begin + 1 for begin, end in zip(begins, ends)]
        pieces = self.axis.extend(begins, ends, behind_hole)
        rows = [self._row_of(place) for place in range(len(self._rows))]
        for of in self.types.values():
            for series in of.series:
                if not series.begun and any(row[series.number] == row[series.number] for row in rows):
                    self._begin(series, of)
        del rows[intervals:]
        for of in self.types.values():
            if of.folded is not None and of.lowest is not None and of.highest is not None:
                pick = items([series.number for series in of.begun()])
                folded, least, greatest = of.fold(map(pick, rows))
                of.folded.extend(pieces, folded, durations)
                of.lowest.extend(pieces, least, durations)
                of.highest.extend(pieces, greatest, durations)
        self._extend_series(self.series_axis.extend(begins, ends, behind_hole), rows, durations)
        del self._begins[:intervals], self._ends[:intervals], self._behind_hole[:intervals], self._rows[:intervals]
        self._drained += intervals

    def _extend_series(self, pieces: list[Piece], rows: list[array[float]], durations: list[int]) -> None:
        """Continue the curves of single series."""
        if self.series_axis.stride == 1:
            for series, values in zip(self._series, zip(*rows)):
                if series.curve is not None:
                    series.curve.extend(pieces, values, durations)
            return
        for column, first, stop in pieces:
            block, weights = rows[first:stop], durations[first:stop]
            duration = sum(weights)
            weighted = map(sum, zip(*(map(mul, row, repeat(weight)) for row, weight in zip(block, weights))))
            least: Iterable[float] = block[0]
            greatest: Iterable[float] = block[0]
            if self.series_axis.has_bands and len(block) > 1:
                least, greatest = map(min, *block), map(max, *block)
            for series, total, low, high in zip(self._series, weighted, least, greatest):
                if series.curve is None:
                    continue
                if total == total:
                    series.curve.add(column, duration, total, low, high)
                else:  # a nan: intervals without a value
                    series.curve.extend([(column, 0, len(block))], [row[series.number] for row in block], weights)

    def _begin(self, series: SeriesCurve, of: TypeCurves) -> None:
        """A series has its first values in the buffer."""
        series.begun = True
        columns = math.ceil(self._expected / self.series_axis.stride)
        if (self._kept + 1) * columns <= 2 * CELLS:
            series.curve = Curve(self.series_axis.stride, self.series_axis.has_bands)
            self._kept += 1
        else:
            self.without_curve += 1
        if of.folded is None or (of.sums and self._drained):  # sums so far lacked this series
            if of.folded is not None:
                of.partial = self._drained
            of.begin(self.axis)

    def finish(self) -> None:
        """Complete the curves."""
        try:
            self._drain(len(self._ends))
            for of in self.types.values():
                for curve in (of.folded, of.lowest, of.highest, *(series.curve for series in of.series)):
                    if curve is not None:
                        curve.close()
        except Exception:
            self.fault = self.fault or traceback.format_exc()
