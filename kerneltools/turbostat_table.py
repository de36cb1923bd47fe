# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The output of turbostat, of every version, as one block of rows for each interval.

A block is a summary row ("-" in the topology columns) and one row for each CPU. Values of a core stand only on the row
of its first thread, those of a package only on the row of its first CPU: the other rows end early or have empty fields.
Time_Of_Day_Seconds is the moment at which a row's counters were read, the end of its interval; CPUs are read one after
the other, and the summary has the last one's (turbostat.c, sum_counters).

Until 2016 a package's and a core's number stood on the row of its first CPU only, with "-" on the others, before 2014
with blanks there and in all of the summary. People keep tables that blanks separate; fields that are missing at the end
of a row are missing in `Row.fields`, too, whatever separates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Callable, NamedTuple

from kerneltools import limits
from kerneltools.clock import LAST_EPOCH
from kerneltools.limits import Distinct
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile

TIME = "Time_Of_Day_Seconds"
# In turbostat's order; what precedes the first column that is none of these says where a row belongs.
TOPOLOGY = ("Package", "Die", "L3", "Node", "Module", "Core", "CPU", "APIC", "X2APIC")
LEADING = {"usec", TIME, *TOPOLOGY}
# Tables of before 2014 have one of the first, and what they call the columns of places.
OLD = {"%c0", "GHz"}
OLD_TOPOLOGY = {"pk": "Package", "pkg": "Package", "cr": "Core", "cor": "Core", "core": "Core"}
FEWEST_FIELDS = 4  # of a line of numbers that is taken for a row where no header tells
READING_TIME = 0.005  # seconds between two rows of one interval where nothing else tells whether they are

_NAME = re.compile(r"[A-Za-z%][^\t:,=()]*")
_WORD = re.compile(r"\S+")
_COLUMN = re.compile(r"[A-Za-z]+ idle\S*|\S+")  # "haltpoll idle%" is one, the only name with a blank that is met
_WHOLE = re.compile(r"-?[0-9]+\.[0-9]{2}")  # a number that turbostat printed to its end: "%.2f"
_NO_ROW = re.compile(r"^[^0-9\-\n].*$", re.MULTILINE)
_PLACE = re.compile(r"[0-9]{1,7}")

Fields = list[str]


class Where(NamedTuple):
    """Where a row belongs, as far as its topology columns tell; nowhere in particular: the whole machine."""

    package: int | None = None
    die: int | None = None
    core: int | None = None
    cpu: int | None = None


MACHINE = Where()


class Header:
    """The columns of a table: their names, and which of them hold the time and the place of a row."""

    def __init__(self, line: str, names: Fields, spans: list[tuple[int, int]]) -> None:
        self.line = line
        self.names = names
        self._spans = spans  # first and last + 1 character of each name where blanks separate the columns, else empty
        leading = next((index for index, name in enumerate(names) if name not in LEADING), len(names))
        # the last name may be cut: "CPU" of "CPU%c1"
        self.is_damaged = any(name in TOPOLOGY for name in names[leading:-1])
        self.time = names.index(TIME) if TIME in names else -1
        places = [index for index in range(leading) if names[index] in TOPOLOGY]
        self.topology = slice(places[0], places[-1] + 1) if places else slice(0, 0)
        self.has_cpus = "CPU" in names[self.topology]
        self.is_old = not OLD.isdisjoint(names)
        self.is_terse = False  # whether rows leave out of their place what the row above says
        self.places: dict[tuple[str, ...], Where] = {}

    @property
    def has_topology(self) -> bool:
        """Whether rows say where they belong."""
        return self.topology.stop > 0

    def split(self, line: str) -> Fields:
        """The fields of a row, the first for the first column."""
        if "\t" in line:
            return line.split("\t")
        words = line.split()
        if not self._spans or len(words) >= len(self.names):
            return words
        return self._aligned(line) or words

    def _aligned(self, line: str) -> Fields:
        """The words of a row by the columns they stand under; none where that is not clear of each of them."""
        fields = [""] * len(self.names)
        last = 0
        for word in _WORD.finditer(line):
            under = [column for column, (start, end) in enumerate(self._spans) if word.start() < end and start < word.end()]
            if len(under) != 1 or fields[under[0]]:
                return []
            last = under[0]
            fields[last] = word.group()
        # a row that ends early does so here, too
        return fields[: last + 1] if self.is_old or all(fields[self.topology]) else []

    def place(self, fields: Fields) -> Where | None:
        """Where the row belongs; None where its topology columns do not read as such."""
        key = tuple(fields[self.topology])
        where = self.places.get(key)
        if where is None:
            texts = [text.strip() or ("-" if self.is_old else "") for text in key]
            if len(texts) < self.topology.stop - self.topology.start or not all(t == "-" or _PLACE.fullmatch(t) for t in texts):
                return None
            told = dict(zip(self.names[self.topology], texts))
            where = Where(*(int(told[name]) if told.get(name, "-") != "-" else None for name in ("Package", "Die", "Core", "CPU")))
            if where == MACHINE:
                if any(text != "-" for text in texts):
                    return None
                where = MACHINE
            limits.check(len(self.places), limits.MOST_PLACES, "places")
            limits.check(sum(map(len, key)), limits.LONGEST_NAME, "characters in the name of a place")
            if where.cpu is not None and "-" in (told.get("Package"), told.get("Die"), told.get("Core")):
                self.is_terse = True
            self.places[key] = where
        return where


