# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""turbostat's tables, written by hand from the format's rules, and what becomes of them: every expected value and breakout by hand.

Times are ms after EPOCH. A table is a list of rows, a row the text of its fields with blanks between them; "." is an empty field.
RECORDED is what turbostat 6.12 printed (--no-msr, two CPUs, interval 1 s, then SIGINT).
"""

import contextlib
import io
import json
import lzma
import os
import re
from collections import defaultdict
from dataclasses import dataclass
from unittest import mock

import pytest
from published import MARK

from kerneltools import catalogue, main
from kerneltools.rawfile import RawFile
from kerneltools.turbostat_places import BREAKOUTS

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

EPOCH = 1_700_000_000
OUTPUT = "turbostat-stdout.txt"
T = "Time_Of_Day_Seconds"

RECORDED = """\
Time_Of_Day_Seconds\tCore\tCPU\tTSC_MHz\tIRQ\tPOLL\thaltpoll idle\tPOLL%\thaltpoll idle%
1700000001.989523\t-\t-\t2596\t106\t0\t101\t0.00\t98.96
1700000001.989315\t0\t0\t2596\t71\t0\t67\t0.00\t98.35
1700000001.989523\t1\t1\t2596\t35\t0\t34\t0.00\t99.60
Time_Of_Day_Seconds\tCore\tCPU\tTSC_MHz\tIRQ\tPOLL\thaltpoll idle\tPOLL%\thaltpoll idle%
1700000002.990487\t-\t-\t2596\t85\t0\t83\t0.00\t99.51
1700000002.990298\t0\t0\t2596\t60\t0\t60\t0.00\t99.64
1700000002.990487\t1\t1\t2596\t25\t0\t23\t0.00\t99.37
Time_Of_Day_Seconds\tCore\tCPU\tTSC_MHz\tIRQ\tPOLL\thaltpoll idle\tPOLL%\thaltpoll idle%
1700000003.991433\t-\t-\t2596\t397\t0\t313\t0.00\t93.38
1700000003.991263\t0\t0\t2596\t188\t0\t163\t0.00\t96.09
1700000003.991433\t1\t1\t2596\t209\t0\t150\t0.00\t90.67
Time_Of_Day_Seconds\tCore\tCPU\tTSC_MHz\tIRQ\tPOLL\thaltpoll idle\tPOLL%\thaltpoll idle%
1700000004.390217\t-\t-\t2597\t39\t0\t35\t0.00\t99.28
1700000004.390067\t0\t0\t2596\t19\t0\t17\t0.00\t99.01
1700000004.390217\t1\t1\t2596\t20\t0\t18\t0.00\t99.51
"""


# --- writing tables, reading metric files


def row(text):
    """One line of the table: the words as fields, "." for an empty one."""
    return "\t".join("" if word == "." else word for word in text.split())


def table(*rows):
    return "".join(row(text) + "\n" for text in rows)


def stamped(*intervals, header, seconds=10):
    """A table with a time in every row and its header before each interval; each of intervals is its rows."""
    lines = []
    for number, rows in enumerate(intervals, 1):
        lines.append(f"{T} {header}")
        lines += [f"{EPOCH + number * seconds}.000000 {text}" for text in rows]
    return table(*lines)


@dataclass
class Outcome:
    """What post-processing left: series as (descriptor, breakouts, rows), the log and the exit code."""

    rc: int
    log: str
    series: list

    @property
    def types(self):
        return {desc["type"].partition(":")[2] for desc, _, _ in self.series}

    def of(self, metric_type):
        return [(names, rows) for desc, names, rows in self.series if desc["type"] == f"turbostat:{metric_type}"]

    def values(self, metric_type, *breakouts):
        """{(the values of these breakouts): [value of each row]}; asserts that there are no others."""
        found = self.of(metric_type)
        for names, _ in found:
            assert tuple(names) == breakouts, f"{metric_type}: {names}"
        assert len({tuple(names.values()) for names, _ in found}) == len(found)
        return {" ".join(names.values()): [value for _, _, value in rows] for names, rows in found}

    def cpus(self, metric_type):
        """{"package die core thread cpu": [values]}"""
        return self.values(metric_type, "package", "die", "core", "thread", "cpu")

    def cores(self, metric_type):
        return self.values(metric_type, "package", "die", "core")

    def packages(self, metric_type):
        return self.values(metric_type, "package")

    def system(self, metric_type):
        return self.values(metric_type).get("")

    def times(self, metric_type, **names):
        """[(begin, end)] in ms after EPOCH of the series with (at least) these breakouts."""
        found = [rows for has, rows in self.of(metric_type) if names.items() <= has.items()]
        assert len(found) == 1
        return [(begin - EPOCH * 1000, end - EPOCH * 1000) for begin, end, _ in found[0]]

    def desc(self, metric_type):
        descs = [desc for desc, _, _ in self.series if desc["type"] == f"turbostat:{metric_type}"]
        assert descs
        assert all(desc == descs[0] for desc in descs)
        return descs[0]


def read_back(directory):
    """Every series of the metric files; AssertionError where the indexer would not take a row."""
    series = []
    for path in sorted(directory.glob("metric-data-*.json.xz")):
        assert re.fullmatch(rf"metric-data-turbostat-{MARK}(-[0-9]+)?\.json\.xz", path.name)
        rows = defaultdict(list)
        with lzma.open(str(path).replace(".json.xz", ".csv.xz"), "rt") as csv:
            for line in csv:
                match = re.fullmatch(r"([0-9]+),([0-9]+),([0-9]+),(-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)\n", line)
                assert match, line
                begin, end = int(match[2]), int(match[3])
                value = int(match[4]) if match[4].lstrip("-").isdigit() else float(match[4])
                assert begin <= end
                assert not rows[match[1]] or rows[match[1]][-1][1] < begin, "two samples of one series at one time"
                rows[match[1]].append((begin, end, value))
        with lzma.open(path, "rt") as descriptors:
            for entry in json.load(descriptors):
                assert entry["desc"]["source"] == "kernel"
                assert set(entry["names"]) <= {"package", "die", "core", "thread", "cpu"}
                assert all(isinstance(value, str) and value for value in entry["names"].values())
                series.append((entry["desc"], entry["names"], rows.pop(str(entry["idx"]))))
        assert not rows
    identities = [(desc["type"], tuple(sorted(names.items()))) for desc, names, _ in series]
    assert len(set(identities)) == len(identities)
    return series


def process(directory):
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.environ.pop("TOOLBOX_HOME", None)
        rc = main.main([str(directory)])
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Outcome(rc, out.getvalue(), read_back(directory / "postprocess"))


@pytest.fixture
def directory(tmp_path):
    return tmp_path


@pytest.fixture
def publish(directory):
    """publish(table, vendor=None, topology={}, clock={}, interval=None): the Outcome of a data directory that holds these."""

    def run(text, vendor=None, topology=None, clock=None, interval=None):
        (directory / OUTPUT).write_bytes(text if isinstance(text, bytes) else text.encode())
        environment = {"cpu_vendor": vendor, "turbostat_interval": interval}
        (directory / "kerneltools-environment.txt").write_text("".join(f"{key}={value}\n" for key, value in environment.items() if value))
        for cpu, (package, die, core, siblings) in (topology or {}).items():
            place = directory / f"sys/devices/system/cpu/cpu{cpu}/topology"
            place.mkdir(parents=True, exist_ok=True)
            files = {"physical_package_id": package, "die_id": die, "core_id": core, "thread_siblings_list": siblings}
            for name, content in files.items():
                (place / name).write_text(f"{content}\n")
        lines = [f"turbostat {moment} {EPOCH + seconds:.9f}\n" for moment, seconds in (clock or {}).items()]
        (directory / "kerneltools-clock.txt").write_text("".join(lines))
        return process(directory)

    return run


# --- an independent reading of how CDM folds the documents of a query


def cdm(outcome, metric_type, begin, end):
    """The answer to `get metric --type metric_type --begin --end` without breakouts: for each series the average over the window
    weighted by duration (nothing counts as 0), over the series their sum or mean as the descriptor says."""
    averages = []
    for _, rows in outcome.of(metric_type):
        total = 0
        for first, last, value in rows:
            overlap = min(last, end) - max(first, begin) + 1
            if overlap > 0:
                total += value * overlap
        averages.append(total / (end - begin + 1))
    fold = outcome.desc(metric_type)["default-aggregation"]
    return sum(averages) / (len(averages) if fold == "avg" else 1)


# --- the tables

TWO_PACKAGES = (
    "Package Die Node Core CPU Avg_MHz Busy% Bzy_MHz TSC_MHz IPC IRQ SMI POLL% C1% CPU%c1 CPU%c6 CoreTmp CoreThr PkgTmp PkgWatt RAMWatt"
)
TWO_PACKAGES_ROWS = [
    "- - - - - 850 25.00 3400 2400 1.10 360 8 0.50 4.00 30.00 45.00 70 0 66 210.50 30.25",
    "0 0 0 0 0 340 10.00 3400 2400 0.50 10 1 0.10 1.00 20.00 70.00 50 0 60 100.25 10.25",
    "0 0 0 0 8 680 20.00 3400 2400 0.60 20 1 0.20 2.00 10.00",
    "0 0 0 1 1 340 10.00 3400 2400 0.70 30 1 0.30 3.00 20.00 70.00 51 0",
    "0 0 0 1 9 680 20.00 3400 2400 0.80 40 1 0.40 4.00 10.00",
    "0 1 0 4 2 340 10.00 3400 2400 0.90 50 1 0.50 5.00 20.00 70.00 52 0",
    "0 1 0 4 10 680 20.00 3400 2400 1.00 60 1 0.60 6.00 10.00",
    "1 0 1 0 4 1360 40.00 3400 2400 1.50 70 1 0.70 7.00 40.00 20.00 70 2 66 110.25 20.00",
    "1 0 1 0 12 1360 40.00 3400 2400 1.60 80 1 0.80 8.00 40.00",
]


def test_each_metric_of_two_packages_with_two_dies_and_smt_has_the_scope_of_its_column(publish):
    outcome = publish(stamped(TWO_PACKAGES_ROWS, TWO_PACKAGES_ROWS, header=TWO_PACKAGES))
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {
        "0 0 0 0 0": [10.0], "0 0 0 1 8": [20.0], "0 0 1 0 1": [10.0], "0 0 1 1 9": [20.0],
        "0 1 4 0 2": [10.0], "0 1 4 1 10": [20.0], "1 0 0 0 4": [40.0], "1 0 0 1 12": [40.0],
    }  # fmt: skip
    assert outcome.cpus("cpu-freq-avg-mhz")["1 0 0 1 12"] == [1360]
    assert outcome.cpus("cpu-busy-freq-mhz")["0 0 0 1 8"] == [3400]
    assert outcome.cpus("ipc")["0 1 4 1 10"] == [1.0]
    assert [values for _, values in sorted(outcome.cpus("irq").items())] == [[10], [20], [30], [40], [50], [60], [70], [80]]
    assert len(outcome.cpus("smi")) == len(outcome.cpus("poll-pct")) == 8
    assert outcome.cpus("c1-pct")["0 1 4 0 2"] == [5.0]
    assert outcome.cpus("cpu-c1-pct")["0 0 1 1 9"] == [10.0]
    assert outcome.cores("cpu-c6-pct") == {"0 0 0": [70.0], "0 0 1": [70.0], "0 1 4": [70.0], "1 0 0": [20.0]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [50], "0 0 1": [51], "0 1 4": [52], "1 0 0": [70]}
    assert outcome.cores("core-throttle") == {"0 0 0": [0], "0 0 1": [0], "0 1 4": [0], "1 0 0": [2]}
    assert outcome.packages("package-temp-celsius") == {"0": [60], "1": [66]}
    assert outcome.packages("package-power-watt") == {"0": [100.25], "1": [110.25]}
    assert outcome.packages("ram-power-watt") == {"0": [10.25], "1": [20.0]}
    assert "TSC_MHz" in outcome.log


def test_a_query_without_breakouts_gives_the_packages_total_power_and_the_cpus_mean_busy_share(publish):
    second = [text.replace("100.25", "300.25").replace("10.00 3400", "50.00 3400") for text in TWO_PACKAGES_ROWS]
    outcome = publish(stamped(TWO_PACKAGES_ROWS, second, header=TWO_PACKAGES))
    first, last = EPOCH * 1000 + 1, EPOCH * 1000 + 20000
    # the first 10 s: 100.25 + 110.25, then 300.25 + 110.25
    assert cdm(outcome, "package-power-watt", first, last) == pytest.approx((210.5 + 410.5) / 2)
    assert cdm(outcome, "package-power-watt", first, first + 9999) == pytest.approx(210.5)
    # 10+20+10+20+10+20+40+40 = 170, then 50 for each of the three 10s: 290, over 8 CPUs
    assert cdm(outcome, "cpu-busy-pct", first, last) == pytest.approx((170 / 8 + 290 / 8) / 2)
    assert outcome.desc("package-power-watt") == {
        "source": "kernel", "class": "throughput", "type": "turbostat:package-power-watt", "default-aggregation": "sum"
    }  # fmt: skip
    assert outcome.desc("cpu-busy-pct")["class"] == "percentage"
    # interrupts: 10+...+80 in each 10 s
    assert cdm(outcome, "irq", first, last) == 360


def test_samples_are_contiguous_from_the_start_of_the_first_interval(publish):
    rows = [["- - 1.00", f"0 0 {number}.00", "1 1 2.50"] for number in range(1, 4)]
    outcome = publish(stamped(*rows, header="Core CPU Busy%"))
    assert outcome.times("cpu-busy-pct", cpu="0") == [(1, 10000), (10001, 20000), (20001, 30000)]
    assert outcome.times("cpu-busy-pct", cpu="1") == [(1, 30000)], "equal values are one row"


def test_an_interval_ends_when_its_last_cpu_was_read_and_the_last_one_is_shorter(publish):
    outcome = publish(RECORDED)
    assert outcome.rc == 0, outcome.log
    # distances 1.000964, 1.000946 and 0.398784; the first interval began 1.001 s before 1.989523
    assert outcome.times("irq", cpu="0") == [(990, 1990), (1991, 2990), (2991, 3991), (3992, 4390)]
    assert outcome.cpus("irq") == {"0 0 0 0 0": [71, 60, 188, 19], "0 0 1 0 1": [35, 25, 209, 20]}
    assert outcome.cpus("haltpoll-idle-pct")["0 0 1 0 1"] == [99.6, 99.37, 90.67, 99.51]
    assert outcome.cpus("poll-pct") == {"0 0 0 0 0": [0.0], "0 0 1 0 1": [0.0]}, "zero all along is kept"
    assert outcome.types == {"irq", "poll-pct", "haltpoll-idle-pct"}, "counts of idle states are no percentages"


def test_the_first_interval_does_not_begin_before_the_launch(publish):
    text = stamped(["- - 1.00", "0 0 1.00"], ["- - 1.00", "0 0 2.00"], header="Core CPU Busy%")
    assert publish(text, clock={"begin": 0.25}).times("cpu-busy-pct") == [(251, 10000), (10001, 20000)]
    assert publish(text, clock={"begin": -3}).times("cpu-busy-pct") == [(1, 10000), (10001, 20000)]
    assert publish(text, interval="5").times("cpu-busy-pct") == [(5001, 10000), (10001, 20000)]
    single = stamped(["- - 1.00", "0 0 1.00"], header="Core CPU Busy%")
    assert publish(single, clock={"begin": 0.25}).times("cpu-busy-pct") == [(251, 10000)]


def test_a_single_package_has_neither_package_nor_die_columns(publish):
    rows = ["- - 5.00 41 40 20.50 2000", "0 0 4.00 40 40 20.50 2000", "0 2 5.00", "1 1 6.00 41", "1 3 5.00"]
    outcome = publish(stamped(rows, header="Core CPU Busy% CoreTmp PkgTmp PkgWatt UncMHz"))
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [4.0], "0 0 0 1 2": [5.0], "0 0 1 0 1": [6.0], "0 0 1 1 3": [5.0]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [40], "0 0 1": [41]}
    assert outcome.packages("package-power-watt") == {"0": [20.5]}
    assert outcome.packages("uncore-freq-mhz") == {"0": [2000]}


def test_what_the_columns_leave_out_comes_from_the_topology_snapshot(publish):
    topology = {0: ("0", "0", "0", "0,4"), 4: ("0", "0", "0", "0,4"), 2: ("1", "3", "7", "2,6"), 6: ("1", "3", "7", "2,6")}
    rows = ["- 5.00 60 90.00", "0 4.00 40 30.00", "4 5.00", "2 6.00 60 60.00", "6 5.00"]
    outcome = publish(stamped(rows, header="CPU Busy% CoreTmp PkgWatt"), topology=topology)
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [4.0], "0 0 0 1 4": [5.0], "1 3 7 0 2": [6.0], "1 3 7 1 6": [5.0]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [40], "1 3 7": [60]}
    assert outcome.packages("package-power-watt") == {"0": [30.0], "1": [60.0]}


def test_two_packages_with_only_a_cpu_column_and_no_snapshot_are_not_added_to_one(publish):
    rows = ["- 5.00 60 90.00", "0 4.00 40 30.00", "1 5.00 41", "2 6.00 60 60.00", "3 5.00 61"]
    vanished = ["- 5.00 60 90.00", "1 5.00 41 31.00", "2 6.00 60 60.00", "3 5.00 61"]
    outcome = publish(stamped(rows, vanished, header="CPU Busy% CoreTmp PkgWatt"))
    assert outcome.packages("package-power-watt") == {"0": [30.0, 31.0], "1": [60.0]}
    assert outcome.values("cpu-busy-pct", "package", "die", "cpu") == {"0 0 0": [4.0], "0 0 1": [5.0], "1 0 2": [6.0], "1 0 3": [5.0]}
    assert outcome.values("core-temp-celsius", "package", "die", "cpu")["1 0 3"] == [61]
    assert "numbered in the order of the rows" in outcome.log


AMD = "Package Core CPU Avg_MHz Busy% Bzy_MHz IRQ CorWatt PkgWatt"
AMD_ROWS = [
    "- - - 1000 40.00 2500 100 9.50 190.00",
    "0 0 0 1000 40.00 2500 25 2.00 100.00",
    "0 0 4 1000 40.00 2500 25",
    "0 1 1 1000 40.00 2500 25 2.50",
    "1 0 2 1000 40.00 2500 25 5.00 90.00",
]


@pytest.mark.parametrize("vendor", ["AuthenticAMD", None])
def test_amd_core_power_is_the_cores_own(publish, vendor):
    outcome = publish(stamped(AMD_ROWS, header=AMD), vendor=vendor)
    assert outcome.rc == 0, outcome.log
    assert outcome.cores("core-power-watt") == {"0 0 0": [2.0], "0 0 1": [2.5], "1 0 0": [5.0]}
    assert outcome.packages("package-power-watt") == {"0": [100.0], "1": [90.0]}
    assert outcome.types == {"cpu-freq-avg-mhz", "cpu-busy-pct", "cpu-busy-freq-mhz", "irq", "core-power-watt", "package-power-watt"}
    assert "CorWatt is taken as the power of a core" in outcome.log


def test_amd_core_power_is_the_cores_own_where_a_package_has_one_core(publish):
    rows = ["- - 40.00 9.50 190.00", "0 0 40.00 2.00 100.00", "1 1 40.00 7.50 90.00"]
    order_of_amd = publish(stamped(rows, header="Package CPU Busy% CorWatt PkgWatt"))
    assert order_of_amd.of("core-power-watt")[0][0].keys() >= {"package", "cpu"}
    rows = ["- - 40.00 190.00 9.50", "0 0 40.00 100.00 2.00", "1 1 40.00 90.00 7.50"]
    assert publish(stamped(rows, header="Package CPU Busy% PkgWatt CorWatt")).packages("core-power-watt") == {"0": [2.0], "1": [7.5]}


INTEL = "Package Core CPU Busy% CPU%c1 CPU%c6 PkgTmp Pkg%pc2 Pkg%pc6 Pk%pc10 PkgWatt CorWatt GFXWatt RAMWatt"
INTEL_ROWS = [
    "- - - 10.00 20.00 70.00 61 5.00 6.00 7.00 70.00 30.00 0.00 9.00",
    "0 0 0 10.00 20.00 70.00 60 5.00 6.00 7.00 30.00 10.00 0.00 4.00",
    "0 0 2 10.00 20.00",
    "1 0 1 10.00 20.00 70.00 61 15.00 16.00 17.00 40.00 20.00 0.00 5.00",
    "1 0 3 10.00 20.00",
]


@pytest.mark.parametrize("vendor", ["GenuineIntel", None])
def test_intel_package_states_and_core_power_are_the_packages(publish, vendor):
    outcome = publish(stamped(INTEL_ROWS, header=INTEL), vendor=vendor)
    assert outcome.rc == 0, outcome.log
    assert outcome.packages("pkg-pc2-pct") == {"0": [5.0], "1": [15.0]}
    assert outcome.packages("pkg-pc6-pct") == {"0": [6.0], "1": [16.0]}
    assert outcome.packages("pkg-pc10-pct") == {"0": [7.0], "1": [17.0]}
    assert outcome.packages("core-power-watt") == {"0": [10.0], "1": [20.0]}
    assert outcome.packages("gfx-power-watt") == {"0": [0.0], "1": [0.0]}
    assert outcome.packages("ram-power-watt") == {"0": [4.0], "1": [5.0]}
    assert outcome.cores("cpu-c6-pct") == {"0 0 0": [70.0], "1 0 0": [70.0]}


def test_the_summary_is_used_for_what_stands_nowhere_else(publish):
    rows = ["- - 30.00 90.00 250.00", "0 0 20.00 90.00", "1 1 40.00"]
    outcome = publish(stamped(rows, header="Core CPU Busy% PkgWatt SysWatt"))
    assert outcome.system("system-power-watt") == [250.0]
    assert outcome.packages("package-power-watt") == {"0": [90.0]}
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0], "0 0 1 0 1": [40.0]}


def test_the_summary_stands_in_for_package_rows_that_a_cpu_list_left_out(publish):
    # turbostat --cpu 1: the rows that hold the package's values are not shown
    outcome = publish(stamped(["- - 30.00 90.00", "1 1 40.00"], ["- - 30.00 95.00", "1 1 41.00"], header="Core CPU Busy% PkgWatt"))
    assert outcome.system("package-power-watt") == [90.0, 95.0]
    assert outcome.cpus("cpu-busy-pct") == {"0 0 1 0 1": [40.0, 41.0]}
    assert "summary row only" in outcome.log


def test_a_table_with_only_the_summary_row(publish):
    header = "Package Core CPU Busy% IRQ PkgWatt"
    outcome = publish(stamped(["- - - 30.00 100 90.00"], ["- - - 31.00 110 91.00"], header=header))
    assert outcome.rc == 0, outcome.log
    assert outcome.system("cpu-busy-pct") == [30.0, 31.0]
    assert outcome.system("irq") == [100, 110]
    assert outcome.system("package-power-watt") == [90.0, 91.0]


def test_the_summary_option_leaves_no_dash_to_tell_the_summary_by(publish):
    lines = [f"{T} Avg_MHz Busy% CoreTmp PkgWatt", *(f"{EPOCH + 10 * n}.00{n}000 {n}00 {n}.00 50 9{n}.00" for n in (1, 2, 3))]
    outcome = publish(table(*lines))
    assert outcome.rc == 0, outcome.log
    assert outcome.system("cpu-busy-pct") == [1.0, 2.0, 3.0]
    assert outcome.system("package-power-watt") == [91.0, 92.0, 93.0]
    assert outcome.system("core-temp-celsius") == [50]
    # 10.001, 20.002, 30.003
    assert outcome.times("cpu-busy-pct") == [(1, 10001), (10002, 20002), (20003, 30003)]


def test_rows_of_cpus_whose_columns_are_hidden_are_not_taken_for_intervals(publish):
    # turbostat --hide CPU,Core; a machine with one CPU looks the same
    lines = []
    for n in (1, 2):
        lines += [f"{T} Busy% PkgWatt", f"{EPOCH + 10 * n}.000300 {n}.50 90.00"]
        lines += [f"{EPOCH + 10 * n}.000100 {n}.00 90.00", f"{EPOCH + 10 * n}.000300 {n + 1}.00"]
    outcome = publish(table(*lines))
    assert outcome.system("cpu-busy-pct") == [1.5, 2.5]
    assert outcome.system("package-power-watt") == [90.0]
    assert outcome.times("cpu-busy-pct") == [(1, 10000), (10001, 20000)]
    assert "do not say where they belong" in outcome.log


def test_a_table_without_a_cpu_column_publishes_what_it_can_attribute(publish):
    rows = ["- - 30.00 61 90.00", "0 0 20.00 60 40.00", "1 0 40.00 61 50.00"]
    outcome = publish(stamped(rows, header="Package Core Busy% CoreTmp PkgWatt"))
    assert outcome.packages("package-power-watt") == {"0": [40.0], "1": [50.0]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [60], "1 0 0": [61]}
    assert outcome.system("cpu-busy-pct") == [30.0], "of no CPU that the rows would name"


def test_a_header_that_changes_midway(publish):
    first = stamped(["- - 30.00 90.00", "0 0 20.00 90.00", "1 1 40.00"], header="Core CPU Busy% PkgWatt")
    second = table(
        f"{T} Package Core CPU Avg_MHz PkgTmp PkgWatt Busy%",
        *(f"{EPOCH + 20}.000000 {text}" for text in ("- - - 900 50 91.00 31.00", "0 0 0 900 50 91.00 21.00", "0 1 1 900 . . 41.00")),
    )
    outcome = publish(first + second)
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0, 21.0], "0 0 1 0 1": [40.0, 41.0]}
    assert outcome.packages("package-power-watt") == {"0": [90.0, 91.0]}
    assert outcome.cpus("cpu-freq-avg-mhz") == {"0 0 0 0 0": [900], "0 0 1 0 1": [900]}
    assert outcome.packages("package-temp-celsius") == {"0": [50]}


@pytest.mark.parametrize("cut", [f"{T}\tCore\tCPU\tBusy%\tCPU", f"{T}\tCore\tCPU\tBus", f"{T}\tCore\tC", f"{T}\t"])
def test_a_cut_header_is_completed_from_a_whole_one(publish, cut):
    rows = ["- - 30.00 10.00 90.00", "0 0 20.00 5.00 90.00", "1 1 40.00 15.00"]
    whole = stamped(rows, rows, header="Core CPU Busy% CPU%c1 PkgWatt")
    lines = whole.split("\n")
    for cut_one in (0, 4):
        damaged = list(lines)
        damaged[cut_one] = cut
        outcome = publish("\n".join(damaged))
        assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0], "0 0 1 0 1": [40.0]}
        assert outcome.cpus("cpu-c1-pct") == {"0 0 0 0 0": [5.0], "0 0 1 0 1": [15.0]}
        assert outcome.packages("package-power-watt") == {"0": [90.0]}
        assert outcome.times("package-power-watt") == [(1, 20000)]


@pytest.fixture
def passes(monkeypatch):
    """A list that gets an entry each time that an output is read from its beginning."""
    pieces, begun = RawFile.pieces, []

    def counted(raw):
        begun.append(raw.path.name)
        return pieces(raw)

    monkeypatch.setattr(RawFile, "pieces", counted)
    return begun


LONG = 3000  # intervals; more text than is read at a time


def test_a_cut_header_is_completed_from_a_whole_one_far_behind_it(publish, passes):
    rows = [f"{EPOCH + number}.000000 {cpu} {number % 100}.{cpu}0 {cpu}" for number in range(1, LONG) for cpu in range(2)]
    last = [f"{T} CPU Busy% IRQ", f"{EPOCH + LONG}.000000 0 98.00 7", f"{EPOCH + LONG}.000000 1 98.10 8"]
    outcome = publish(table(f"{T} CPU Bu", *rows, *last))
    assert outcome.log.count("headers that are cut are completed from a whole one") == 1
    assert outcome.values("irq", "package", "die", "cpu") == {"0 0 0": [0, 7], "0 0 1": [1, 8]}
    busy = outcome.values("cpu-busy-pct", "package", "die", "cpu")
    assert busy["0 0 1"] == [number % 100 + 0.1 for number in range(1, LONG)] + [98.1]
    assert outcome.times("irq", cpu="0")[-1] == ((LONG - 1) * 1000 + 1, LONG * 1000)
    assert passes == [OUTPUT]


def test_rows_with_more_fields_than_any_header_are_lost_however_far_a_header_is(publish, passes):
    rows = [f"{EPOCH + number}.000000 0 5.00 {number}" for number in range(1, LONG)]
    outcome = publish(table(f"{T} CPU Busy%", *rows, f"{T} CPU Busy%", f"{EPOCH + LONG}.000000 0 6.00"))
    assert f"rows with more fields than their header has columns ({LONG - 1} times)" in outcome.log
    assert outcome.values("cpu-busy-pct", "package", "die", "cpu") == {"0 0 0": [6.0]}
    assert passes == [OUTPUT]


@pytest.mark.parametrize(("is_repeated", "intervals"), [(True, LONG), (False, 3 * LONG)])
def test_a_long_table_without_places_and_times_is_of_cpus_only_where_the_header_is_repeated(publish, passes, is_repeated, intervals):
    rows = [["10.00 3000 91.00", "5.00 3000 91.00", f"{number % 90}.50 3000 91.00"] for number in range(LONG)]
    text = table(*(line for three in rows for line in (["Busy% Bzy_MHz PkgWatt"] * (is_repeated or three is rows[0]) + three)))
    outcome = publish(text, clock={"begin": 0.0, "end": 10 * intervals}, interval="10")
    assert outcome.times("package-power-watt") == [(1, 10_000 * intervals)]
    assert outcome.system("cpu-busy-pct")[:3] == ([10.0] if is_repeated else [10.0, 5.0, 0.5])
    assert passes == [OUTPUT]


def test_rows_whose_header_is_lost_are_not_guessed_at(publish):
    text = stamped(["- - 30.00 90.00", "0 0 20.00 90.00"], ["- - 31.00 91.00", "0 0 21.00 91.00"], header="Core CPU Busy% PkgWatt")
    outcome = publish(text.partition("\n")[2])
    assert outcome.rc == 1
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [21.0]}
    assert "before the first header (2 times)" in outcome.log


def test_a_cpu_that_vanishes_and_returns(publish):
    both = ["- - 30.00", "0 0 20.00", "1 1 40.00"]
    alone = ["- - 20.00", "0 0 25.00"]
    text = stamped(both, *[alone] * 2, both, *[alone] * 4, both, header="Core CPU Busy%")
    text = text.replace(f"{EPOCH + 20}.000000\t-", f"turbostat: re-initialized with num_cpus 1, allowed_cpus 1\n{EPOCH + 20}.000000\t-")
    outcome = publish(text)
    assert outcome.rc == 0, outcome.log
    assert outcome.times("cpu-busy-pct", cpu="0")[-1] == (80001, 90000)
    # two intervals away are reached back over, four are not
    assert outcome.times("cpu-busy-pct", cpu="1") == [(1, 40000), (80001, 90000)]
    assert "holes" in outcome.log


def test_the_first_thread_of_a_core_may_vanish_without_splitting_the_core(publish):
    with_it = ["- - 5.00 40 20.00", "0 0 4.00 40 20.00", "0 2 6.00"]
    without = ["- - 6.00 41 21.00", "0 2 6.00 41 21.00"]
    outcome = publish(stamped(with_it, without, header="Core CPU Busy% CoreTmp PkgWatt"))
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [40, 41]}
    assert outcome.packages("package-power-watt") == {"0": [20.0, 21.0]}
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [4.0], "0 0 0 1 2": [6.0]}


@pytest.mark.parametrize("cut", range(1, 32))
def test_a_cut_last_row_gives_no_shortened_number(publish, cut):
    text = stamped(["- - 300 90.00", "0 0 123 90.00", "1 1 456"], ["- - 300 90.00", "0 0 789 123.45"], header="Core CPU IRQ PkgWatt")
    outcome = publish(text[:-cut])
    assert outcome.cpus("irq")["0 0 1 0 1"] == [456]
    assert set(outcome.cpus("irq")["0 0 0 0 0"]) <= {123, 789}
    # without its line feed the row is whole all the same: turbostat writes two decimals
    assert outcome.packages("package-power-watt") == {"0": [90.0] if cut > 1 else [90.0, 123.45]}
    assert outcome.rc == (0 if cut == 1 or text[:-cut].endswith("\n") else 1)


def test_what_turbostat_could_not_measure_is_no_sample(publish):
    header = "Core CPU Busy% Bzy_MHz IPC IRQ CoreTmp GFX%rc6 PkgWatt RAMWatt"
    broken = ["- - -nan -nan nan 10 0 **.** 90.00 ***", "0 0 -nan -nan nan -5 *** **.** (neg) ***", "1 1 20.00 inf 0.50 5 50"]
    good = ["- - 20.00 2000 1.00 10 50 1.00 90.00 9.00", "0 0 20.00 2000 1.00 5 50 1.00 90.00 9.00", "1 1 20.00 2000 0.50 5 50"]
    outcome = publish(stamped(broken, good, header=header))
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0], "0 0 1 0 1": [20.0]}
    assert outcome.times("cpu-busy-pct", cpu="0") == [(10001, 20000)]
    assert outcome.times("cpu-busy-pct", cpu="1") == [(1, 20000)]
    assert outcome.times("cpu-busy-freq-mhz", cpu="1") == [(10001, 20000)]
    assert outcome.times("irq", cpu="0") == [(10001, 20000)]
    assert outcome.times("package-power-watt") == [(10001, 20000)]
    assert outcome.times("core-temp-celsius", core="0") == [(10001, 20000)]
    assert outcome.times("ram-power-watt") == [(10001, 20000)]
    assert "values that turbostat did not have (7 times)" in outcome.log
    assert "IRQ: values below 0 or above 2147483647 are not published: -5 (" in outcome.log


def test_core_numbers_with_gaps_stay_as_they_are(publish):
    rows = ["- - 30.00 61", "0 0 20.00 60", "8 1 30.00 61", "24 2 40.00 59"]
    outcome = publish(stamped(rows, header="Core CPU Busy% CoreTmp"))
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [60], "0 0 8": [61], "0 0 24": [59]}
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0], "0 0 8 0 1": [30.0], "0 0 24 0 2": [40.0]}


def test_free_text_before_and_between_the_rows_costs_nothing(publish):
    clean = stamped(["- - 30.00", "0 0 20.00", "1 1 40.00"], ["- - 30.00", "0 0 21.00", "1 1 41.00"], header="Core CPU Busy%")
    lines = clean.splitlines(keepends=True)
    preamble = "turbostat version 2024.07.26 - Len Brown <lenb@kernel.org>\nCPUID(0): AuthenticAMD 0x10 CPUID levels\n" \
               "cpu 0 pkg 0 die 0 node 0 lnode 0 core 0 thread 0\ncpu0: POLL: CPUIDLE CORE POLL IDLE\n\n"  # fmt: skip
    jitter = "cpu 0 pkg 0 die 0 node 0 lnode 0 core 0 thread 0\nturbostat: cpu3 jitter 1234 5678\ncpu1 MPERF 0!\n\n"
    noisy = preamble + lines[0] + lines[1] + jitter + "".join(lines[2:4]) + jitter + "".join(lines[4:]) + jitter
    expected, outcome = publish(clean), publish(noisy)
    assert outcome.series == expected.series
    assert outcome.rc == 0
    assert "lines between the rows that are none (9 times)" in outcome.log


def test_names_of_older_versions(publish):
    rows = ["- - - 900 30.00 3000 2400 40 41 99.00 9.00", "0 0 0 900 30.00 3000 2400 40 41 99.00 9.00", "0 1 1 900 20.00 3000 2400 41"]
    outcome = publish(stamped(rows, header="Package Core CPU Avg_MHz %Busy Bzy_MHz TSC_MHz CTMP PTMP Pkg_W RAM_W"))
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [30.0], "0 0 1 0 1": [20.0]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [40], "0 0 1": [41]}
    assert outcome.packages("package-temp-celsius") == {"0": [41]}
    assert outcome.packages("package-power-watt") == {"0": [99.0]}
    assert outcome.packages("ram-power-watt") == {"0": [9.0]}


def test_uncore_domains_of_a_package_are_averaged(publish):
    one = stamped(["- - 5.00 2000", "0 0 5.00 2000"], header="Core CPU Busy% UMHz0.0")
    assert publish(one).packages("uncore-freq-mhz") == {"0": [2000]}
    rows = ["- - 5.00 2000 1000 800", "0 0 5.00 2000 1000 800", "1 1 5.00"]
    three = publish(stamped(rows, header="Core CPU Busy% UMHz0.0 UMHz1.0 UMHz2.0"))
    assert three.packages("uncore-freq-mhz") == {"0": [1266.667]}


def test_a_table_without_avg_mhz_and_busy(publish):
    outcome = publish(stamped(["- - 10 90.00", "0 0 4 90.00", "1 1 6"], header="Core CPU IRQ PkgWatt"))
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("irq") == {"0 0 0 0 0": [4], "0 0 1 0 1": [6]}
    assert outcome.types == {"irq", "package-power-watt"}


def test_energies_are_not_taken_for_powers(publish):
    outcome = publish(stamped(["- - 10 900.00 90.00", "0 0 4 900.00 90.00", "1 1 6"], header="Core CPU IRQ Pkg_J RAM_J"))
    assert outcome.types == {"irq"}
    assert "columns outside the catalogue are not published: Pkg_J, RAM_J\n" in outcome.log


def test_columns_that_end_in_a_percent_sign_without_being_an_idle_state(publish):
    outcome = publish(stamped(["- - 1.00 2.00 3.00 4.00", "0 0 1.00 2.00 3.00 4.00"], header="Core CPU C1E% C1_ACPI% CPUGFX% PKG_%"))
    assert outcome.types == {"c1e-pct", "c1-acpi-pct"}


def test_space_aligned_copies_read_as_the_original(publish):
    original = stamped(TWO_PACKAGES_ROWS, TWO_PACKAGES_ROWS, header=TWO_PACKAGES)
    expected = publish(original)
    assert expected.rc == 0
    assert publish(original.expandtabs(8)).series == expected.series
    assert publish(original.replace("\t", " ")).series == expected.series
    right_aligned = "\n".join("".join(f"{field:>21}" for field in line.split("\t")) for line in original.splitlines()) + "\n"
    assert publish(right_aligned).series == expected.series


def test_an_empty_field_does_not_shift_the_others(publish):
    text = stamped(["- - 30.00 50 90.00", "0 0 20.00 50 90.00", "1 1 40.00 . 7.00"], header="Core CPU Busy% CoreTmp RAMWatt")
    for copy in (text, text.expandtabs(8)):
        outcome = publish(copy)
        assert outcome.cores("core-temp-celsius") == {"0 0 0": [50]}


def test_usec_and_apic_columns_of_debugging_are_passed_over(publish):
    lines = [f"usec {T} Core CPU APIC X2APIC Busy%", f"12 {EPOCH + 10}.5 - - - - 30.00", f"12 {EPOCH + 10}.5 0 0 4 4 20.00"]
    outcome = publish(table(*lines, lines[0], f"12 {EPOCH + 20}.5 - - - - 30.00", f"12 {EPOCH + 20}.5 0 0 4 4 21.00"))
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [20.0, 21.0]}
    assert outcome.times("cpu-busy-pct") == [(501, 10500), (10501, 20500)]


def without_times(*intervals):
    return table(*(text for rows in intervals for text in ("Core CPU Busy%", *rows)))


def test_without_times_the_clock_file_and_the_interval_place_the_intervals(publish):
    text = without_times(["- - 1.00", "0 0 1.00"], ["- - 1.00", "0 0 2.00"], ["- - 1.00", "0 0 3.00"])
    known = publish(text, clock={"begin": 0.5, "end": 24}, interval="10")
    assert known.times("cpu-busy-pct") == [(501, 10500), (10501, 20500), (20501, 24000)]
    assert "no Time_Of_Day_Seconds: times are counted from the launch of the collector, by intervals of 10 s" in known.log
    spread = publish(text, clock={"begin": 0.0, "end": 30})
    assert spread.times("cpu-busy-pct") == [(1, 10000), (10001, 20000), (20001, 30000)]
    assert "divided by 3" in spread.log
    slower = publish(text, clock={"begin": 0.0, "end": 45}, interval="10")
    assert slower.times("cpu-busy-pct") == [(1, 15000), (15001, 30000), (30001, 45000)], "it reads for as long as that"
    back = publish(text, clock={"end": 30}, interval="5")
    assert back.times("cpu-busy-pct") == [(15001, 20000), (20001, 25000), (25001, 30000)]


def test_without_any_clock_the_outputs_own_age_is_the_end(directory, publish):
    publish(without_times(["- - 1.00", "0 0 1.00"], ["- - 1.00", "0 0 2.00"]), interval="10")
    os.utime(directory / OUTPUT, (EPOCH + 100, EPOCH + 100))
    assert process(directory).times("cpu-busy-pct") == [(80001, 90000), (90001, 100000)]


def test_a_summary_only_table_without_times(publish):
    outcome = publish(table("Busy% PkgWatt", "1.00 90.00", "2.00 91.00"), clock={"begin": 0.0, "end": 20})
    assert outcome.system("cpu-busy-pct") == [1.0, 2.0]
    assert outcome.times("cpu-busy-pct") == [(1, 10000), (10001, 20000)]


# --- damage


def intervals(count):
    busy = [n % 100 for n in range(1, count + 1)]
    return stamped(*(["- - 30.00 90.00", f"0 0 {n}.00 90.00", f"1 1 {n}.50"] for n in busy), header="Core CPU Busy% PkgWatt")


@pytest.mark.parametrize("left_of_line", [8, 9])
def test_intervals_that_are_lost_leave_a_hole_of_their_length(publish, left_of_line):
    lines = intervals(12).splitlines(keepends=True)
    # the third to the eighth interval are gone but for a piece of the header or of the summary row of the third
    outcome = publish("".join([*lines[:8], lines[left_of_line][:19] + "\n", *lines[32:]]))
    assert outcome.rc == 1
    assert outcome.times("cpu-busy-pct", cpu="0")[:3] == [(1, 10000), (10001, 20000), (80001, 90000)]


def test_a_lost_summary_row_does_not_merge_two_intervals(publish):
    lines = intervals(3).splitlines(keepends=True)
    del lines[4:6]  # header and summary of the second
    outcome = publish("".join(lines))
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [1.0, 2.0, 3.0], "0 0 1 0 1": [1.5, 2.5, 3.5]}
    assert outcome.times("cpu-busy-pct", cpu="1") == [(1, 10000), (10001, 20000), (20001, 30000)]


def test_a_repeated_interval_is_dropped_and_counted(publish):
    lines = intervals(3).splitlines(keepends=True)
    outcome = publish("".join([*lines[:8], *lines[4:8], *lines[8:]]))
    assert outcome.series == publish(intervals(3)).series
    doubled = publish("".join([*lines[:8], *lines[4:8], *lines[8:]]))
    assert doubled.rc == 1
    assert "not later than one before are dropped" in doubled.log


def test_a_damaged_time_does_not_cost_the_rest_of_the_run(publish):
    text = intervals(6).replace(str(EPOCH + 20), str(EPOCH + 90000))
    outcome = publish(text)
    assert outcome.cpus("cpu-busy-pct")["0 0 0 0 0"] == [1.0, 3.0, 4.0, 5.0, 6.0]
    assert "ahead of later ones" in outcome.log


def test_a_damaged_cpu_number_costs_its_row(publish):
    lines = intervals(2).splitlines(keepends=True)
    lines[3] = lines[3].replace("\t1\t1\t", "\t0\t0\t")
    outcome = publish("".join(lines))
    assert outcome.rc == 1
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [1.0, 2.0], "0 0 1 0 1": [2.5]}
    lines[3] = lines[3].replace("\t0\t0\t", "\t1\tx\t")
    assert publish("".join(lines)).cpus("cpu-busy-pct")["0 0 1 0 1"] == [2.5]


def test_a_field_that_is_no_number_costs_itself(publish):
    outcome = publish(intervals(2).replace("1.00", "1.0x"))
    assert outcome.rc == 1
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [2.0], "0 0 1 0 1": [1.5, 2.5]}
    assert "line 3: turbostat:cpu-busy-pct '1.0x'" in outcome.log


def test_a_truncated_archive_gives_what_is_readable(directory):
    whole = lzma.compress(intervals(2000).encode())
    (directory / (OUTPUT + ".xz")).write_bytes(whole[: len(whole) * 2 // 3])
    outcome = process(directory)
    assert outcome.rc == 1
    assert len(outcome.cpus("cpu-busy-pct")["0 0 0 0 0"]) > 500
    assert "is damaged" in outcome.log


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\0" * 5000, b"\xff\xfe\n", b"turbostat: no /dev/cpu/0/msr, Try \"# modprobe msr\"\n"])
def test_an_output_without_a_table_publishes_nothing(publish, content):
    outcome = publish(content)
    assert outcome.series == []
    assert "holds no interval" in outcome.log


WHOLE = (stamped(TWO_PACKAGES_ROWS, TWO_PACKAGES_ROWS, header=TWO_PACKAGES) + intervals(3).replace("17000000", "17000001")).encode()


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(data=st.data())
def test_any_damage_leaves_metric_files_that_the_indexer_takes(publish, data):
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 200))
        kind = data.draw(st.sampled_from(["cut", "bytes", "digit", "repeat"]))
        if kind == "cut":
            del content[at : at + length]
        elif kind == "bytes":
            content[at:at] = data.draw(st.binary(max_size=20))
        elif kind == "digit":
            content[at : at + 1] = data.draw(st.sampled_from([b"9", b"0", b"-", b"\t", b"\n", b".", b"%", b"C"]))
        else:
            content[at:at] = content[at : at + length]
    outcome = publish(bytes(content))
    for desc, names, _ in outcome.series:
        scope = len(names)
        assert scope in (0, 1, 3, 5), f"{desc['type']} {names}"


@hypothesis.settings(max_examples=100, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(cut=st.integers(0, len(WHOLE)))
def test_wherever_it_is_cut_no_value_is_invented(publish, cut):
    outcome = publish(WHOLE[:cut])
    written = {float(text) for text in re.findall(rb"[0-9.]+", WHOLE) if text.count(b".") < 2 and text != b"."}
    for desc, names, rows in outcome.series:
        assert {float(value) for _, _, value in rows} <= written, f"{desc['type']} {names}"


@pytest.mark.parametrize("time", ["\0" * 40, "x", f"{EPOCH + 2}.000000", "3.000000"])
def test_a_row_whose_time_is_not_of_its_interval_is_lost(publish, time):
    """A crash leaves zeros: over cpu 1 of second 2, all of second 3 and the time of its cpu 1."""
    header = f"{T}\tPackage\tCore\tCPU\tBusy%\n"
    places = enumerate(("-\t-\t-", "0\t0\t0", "0\t1\t1"))
    texts = [f"\t{place}\t%d.0{number}\n" for number, place in places]
    rows = {second: [f"{EPOCH + second}.000000{text % second}" for text in texts] for second in (1, 2, 3, 4, 5)}
    damaged = f"{time}\t0\t1\t1\t3.02\n"
    text = header + "".join([*rows[1], *rows[2][:2], damaged, *rows[4], *rows[5]])
    if time == f"{EPOCH + 2}.000000":  # whole second 2, and of second 3 a row that says it was read before
        text = header + "".join([*rows[1], *rows[2], *rows[3][:2], damaged, *rows[4], *rows[5]])
    outcome = publish(text, interval=1)
    assert outcome.rc == 1
    found = {
        names["cpu"]: [(begin - EPOCH * 1000, end - EPOCH * 1000, float(value)) for begin, end, value in samples]
        for names, samples in outcome.of("cpu-busy-pct")
    }
    assert [value for _, _, value in found["1"]] == ([1.02, 2.02] if len(time) == 17 else [1.02]) + [4.02, 5.02]
    assert found["0"][:2] == [(1, 1000, 1.01), (1001, 2000, 2.01)]


# --- values that no machine has

# what other tools printed of these counters, and what is like it: column, value, and the greatest value of its kind that a machine has
WILD = [
    ("Busy%", "5900.00", "110.00"),
    ("Busy%", "445.00", "100.30"),
    ("CPU%c1", "184467440737.09", "102.00"),
    ("C6%", "112.00", "100.01"),
    ("LLC%hit", "1844674407370955264.00", "100.00"),
    ("Busy%", "-0.01", "0.00"),
    ("Avg_MHz", "4294967", "9130"),
    ("Bzy_MHz", "4294967296", "10000"),
    ("Bzy_MHz", "-1", "0"),
    ("UncMHz", "25500000", "4700"),
    ("PkgWatt", "262183.99", "500.25"),
    ("PkgWatt", "260000.00", "1000.00"),
    ("RAMWatt", "65541.00", "360.00"),
    ("RAMWatt", "-3.00", "0.01"),
    ("SysWatt", "65536.00", "20000.00"),
    ("PkgTmp", "255", "105"),
    ("PkgTmp", "4294967273", "-27"),
    ("PkgTmp", "-300", "-5"),
    ("CoreTmp", "-274", "125"),
    ("IRQ", "4294967290", "2000000000"),
    ("IRQ", "18446744073709551000", "0"),
    ("IRQ", "-5", "7"),
    ("NMI", "4294967295", "1000"),
    ("SMI", "2147483648", "3"),
    ("CoreThr", "4294967295", "12"),
    ("IPC", "6148914691.20", "8.25"),
]


@pytest.mark.parametrize(("column", "wild", "true"), WILD)
@pytest.mark.parametrize("is_summary", [False, True])
def test_a_counter_that_wrapped_is_no_sample_and_is_said(publish, column, wild, true, is_summary):
    rows = [["- - 1 %s", "0 0 1 %s"][: 1 if is_summary else 2] for _ in range(5)]
    told = [true, true, wild, true, true]
    table_of = stamped(*([text % value for text in found] for found, value in zip(rows, told)), header=f"Core CPU TSC_MHz {column}")
    outcome = publish(table_of)
    (samples,) = [rows for _, _, rows in outcome.series]
    value = float(true)
    # the sample behind it reaches back over it; equal ones are one row
    assert [(begin - EPOCH * 1000, end - EPOCH * 1000, float(number)) for begin, end, number in samples] == [(1, 50000, value)]
    assert outcome.rc == 1
    (line,) = [line for line in outcome.log.splitlines() if line.startswith("WARNING")]
    assert line.startswith(f"WARNING: turbostat: {column}: values below ")
    assert f" are not published: {float(wild) if '.' in wild else wild} (turbostat:" in line
    assert f"at {EPOCH + 30}.000" in line


def test_a_power_counter_that_went_back_shows_in_the_default_interval_too(publish):
    """2^32 units of 2^-14 J, or of 2^-16 J, in 10 s."""
    rows = [["- - 50.00 5.00", f"0 0 {pkg} {ram}"] for pkg, ram in (("50.00", "5.00"), ("26218.40", "6553.60"), ("51.00", "6.00"))]
    outcome = publish(stamped(*rows, header="Core CPU PkgWatt RAMWatt"))
    assert outcome.packages("package-power-watt") == {"0": [50.0, 51.0]}
    assert outcome.packages("ram-power-watt") == {"0": [5.0, 6.0]}


def test_a_wild_value_costs_itself_only(publish):
    """The numbers of one bug report's shape: power of a 32-bit counter that went back, shares and a frequency that wrapped."""
    lines = [
        f"usec {T} Core CPU Busy% Bzy_MHz CoreTmp PkgTmp Pkg%pc6 PkgWatt CorWatt RAMWatt",
        f"90 {EPOCH + 1}.000 - - 10.00 3000 50 52 12.00 40.00 30.00 5.00",
        f"40 {EPOCH + 1}.000 0 0 10.00 3000 50 52 12.00 40.00 30.00 5.00",
        f"90 {EPOCH + 2}.000 - - 10.00 3000 50 52 12.00 262183.99 30.00 65541.00",
        f"40 {EPOCH + 2}.000 0 0 10.00 3000 50 52 12.00 262183.99 30.00 65541.00",
        f"90 {EPOCH + 3}.000 - - 5900.00 3000 50 52 184467440737.09 41.00 30.00 6.00",
        f"40 {EPOCH + 3}.000 0 0 5900.00 4294967 50 52 184467440737.09 41.00 30.00 6.00",
    ]
    outcome = publish(table(*lines), vendor="GenuineIntel", interval="1")
    assert outcome.rc == 1
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [10.0]}
    assert outcome.times("cpu-busy-pct") == [(1, 2000)]
    assert outcome.cpus("cpu-busy-freq-mhz") == {"0 0 0 0 0": [3000]}
    assert outcome.packages("package-power-watt") == {"0": [40.0, 41.0]}
    assert outcome.times("package-power-watt") == [(1, 1000), (1001, 3000)]
    assert outcome.packages("ram-power-watt") == {"0": [5.0, 6.0]}
    assert outcome.packages("pkg-pc6-pct") == {"0": [12.0]}
    assert outcome.packages("core-power-watt") == {"0": [30.0]}
    warned = re.findall(r"^WARNING: turbostat: (\S+): values .* are not published: (\S+) ", outcome.log, re.MULTILINE)
    assert warned == [
        ("PkgWatt", "262183.99"), ("RAMWatt", "65541.0"), ("Busy%", "5900.0"), ("Bzy_MHz", "4294967"), ("Pkg%pc6", "184467440737.09"),
    ]  # fmt: skip


