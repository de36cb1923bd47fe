# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the tests of post-processing share: perf's output to write, a data directory to put it in, and the metric files to read back.

Times in these tests are relative to EPOCH: the moment at which perf's own `interval` was 0. A record of interval 2.5 thus ends at
2500 ms, and reads so in the tests, as long as the clock file says the same (write_clock's default in post_process).
"""

import contextlib
import io
import json
import lzma
import math
import os
import re
from dataclasses import dataclass, field
from unittest import mock

from published import MARK

from kerneltools import main

EPOCH = 1_700_000_000
OUTPUT = "perf-stat-output.json"
ROW = re.compile(r"([0-9]+),([0-9]+),([0-9]+),(-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)")
CLASSES = {"throughput", "latency", "count", "pass/fail", "boolean", "percentage"}
BREAKOUTS = {"package", "die", "core", "thread", "cpu", "node", "device", "counter"}  # those that the design uses
DEFAULT = object()


def line(interval, event, value, unit="", running=100.0, **place):
    """One record as perf 6.12 prints it. value: a whole count, or perf's own words for it ("<not counted>"); place: cpu="0" and so on."""
    text = value if isinstance(value, str) else f"{value}.000000"
    places = "".join(f'"{key.replace("_", "-")}" : {json.dumps(where)}, ' for key, where in place.items())
    return (
        f'{{"interval" : {interval:.9f}, {places}"counter-value" : {json.dumps(text)}, "unit" : {json.dumps(unit)}, '
        f'"event" : {json.dumps(event)}, "event-runtime" : 1000000000, "pcnt-running" : {running:.2f}, '
        '"metric-value" : "0.000000", "metric-unit" : "(null)"}'
    )


def block(interval, counts, running=100.0, **place):
    """The records of one interval: one for each event of counts, {event: value}."""
    return [line(interval, event, value, running=running, **place) for event, value in counts.items()]


def run_of(*counts, **place):
    """Intervals of one second each, beginning at 1.0; each of counts is one interval's {event: value}."""
    return [record for second, events in enumerate(counts, 1) for record in block(float(second), events, **place)]


def as_bytes(output):
    """The content of a file: bytes as they are, a list of lines (str or bytes) with a line feed after each."""
    if isinstance(output, bytes):
        return output
    return b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in output)


def write_output(directory, output, archive=False):
    """Place perf-stat's output (see as_bytes) in a data directory, plain or as its .xz; returns its path."""
    path = directory / (OUTPUT + (".xz" if archive else ""))
    content = as_bytes(output)
    path.write_bytes(lzma.compress(content) if archive else content)
    return path


def write_clock(directory, begin=None, end=None, subtool="perf-stat"):
    """The clock file; begin and end in seconds after EPOCH, None leaves the line out."""
    lines = [
        f"{subtool} {moment} {EPOCH + seconds:.9f}\n" for moment, seconds in (("begin", begin), ("end", end)) if seconds is not None
    ]
    (directory / "kerneltools-clock.txt").write_text("".join(lines))


def write_topology(directory, cpus):
    """The topology snapshot; cpus: {cpu: (package, die, core, "threads of its core, as the kernel lists them")}."""
    for cpu, (package, die, core, threads) in cpus.items():
        topology = directory / "sys" / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True, exist_ok=True)
        files = {"physical_package_id": package, "die_id": die, "core_id": core, "thread_siblings_list": threads, "core_cpus_list": threads}
        for name, content in files.items():
            (topology / name).write_text(f"{content}\n")


def read_either(directory, name):
    """The text of a file, plain or .xz; None where there is neither. A plain one wins, as it does for the indexer."""
    if (directory / name).is_file():
        return (directory / name).read_text()
    if (directory / (name + ".xz")).is_file():
        with lzma.open(directory / (name + ".xz"), "rt") as archive:
            return archive.read()
    return None


