# SPDX-License-Identifier: Apache-2.0
"""The output of `perf stat -I --json`, of every version, as intervals of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from kerneltools import limits
from kerneltools.clock import Times, is_time
from kerneltools.limits import MOST_SERIES, Distinct
from kerneltools.log import Log, shown
from kerneltools.perf_event import NOT_OF_THE_MACHINE, PLACE_FIELDS, place
from kerneltools.rawfile import RawFile, numbered

Record = dict[str, Any]

RECORD_START = '{"interval"'
UNCOUNTED = ("<not counted>", "<not supported>")

_COMMA_BEFORE_BRACE = re.compile(r",\s*}\s*$")
_BARE_NAN = re.compile(r'("\s*:\s*)-?(?:nan|inf)\b')


def _mended(line: str) -> str:
    """A record as released versions of perf misprint it, made JSON: a comma before the closing brace, the opening
    brace missing, nan for a number."""
    line = line.strip()
    if line.startswith('"'):
        line = "{" + line
    return _BARE_NAN.sub(r"\1null", _COMMA_BEFORE_BRACE.sub("}", line))


def parse_line(line: str) -> Record:
    """The JSON object of one line; raises ValueError where there is none, also for bytes that are no UTF-8."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        try:
            record = json.loads(_mended(line))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    if not line.isascii():
        line.encode("utf-8")  # a lone surrogate stands for a byte that was no UTF-8: whatever else it hit, do not trust
    return record


def parse_lines(text: str) -> list[Record] | None:
    """The objects of the lines of a text, parsed together; None where one of the lines must be looked at by itself.

    Each line begins with the only brace that opens in it. So no line holds two objects, and none continues on the next,
    as neither an object nor a string of JSON can: where there are as many objects as lines, they are those of the lines.
    """
    if has_long_line(text, limits.LONGEST_NAME):
        return None
    lines = text.count("\n") + 1
    joined = text.replace("\n{", ",\n{")
    if not text.isascii() or text[:1] != "{" or len(joined) - len(text) != lines - 1 or text.count("{") != lines:
        return None
    try:
        records = json.loads(f"[{joined}]")
    except (ValueError, RecursionError):
        return None
    return records if len(records) == lines and set(map(type, records)) == {dict} else None


def has_long_line(text: str, most: int) -> bool:
    """Whether one of the lines of a text has more than that many characters."""
    start = 0
    while len(text) - start > most:
        end = text.rfind("\n", start, start + most + 1)
        if end < 0:
            return True
        start = end + 1
    return False


class Reading(NamedTuple):
    """The records of one interval, in columns.

    time: in seconds since perf began to count; line: where they begin in the output; lost_before, lost_within: whether
    lines that could not be read stand before or among them, or behind the last one; keys, places: where each counted,
    perf's key and its value, both "" for the whole system; columns: by field what each record has there, None: nothing.
    """

    time: float
    line: int
    lost_before: bool
    lost_within: bool
    keys: list[str]
    places: list[str]
    columns: list[list[Any]]


class _Run(NamedTuple):
    """Records of consecutive lines, none of which is lost: the number of the first line, the length of its text or of all,
    the records' times, and the records."""

    line: int
    size: int
    times: list[float]
    records: list[Record]