def test_a_number_that_is_right_in_one_column_is_not_taken_for_right_in_another(publish):
    """300 MHz are right, 300 degrees are not; 4000 W of a package, 4000 %."""
    rows = [["- - 4000 300 300 4000.00 4000.00", "0 0 4000 300 300 4000.00 4000.00"] for _ in range(3)]
    outcome = publish(stamped(*rows, header="Core CPU Bzy_MHz Avg_MHz CoreTmp PkgWatt Busy%"))
    assert outcome.types == {"cpu-busy-freq-mhz", "cpu-freq-avg-mhz", "package-power-watt"}
    assert "CoreTmp: values below -60 or above 150 Celsius are not published (3 times): 300 (" in outcome.log
    assert "Busy%: values below 0 or above 110 % are not published (3 times): 4000.0 (" in outcome.log


def test_a_wild_value_of_an_uncore_domain_does_not_hide_in_the_mean(publish):
    rows = ["- - 5.00 2000 21000 800", "0 0 5.00 2000 21000 800"]
    outcome = publish(stamped(rows, header="Core CPU Busy% UMHz0.0 UMHz1.0 UMHz2.0"))
    assert outcome.packages("uncore-freq-mhz") == {"0": [1400]}
    assert "UMHz1.0: values below 0 or above 20000 MHz are not published: 21000 (" in outcome.log


