# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The output of `perf stat -I --json`, of every version, as intervals of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from kerneltools import limits
from kerneltools.clock import Interval, Timeline, Times, is_time
from kerneltools.limits import MOST_SERIES, Distinct
from kerneltools.log import Log, shown
from kerneltools.perf_event import NOT_OF_THE_MACHINE, place
from kerneltools.rawfile import RawFile, numbered

Record = dict[str, Any]

LONGEST_DROPPED = 0.002  # seconds; two times that round to one millisecond are closer
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


Reading = tuple[str, str, str, str, str, str, str, str, str]
"""What a record of the usual form says, as perf wrote it: time, key and value of its place ("" for the whole system), the
whole part of a whole count (else ""), any other count (else ""), unit, event, time that it ran in ns, the same in percent. The
last six are "" in a further metric of the event above, which has no count."""

_TEXT = r'[^"\\\x00-\x1f]'
_NAME = rf"{_TEXT}{{0,{limits.LONGEST_NAME}}}"
_WHOLE = "(?:0|[1-9][0-9]{0,17})"
_METRIC = rf'"metric-value" : (?:-?{_WHOLE}(?:\.[0-9]+)?|"{_TEXT}*"), "metric-unit" : "{_TEXT}*"'
# The form in which perf writes nearly all records. What fits it is JSON, and says the same read as such.
_READING = re.compile(
    r'^\{"interval" : ((?:0|[1-9][0-9]{0,7})\.[0-9]+), '
    rf'(?:"(cpu|core|die|socket|node)" : "({_NAME})", (?:"(?:aggregate-number|counters)" : {_WHOLE}, )*)?'
    rf'(?:"counter-value" : "(?:({_WHOLE})\.0{{1,9}}|({_NAME}))", "unit" : "({_NAME})", "event" : "(?!")({_NAME})", '
    rf'"event-runtime" : ({_WHOLE}), "pcnt-running" : ((?:0|[1-9][0-9]{{0,2}})\.[0-9]+)(?:, {_METRIC})?|{_METRIC})\}}$',
    re.MULTILINE,
)


def readings(text: str) -> list[Reading]:
    """The records in a text of whole lines where each line is one of the usual form; else none."""
    found = _READING.findall(text) if text.isascii() else []
    return found if len(found) == text.count("\n") + 1 else []


def as_record(reading: Reading) -> Record:
    """A reading as the record that parse_line would have read, as far as counting goes."""
    time, key, place, whole, other, unit, event, runtime, running = reading
    record: Record = {"interval": float(time)}
    if key:
        record[key] = place
    if running:
        record.update({"counter-value": whole or other, "unit": unit, "event": event})
        record.update({"event-runtime": int(runtime), "pcnt-running": float(running)})
    return record


class Block(NamedTuple):
    """One interval with its records in their order; lines_lost: whether some of its lines may have been unreadable.

    Where readings were asked for and all of its records have the usual form, `readings` has them and `records` is empty.
    """

    interval: Interval
    records: list[Record]
    readings: list[Reading]
    lines_lost: bool


class Survey(NamedTuple):
    """What one pass over an output tells before its records are counted.

    times: of its intervals; events: per event name, as perf spells it, whether it was ever counted; tail_damage: what
    is wrong with the output's end, "" where it is whole.
    """

    times: Times
    events: dict[str, bool]
    tail_damage: str


def survey(raw: RawFile) -> Survey:
    """Read through an output for its times, event names and the state of its end."""
    times = Times()
    events: dict[str, bool] = {}
    names = Distinct(MOST_SERIES, "events and places")
    records = _Records(raw, "", Log())
    time = -1.0
    for run in records.runs(with_readings=True):
        if run.time != time:
            time = run.time
            times.add(time)
        seen = [(reading[6], reading[4] in UNCOUNTED) for reading in run.readings if reading[6]]
        seen += [(record["event"], record.get("counter-value") in UNCOUNTED) for record in run.records if _has_event(record)]
        names.add({(reading[2], reading[6]) for reading in run.readings} | {_names(record) for record in run.records})
        for event, is_uncounted in dict.fromkeys(seen):
            events[event] = events.get(event, False) or not is_uncounted
    return Survey(times, events, raw.damage or _line_damage(records.last_line, raw.last_line_cut))


def _names(record: Record) -> tuple[str, str]:
    """The place and the event of a record, or what it has of them."""
    event = record.get("event")
    return "=".join(place(record)), event if isinstance(event, str) else ""


def _has_long_name(record: Record) -> bool:
    return any(isinstance(value, str) and len(value) > limits.LONGEST_NAME for value in record.values())


def _has_event(record: Record) -> bool:
    return isinstance(record.get("event"), str) and place(record)[0] not in NOT_OF_THE_MACHINE


def _record_or_none(line: str) -> Record | None:
    try:
        return parse_line(line)
    except ValueError:
        return None


def _line_damage(last_line: str, cut: bool) -> str:
    if (cut or '"interval"' in last_line) and last_line.strip() and _record_or_none(last_line) is None:
        return "its last line is cut"
    return ""


class _Run(NamedTuple):
    """Consecutive records of one time, all or none of them readings; line: where they begin in the output; size: of their
    text, in characters, at least."""

    time: float
    line: int
    records: list[Record]
    readings: list[Reading]
    size: int


