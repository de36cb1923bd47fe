# SPDX-License-Identifier: Apache-2.0
"""The output of turbostat, of every version, as one block of rows for each interval.

A block is a summary row ("-" in the topology columns) and one row for each CPU. Values of a core stand only on the row
of its first thread, those of a package only on the row of its first CPU: the other rows end early or have empty fields.
Time_Of_Day_Seconds is the moment at which a row's counters were read, the end of its interval; CPUs are read one after
the other, and the summary has the last one's (turbostat.c, sum_counters).

Until 2016 a package's and a core's number stood on the row of its first CPU only, with "-" on the others, before 2014
with blanks there and in all of the summary. People keep tables that blanks separate; fields that are missing at the end
of a row are missing among those of `Row`, too, whatever separates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from kerneltools.clock import LAST_EPOCH
from kerneltools.frames import Spool
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile
from kerneltools.turbostat_columns import Columns
from kerneltools.turbostat_header import Fields, Header, Headers, Kind
from kerneltools.turbostat_places import MACHINE

FEWEST_FIELDS = 4  # of a line of numbers that is taken for a row where no header tells
READING_TIME = 0.005  # seconds between two rows of one interval where nothing else tells whether they are

_WHOLE = re.compile(r"-?[0-9]+\.[0-9]{2}")  # a number that turbostat printed to its end: "%.2f"

Piece = tuple[str, bool]  # lines of the output, and whether they are only what is there of the last one
Row = tuple[Kind, "float | None", Fields, int, bool]  # its kind, time and fields, its line, whether a header is right above it


class Rows:
    """The rows of an output in its order; what cannot be read is counted in the log by line.

    lines_lost: whether such lines stand behind the last row that was asked about, for who asks to reset. are_of_cpus: of rows
    that tell neither a place nor a time, whether only the first after each header is of the machine, the others of CPUs.
    is_cut: whether the row that was given last is what is there of the last line.
    """

    def __init__(
        self, pieces: Iterable[Piece], headers: Headers, subtool: str, log: Log, header: Header | None, spool: Spool | None
    ) -> None:
        """header: the line before is that; spool: beside which what follows is kept where it must be looked at first, None
        where it was looked at."""
        self._pieces = iter(pieces)
        self._headers = headers
        self._subtool = subtool
        self._log = log
        self._spool = spool
        self._header = header
        self._follows_header = header is not None
        # the piece at hand
        self._lines: list[str] = []
        self._first = 1  # number of its first line
        self.is_cut = False
        self.lines_lost = False
        self.are_of_cpus = False

    def __iter__(self) -> Iterator[Row]:
        above = MACHINE  # the place of the row above, where that is known
        for text, is_cut in self._remaining():
            self._first += len(self._lines)
            self._lines, self.is_cut = text.split("\n"), is_cut
            header, passed = None, 0
            for number, line in enumerate(self._lines, self._first):
                if number < passed:
                    continue
                if header is None and self._header is not None:
                    header = self._header
                    # rows of these kinds are no headers and no remarks: their place says so
                    kinds = header.kinds if header.has_topology and not is_cut else {}
                    topology = header.topology
                kind = None
                if header is not None:
                    fields = line.split("\t") if "\t" in line else header.split(line)
                    kind = kinds.get((len(fields), *fields[topology]))
                if kind is None:
                    if not line or line.isspace():
                        continue
                    header = None  # it may be another from here on
                    if self._begins_header(line, number):
                        continue
                    row = self._row(line, number)
                    if not isinstance(row, tuple):
                        above = MACHINE  # it may have been of any place
                        passed = number + row
                        continue
                    kind, fields = row
                time, clock = None, kind.header.time
                if clock >= 0:
                    try:
                        time = float(fields[clock])
                    except (ValueError, IndexError):
                        time = 0.0
                    if not 0 < time < LAST_EPOCH:
                        # of which interval it is nobody knows
                        self._lose("rows whose time cannot be read", number, line)
                        above = MACHINE
                        continue
                if kind.header.is_terse:
                    kind = kind.header.beneath(kind, above)
                above = kind.where
                yield kind, time, fields, number, self._follows_header
                self._follows_header = False

    def _remaining(self) -> Iterator[Piece]:
        """The pieces, wherever they are kept."""
        while (piece := next(self._pieces, None)) is not None:
            yield piece

    def _begins_header(self, line: str, number: int) -> bool:
        """Whether the line is a header, which is taken for that of the rows that follow."""
        header = self._headers.find(line)
        if header is None:
            return False
        if self._follows_header:
            self._lose("headers without a row", number, line)
        self._header, self._follows_header = header, True
        if not header.has_topology and header.time < 0:
            self._look_ahead(number, header)
        return True

    def _row(self, line: str, number: int) -> tuple[Kind, Fields] | int:
        """The row that the line is; where it is none, which is counted in the log, how many lines that says all of."""
        header = self._header
        if header is None:
            words, times = line.split(), self._alike(line, number)
            if re.match(r"\s*[-0-9]", line) if "\t" in line else len(words) >= FEWEST_FIELDS and _is_numeric(words):
                self._lose("rows before the first header", number, line, times)
            return times
        fields = header.split(line)
        if self.is_cut and (not _WHOLE.fullmatch(fields[-1]) or len(fields) - 1 == header.time):
            fields = fields[:-1]  # whatever it reads, it may have been longer
        while len(fields) > len(header.names) and not fields[-1].strip():
            fields.pop()
        if len(fields) > len(header.names):
            whole = self._headers.whole(header, len(fields))
            if whole is None:
                self._look_ahead(number, header)
                whole = self._headers.whole(header, len(fields))
            if whole is not None:
                self._lose("headers that are cut are completed from a whole one", number, line)
                self._header = header = whole
            elif header.place(fields) is not None:
                self._lose("rows with more fields than their header has columns", number, line)
                return 1
        kind = header.kind(fields) if header.has_topology or _is_numeric(fields) else None
        if kind is None:
            times = self._alike(line, number)
            if self.is_cut or _is_damaged(line, header):
                self._lose("unreadable lines", number, line, times)
            else:
                self._log.note(self._subtool, "lines between the rows that are none", f"line {number}: {shown(line)!r}", times)
            return times
        if self.is_cut and len(fields) < len(header.names):
            self._lose("the last line is cut", number, line)
            self.lines_lost = False  # the rest of it is there
        return kind, fields

    def _alike(self, line: str, number: int) -> int:
        """How many lines like this one stand together, from it on."""
        return 1 + sum(1 for _ in takewhile(line.__eq__, self._lines[number + 1 - self._first :]))

    def _look_ahead(self, number: int, header: Header) -> None:
        """Find all headers that follow the line of that number, and what kind of rows they have; what is read for it is kept on
        disk."""
        if self._spool is None:
            return
        aside, self._spool = self._spool.another(), None
        aside.extend(self._pieces)
        self._pieces = iter(aside)
        rest = "\n".join(self._lines[number + 1 - self._first :]), self.is_cut
        for text, _ in chain((rest,), aside):
            self._headers.find_all(text)
        if not self._headers.are_telling:
            self.are_of_cpus = _are_of_cpus(Rows(chain((rest,), aside), self._headers, self._subtool, Log(), header, None))

    def _lose(self, what: str, number: int, line: str, times: int = 1) -> None:
        self._log.lost(self._subtool, what, f"line {number}: {shown(line)!r}", times)
        self.lines_lost = True


def _is_numeric(fields: Fields) -> bool:
    """Whether every field is a number or what turbostat writes for one that it does not have."""
    return all(not text.strip() or text.strip()[0] in "-0123456789*(" or text.strip().endswith(("nan", "inf")) for text in fields)


def _is_damaged(line: str, header: Header) -> bool:
    """Whether a line that is no row looks like what is left of one, rather than like turbostat's remarks."""
    if "\t" in header.line:
        return "\t" in line or not line.isprintable()
    return line.lstrip()[0] in "-0123456789" or not line.isprintable()