def test_the_packages_of_a_large_machine_may_take_more_together_than_one(publish):
    header = "Package Core CPU PkgWatt IRQ"
    outcome = publish(stamped(["- - - 12800.00 100"], ["- - - 12800.00 100"], header=header))
    assert outcome.rc == 0, outcome.log
    assert outcome.system("package-power-watt") == [12800.0]
    beyond = publish(stamped(["- - - 65536.00 100"], ["- - - 12800.00 100"], header=header))
    assert beyond.system("package-power-watt") == [12800.0]
    assert "PkgWatt: values below 0 or above 50000 W are not published: 65536.0 (" in beyond.log


# --- tables of before 2014


OLD = """\
pk cor CPU    %c0  GHz  TSC SMI    %c1    %c3    %c6    %c7 CTMP PTMP   %pc2   %pc3   %pc6   %pc7  Pkg_W  Cor_W GFX_W RAM_W
             2.41 1.57 2.69   0   5.12   0.44   0.00  92.03   51   62   9.86   1.18   0.00  71.90  19.26  12.32  0.36  5.00
 0   0   0   3.55 1.53 2.69   0   6.62   0.59   0.00  89.24   51   52   9.86   1.18   0.00  71.90   4.63   1.16  0.18  2.00
         4   1.70 1.45 2.69   0   8.47
     1   1   2.50 1.68 2.69   2   3.07   0.29   0.00  94.14   50
         5   1.88 1.61 2.69   0   3.69
 1   0   2   3.55 1.53 2.69   0   6.62   0.59   0.00  89.24   61   62  19.86   1.18   0.00  71.90  14.63  11.16  0.18  3.00
         6   1.70 1.45 2.69   0   8.47
     1   3   2.50 1.68 2.69   0   3.07   0.29   0.00  94.14   60
         7   1.88 1.61 2.69   0   3.69
"""


