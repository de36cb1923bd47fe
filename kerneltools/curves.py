# SPDX-License-Identifier: Apache-2.0
"""What a chart needs of the samples that are published, kept while they pass, in memory that the run's length does not change.

Time is cut into columns of so many intervals that a curve has about COLUMNS of them at most, and all curves together
about CELLS cells. Of each column a curve keeps the mean (weighted by duration), and, unless there are very many curves,
the least and the greatest value; a run with fewer intervals is kept as it is.

Each type has a folded curve (its series added or averaged in each interval, as its default-aggregation says) and one
curve for each series. Samples wait in a buffer, a row for each of some intervals, and go into the columns from there,
many at a time.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from math import nan
from operator import add, mul
from typing import cast

from kerneltools.frames import Series, Value, items
from kerneltools.log import trace

COLUMNS = 400  # of a curve; more than a chart has pixels
CELLS = 300_000  # of all curves of one kind, of 8 bytes each
BAND_COLUMNS = 100  # least and greatest values are kept where there is room for so many of them
BUFFERED = 100_000  # values that wait to go into curves
BREAKS = 100  # holes of the whole output that may begin a new column

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

    exact: whether each column is one interval, where the three are the same; without has_bands they hold the means only.
    """

    __slots__ = ("exact", "greatest", "has_bands", "least", "means")

    def __init__(self, axis: Axis, means: array[float], least: array[float], greatest: array[float]) -> None:
        self.exact = axis.stride == 1
        self.has_bands = axis.has_bands
        self.means = means
        self.least = least
        self.greatest = greatest


class _Column:
    """A column of many curves: of each its values times their durations, the durations, the least and the greatest value."""

    def __init__(self, number: int, rows: list[Sequence[float]], durations: list[int], has_bands: bool) -> None:
        """rows: of each interval the value of each curve, nan for none."""
        self.number = number
        self.alone = rows[0] if len(rows) == 1 else None  # its only interval
        self.weighted: list[float] = list(map(sum, zip(*(map(mul, row, repeat(duration)) for row, duration in zip(rows, durations)))))
        self.durations = [sum(durations)] * len(self.weighted)
        self.least: list[float] = list(map(min, *rows)) if has_bands and len(rows) > 1 else list(rows[0])
        self.greatest: list[float] = list(map(max, *rows)) if has_bands and len(rows) > 1 else list(rows[0])
        if math.isnan(sum(self.weighted)):
            for place, total in enumerate(self.weighted):
                if total != total:
                    there = [(row[place], duration) for row, duration in zip(rows, durations) if row[place] == row[place]]
                    self.weighted[place] = sum(value * duration for value, duration in there)
                    self.durations[place] = sum(duration for _, duration in there)
                    self.least[place] = min((value for value, _ in there), default=math.inf)
                    self.greatest[place] = max((value for value, _ in there), default=-math.inf)

    def extend(self, other: _Column) -> None:
        """Continue with later intervals of the same column."""
        more = len(other.weighted) - len(self.weighted)  # curves that have begun since
        for mine, theirs, fold, nothing in (
            (self.weighted, other.weighted, add, 0.0),
            (self.durations, other.durations, add, 0),
            (self.least, other.least, min, math.inf),
            (self.greatest, other.greatest, max, -math.inf),
        ):
            mine[:] = map(fold, mine + [nothing] * more, theirs)
        self.alone = None

    def means(self) -> array[float]:
        """The mean of each curve."""
        if self.alone is not None:
            return array("d", self.alone)
        return array("d", [total / duration if duration else nan for total, duration in zip(self.weighted, self.durations)])