class _Records:
    """The records of an output; what cannot be read is counted in the log by line.

    lines_lost: whether a line could not be read since this was last set to False; last_line: the last of those read that
    is not empty.
    """

    def __init__(self, raw: RawFile, subtool: str, log: Log) -> None:
        self._raw = raw
        self._subtool = subtool
        self._log = log
        self.lines_lost = False
        self.last_line = ""

    def runs(self, with_readings: bool) -> Iterator[_Run]:
        """All records in their order; a run ends where a line is lost."""
        number = 1
        for piece in self._raw.pieces():
            if piece.isspace():
                self.last_line = piece.rpartition("\n")[2] or self.last_line
                number += piece.count("\n") + 1
                continue
            self.last_line = piece.rstrip("\n").rpartition("\n")[2] or self.last_line
            found = readings(piece) if with_readings else []
            if found:
                line = number
                for time, group in groupby(found, itemgetter(0)):
                    run = _Run(float(time), line, [], list(group), len(piece))
                    yield run
                    line += len(run.readings)
            else:
                yield from self._runs_of_lines(piece, number)
            number += piece.count("\n") + 1

    def _runs_of_lines(self, piece: str, first_number: int) -> Iterator[_Run]:
        run: _Run | None = None
        for number, line, times in numbered(piece, first_number):
            if line.isspace() or line.startswith("#"):
                continue
            record = _record_or_none(line)
            if record is None:
                if run is not None:
                    yield run
                    run = None
                self._lose("unreadable lines", number, line, times)
                # a write that was cut short may have been followed by whole ones on the same line
                start = line.rfind(RECORD_START)
                record = _record_or_none(line[start:]) if start > 0 else None
                if record is None:
                    continue
            if len(line) > limits.LONGEST_NAME and _has_long_name(record):
                if run is not None:
                    yield run
                    run = None
                self._lose(f"records with more than {limits.LONGEST_NAME} characters in a name", number, line, times)
                continue
            time = record.get("interval")
            if not is_time(time):
                if not record.keys().isdisjoint(("interval", "event", "counter-value")):
                    if run is not None:
                        yield run
                        run = None
                    self._lose("records without a time", number, line, times)
                continue
            if run is not None and time == run.time:
                run.records.extend([record] * times)
                continue
            if run is not None:
                yield run
            run = _Run(time, number, [record] * times, [], len(piece))
        if run is not None:
            yield run

    def _lose(self, what: str, number: int, line: str, times: int) -> None:
        self._log.lost(self._subtool, what, f"line {number}: {shown(line)!r}", times)
        self.lines_lost = True


class _Gathered:
    """The records of one interval as they come in."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.readings: list[Reading] = []
        self._size = 0

    def add(self, run: _Run) -> None:
        """Take a run; readings stay such as long as there is nothing else."""
        self._size += run.size
        together = len(self.records) + len(self.readings) + len(run.records) + len(run.readings)
        limits.check(together, limits.MOST_RECORDS, "records in one interval")
        limits.check(self._size, limits.MOST_TEXT, "characters in one interval")
        if run.readings and not self.records:
            self.readings += run.readings
            return
        self.records += map(as_record, self.readings)
        self.records += run.records
        self.records += map(as_record, run.readings)
        self.readings = []


def blocks(
    raw: RawFile, timeline: Timeline, outliers: set[float], subtool: str, log: Log, with_readings: bool = False
) -> Iterator[Block]:
    """The intervals of an output with their records, in its order; what cannot be read is counted in the log by line.

    An interval that is not later than the one before, or whose time is among the survey's outliers, is dropped and
    counted. with_readings: records may come as Block.readings, which is quick for wide outputs.
    """
    records = _Records(raw, subtool, log)
    gathered = _Gathered()
    current: Interval | None = None
    current_time = -1.0
    block_damaged = False
    for run in records.runs(with_readings):
        time = run.time
        if time != current_time:
            if current is not None:
                yield Block(current, gathered.records, gathered.readings, block_damaged or records.lines_lost)
            gathered = _Gathered()
            current_time = time
            block_damaged = records.lines_lost
            where = f"line {run.line}, interval {time} after {timeline.previous}"
            current = None
            if time in outliers:
                log.lost(subtool, "intervals ahead of later ones are dropped", where)
                records.lines_lost = True
                continue
            later = time - timeline.previous
            current = timeline.interval(time, records.lines_lost)
            if current is None and later >= LONGEST_DROPPED:
                log.lost(subtool, "intervals before the epoch are dropped: the file's time is wrong, and there is no clock file", where)
            elif current is None and later > 0:
                log.note(subtool, "intervals less than 1 ms after the one before are dropped", where)
            elif current is None:
                log.lost(subtool, "intervals not later than one before are dropped", where)
        block_damaged = block_damaged or records.lines_lost
        if time not in outliers:
            records.lines_lost = False
        if current is not None:
            gathered.add(run)
    if current is not None:
        yield Block(current, gathered.records, gathered.readings, block_damaged or records.lines_lost)
    if raw.damage:
        log.lost(subtool, f"{raw.path.name} is damaged: what follows the damage is lost", raw.damage)