def test_a_table_of_before_2014_is_read(publish):
    """A package's and a core's number stand on their first row only, the summary has neither; frequencies are in GHz."""
    second = OLD.replace("  1.88 1.61", "  7.25 1.81").replace("  14.63", "  15**").replace(" 52 ", " 53 ")
    outcome = publish(OLD + second, clock={"begin": 0.0, "end": 10}, interval="5")
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {
        "0 0 0 0 0": [3.55], "0 0 0 1 4": [1.7], "0 0 1 0 1": [2.5], "0 0 1 1 5": [1.88, 7.25],
        "1 0 0 0 2": [3.55], "1 0 0 1 6": [1.7], "1 0 1 0 3": [2.5], "1 0 1 1 7": [1.88, 7.25],
    }  # fmt: skip
    assert outcome.cpus("cpu-busy-freq-mhz")["0 0 1 1 5"] == [1610, 1810]
    assert outcome.cpus("smi")["0 0 1 0 1"] == [2]
    assert outcome.cpus("cpu-c1-pct")["1 0 1 1 7"] == [3.69]
    assert outcome.cores("cpu-c7-pct") == {"0 0 0": [89.24], "0 0 1": [94.14], "1 0 0": [89.24], "1 0 1": [94.14]}
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [51], "0 0 1": [50], "1 0 0": [61], "1 0 1": [60]}
    assert outcome.packages("package-temp-celsius") == {"0": [52, 53], "1": [62]}
    assert outcome.packages("pkg-pc2-pct") == {"0": [9.86], "1": [19.86]}
    # "15**" is what turbostat suspects to have wrapped
    assert outcome.packages("package-power-watt") == {"0": [4.63], "1": [14.63]}
    assert outcome.times("package-power-watt", package="1") == [(1, 5000)]
    assert outcome.packages("core-power-watt") == {"0": [1.16], "1": [11.16]}
    assert outcome.packages("gfx-power-watt") == {"0": [0.18], "1": [0.18]}
    assert outcome.packages("ram-power-watt") == {"0": [2.0], "1": [3.0]}
    assert "columns outside the catalogue are not published: TSC\n" in outcome.log
    doubled = publish((OLD + second).replace("\n", "\n\n"), clock={"begin": 0.0, "end": 10}, interval="5")
    assert doubled.series == outcome.series, "blank lines are none of the summary's"