class _Columns:
    """The columns of curves that share an axis, by the curves' numbers; there may be more of them later."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self._open: _Column | None = None
        self._means: list[array[float]] = []
        self._least: list[array[float]] = []
        self._greatest: list[array[float]] = []

    def extend(self, pieces: list[Piece], rows: Sequence[Sequence[float]], durations: list[int]) -> None:
        """Continue with a buffer's intervals: rows of values (nan: none), and how long each lasted."""
        for number, first, stop in pieces:
            column = _Column(number, list(rows[first:stop]), durations[first:stop], self.axis.has_bands)
            if self._open is not None and self._open.number == number:
                self._open.extend(column)
            else:
                self._close()
                self._open = column

    def _close(self) -> None:
        if self._open is None:
            return
        self._means.append(self._open.means())
        if self.axis.stride > 1 and self.axis.has_bands:
            for kept, cells in ((self._least, self._open.least), (self._greatest, self._open.greatest)):
                kept.append(array("d", [cell if math.isfinite(cell) else nan for cell in cells]))
        self._open = None

    def forget(self, number: int) -> None:
        """Have a curve begin anew."""
        if self._open is not None and number < len(self._open.weighted):
            self._open.alone = None
            self._open.weighted[number], self._open.durations[number] = 0.0, 0
            self._open.least[number], self._open.greatest[number] = math.inf, -math.inf
        for cells in (*self._means, *self._least, *self._greatest):
            if number < len(cells):
                cells[number] = nan

    def curves(self, count: int) -> Iterator[Curve]:
        """So many curves, complete, in their order."""
        self._close()
        for columns in (self._means, self._least, self._greatest):
            for cells in columns:
                cells.extend([nan] * (count - len(cells)))
        means = zip(*self._means)
        if not self._least:
            for values in means:
                curve = array("d", values)
                yield Curve(self.axis, curve, curve, curve)
            return
        for values, least, greatest in zip(means, zip(*self._least), zip(*self._greatest)):
            yield Curve(self.axis, array("d", values), array("d", least), array("d", greatest))


class SeriesCurve:
    """One series: its breakouts and its curve (None: it has no sample, or is one of too many)."""

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

    def __init__(self, number: int, first: Series) -> None:
        self.number = number
        self.type = first.type
        self.unit = first.unit
        self.meaning = first.metric.meaning
        self.sums = first.metric.aggregation == "sum"
        self.series: list[SeriesCurve] = []
        self.folded: Curve | None = None
        self.lowest: Curve | None = None
        self.highest: Curve | None = None
        self.partial = 0

    def begun(self) -> list[SeriesCurve]:
        """The series that have a sample."""
        return [series for series in self.series if series.begun]

    def fold(self, rows: Iterable[Sequence[float]]) -> Iterator[tuple[float, float, float]]:
        """Of each interval the fold of the series' values, the least, and the greatest of them; nan is no value."""
        for row in rows:
            series = number = len(row)
            total = sum(row)
            if total != total:
                row = [value for value in row if value == value]  # noqa: PLW2901
                total = sum(row)
                number = len(row)
                self.partial += self.sums and number > 0
            folded = nan if number == 0 or (self.sums and number < series) else total if self.sums else total / number
            yield folded, min(row, default=nan), max(row, default=nan)


