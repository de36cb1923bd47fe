# SPDX-License-Identifier: Apache-2.0
"""The output of `toplev.py -x, -I`, of every version, as intervals of rows.

A row is one node of the top-down tree in one interval, for the whole system or for what its CPUs column names. Versions
from 4 on begin with a header, which may or may not have that column, and end with a line "# <version> on <CPU>". Before,
there was neither: 9 fields a row, 10 with CPUs (or one more each, the last column of today).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from kerneltools import limits
from kerneltools.clock import Times, is_time
from kerneltools.limits import MOST_SERIES, Distinct
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile

FIRST_COLUMN = "Timestamp"
# What a row must tell; CPUs may be missing.
COLUMNS = (FIRST_COLUMN, "Area", "Value", "Unit")
CPUS = "CPUs"
SUMMARY = "SUMMARY"  # in the place of a time: what toplev sums up at the end
FIELDS_WITHOUT_HEADER = (9, 10)  # and one more each with CPUs
STARTS_TRIED = 8  # places in a broken line where a whole row may begin, from its end

_CPUS = re.compile(r"(?:S[0-9]+(?:-D[0-9]+)?)?(?:-?C[0-9]+)?(?:-?T[0-9]+)?(?:-(?:core|atom))?|(?:CPU)?[0-9]+(?:-(?:core|atom))?|core|atom")
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_FIRST_FIELD = re.compile(r"[0-9]+\.[0-9]+([^0-9A-Za-z.])")
_ROW_START = re.compile(r"(?<![0-9.])[0-9]+\.[0-9]+[^0-9A-Za-z.][A-Z0-9]")
# what stands above the rows of one kind where toplev prints several
_TITLE = re.compile(r"(?:Per thread|Per core|Per socket|Global):")


class Row(NamedTuple):
    """One node's value: time in seconds since perf began to count; cpus "" for the whole system; area the node's
    dotted path; value and unit as toplev writes them."""

    time: float
    cpus: str
    area: str
    value: str
    unit: str


class Reading(NamedTuple):
    """The rows of one interval in their order, as (cpus, area, value, unit). time, line, lost_before, lost_within: as
    clock.Read says."""

    time: float
    line: int
    lost_before: bool
    lost_within: bool
    rows: list[tuple[str, str, str, str]]


class _Lines:
    """Takes lines apart, by the last header or, where there was none, by what the fields read like."""

    def __init__(self) -> None:
        self.has_header = False
        self._delimiter = ""
        self._columns: list[str] = []
        self._index: dict[str, int] = {}

    def row(self, line: str) -> Row | None:
        """The row in a line, None where the line is none and is not meant to be; raises ValueError where it cannot be
        read, also for bytes that are no UTF-8."""
        line = line.rstrip("\r")
        if not line or line.isspace() or line.startswith("#") or _TITLE.fullmatch(line):
            return None
        if line.startswith(FIRST_COLUMN) and len(line) > len(FIRST_COLUMN):
            self._take_header(line)
            return None
        if not line.isascii():
            line.encode("utf-8")  # a lone surrogate stands for a byte that was no UTF-8: do not trust the rest either
        if not self.has_header:
            return _row_without_header(line)
        fields = _split(line, self._delimiter)
        if len(fields) != len(self._columns):
            raise ValueError(f"{len(fields)} fields, the header has {len(self._columns)}")
        time, area, value, unit = (fields[self._index[name]] for name in COLUMNS)
        return _checked(time, fields[self._index[CPUS]] if CPUS in self._index else "", area, value, unit)

    def _take_header(self, line: str) -> None:
        delimiter = line[len(FIRST_COLUMN)]
        columns = _split(line, delimiter)
        index = {name: number for number, name in enumerate(columns)}
        missing = [name for name in COLUMNS if name not in index]
        if missing:
            raise ValueError(f"a header without {', '.join(missing)}")
        if any(columns.count(name) > 1 for name in (*COLUMNS, CPUS)):
            raise ValueError("a header that has a column twice")
        self.has_header = True
        self._delimiter, self._columns, self._index = delimiter, columns, index


def _split(line: str, delimiter: str) -> list[str]:
    """The fields of a line; raises ValueError where its quoting is broken."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration) as error:
        raise ValueError(str(error)) from None