def _beneath(where: Where, above: Where) -> Where:
    """The place of a CPU's row, completed from the row above it where it leaves out what has not changed."""
    if where.cpu is None or (where.package is not None and where.package != above.package):
        return where
    die = where.die if where.die is not None else above.die
    core = where.core if where.core is not None else above.core
    return Where(above.package, die, core, where.cpu)


class Row(NamedTuple):
    """A row of the table; time is None where it has none."""

    where: Where
    time: float | None
    header: Header
    fields: Fields
    line: int
    follows_header: bool


class Form:
    """The places of a block's rows in their order, the summary first. Most blocks have the form of the one before, and then
    their rows need not be looked at one by one."""

    def __init__(self, header: Header, places: list[Where], topologies: list[Fields]) -> None:
        self.header = header
        self.places = places
        self.topologies = topologies  # the fields that tell the places

    @classmethod
    def of(cls, block: Block) -> Form | None:
        """The form of a block; None where it has none that could be known again."""
        if block.summary is None:
            return None
        header = block.summary.header
        rows = [block.summary, *block.rows.values()]
        if header.time < 0 or not header.has_topology or header.is_terse or any(row.header is not header for row in rows):
            return None
        return cls(header, [row.where for row in rows], [row.fields[header.topology] for row in rows])


class Alike(NamedTuple):
    """Rows of a form that is known: their fields and times, and the number of their first line."""

    form: Form
    fields: list[Fields]
    times: list[float]
    line: int
    follows_header: bool

    def rows(self) -> list[Row]:
        """The rows one by one."""
        header, first = self.form.header, self.line
        return [
            Row(where, time, header, fields, first + place, self.follows_header and place == 0)
            for place, (where, time, fields) in enumerate(zip(self.form.places, self.times, self.fields))
        ]


class Block:
    """The rows of one interval: the summary, and by CPU (or whatever tells them apart) the others in turbostat's order.

    alike: the same rows at once, where the block has a form that is known.
    """

    __slots__ = ("_rows", "_summary", "alike", "lines_lost", "time")

    def __init__(self, lines_lost: bool, alike: Alike | None = None) -> None:
        self._summary: Row | None = None
        self._rows: dict[object, Row] = {}
        self.alike = alike
        self.time: float | None = alike.times[0] if alike is not None else None
        self.lines_lost = lines_lost  # whether lines before or within it could not be read

    @property
    def summary(self) -> Row | None:
        """The summary's row."""
        self._look_at_each()
        return self._summary

    @property
    def rows(self) -> dict[object, Row]:
        """The other rows."""
        self._look_at_each()
        return self._rows

    @property
    def line(self) -> int:
        """The number of its first line."""
        if self.alike is not None:
            return self.alike.line
        first = self._summary or next(iter(self._rows.values()))
        return first.line

    def add(self, row: Row) -> None:
        """Take a row. The interval ends when the last CPU was read, which is the summary's time."""
        self._look_at_each()
        self.alike = None
        if row.where is MACHINE:
            self._summary = row
            self.time = row.time
            return
        self._rows[_identity(row.where)] = row
        if row.time is not None and (self.time is None or (self._summary is None and row.time > self.time)):
            self.time = row.time

    def _look_at_each(self) -> None:
        if self.alike is not None and self._summary is None:
            self._summary, *rows = self.alike.rows()
            self._rows = {_identity(row.where): row for row in rows}


def _identity(where: Where) -> object:
    return where if where.cpu is None else where.cpu


def _is_early(row: Row, block: Block, before: float | None) -> bool:
    """Whether a row was read before the block's interval began, at the time of the block before: it is of another."""
    return row.time is not None and block.time is not None and before is not None and row.time <= before < block.time