class Reader:
    """Reads an output once. What the whole of it tells is there when `readings` has ended.

    times: of its intervals; events: per event name, as perf spells it, whether it was ever counted; tail_damage: what is
    wrong with the output's end, "" where it is whole. What cannot be read is counted in the log by line.
    """

    def __init__(self, raw: RawFile, subtool: str, log: Log) -> None:
        self._raw = raw
        self._subtool = subtool
        self._log = log
        self.times = Times()
        self.events: dict[str, bool] = {}
        self._names = Distinct(MOST_SERIES, "events and places")
        self._before: tuple[Any, ...] = ()  # what the records of the last interval were of
        self.tail_damage = ""
        self._lines_lost = False  # since the last good record
        self._last_line = ""

    def readings(self, *fields: str) -> Iterator[Reading]:
        """The intervals with their records' places and these fields, after `event` and `counter-value`; consecutive records of
        one time are one interval."""
        fields = ("event", "counter-value", *fields)
        reading: Reading | None = None
        characters = 0
        for first_line, size, times, records in self._runs():
            keys, places = _places(records)
            columns = [[record.get(field) for record in records] for field in fields]
            start = 0
            for time, group in groupby(times):
                stop = start + len(list(group))
                if reading is not None and (self._lines_lost or time != reading.time):
                    reading = reading._replace(lost_within=reading.lost_within or self._lines_lost)
                if reading is None or time != reading.time:
                    if reading is not None:
                        yield self._learnt(reading)
                    self.times.add(time)
                    reading = Reading(time, first_line + start, self._lines_lost, False, [], [], [[] for _ in fields])
                    characters = 0
                self._lines_lost = False
                reading.keys.extend(keys[start:stop])
                reading.places.extend(places[start:stop])
                for column, found in zip(reading.columns, columns):
                    column.extend(found[start:stop])
                characters += size
                limits.check(len(reading.places), limits.MOST_RECORDS, "records in one interval")
                limits.check(characters, limits.MOST_TEXT, "characters in one interval")
                start = stop
        if reading is not None:
            yield self._learnt(reading._replace(lost_within=reading.lost_within or self._lines_lost))
        if self._raw.damage:
            self._log.lost(self._subtool, f"{self._raw.path.name} is damaged: what follows the damage is lost", self._raw.damage)
        self.tail_damage = self._raw.damage or _line_damage(self._last_line, self._raw.last_line_cut)

    def _learnt(self, reading: Reading) -> Reading:
        """The reading, after the names of its events, and which of them were counted, are taken."""
        events, counts = reading.columns[:2]
        if (reading.keys, reading.places, events) != self._before:
            self._before = reading.keys, reading.places, events
            names = [event if isinstance(event, str) else "" for event in events]
            self._names.add(set(zip(reading.places, names)))
            for key, event in dict.fromkeys(zip(reading.keys, names)):
                if event and key not in NOT_OF_THE_MACHINE:
                    self.events.setdefault(event, False)
        if not all(self.events.values()):
            for key, event, count in zip(reading.keys, events, counts):
                if isinstance(event, str) and count not in UNCOUNTED and key not in NOT_OF_THE_MACHINE:
                    self.events[event] = True
        return reading

    def _runs(self) -> Iterator[_Run]:
        number = 1
        for text in self._raw.pieces():
            self._last_line = text.rstrip("\n").rpartition("\n")[2] or self._last_line
            records = parse_lines(text)
            times = _times(records) if records is not None else None
            if records is not None and times is not None:
                yield _Run(number, len(text), times, records)
            else:
                yield from self._runs_of_lines(text, number)
            number += text.count("\n") + 1

    def _runs_of_lines(self, text: str, first_number: int) -> Iterator[_Run]:
        for number, line, count in numbered(text, first_number):
            if line.isspace() or line.startswith("#"):
                continue
            record = _record_or_none(line)
            if record is None:
                self._lose("unreadable lines", number, line, count)
                # a write that was cut short may have been followed by whole ones on the same line
                start = line.rfind(RECORD_START)
                record = _record_or_none(line[start:]) if start > 0 else None
                if record is None:
                    continue
            if len(line) > limits.LONGEST_NAME and _has_long_name(record):
                self._lose(f"records with more than {limits.LONGEST_NAME} characters in a name", number, line, count)
                continue
            times = _times([record])
            if times is not None:
                yield _Run(number, len(line), times * count, [record] * count)
            elif not record.keys().isdisjoint(("interval", "event", "counter-value")):
                self._lose("records without a time", number, line, count)

    def _lose(self, what: str, number: int, line: str, count: int) -> None:
        self._log.lost(self._subtool, what, f"line {number}: {shown(line)!r}", count)
        self._lines_lost = True


def _has_long_name(record: Record) -> bool:
    return any(isinstance(value, str) and len(value) > limits.LONGEST_NAME for value in record.values())


def _times(records: list[Record]) -> list[float] | None:
    """The times of records; None where one of them has none."""
    times: list[Any] = [record.get("interval") for record in records]
    return times if set(map(type, times)) <= {int, float} and all(map(is_time, set(times))) else None


def _places(records: list[Record]) -> tuple[list[str], list[str]]:
    """Where each record counts: perf's keys, and their values."""
    there = set().union(*records).intersection(PLACE_FIELDS)
    if len(there) > 1 or not there.isdisjoint(NOT_OF_THE_MACHINE):
        keys, places = zip(*map(place, records))
        return list(keys), list(places)
    key = there.pop() if there else ""
    values: list[Any] = [record.get(key) for record in records]
    if set(map(type, values)) == {str}:
        return [key] * len(values), values
    return ["" if value is None else key for value in values], ["" if value is None else str(value) for value in values]


def _record_or_none(line: str) -> Record | None:
    try:
        return parse_line(line)
    except ValueError:
        return None


def _line_damage(last_line: str, cut: bool) -> str:
    if (cut or '"interval"' in last_line) and last_line.strip() and _record_or_none(last_line) is None:
        return "its last line is cut"
    return ""