def _are_of_cpus(rows: Rows) -> bool:
    """Whether rows that tell neither a place nor a time are of CPUs, but for the first after each header: these lack what stands
    once a core or package, and --Summary does not repeat the header."""
    sizes: dict[int, int] = {}  # rows under one header -> how often
    size = short = others = 0
    whole: set[int] = set()
    for kind, _, fields, _, follows_header in rows:
        if kind.header.has_topology or kind.header.time >= 0 or rows.is_cut:
            continue
        filled = {index for index, text in enumerate(fields) if text.strip()}
        if follows_header:
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


class Block(NamedTuple):
    """The rows of one interval, the summary first where there is one: its time; the number of its first line; whether lines
    before or within it could not be read; of each row the kind and the line; of all rows the fields of their kinds' columns.

    Where it has the kinds of the block before, `kinds` is the same object.
    """

    time: float | None
    line: int
    lines_lost: bool
    kinds: list[Kind]
    lines: list[int]
    texts: Fields


def blocks(raw: RawFile, subtool: str, columns: Columns, spool: Spool, log: Log) -> Iterator[Block]:
    """The intervals of an output in its order; what cannot be read is counted in the log by line."""
    pieces = ((text, raw.last_line_cut) for text in raw.pieces())
    rows = Rows(pieces, Headers(columns), subtool, log, None, spool)
    former: list[Kind] = []  # kinds of the block before
    before: float | None = None  # time of the block before
    distance = 0.0  # between the two blocks before, 0 where it is not known
    # of the block at hand
    kinds: list[Kind] = []
    lines: list[int] = []
    texts: Fields = []
    seen: set[object] = set()  # identities of its rows beside the summary
    block_time: float | None = None
    has_summary = lines_lost = False

    def closed() -> Block:
        nonlocal former, before, distance
        if block_time is not None:
            distance = block_time - before if before is not None and block_time > before else distance
            before = block_time
        former = former if kinds == former else kinds
        return Block(block_time, lines[0], lines_lost, former, lines, texts)

    for kind, time, fields, number, follows_header in rows:
        identity, is_cpus = kind.identity, kind.has_cpus
        later = time - block_time if time is not None and block_time is not None else None
        is_known = identity in seen
        if not kinds:
            begins = True
        elif identity is not None:
            if is_known and is_cpus and has_summary and later is not None and later <= 0:
                # the interval is not over: the number of a CPU is damaged
                log.lost(subtool, "a second row of one place in one interval is not published", f"line {number}")
                continue
            # without a CPU column all CPUs of a core or package have rows of that place
            begins = is_known if is_cpus else follows_header
            begins = begins or (later is not None and (0 < distance < 2 * later or (not is_cpus and later > READING_TIME)))
        elif kind.header.has_topology or follows_header or not has_summary:
            begins = True
        else:
            # no topology columns: with --Summary each row is an interval, else the summary is followed by rows of the CPUs
            begins = later > READING_TIME if later is not None else not rows.are_of_cpus
        if begins:
            if kinds:
                yield closed()
            kinds, lines, texts, seen, block_time, has_summary, lines_lost = [], [], [], set(), None, identity is None, False
        elif before is not None and time is not None and block_time is not None and time <= before < block_time:
            # it was read before the block's interval began: it is of another
            log.lost(subtool, "rows with a time before their interval are not published", f"line {number}")
            rows.lines_lost = True
            continue
        elif identity is None or is_known:
            what = "rows beside the summary's that do not say where they belong are not published"
            log.note(subtool, what, f"line {number}")
            continue
        kinds.append(kind)
        lines.append(number)
        texts += kind.pick(fields)
        seen.add(identity)
        # the interval ends when the last CPU was read, which is the summary's time
        if time is not None and (block_time is None or (not has_summary and time > block_time)):
            block_time = time
        if rows.lines_lost:
            lines_lost, rows.lines_lost = True, False
    if kinds:
        yield closed()
