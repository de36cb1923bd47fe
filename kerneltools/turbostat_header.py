# SPDX-License-Identifier: Apache-2.0
"""The headers of turbostat's table: what they say of the fields of the rows beneath them."""

from __future__ import annotations

import re
from typing import Any

from kerneltools import limits
from kerneltools.frames import items
from kerneltools.limits import Distinct
from kerneltools.turbostat_columns import Column, Columns
from kerneltools.turbostat_places import MACHINE, Where

TIME = "Time_Of_Day_Seconds"
# In turbostat's order; what precedes the first column that is none of these says where a row belongs.
TOPOLOGY = ("Package", "Die", "L3", "Node", "Module", "Core", "CPU", "APIC", "X2APIC")
LEADING = {"usec", TIME, *TOPOLOGY}
# Tables of before 2014 have one of the first, and what they call the columns of places.
OLD = {"%c0", "GHz"}
OLD_TOPOLOGY = {"pk": "Package", "pkg": "Package", "cr": "Core", "cor": "Core", "core": "Core"}

_NAME = re.compile(r"[A-Za-z%][^\t:,=()]*")
_WORD = re.compile(r"\S+")
_COLUMN = re.compile(r"[A-Za-z]+ idle\S*|\S+")  # "haltpoll idle%" is one, the only name with a blank that is met
_NO_ROW = re.compile(r"^[^0-9\-\n].*$", re.MULTILINE)
_PLACE = re.compile(r"[0-9]{1,7}")

Fields = list[str]


class Kind:
    """Rows of one place under one header that have as many fields: which of these are values.

    identity: what tells the place from others in an interval, None for the whole machine; columns: the fields' columns that
    the catalogue has, and pick gives their fields; number: its place among all that stand in intervals, -1: in none yet.
    """

    __slots__ = ("columns", "has_cpus", "header", "identity", "number", "pick", "size", "where")

    def __init__(self, header: Header, where: Where, size: int) -> None:
        self.header = header
        self.has_cpus = header.has_cpus
        self.where = where
        self.size = size
        self.identity = None if where == MACHINE else where if where.cpu is None else where.cpu
        there = [(index, column) for index, column in header.columns if index < size]
        self.columns = [column for _, column in there]
        self.pick = items([index for index, _ in there])
        self.number = -1


class Header:
    """The columns of a table: their names, and which of them hold the time, the place of a row, and values that the
    catalogue has. `columns` are these with their indices; those that are published together stand side by side."""

    def __init__(self, line: str, names: Fields, spans: list[tuple[int, int]], known: Columns) -> None:
        self.line = line
        self.names = names
        self._spans = spans  # first and last + 1 character of each name where blanks separate the columns, else empty
        leading = next((index for index, name in enumerate(names) if name not in LEADING), len(names))
        # the last name may be cut: "CPU" of "CPU%c1"
        self.is_damaged = any(name in TOPOLOGY for name in names[leading:-1])
        self.time = names.index(TIME) if TIME in names else -1
        places = [index for index in range(leading) if names[index] in TOPOLOGY]
        self.topology = slice(places[0], places[-1] + 1) if places else slice(0, 0)
        self.has_topology = bool(places)  # whether rows say where they belong
        self.has_cpus = "CPU" in names[self.topology]
        self.is_old = not OLD.isdisjoint(names)
        self.is_terse = False  # whether rows leave out of their place what the row above says
        found = [(index, known.find(name)) for index, name in enumerate(names)]
        by_type: dict[str, list[tuple[int, Column]]] = {}
        for index, column in found:
            if column is not None:
                by_type.setdefault(column.type, []).append((index, column))
        groups = sorted(by_type.values(), key=lambda group: len(group) > 1 or group[0][1].factor != 1)
        self.columns = [one for group in groups for one in group]
        self.averaged = {group[0][1].type for group in groups if len(group) > 1 or group[0][1].factor != 1}
        self.first_split = min((index for index, column in self.columns if len(column.scopes) > 1), default=None)
        self.first_package = min((index for index, column in self.columns if column.scopes == ("package",)), default=None)
        self.outside = [name for (_, column), name in zip(found, names) if column is None and name and name not in LEADING]
        self.kinds: dict[tuple[Any, ...], Kind] = {}  # by the number of fields and those of the place, or the completed place
        self._places: dict[tuple[str, ...], Where] = {}

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

    def kind(self, fields: Fields) -> Kind | None:
        """What kind of row that is; None where its topology columns do not read as a place."""
        where = self.place(fields)
        return self._kind((len(fields), *fields[self.topology]), where) if where is not None else None

    def beneath(self, kind: Kind, above: Where) -> Kind:
        """The kind of a row that leaves out of its place what the row above says."""
        where = kind.where.beneath(above)
        return self._kind((kind.size, where), where) if where != kind.where else kind

    def _kind(self, key: tuple[Any, ...], where: Where) -> Kind:
        if key not in self.kinds:
            self.kinds[key] = Kind(self, where, key[0])
        return self.kinds[key]

    def place(self, fields: Fields) -> Where | None:
        """Where the row belongs; None where its topology columns do not read as such."""
        key = tuple(fields[self.topology])
        where = self._places.get(key)
        if where is None:
            texts = [text.strip() or ("-" if self.is_old else "") for text in key]
            if len(texts) < self.topology.stop - self.topology.start or not all(t == "-" or _PLACE.fullmatch(t) for t in texts):
                return None
            told = dict(zip(self.names[self.topology], texts))
            where = Where(*(int(told[name]) if told.get(name, "-") != "-" else None for name in ("Package", "Die", "Core", "CPU")))
            if where == MACHINE and any(text != "-" for text in texts):
                return None
            limits.check(len(self._places), limits.MOST_PLACES, "places")
            limits.check(sum(map(len, key)), limits.LONGEST_NAME, "characters in the name of a place")
            if where.cpu is not None and "-" in (told.get("Package"), told.get("Die"), told.get("Core")):
                self.is_terse = True
            self._places[key] = where
        return where


class Headers:
    """The headers that an output has so far; by the catalogue's columns they are told from free text."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._found: dict[str, Header] = {}
        self._distinct = Distinct(limits.MOST_HEADERS, "headers")

    def find(self, line: str) -> Header | None:
        """The header that the line is; None where it is none."""
        header = self._found.get(line)
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
        known = sum(name in LEADING or self._columns.find(name) is not None for name in names)
        is_led = len(names) > 1 and LEADING.issuperset(names[:2])
        if known < len(names) and (known < 2 or (known * 4 < len(names) and not is_led)):
            return None
        header = Header(line, names, spans, self._columns)
        if header.is_damaged:
            return None
        self._found[line] = header
        self._distinct.add({tuple(names)})
        return header

    def find_all(self, text: str) -> None:
        """Find the headers among many lines."""
        if not text.isspace():
            for line in dict.fromkeys(_NO_ROW.findall(text)):
                self.find(line)

    def whole(self, cut: Header, columns: int) -> Header | None:
        """The header of which `cut` is the beginning and that has enough columns; None where there is none."""
        for line, header in self._found.items():
            if line.startswith(cut.line) and len(header.names) >= columns:
                return header
        return None

    @property
    def are_telling(self) -> bool:
        """Whether under each of them a row tells its place or its time."""
        return all(header.has_topology or header.time >= 0 for header in self._found.values())
