# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Post-processing in this process, for the property tests and the fuzzing: files in, the rows of every metric file out.

Reading back asserts what the indexer needs of each row and descriptor, for every subtool.
"""

import contextlib
import io
import json
import lzma
import math
import os
import re
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from kerneltools import main

MARK = "[0-9a-f]{12}"  # the digits in the name of a metric file, which are the data directory's
EPOCH = 1_700_000_000  # seconds; times of the tests' clock files are relative to it
OUTPUTS = {
    "perf-stat": "perf-stat-output.json",
    "turbostat": "turbostat-stdout.txt",
    "toplev": "toplev-output.csv",
    "toplev-json": "toplev-output.json",
}
CLOCK = "kerneltools-clock.txt"
ENVIRONMENT = "kerneltools-environment.txt"

ROW = re.compile(r"(0|[1-9][0-9]*),(0|[1-9][0-9]*),(0|[1-9][0-9]*),(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)")
CLASSES = {"throughput", "count", "percentage"}
AGGREGATIONS = {"sum", "avg"}
BREAKOUTS = {"package", "die", "core", "thread", "cpu", "node", "device", "counter"}
LONGEST_EPOCH = 10**15  # ms; whatever is later is no time
XZ_MAGIC = b"\xfd7zXZ\x00"
# what is printed where an exception was caught
CAUGHT = re.compile(r"^(?:WARNING: \S+: (?:nothing is published|was not written)|Traceback )", re.MULTILINE)


class Published(NamedTuple):
    """What post-processing left: what it printed; per (type, breakouts as sorted pairs) the rows (begin, end, value)."""

    log: str
    series: dict


def metric_files(directory):
    """The names of a data directory's metric files without their endings, as post-process-data.json has them."""
    document = json.loads((Path(directory) / "postprocess" / "post-process-data.json").read_text())
    return document["periods"][0]["metric-files"]


def without_mark(name):
    """The name of a metric file without what is of its directory: `metric-data-perf-stat-2.csv.xz`."""
    return re.sub(rf"^(metric-data-[a-z][a-z-]*)-{MARK}(?=[-.]|$)", r"\1", name)


def number(text):
    """The value field of a row: an int where it is written as one, else a float."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def _content(path):
    content = path.read_bytes()
    return (lzma.decompress(content) if content.startswith(XZ_MAGIC) else content).decode()


def read_metric_files(output):
    """Every series below `output`; AssertionError where a file, descriptor or row is not as the indexer takes it."""
    series = {}
    names = {path.name for path in output.iterdir()}
    assert not any(name.startswith(".partial") for name in names), f"left behind: {sorted(names)}"
    for path in sorted(output.glob("metric-data-*.json.xz")):
        assert re.fullmatch(rf"metric-data-(?:perf-stat|turbostat|toplev)-{MARK}(?:-[0-9]+)?\.json\.xz", path.name)
        rows = {}
        for text in _content(path.with_name(path.name.replace(".json", ".csv"))).splitlines():
            match = ROW.fullmatch(text)
            assert match, f"the indexer does not take the row {text!r}"
            index, begin, end, value = int(match[1]), int(match[2]), int(match[3]), number(match[4])
            assert math.isfinite(value), text
            assert begin <= end <= LONGEST_EPOCH, text
            before = rows.setdefault(index, [])
            assert not before or before[-1][1] < begin, f"{text!r} overlaps its predecessor, which ends at {before[-1][1]}"
            before.append((begin, end, value))
        descriptors = json.loads(_content(path))
        assert sorted(rows) == sorted(entry["idx"] for entry in descriptors)
        for entry in descriptors:
            desc, breakouts = entry["desc"], entry["names"]
            assert set(desc) == {"source", "class", "type", "default-aggregation"}, desc
            assert desc["source"] == "kernel"
            assert desc["type"]
            assert desc["class"] in CLASSES
            assert desc["default-aggregation"] in AGGREGATIONS
            assert set(breakouts) <= BREAKOUTS, breakouts
            assert all(isinstance(value, str) and value for value in breakouts.values()), f"{breakouts}: toolbox needs text"
            key = desc["type"], tuple(sorted(breakouts.items()))
            assert key not in series, f"one series twice: {key}"
            series[key] = rows[entry["idx"]]
    assert {name for name in names if name.startswith("metric-data-")} == {
        path.name.replace(".json", suffix) for path in output.glob("metric-data-*.json.xz") for suffix in (".json", ".csv")
    }
    return series


def write_files(directory, files):
    """Put files, {name relative to directory: bytes}, into a data directory."""
    for name, content in files.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def clock_file(subtool, begin=None, end=None):
    """The content of a clock file; begin and end in seconds (or as text) after EPOCH, None leaves the line out."""
    lines = []
    for moment, seconds in (("begin", begin), ("end", end)):
        if seconds is not None:
            lines.append(f"{subtool} {moment} {EPOCH + seconds:.9f}\n")
    return "".join(lines).encode()


def topology_files(cpus):
    """The topology snapshot; cpus: {cpu: (package, die, core, "threads of its core")}."""
    return {
        f"sys/devices/system/cpu/cpu{cpu}/topology/{name}": f"{value}\n".encode()
        for cpu, values in cpus.items()
        for name, value in zip(("physical_package_id", "die_id", "core_id", "core_cpus_list"), values)
    }


def post_process(directory):
    """Run the whole post-processor on a data directory and read back what it published; AssertionError where an exception cost
    anything, also where it was caught and counted."""
    out = io.StringIO()
    with mock.patch.dict(os.environ), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        os.environ.pop("TOOLBOX_HOME", None)
        code = main.main([str(directory)])
    printed = out.getvalue()
    assert not CAUGHT.search(printed), printed
    assert code == bool(re.search("^WARNING: ", printed, re.MULTILINE)), printed
    output = Path(directory) / "postprocess"
    expected = sorted(prefix + ".json.xz" for prefix in metric_files(directory))
    assert sorted(path.name for path in output.glob("metric-data-*.json.xz")) == expected
    return Published(printed, read_metric_files(output))