def _row_without_header(line: str) -> Row | None:
    match = _FIRST_FIELD.match(line) or re.match(SUMMARY + r"([^A-Za-z])", line)
    if not match:
        raise ValueError("no time at its beginning")
    time, *fields = _split(line, match.group(1))
    cpus = fields.pop(0) if fields and fields[0] and _CPUS.fullmatch(fields[0]) else ""
    if len(fields) + 1 not in FIELDS_WITHOUT_HEADER:
        raise ValueError(f"{len(fields) + 1} fields beside the CPUs")
    return _checked(time, cpus, *fields[:3])


def _checked(time: str, cpus: str, area: str, value: str, unit: str) -> Row | None:
    if time == SUMMARY:
        return None
    try:
        seconds = float(time)
    except ValueError:
        raise ValueError("no time at its beginning") from None
    if not is_time(seconds) or not _PATH.fullmatch(area):
        raise ValueError("no time" if not is_time(seconds) else "no node's path")
    if max(len(cpus), len(area)) > limits.LONGEST_NAME:
        raise ValueError(f"more than {limits.LONGEST_NAME} characters in a name")
    return Row(seconds, cpus, area, value, unit)


def _glued_row(lines: _Lines, line: str) -> Row | None:
    """The whole row at the end of a line that begins with a cut one."""
    for match in list(_ROW_START.finditer(line))[: -1 - STARTS_TRIED : -1]:
        if match.start() > 0:
            try:
                return lines.row(line[match.start() :])
            except ValueError:
                continue
    return None


class Reader:
    """Reads an output once. What the whole of it tells is there when `readings` has ended.

    times: of its intervals; nodes: every (cpus, area) there is; tail_damage: what is wrong with the output's end, "" where
    it is whole. What cannot be read is counted in the log by line.
    """

    def __init__(self, raw: RawFile, subtool: str, log: Log) -> None:
        self._raw = raw
        self._subtool = subtool
        self._log = log
        self.times = Times()
        self.nodes = Distinct(MOST_SERIES, "nodes and places")
        self.tail_damage = ""

    def readings(self) -> Iterator[Reading]:
        """The intervals with their rows; consecutive rows of one time are one interval."""
        lines = _Lines()
        reading: Reading | None = None
        lost = False  # lines since the last good row
        last_line = ""
        last_is_row = False
        size = 0
        for number, line, times in self._raw.numbered():
            if line.isspace():
                continue
            last_line = line
            try:
                row = lines.row(line)
                last_is_row = row is not None
            except ValueError as error:
                self._log.lost(self._subtool, "unreadable lines", f"line {number} ({error}): {shown(line)!r}", times)
                last_is_row = False
                lost = True
                row = _glued_row(lines, line)
            if row is None:
                continue
            if reading is not None and lost:
                reading = reading._replace(lost_within=True)
            if reading is None or row.time != reading.time:
                if reading is not None:
                    yield reading
                self.times.add(row.time)
                reading = Reading(row.time, number, lost, False, [])
                size = 0
            lost = False
            self.nodes.add({(row.cpus, row.area)})
            reading.rows.extend([row[1:]] * times)
            size += len(line)
            limits.check(len(reading.rows), limits.MOST_RECORDS, "rows in one interval")
            limits.check(size, limits.MOST_TEXT, "characters in one interval")
        if reading is not None:
            yield reading._replace(lost_within=lost)
        if self._raw.damage:
            self._log.lost(self._subtool, f"{self._raw.path.name} is damaged: what follows the damage is lost", self._raw.damage)
        self.tail_damage = self._raw.damage
        if not self.tail_damage and last_line and not last_line.startswith("#"):
            if not last_is_row:
                self.tail_damage = "its last line is cut"
            elif lines.has_header:
                self.tail_damage = "toplev's closing line is missing: it was ended before it had written all"