@pytest.mark.parametrize("names", ["cor CPU", "cr CPU ", "core CPU"])
def test_a_table_of_before_2014_of_one_package(publish, names):
    core = len(names.split()[0])
    rows = [f"{'':{core}}       9.25 1.62 3.38", f"{'0':>{core}}   0   8.00 1.62 3.38", f"{'':{core}}   1  10.50 2.00 3.38"]
    lines = [f"{names}    %c0  GHz  TSC", *rows]
    outcome = publish("\n".join(lines).replace("cr CPU ", "cr CPU") + "\n", clock={"begin": 0.0, "end": 5}, interval="5")
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {"0 0 0 0 0": [8.0], "0 0 0 1 1": [10.5]}
    assert outcome.cpus("cpu-busy-freq-mhz") == {"0 0 0 0 0": [1620], "0 0 0 1 1": [2000]}


def test_a_dash_in_the_place_of_a_number_stands_for_that_of_the_row_above(publish):
    """As turbostat printed from 2014 to 2016."""
    lines = [
        " Package    Core     CPU Avg_MHz   %Busy  CPU%c6 CoreTmp  PkgTmp PkgWatt",
        "       -       -       -      40   10.00   80.00      61      62   30.00",
        "       0       0       0      40   10.00   80.00      50      52   10.00",
        "       -       -       4      40   11.00",
        "       -       1       1      40   12.00   70.00      51",
        "       -       -       5      40   13.00",
        "       1       0       2      40   14.00   60.00      60      62   20.00",
        "       -       -       6      40   15.00",
    ]
    outcome = publish("".join(line + "\n" for line in lines), clock={"begin": 0.0, "end": 5}, interval="5")
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("cpu-busy-pct") == {
        "0 0 0 0 0": [10.0], "0 0 0 1 4": [11.0], "0 0 1 0 1": [12.0], "0 0 1 1 5": [13.0], "1 0 0 0 2": [14.0], "1 0 0 1 6": [15.0],
    }  # fmt: skip
    assert outcome.cores("cpu-c6-pct") == {"0 0 0": [80.0], "0 0 1": [70.0], "1 0 0": [60.0]}
    assert outcome.packages("package-power-watt") == {"0": [10.0], "1": [20.0]}
    # where the row above is lost, the core that the next one is of is not guessed at
    lines[4] = "       -       x" + lines[4][16:]
    lost = publish("".join(line + "\n" for line in lines), clock={"begin": 0.0, "end": 5}, interval="5")
    assert lost.rc == 1
    assert [names for names, _ in lost.of("cpu-busy-pct") if names["cpu"] == "5"] == [{"package": "0", "die": "0", "cpu": "5"}]