class Curves:
    """The curves of one subtool. Call `add` for each series and `publish` for each frame, as Publication does, then `finish`.

    fault: what went wrong here ("": nothing), after which nothing is kept any more; it must not cost the metrics.
    """

    def __init__(self, subtool: str, intervals: int, reach_back: int) -> None:
        """intervals: how many there can be at most; reach_back: over how many missing ones a sample may reach back."""
        self.subtool = subtool
        self.fault = ""
        self.types: dict[str, TypeCurves] = {}
        self.axis = Axis()  # of the folded curves
        self.series_axis = Axis()
        self.intervals = 0
        self.without_curve = 0  # series
        self._reach_back = reach_back
        self._expected = intervals
        self._series: list[SeriesCurve] = []
        self._folds = [_Columns(self.axis) for _ in range(3)]  # by types: the folds, the least, the greatest values
        self._columns = _Columns(self.series_axis)  # by series
        self._buffer_length = 0
        self._drained = 0
        self._begins = array("q")
        self._ends = array("q")
        self._behind_hole: list[bool] = []
        self._rows: list[array[float]] = []  # the buffer: of each interval the values of all series, by their numbers
        self._ordinal = -1

    def add(self, series: Series) -> None:
        """Register the next series."""
        of = self.types.get(series.type)
        if of is None:
            of = self.types[series.type] = TypeCurves(len(self.types), series)
        self._series.append(SeriesCurve(len(self._series), series.names))
        of.series.append(self._series[-1])

    def publish(self, begin: int, end: int, ordinal: int, values: Sequence[Value | None], earlier: dict[int, int]) -> None:
        """Take the values of an interval, by the numbers of their series; None is none.

        earlier: where samples begin that reach back before `begin`, by the series' number.
        """
        if self.fault:
            return
        try:
            self._next(begin, end, ordinal)
            filled = [nan if value is None else value for value in values] if None in values else cast("Sequence[Value]", values)
            self._rows.append(array("d", filled))
            for number, first in earlier.items():
                self._reach(number, first, self._rows[-1][number])
        except Exception:
            self.fault = trace()

    def _row_of(self, place: int) -> array[float]:
        """The row of an interval in the buffer, with a place for each series."""
        row = self._rows[place]
        if len(row) < len(self._series):
            row.extend([nan] * (len(self._series) - len(row)))
        return row

    def _reach(self, number: int, begin: int, value: float) -> None:
        """Have the present sample of a series begin earlier."""
        place = len(self._ends) - 1
        if place == 0 or self._ends[place - 1] < begin:
            self._begins[place] = min(begin, self._begins[place])  # the output lacks the intervals between
        while place > 0 and self._ends[place - 1] >= begin:
            place -= 1
            self._row_of(place)[number] = value

    def _next(self, begin: int, end: int, ordinal: int) -> None:
        if self.intervals == 1:  # as a rule all series are known by now
            self.axis.fit(self._expected, len(self.types))
            self.series_axis.fit(self._expected, len(self._series))
        if self.intervals and len(self._ends) >= self._buffer_length:
            self._buffer_length = max(2 * self._reach_back + 2, min(BUFFERED // len(self._series), 10 * COLUMNS))
            if len(self._ends) >= self._buffer_length:
                self._drain(len(self._ends) - self._reach_back)
        self._behind_hole.append(self._ordinal >= 0 and ordinal - self._ordinal - 1 > self._reach_back)
        self._begins.append(begin)
        self._ends.append(end)
        self._ordinal = ordinal
        self.intervals += 1

    def _drain(self, intervals: int) -> None:
        """Move so many intervals from the buffer into the columns."""
        rows = [self._row_of(place) for place in range(len(self._rows))]
        self._begin_series(rows)
        begins, ends, behind_hole = self._begins[:intervals], self._ends[:intervals], self._behind_hole[:intervals]
        durations = [end - begin + 1 for begin, end in zip(begins, ends)]
        del rows[intervals:]
        folds = []
        for of in self.types.values():
            pick = items([series.number for series in of.begun()])
            folds.append(list(of.fold(map(pick, rows))))
        pieces = self.axis.extend(begins, ends, behind_hole)
        for columns, by_type in zip(self._folds, zip(*([zip(*of_type) for of_type in folds]))):
            columns.extend(pieces, list(zip(*by_type)), durations)
        pieces = self.series_axis.extend(begins, ends, behind_hole)
        self._columns.extend(pieces, [row[: self._most_curves()] for row in rows], durations)
        del self._begins[:intervals], self._ends[:intervals], self._behind_hole[:intervals], self._rows[:intervals]
        self._drained += intervals

    def _most_curves(self) -> int:
        """How many series have a curve."""
        return max(1, 2 * CELLS // math.ceil(self._expected / self.series_axis.stride))

    def _begin_series(self, rows: list[array[float]]) -> None:
        """Find the series that have their first values in the buffer."""
        for of in self.types.values():
            there = of.begun()
            new = [one for one in of.series if not one.begun and any(row[one.number] == row[one.number] for row in rows)]
            for series in new:
                series.begun = True
            if new and there and of.sums and self._drained:  # sums so far lacked these series
                of.partial = self._drained
                for columns in self._folds:
                    columns.forget(of.number)

    def finish(self) -> None:
        """Complete the curves."""
        try:
            self._drain(len(self._ends))
            folded = zip(*(columns.curves(len(self.types)) for columns in self._folds))
            for of, curves in zip(self.types.values(), folded):
                if of.begun():
                    of.folded, of.lowest, of.highest = curves
            for series, curve in zip(self._series, self._columns.curves(min(len(self._series), self._most_curves()))):
                series.curve = curve if series.begun else None
            self.without_curve = sum(series.begun and series.curve is None for series in self._series)
        except Exception:
            self.fault = self.fault or trace()