def _closed(block: Block, before: float | None, distance: float) -> tuple[float, float | None]:
    """The distance between a block that is complete and the one before it, and its time; what they were where it has none."""
    if block.time is None:
        return distance, before
    return block.time - before if before is not None and block.time > before else distance, block.time


class _Lines:
    """The lines of an output, with a look at those that follow; number: of the line that was last given, from 1."""

    def __init__(self, raw: RawFile) -> None:
        self._pieces = raw.pieces()
        self._lines: list[str] = []
        self._position = 0
        self.number = 0

    def next(self) -> str | None:
        """The next line, None at the end."""
        while self._position == len(self._lines):
            if not self._read():
                return None
        line = self._lines[self._position]
        self._position += 1
        self.number += 1
        return line

    def peek(self, count: int) -> list[str]:
        """The lines that follow, as many as there are up to that number."""
        while len(self._lines) - self._position < count and self._read():
            pass
        return self._lines[self._position : self._position + count]

    def skip(self, count: int) -> None:
        """Pass so many lines that were looked at."""
        self._position += count
        self.number += count

    def skip_alike(self, line: str) -> int:
        """Pass lines like this one, as far as they are at hand; how many they were."""
        first = self._position
        while self._position < len(self._lines) and self._lines[self._position] == line:
            self._position += 1
        self.number += self._position - first
        return self._position - first

    def _read(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        if self._position == len(self._lines) and piece.isspace():
            self.number += piece.count("\n") + 1
            return True
        self._lines = self._lines[self._position :] + piece.split("\n")
        self._position = 0
        return True


def read_time(text: str) -> float | None:
    """A Time_Of_Day_Seconds; None where it is none."""
    try:
        time = float(text)
    except ValueError:
        return None
    return time if 0 < time < LAST_EPOCH else None


class Table:
    """turbostat's output, readable any number of times.

    is_column: whether a name is one of the catalogue's columns; by these a header is told from free text.
    """

    def __init__(self, raw: RawFile, subtool: str, is_column: Callable[[str], bool]) -> None:
        self._raw = raw
        self._subtool = subtool
        self._is_column = is_column
        self._headers: dict[str, Header] = {}  # all of the output: one that is cut is completed from a whole one
        self._columns = Distinct(limits.MOST_HEADERS, "headers")
        self._cut_line = 0  # number of a last line without its line feed
        self._lines_lost = False
        self._form: Form | None = None  # of the last block that was not of a known one
        self._find_headers()
        self._are_rows_of_cpus = self._look_for_rows_of_cpus()

    def blocks(self, log: Log) -> Iterator[Block]:
        """The intervals in the output's order; what cannot be read is counted in `log` by line."""
        self._form = None
        self._lines_lost = False
        block: Block | None = None
        before: float | None = None  # time of the block before
        distance = 0.0
        for found in self._rows(log):
            rows: Iterable[Row] = (found,) if isinstance(found, Row) else ()
            if isinstance(found, Alike):
                # it begins with a summary, and so begins a block
                if block is not None:
                    distance, before = _closed(block, before, distance)
                    yield block
                    block = None
                late = 0 < distance < 2 * (max(found.times) - found.times[0])
                early = before is not None and min(found.times) <= before < found.times[0]
                if not late and not early:
                    block = Block(self._lines_lost, found)
                    self._lines_lost = False
                    continue
                rows = found.rows()
            for row in rows:
                if block is not None and self._is_repeated(row, block):
                    log.lost(self._subtool, "a second row of one place in one interval is not published", f"line {row.line}")
                    continue
                if block is None or self._begins_block(row, block, distance):
                    if block is not None:
                        distance, before = _closed(block, before, distance)
                        if block.alike is None:
                            self._form = Form.of(block)
                        yield block
                    block = Block(self._lines_lost)
                    self._lines_lost = False
                elif _is_early(row, block, before):
                    log.lost(self._subtool, "rows with a time before their interval are not published", f"line {row.line}")
                    self._lines_lost = True
                    continue
                elif row.where is MACHINE or _identity(row.where) in block.rows:
                    what = "rows beside the summary's that do not say where they belong are not published"
                    log.note(self._subtool, what, f"line {row.line}")
                    continue
                block.add(row)
                if self._lines_lost:
                    block.lines_lost = True
                    self._lines_lost = False
        if block is not None:
            yield block

    def _find_headers(self) -> None:
        lines = 0
        for piece in self._raw.pieces():
            lines += piece.count("\n") + 1
            if not piece.isspace():
                for line in dict.fromkeys(_NO_ROW.findall(piece)):
                    self._header(line)
        self._cut_line = lines if self._raw.last_line_cut else 0

    @staticmethod
    def _is_repeated(row: Row, block: Block) -> bool:
        """Whether the place had its row already, although the interval is not over: where the number of a CPU is damaged."""
        if row.where is MACHINE or not row.header.has_cpus or row.time is None or block.time is None or block.summary is None:
            return False
        return row.time <= block.time and _identity(row.where) in block.rows

    def _begins_block(self, row: Row, block: Block, distance: float) -> bool:
        """Whether the row is of another interval than the block; distance: between the two blocks before, 0 if unknown."""
        later = row.time - block.time if row.time is not None and block.time is not None else None
        if row.where is not MACHINE:
            is_late = later is not None and (0 < distance < 2 * later or (not row.header.has_cpus and later > READING_TIME))
            # without a CPU column all CPUs of a core or package have rows of that place
            return is_late or (_identity(row.where) in block.rows if row.header.has_cpus else row.follows_header)
        if row.header.has_topology or row.follows_header or block.summary is None:
            return True
        # no topology columns: with --Summary each row is an interval, else the summary is followed by rows of the CPUs
        if later is not None:
            return later > READING_TIME
        return not self._are_rows_of_cpus

    def _look_for_rows_of_cpus(self) -> bool:
        """Whether of rows that tell neither a place nor a time only the first after each header is of the machine, the
        others of CPUs: these lack what stands once a core or package, and --Summary does not repeat the header."""
        if all(header.has_topology or header.time >= 0 for header in self._headers.values()):
            return False
        sizes: dict[int, int] = {}  # rows under one header -> how often
        size = short = others = 0
        whole: set[int] = set()
        for row in self._rows(Log()):
            if isinstance(row, Alike) or row.header.has_topology or row.header.time >= 0 or row.line == self._cut_line:
                continue
            filled = {index for index, text in enumerate(row.fields) if text.strip()}
            if row.follows_header:
                sizes[size] = sizes.get(size, 0) + 1
                size, whole = 0, filled
            else:
                others += 1
                short += not whole <= filled
            size += 1
        sizes[size] = sizes.get(size, 0) + 1
        sizes.pop(0, None)
        usual = max(sizes, key=lambda one: sizes[one], default=1)
        # a few short rows are damage
        return 0 < others <= 10 * short or (usual > 1 < sizes[usual] and 2 * sizes[usual] > sum(sizes.values()))

    def _rows(self, log: Log) -> Iterator[Row | Alike]:
        header: Header | None = None
        follows_header = False
        above = MACHINE  # the place of the row above, where that is known
        lines = _Lines(self._raw)
        while (line := lines.next()) is not None:
            if not line or line.isspace():
                continue
            number = lines.number
            if header is not None:
                if line == header.line:
                    if follows_header:
                        self._lose(log, "headers without a row", number, line)
                    follows_header = True
                    continue
                if self._form is not None and self._form.header is header:
                    alike = self._alike(self._form, line, lines, follows_header)
                    if alike is not None:
                        above = alike.form.places[-1]
                        yield alike
                        follows_header = False
                        continue
                fields = header.split(line)
                where = header.places.get(tuple(fields[header.topology])) if header.has_topology else None
                if where is not None and len(fields) <= len(header.names) and number != self._cut_line:
                    time = read_time(fields[header.time]) if 0 <= header.time < len(fields) else None
                    if time is not None or header.time < 0:
                        if header.is_terse:
                            where = _beneath(where, above)
                        above = where
                        yield Row(where, time, header, fields, number, follows_header)
                        follows_header = False
                        continue
            # any line that is not plainly a row of a place that is known already
            found = self._header(line)
            if found is not None:
                if follows_header:
                    self._lose(log, "headers without a row", number, line)
                header, follows_header = found, True
                continue
            row = self._row(line, lines, header, follows_header, log)
            if row is None:
                above = MACHINE  # it may have been of any place
            else:
                header, follows_header = row.header, False
                if header.is_terse:
                    row = row._replace(where=_beneath(row.where, above))
                above = row.where
                yield row

    def _alike(self, form: Form, line: str, lines: _Lines, follows_header: bool) -> Alike | None:
        """The rows from this line on, where they have that form; they are taken from `lines` then."""
        header, first = form.header, lines.number
        fields = line.split("\t")
        if fields[header.topology] != form.topologies[0] or first <= self._cut_line < first + len(form.places):
            return None
        following = lines.peek(len(form.places) - 1)
        all_fields = [fields, *(text.split("\t") for text in following)]
        if [one[header.topology] for one in all_fields] != form.topologies or max(map(len, all_fields)) > len(header.names):
            return None
        try:
            times = [float(one[header.time]) for one in all_fields]
        except (ValueError, IndexError):
            return None
        if not all(0 < time < LAST_EPOCH for time in times):
            return None
        lines.skip(len(following))
        return Alike(form, all_fields, times, first, follows_header)

    def _header(self, line: str) -> Header | None:
        """The header that the line is; None where it is none."""
        header = self._headers.get(line)
        if header is not None:
            return header
        if "\t" in line:
            names, spans = [name.strip() for name in line.split("\t")], []
        else:
            words = list(_COLUMN.finditer(line))
            names, spans = [word.group() for word in words], [word.span() for word in words]
            if not OLD.isdisjoint(names):
                names = [OLD_TOPOLOGY.get(name, name) for name in names]
        while names and not names[-1]:
            names.pop()
        if not names or max(map(len, names)) > limits.LONGEST_NAME or not all(map(_NAME.fullmatch, names)):
            return None
        known = sum(name in LEADING or self._is_column(name) for name in names)
        is_led = len(names) > 1 and LEADING.issuperset(names[:2])
        if known < len(names) and (known < 2 or (known * 4 < len(names) and not is_led)):
            return None
        header = Header(line, names, spans)
        if header.is_damaged:
            return None
        self._headers[line] = header
        self._columns.add({tuple(names)})
        return header

    def _row(self, line: str, lines: _Lines, header: Header | None, follows_header: bool, log: Log) -> Row | None:
        """The row that the line is; None, and counted in the log with those like it that follow, where it is none. Its header
        may be longer than `header`."""
        number = lines.number
        if header is None:
            times = 1 + lines.skip_alike(line)
            words = line.split()
            if re.match(r"\s*[-0-9]", line) if "\t" in line else len(words) >= FEWEST_FIELDS and _is_numeric(words):
                self._lose(log, "rows before the first header", number, line, times)
            return None
        fields = header.split(line)
        cut = number == self._cut_line
        if cut and (not _WHOLE.fullmatch(fields[-1]) or len(fields) - 1 == header.time):
            fields = fields[:-1]  # whatever it reads, it may have been longer
        while len(fields) > len(header.names) and not fields[-1].strip():
            fields.pop()
        if len(fields) > len(header.names):
            whole = self._whole(header, len(fields))
            if whole is not None:
                self._lose(log, "headers that are cut are completed from a whole one", number, line)
                header = whole
            elif header.place(fields) is not None:
                self._lose(log, "rows with more fields than their header has columns", number, line)
                return None
        where = header.place(fields) if header.has_topology or _is_numeric(fields) else None
        if where is None:
            times = 1 + lines.skip_alike(line)
            if cut or _is_damaged(line, header):
                self._lose(log, "unreadable lines", number, line, times)
            else:
                log.note(self._subtool, "lines between the rows that are none", f"line {number}: {shown(line)!r}", times)
            return None
        if cut and len(fields) < len(header.names):
            self._lose(log, "the last line is cut", number, line)
            self._lines_lost = False  # the rest of it is there
        time = read_time(fields[header.time]) if 0 <= header.time < len(fields) else None
        if time is None and header.time >= 0:
            # of which interval it is nobody knows
            self._lose(log, "rows whose time cannot be read", number, line)
            return None
        return Row(where, time, header, fields, number, follows_header)

    def _whole(self, cut: Header, columns: int) -> Header | None:
        """The header, met anywhere in the output, of which `cut` is the beginning and that has enough columns."""
        for line, header in self._headers.items():
            if line.startswith(cut.line) and len(header.names) >= columns:
                return header
        return None

    def _lose(self, log: Log, what: str, number: int, line: str, times: int = 1) -> None:
        log.lost(self._subtool, what, f"line {number}: {shown(line)!r}", times)
        self._lines_lost = True


def _is_numeric(fields: Fields) -> bool:
    """Whether every field is a number or what turbostat writes for one that it does not have."""
    return all(not text.strip() or text.strip()[0] in "-0123456789*(" or text.strip().endswith(("nan", "inf")) for text in fields)


def _is_damaged(line: str, header: Header) -> bool:
    """Whether a line that is no row looks like what is left of one, rather than like turbostat's remarks."""
    if "\t" in header.line:
        return "\t" in line or not line.isprintable()
    return line.lstrip()[0] in "-0123456789" or not line.isprintable()