@pytest.mark.parametrize("header", ["", "what is this 1\n", "pk cor CPU\n", "pk CPU cor what is this %x TSC SMI\n"])
def test_rows_under_a_header_that_is_not_understood_are_said_to_be_lost(publish, header):
    outcome = publish(header + "  0   0   0   3.55 1.53 2.69   0   6.62\n  0   1   1   3.55 1.53 2.69   0   6.62\n")
    assert outcome.series == []
    assert outcome.rc == 1
    assert re.search(r"WARNING: turbostat: (rows before the first header|rows with more fields).* \(2 times\)", outcome.log)


# --- tables that do not say of which CPU a row is

CPUS = [f"{n}00 {n}.00 3000 {40 + n}" for n in range(2, 26)]


@pytest.mark.parametrize("shape", ["tabs", "tabs to the end", "aligned", "right-aligned", "blanks"])
def test_rows_of_cpus_are_no_intervals_where_nothing_tells_the_cpu(publish, shape):
    """A table without topology columns and times: the summary, then 24 CPUs of which the first has the package's power."""
    rows = ["1300 13.00 3000 65 90.00", *[text + (" 90.00" if n == 0 else "") for n, text in enumerate(CPUS)]]
    later = [rows[0].replace("13.00", "14.00").replace("90.00", "95.00"), *rows[1:]]
    text = table(*("Avg_MHz Busy% Bzy_MHz CoreTmp PkgWatt", *rows), *("Avg_MHz Busy% Bzy_MHz CoreTmp PkgWatt", *later))
    lines = [line.split("\t") for line in text.splitlines()]
    if shape == "tabs to the end":
        text = "".join("\t".join([*fields, ""][:5]) + "\n" for fields in lines)
    elif shape == "aligned":
        text = "".join("".join(f"{field:10}" for field in fields).rstrip() + "\n" for fields in lines)
    elif shape == "right-aligned":
        text = "".join("".join(f"{field:>10}" for field in fields) + "\n" for fields in lines)
    elif shape == "blanks":
        text = text.replace("\t", " ")
    outcome = publish(text, clock={"begin": 0.0, "end": 20}, interval="10")
    assert outcome.rc == 0, outcome.log
    assert outcome.system("cpu-busy-pct") == [13.0, 14.0]
    assert outcome.system("package-power-watt") == [90.0, 95.0]
    assert outcome.times("cpu-busy-pct") == [(1, 10000), (10001, 20000)]
    assert "beside the summary's that do not say where they belong are not published (48 times)" in outcome.log