def number(text):
    """The value field of a row: an int where it is written as one, else a float."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def merged(samples):
    """Samples (begin, end, value) with equal and contiguous neighbours made one, as toolbox writes them."""
    rows = []
    for begin, end, value in samples:
        if rows and rows[-1][2] == value and rows[-1][1] + 1 == begin:
            rows[-1] = (rows[-1][0], end, value)
        else:
            rows.append((begin, end, value))
    return rows


@dataclass
class Metrics:
    """The metric files of a postprocess directory, read back; reading asserts that the indexer would take every line of them."""

    series: list = field(default_factory=list)  # (desc, names, [(begin, end, value)], [text of each row's value])
    prefixes: set = field(default_factory=set)

    @property
    def types(self):
        return {desc["type"] for desc, *_ in self.series}

    def places(self, metric_type):
        """The breakouts of every series of a type, in no particular order of meaning: sorted."""
        return sorted((names for desc, names, *_ in self.series if desc["type"] == metric_type), key=lambda names: sorted(names.items()))

    def _one(self, metric_type, names):
        found = [entry for entry in self.series if entry[0]["type"] == metric_type and entry[1] == names]
        assert len(found) == 1, f"{len(found)} series of {metric_type} {names}; there are {self.places(metric_type)}"
        return found[0]

    def samples(self, metric_type, **names):
        """The rows of the series with exactly these breakouts, times in ms after EPOCH; equal and contiguous ones are one row."""
        return [(begin - EPOCH * 1000, end - EPOCH * 1000, value) for begin, end, value in merged(self._one(metric_type, names)[2])]

    def values(self, metric_type, **names):
        return [value for _, _, value in self.samples(metric_type, **names)]

    def texts(self, metric_type, **names):
        """The value field of each row as it is written."""
        return self._one(metric_type, names)[3]

    def desc(self, metric_type):
        """The descriptor of a type, the same for all its series."""
        descs = [desc for desc, *_ in self.series if desc["type"] == metric_type]
        assert descs
        assert all(desc == descs[0] for desc in descs)
        return descs[0]


def read_back(directory, subtools="perf-stat"):
    """The Metrics in directory/postprocess; AssertionError where a file, row or descriptor is not as contracts demand.

    subtools: those whose metric files may be there, as a regular expression.
    """
    output = directory / "postprocess"
    metrics = Metrics()
    files = {path.name for path in output.iterdir() if path.name.startswith("metric-data-")}
    for name in files:
        assert re.fullmatch(rf"metric-data-({subtools})-{MARK}(-[0-9]+)?\.(csv|json)(\.xz)?", name), f"{name} is no metric file"
    metrics.prefixes = {re.sub(r"\.(csv|json)(\.xz)?$", "", name) for name in files}
    for prefix in sorted(metrics.prefixes):
        descriptors = json.loads(read_either(output, prefix + ".json"))
        rows = {}
        for text in read_either(output, prefix + ".csv").splitlines():
            match = ROW.fullmatch(text)
            assert match, f"the indexer does not take the row {text!r}"
            idx, begin, end, value = int(match[1]), int(match[2]), int(match[3]), match[4]
            assert math.isfinite(float(value)), text
            assert begin <= end, text
            before = rows.setdefault(idx, [])
            assert not before or before[-1][1] < begin, f"{text!r} overlaps its predecessor, which ends at {before[-1][1]}"
            before.append((begin, end, value))
        assert sorted(rows) == sorted(entry["idx"] for entry in descriptors)
        for entry in descriptors:
            desc, names = entry["desc"], entry["names"]
            assert desc["source"] == "kernel"
            assert desc["class"] in CLASSES
            assert desc["default-aggregation"] in {"sum", "avg"}
            assert set(names) <= BREAKOUTS
            assert all(isinstance(value, str) and value for value in names.values()), f"{names}: toolbox needs non-empty strings"
            series = rows[entry["idx"]]
            metrics.series.append((desc, names, [(begin, end, number(text)) for begin, end, text in series], [row[2] for row in series]))
    identities = [(desc["type"], *sorted(names.items())) for desc, names, *_ in metrics.series]
    assert len(set(identities)) == len(identities), "one series twice"
    return metrics


def log_of(out):
    """What was printed before the closing table."""
    lines = []
    for text in out.splitlines():
        if re.match(r"type +unit +series +samples +mean +min +max$", text):
            break
        lines.append(text)
    return "\n".join(lines)


def table_of(out):
    """The closing table as {type: (unit, series, samples, mean, min, max)}; types and units without blanks only."""
    lines = out.splitlines()
    heads = [number for number, text in enumerate(lines) if re.match(r"type +unit +series +samples +mean +min +max$", text)]
    if not heads:
        return {}
    table = {}
    for text in lines[heads[-1] + 1 :]:
        metric_type, *unit, series, samples, mean, least, greatest = text.split()
        table[metric_type] = (" ".join(unit), int(series), int(samples), float(mean), float(least), float(greatest))
    return table


@dataclass
class Outcome:
    """What one run of the post-processor left: exit code, both outputs, and the metric files."""

    rc: int
    out: str
    err: str
    metrics: Metrics

    @property
    def log(self):
        return log_of(self.out)

    @property
    def table(self):
        return table_of(self.out)


def process(directory, subtools="perf-stat"):
    """Run the post-processor on a data directory as it is, in this process, with its built-in sink; subtools: see read_back."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.environ.pop("TOOLBOX_HOME", None)
        rc = main.main([str(directory)])
    assert "Traceback" not in out.getvalue() + err.getvalue(), out.getvalue() + err.getvalue()
    return Outcome(rc, out.getvalue(), err.getvalue(), read_back(directory, subtools))


def post_process(directory, output, archive=False, begin=DEFAULT, end=DEFAULT):
    """Place output and a clock file in a data directory and post-process it.

    begin, end: of the clock file, seconds after EPOCH; None leaves the line out. By default end is the greatest interval of
    output's lines, so that times in the metric files are perf's own, and begin 10 ms before perf counted.
    """
    write_output(directory, output, archive)
    if end is DEFAULT:
        end = max(map(float, re.findall(rb'"interval" : ([0-9]+\.[0-9]+)[,}]', as_bytes(output))), default=0.0)
    write_clock(directory, -0.01 if begin is DEFAULT else begin, end)
    return process(directory)
