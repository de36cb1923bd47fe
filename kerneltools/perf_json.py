# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The output of `perf stat -I --json`, of every version, as intervals of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kerneltools.clock import Interval, Timeline, Times, is_time
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile

Record = dict[str, Any]

LONGEST_DROPPED = 0.002  # seconds; two times that round to one millisecond are closer
RECORD_START = '{"interval"'
EVENT_KEY = '"event" : "'
UNCOUNTED = '"counter-value" : "<'

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


class Block(NamedTuple):
    """One interval with its records in their order; lines_lost: whether some of its lines may have been unreadable."""

    interval: Interval
    records: list[Record]
    lines_lost: bool


class Survey(NamedTuple):
    """What one quick pass over an output tells before the records are read.

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
    known_head = last_line = ""
    for line in raw.lines():
        if not line:
            continue
        last_line = line
        head = line[: line.find(",")]
        if head != known_head:
            record = _record_or_none(line)
            if record is None or not is_time(record.get("interval")):
                continue
            # where something stands before the interval, this cannot tell one from the next
            known_head = head if '"interval"' in head else ""
            times.add(float(record["interval"]))
        start = line.find(EVENT_KEY)
        if start >= 0:
            start += len(EVENT_KEY)
            event = line[start : line.find('"', start)]
        elif '"event"' in line:
            event = str((_record_or_none(line) or {}).get("event"))
        else:
            continue
        if not events.get(event):
            events[event] = UNCOUNTED not in line
    return Survey(times, events, raw.damage or _line_damage(last_line, raw.last_line_cut))


def _record_or_none(line: str) -> Record | None:
    try:
        return parse_line(line)
    except ValueError:
        return None


def _line_damage(last_line: str, cut: bool) -> str:
    if (cut or '"interval"' in last_line) and last_line.strip() and _record_or_none(last_line) is None:
        return "its last line is cut"
    return ""


def blocks(raw: RawFile, timeline: Timeline, outliers: set[float], subtool: str, log: Log) -> Iterator[Block]:
    """The intervals of an output with their records, in its order; what cannot be read is counted in the log by line.

    An interval that is not later than the one before, or whose time is among the survey's outliers, is dropped and
    counted.
    """
    records: list[Record] = []
    current: Interval | None = None
    current_time = -1.0
    lines_lost = False  # since the last good record
    block_damaged = False
    for number, line in enumerate(raw.lines(), 1):
        if not line or line.isspace() or line.startswith("#"):
            continue
        try:
            record = parse_line(line)
        except ValueError:
            log.lost(subtool, "unreadable lines", f"line {number}: {shown(line)!r}")
            lines_lost = True
            # a write that was cut short may have been followed by whole ones on the same line
            start = line.rfind(RECORD_START)
            record = _record_or_none(line[start:]) if start > 0 else None
            if record is None:
                continue
        time = record.get("interval")
        if not is_time(time):
            if not record.keys().isdisjoint(("interval", "event", "counter-value")):
                log.lost(subtool, "records without a time", f"line {number}: {shown(line)!r}")
                lines_lost = True
            continue
        if time != current_time:
            if current is not None:
                yield Block(current, records, block_damaged or lines_lost)
            records = []
            current_time = time
            block_damaged = lines_lost
            where = f"line {number}, interval {time} after {timeline.previous}"
            current = None
            if time in outliers:
                log.lost(subtool, "intervals ahead of later ones are dropped", where)
                lines_lost = True
                continue
            later = time - timeline.previous
            current = timeline.interval(time, lines_lost)
            if current is None and later >= LONGEST_DROPPED:
                log.lost(subtool, "intervals before the epoch are dropped: the file's time is wrong, and there is no clock file", where)
            elif current is None and later > 0:
                log.note(subtool, "intervals less than 1 ms after the one before are dropped", where)
            elif current is None:
                log.lost(subtool, "intervals not later than one before are dropped", where)
        block_damaged = block_damaged or lines_lost
        if time not in outliers:
            lines_lost = False
        if current is not None:
            records.append(record)
    if current is not None:
        yield Block(current, records, block_damaged or lines_lost)
    if raw.damage:
        log.lost(subtool, f"{raw.path.name} is damaged: what follows the damage is lost", raw.damage)