def test_a_header_before_each_interval_tells_the_rows_of_cpus_where_none_is_short(publish):
    interval = ["Busy% Bzy_MHz", "10.00 3000", "5.00 3000", "15.00 3000"]
    outcome = publish(table(*interval, *interval, *interval), clock={"begin": 0.0, "end": 30}, interval="10")
    assert outcome.rc == 0, outcome.log
    assert outcome.system("cpu-busy-pct") == [10.0]
    assert outcome.times("cpu-busy-pct") == [(1, 30000)]


def test_a_damaged_row_of_a_summary_only_table_does_not_cost_the_others(publish):
    rows = [f"{n}.00 3000 9{n % 10}.00" for n in range(1, 31)]
    rows[16] = "17.00"
    outcome = publish(table("Busy% Bzy_MHz PkgWatt", *rows), clock={"begin": 0.0, "end": 300}, interval="10")
    assert outcome.system("cpu-busy-pct") == [float(n) for n in range(1, 31)]
    assert len(outcome.system("package-power-watt")) == 29


@pytest.mark.parametrize("align", [lambda fields: "".join(f"{field:10}" for field in fields).rstrip(), "  ".join])
@pytest.mark.parametrize("cut", range(1, 9))
def test_a_cut_last_row_of_an_aligned_table_gives_no_shortened_number(publish, align, cut):
    rows = ["Core CPU Busy% CoreTmp IRQ PkgWatt", "- - 30.00 50 300 90.00", "0 0 20.00 50 12345678 90.00", "1 1 40.00 51 12345678"]
    text = "\n".join(align(line.split()) for line in [*rows, *rows])[:-cut]
    outcome = publish(text, clock={"begin": 0.0, "end": 20}, interval="10")
    assert outcome.cpus("irq")["0 0 1 0 1"] == [12345678]
    assert outcome.times("irq", cpu="1") == [(1, 10000)]
    assert outcome.cpus("cpu-busy-pct")["0 0 1 0 1"] == [40.0]
    assert outcome.rc == 1
    assert "the last line is cut" in outcome.log


