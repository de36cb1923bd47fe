# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The output of `perf stat -I --json`, of every version, as intervals of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from kerneltools.clock import Interval, Timeline, Times, is_time
from kerneltools.log import Log, shown
from kerneltools.rawfile import RawFile

Record = dict[str, Any]

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
            known_head = head
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


def _record_or_none(line: str) -> Optional[Record]:
    try:
        return parse_line(line)
    except ValueError:
        return None


def _line_damage(last_line: str, cut: bool) -> str:
    if (cut or '"interval"' in last_line) and last_line.strip() and _record_or_none(last_line) is None:
        return "its last line is cut"
    return ""


def intervals(raw: RawFile, timeline: Timeline, subtool: str, log: Log) -> Iterator[tuple[Interval, list[Record]]]:
    """The intervals of an output with their records, in its order; what cannot be read is counted in the log by line.

    An interval that is not later than the one before is dropped and counted.
    """
    records: list[Record] = []
    current: Optional[Interval] = None
    current_time = -1.0
    lines_lost = False
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
            if "interval" in record:
                log.lost(subtool, "records with an interval that is no time", f"line {number}: {shown(line)!r}")
                lines_lost = True
            continue
        if time != current_time:
            if current is not None:
                yield current, records
            records = []
            current_time = time
            previous = timeline.previous
            current = timeline.interval(time, lines_lost)
            if current is None and time > previous:
                log.note(subtool, "intervals less than 1 ms after the one before are dropped", f"line {number}, interval {time}")
            elif current is None:
                log.lost(
                    subtool, "intervals not later than one before are dropped", f"line {number}, interval {time} after {previous}"
                )
        lines_lost = False
        if current is not None:
            records.append(record)
    if current is not None:
        yield current, records
    if raw.damage:
        log.lost(subtool, f"{raw.path.name} is damaged: what follows the damage is lost", raw.damage)