@pytest.mark.parametrize("separator", ["\t", " "])
def test_times_behind_the_places_survive_a_short_row(publish, separator):
    lines = []
    for second in (1, 2, 3):
        lines.append(f"Package Core CPU {T} Busy%")
        lines += [f"{place} {EPOCH + second}.000000 {second}.00" for place in ("- - -", "0 0 0", "0 1 1")]
    lines[6] = "0 0 0"
    outcome = publish("".join(line.replace(" ", separator) + "\n" for line in lines), interval="1")
    assert outcome.rc == 1
    assert "rows whose time cannot be read" in outcome.log
    assert outcome.cpus("cpu-busy-pct")["0 0 0 0 0"] == [1.0, 3.0]
    assert outcome.cpus("cpu-busy-pct")["0 0 1 0 1"] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("vendor", ["GenuineIntel", "AuthenticAMD", None])
def test_packages_without_a_cpu_column_have_their_power_once(publish, vendor):
    """turbostat --show Package,PkgWatt,CorWatt: a row for each CPU, which has only its package's number."""
    rows = ["- 30.00 90.00", "0 10.00 40.00", "0", "1 20.00 50.00", "1"]
    outcome = publish(stamped(rows, rows, header="Package CorWatt PkgWatt"), vendor=vendor)
    assert outcome.rc == 0, outcome.log
    assert outcome.packages("package-power-watt") == {"0": [40.0], "1": [50.0]}
    assert outcome.times("package-power-watt", package="1") == [(1, 20000)]
    if vendor == "GenuineIntel":
        assert outcome.packages("core-power-watt") == {"0": [10.0], "1": [20.0]}
    else:
        # of one of a package's cores, which nothing names: the machine's is in the summary
        assert outcome.system("core-power-watt") == [30.0]
    assert "stand" in outcome.log or vendor == "GenuineIntel"


@pytest.mark.parametrize("times", [True, False])
def test_threads_of_a_core_without_a_cpu_column_are_no_further_intervals(publish, times):
    rows = ["- - 30.00 60 90.00", "0 0 25.00 55 90.00", "0 0 35.00", "0 1 25.00 60", "0 1 35.00"]
    later = [text.replace("90.00", "91.00") for text in rows]
    header = "Package Core Busy% CoreTmp PkgWatt"
    text = stamped(rows, later, header=header) if times else table(header, *rows, header, *later)
    outcome = publish(text, clock={"begin": 0.0, "end": 20}, interval="10")
    assert outcome.rc == 0, outcome.log
    assert outcome.packages("package-power-watt") == {"0": [90.0, 91.0]}
    assert outcome.times("package-power-watt") == [(1, 10000), (10001, 20000)]
    assert outcome.cores("core-temp-celsius") == {"0 0 0": [55], "0 0 1": [60]}
    assert outcome.system("cpu-busy-pct") == [30.0], "of no CPU that the rows would name"
    assert "do not say where they belong are not published (4 times)" in outcome.log


def test_an_idle_state_whose_name_has_a_blank_does_not_shift_the_others(publish):
    text = RECORDED.replace("\t", " ")
    assert publish(text).series == publish(RECORDED).series
    assert publish(RECORDED.expandtabs(24)).series == publish(RECORDED).series


# --- columns


def test_hits_of_the_caches_and_nmis_are_published(publish):
    rows = ["- - 30.00 15 1000 81.25 2000 92.50", "0 0 20.00 7 500 80.00 900 91.00", "1 1 40.00 8 500 82.50 1100 94.00"]
    outcome = publish(stamped(rows, header="Core CPU Busy% NMI LLCkRPS LLC%hit L2MRPS L2%hit"))
    assert outcome.rc == 0, outcome.log
    assert outcome.cpus("nmi") == {"0 0 0 0 0": [7], "0 0 1 0 1": [8]}
    assert outcome.cpus("llc-hit-pct") == {"0 0 0 0 0": [80.0], "0 0 1 0 1": [82.5]}
    assert outcome.cpus("l2-hit-pct") == {"0 0 0 0 0": [91.0], "0 0 1 0 1": [94.0]}
    assert outcome.desc("nmi")["default-aggregation"] == "sum"
    assert outcome.desc("l2-hit-pct")["default-aggregation"] == "avg"


def test_every_column_that_is_not_published_is_named(publish):
    names = "TSC_MHz POLL C1 C1E C6 GFX%rc6 GFXMHz GFXAMHz Totl%C0 Any%C0 GFX%C0 CPUGFX% Mod%c6 Die%c6 SYS%LPI CPU%LPI PKG_% RAM_% LLCkRPS"
    values = " ".join("1" for _ in names.split())
    outcome = publish(stamped([f"- - 5.00 {values}", f"0 0 5.00 {values}"], header=f"Core CPU Busy% {names}"))
    assert outcome.rc == 0, outcome.log
    assert f"NOTE: turbostat: columns outside the catalogue are not published: {', '.join(names.split())}\n" in outcome.log


# --- the catalogue


def test_every_unit_of_turbostat_has_a_bound():
    """perf's counters have their own, as perf prints them; the others' units have one."""
    bounds = {metric.type: metric.bound for metric in catalogue.load() if metric.subtool in ("turbostat", "toplev")}
    assert bounds["turbostat:package-power-watt"] == (0, 5000)
    assert bounds["turbostat:system-power-watt"] == (0, 50000)
    assert bounds["turbostat:<state>-pct"] == (0, 110)
    assert bounds["toplev:<node>"] == (-1000, 1000)
    assert [metric_type for metric_type, bound in bounds.items() if bound == catalogue.UNBOUNDED] == []


def test_every_metric_of_the_catalogue_says_its_columns_and_scopes():
    rows = [metric for metric in catalogue.load() if metric.subtool == "turbostat"]
    assert rows
    for metric in rows:
        scopes, _, names = metric.field.partition(":")
        assert set(scopes.split("|")) <= set(BREAKOUTS), metric.type
        assert names, metric.type
        assert metric.type.startswith("turbostat:")
        powers_and_counts = metric.unit == "W" or metric.metric_class == "count"
        assert metric.aggregation == ("sum" if powers_and_counts else "avg"), metric.type
