# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What holds for every output of perf, turbostat and toplev, whole or damaged: no input is lost to an exception, every sample that
a plain reader finds is published as it stands there, and it makes no difference in which pieces or lines an output is read.

PROPERTY_EXAMPLES=20 makes twenty times as many examples, other ones each time.
"""

import lzma
import os
import random
import re
import shutil
import tempfile
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pytest

hypothesis = pytest.importorskip("hypothesis")

import plain_readers as plain  # noqa: E402
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from published import CLOCK, ENVIRONMENT, EPOCH, OUTPUTS, clock_file, post_process, topology_files, write_files  # noqa: E402

from kerneltools import rawfile  # noqa: E402

FACTOR = float(os.environ.get("PROPERTY_EXAMPLES") or 1)


def examples(count):
    """Settings for about so many examples, always the same ones unless more are asked for."""
    return settings(
        max_examples=max(1, int(count * FACTOR)), deadline=None, derandomize=FACTOR == 1, database=None,
        print_blob=True, phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )  # fmt: skip


@contextmanager
def data_directory(files):
    directory = Path(tempfile.mkdtemp(prefix="properties-"))
    try:
        write_files(directory, files)
        yield directory
    finally:
        shutil.rmtree(directory)


def published(files, read_bytes=None):
    """What is published of these files; read_bytes: the size of the pieces in which an output is read."""
    with data_directory(files) as directory, mock.patch.object(rawfile, "READ_BYTES", read_bytes or rawfile.READ_BYTES):
        found = post_process(directory)
        return found._replace(log=found.log.replace(str(directory), "directory"))


# --- outputs, from a shape that hypothesis draws and values from a seed


def seconds(ns):
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def end_times(rng, count, length):
    """Ends of intervals in ns; none is so close to a half millisecond that rounding could go either way."""
    times, time = [], 0
    for number in range(count):
        step = length if number + 1 < count or rng.random() < 0.5 else rng.randrange(3, 1000) * 10**6
        time = (time + step + rng.randrange(0, 3) * 10**6) // 10**6 * 10**6
        times.append(time + rng.choice([0, 1, 399_999, 600_001, 999_999, rng.randrange(0, 400_000)]))
    return times


LENGTHS = st.sampled_from([10**7, 10**8, 10**9, 10**9 + 254_408, 3 * 10**9, 10**10, 600 * 10**9])
COUNTS = (0, 1, 2, 7, 10, 999, 1000, 4095, 10**6, 123456789, 2**31, 2**32 - 1, 10**12, 2**53 - 1, 2**53 + 1, 10**18, 2**63 - 1)
EVENT_SETS = (
    ["context-switches", "cpu-migrations"],
    ["instructions", "cycles", "cache-references", "cache-misses", "branches", "branch-misses", "task-clock"],
    ["L1-dcache-load-misses", "cache-references", "L1-icache-load-misses", "instructions", "LLC-loads", "LLC-load-misses"],
    ["dTLB-loads", "dTLB-load-misses", "iTLB-loads", "iTLB-load-misses", "stalled-cycles-frontend", "stalled-cycles-backend", "cycles"],
    ["cpu-cycles", "instructions [cpu]", "branch-instructions", "branch-misses", "cs", "migrations"],
    ["cycles [cpu]", "instructions [cpu]", "dTLB-loads [cpu]", "context-switches [software]", "task-clock [software]"],
    ["cycles:u", "instructions:u", "branches:u", "branch-misses:u", "sched:sched_switch"],
    ["cycles:u", "cycles:k", "instructions:u", "instructions:k"],
    ["cycles", "cycles:u", "instructions", "instructions:u"],
    ["größe", 'cpu "quoted" \\ name', "cycles", "instructions"],
    ["power/energy-pkg/", "msr/tsc/", "cpu/event=0x87,umask=0x01/", "page-faults"],
    ["uncore_imc_0/cas_count_read/", "uncore_imc_1/cas_count_read/", "uncore_imc_7/cas_count_read/", "instructions"],
    ["cycles [nvidia_scf_pmu_0]", "cycles", "tlb_miss [smmuv3_pmcg_100140202]", "tlb_miss [smmuv3_pmcg_27ffe0202]", "instructions"],
    ["clockticks [uncore_cha_0]", "flux_rd [hisi_sccl1_ddrc0]", "clockticks [uncore_cha_1]", "flux_rd [hisi_sccl3_ddrc0]"],
    ["clockticks [uncore_imc_0]", "clockticks [uncore_cha_0]", "clockticks [uncore_cha_1]", "inst_retired", "cpu_cycles"],
)
HYBRID = ["cpu_core/cycles/", "cpu_core/instructions/", "cpu_atom/cycles/", "cpu_atom/instructions/", "context-switches"]
HYBRID_OF_USERS = ["cpu_core/cycles:u/", "cpu_core/instructions:u/", "cpu_atom/cycles:u/", "cpu_atom/instructions:u/", "task-clock"]
DECIMALS = {"task-clock", "task-clock [software]", "power/energy-pkg/"}
UNITS = {"task-clock": "msec", "power/energy-pkg/": "Joules", "uncore_imc_0/cas_count_read/": "MiB"}
PLACES = {
    "system": lambda number: {},
    "cpu": lambda number: {"cpu": f"{number}"},
    "core": lambda number: {"core": f"S{number % 2}-D0-C{number // 2}"},
    "die": lambda number: {"die": f"S{number // 2}-D{number % 2}"},
    "socket": lambda number: {"socket": f"S{number}"},
    "node": lambda number: {"node": f"N{number}"},
}
VERSIONS = ("6.1", "6.12", "6.13", "7.2", "2022", "first", "compact")
ODDITIES = (
    "not counted", "nothing counted", "zero", "missing", "event missing", "place missing", "twice", "reordered", "spelled", "out of range",
    "further",
)  # fmt: skip


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def record(version, time, place, value, event, rng, share="100.00", spelled=False):
    """One line of `perf stat -I --json` as this version prints it; spelled: in another JSON spelling of the same."""
    fields = [("interval", time)]
    fields += [(key, quoted(where)) for key, where in place.items()]
    if place and "cpu" not in place:
        fields.append(("counters" if version == "7.2" else "aggregate-number", "2"))
    fields += [("counter-value", quoted(value)), ("unit", quoted(UNITS.get(event, ""))), ("event", quoted(event))]
    fields += [("event-runtime", str(rng.randrange(10**10))), ("pcnt-running", share)]
    if version in ("6.1", "2022", "first"):
        fields.append(("metric-value", rng.choice(["nan", "-nan"] if spelled else ["1.000002", "0.000000"])))
        fields.append(("metric-unit", quoted("insn per cycle")))
    elif version in ("6.12", "compact"):
        fields += [("metric-value", quoted("1.000003")), ("metric-unit", quoted(rng.choice(["(null)", "", "K/sec", "%  of all"])))]
    colon, comma, ending = " : ", ", ", "}"
    if value.startswith("<"):
        pass  # another spelling of what is not counted has a test of its own
    elif spelled:
        kind = rng.randrange(6)
        if kind == 0:
            rng.shuffle(fields)
        elif kind == 1:
            fields.insert(rng.randrange(len(fields) + 1), (rng.choice(["variance", "größe", "metric-threshold"]), '"x"'))
        elif kind == 2:
            colon, comma = rng.choice([(":", ","), ("  :  ", " , "), (": ", ", ")])
        elif kind == 3:
            fields = [(key, "".join(f"\\u{ord(c):04x}" for c in place[key]).join('""') if key in place else text) for key, text in fields]
        elif kind == 4:
            fields = [entry for entry in fields if entry[0] not in ("pcnt-running", "unit", "event-runtime")]
        else:
            ending = " } "
    elif version == "compact":
        colon, comma = ":", ","
    if version == "6.13" and fields[-1][0] == "pcnt-running":
        ending = ", }"
    body = comma.join(f'"{key}"{colon}{text}' for key, text in fields) + ending
    return body if version == "2022" and not spelled else "{" + body


def count_text(rng, event):
    count = rng.choice(COUNTS) if rng.random() < 0.3 else rng.randrange(10 ** rng.randrange(1, 12))
    if event in DECIMALS:
        return f"{count % 10**8}.{rng.choice(['000000', '500000', f'{rng.randrange(10**6):06d}', '25'])}"
    return f"{count}.000000"


def perf_output(version, events, places, times, odd, rng, oddities=ODDITIES, rare=False):
    """[lines of one interval] for every time; odd: the chance of an interval to have an oddity, in some of its lines; rare: in about
    one of them."""
    blocks = []
    chance = 1 / len(events) / len(places) if rare else 0.1
    for time in times:
        what = {oddity for oddity in oddities if rng.random() < odd}
        nothing_counted = "nothing counted" in what and rng.random() < 0.3
        gone_event, gone_place = rng.choice(events), rng.choice(places)
        lines = []
        order = [(event, place) for event in events for place in places]
        if version == "7.2":
            order = [(event, place) for place in places for event in events]
        if "reordered" in what:
            rng.shuffle(order)
        for event, place in order:
            happens = {oddity for oddity in what if rng.random() < chance}
            is_gone = ("event missing" in what and event == gone_event) or ("place missing" in what and place == gone_place)
            if is_gone or "missing" in happens:
                continue
            value, share = count_text(rng, event), "100.00" if rng.random() < 0.7 else f"{rng.randrange(10000) / 100:.2f}"
            if "not counted" in happens or nothing_counted:
                value, share = rng.choice(["<not counted>", "<not supported>"]), "0.00"
            elif "zero" in happens:
                value = "0.000000"
            elif "out of range" in happens:
                value = rng.choice(["-1.000000", f"{2**63}.000000", f"{2**64 - 5}.000000"])
            lines.append(record(version, seconds(time), place, value, event, rng, share, "spelled" in happens))
            if "further" in happens:
                where = "".join(f'"{key}" : {quoted(text)}, ' for key, text in place.items())
                lines.append(f'{{"interval" : {seconds(time)}, {where}"metric-value" : "0.9", "metric-unit" : "stalled cycles per insn"}}')
            if "twice" in happens:
                again = value if rng.random() < 0.5 and not value.startswith("<") else count_text(rng, event)
                lines.append(record(version, seconds(time), place, again, event, rng, "50.00"))
        if not lines:  # an interval without a record is none
            lines.append(record(version, seconds(time), places[0], "5.000000", events[0], rng))
        blocks.append([text for line in lines for text in ([line, ""] if version == "first" else [line])])
    if version == "6.1":
        blocks[0][:0] = ["# started on Sun Nov 29 23:20:13 2026", ""]
    return blocks


@st.composite
def perf_outputs(draw, wide=False, least=1, steady=False):
    """(blocks of lines, length of the run in ns, how many CPUs); steady: every interval has the same events and places."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    version = draw(st.sampled_from(["6.1", "6.12", "7.2", *VERSIONS] if wide else VERSIONS))
    events = draw(st.sampled_from(EVENT_SETS if steady else [*EVENT_SETS, HYBRID, HYBRID_OF_USERS]))
    if draw(st.booleans()) and events[0][:8] != "cpu_core":
        events = list(dict.fromkeys([*events, *draw(st.sampled_from(EVENT_SETS))]))
    if steady:  # of two counts that contradict each other neither is published, but the one is that a lost line leaves
        events = list({plain.EVENTS[event][:2] + plain.EVENTS[event][3:]: event for event in events}.values())
    aggregation = draw(st.sampled_from(["cpu", "core"] if wide else list(PLACES)))
    count = 1 if aggregation == "system" else draw(st.integers(24, 72) if wide else st.integers(1, 4))
    places = [PLACES[aggregation](number) for number in range(count)]
    times = end_times(rng, draw(st.integers(max(least, 2), max(6, least)) if wide else st.integers(least, 9)), draw(LENGTHS))
    odd, rare = draw(st.sampled_from([0, 0.1, 1])), wide and draw(st.booleans())
    oddities = [oddity for oddity in ODDITIES if not (steady and ("missing" in oddity or oddity == "twice"))]
    return perf_output(version, events, places, times, odd, rng, oddities, rare), times[-1], count if aggregation == "cpu" else 0


def joined(blocks, end="\n"):
    return "".join(line + end for lines in blocks for line in lines)


TOPOLOGY = {cpu: (cpu // 4 % 2, 0, cpu // 2, f"{cpu & ~1}-{cpu | 1}") for cpu in range(100)}
CPU_NAMES = {
    str(cpu): {"package": str(package), "die": str(die), "core": str(core), "thread": str(cpu % 2), "cpu": str(cpu)}
    for cpu, (package, die, core, _) in TOPOLOGY.items()
}


def perf_files(content, end, cpus=0, subtool="perf-stat", output="perf-stat", archive=False):
    """A data directory's files; end in ns. With a topology where there are CPUs, and an even number of them."""
    files = {OUTPUTS[output]: content, CLOCK: clock_file(subtool, -0.01, end / 10**9)}
    if archive:
        files = {OUTPUTS[output] + ".xz": lzma.compress(content, preset=0), CLOCK: files[CLOCK]}
    if cpus and cpus % 2 == 0:
        files.update(topology_files({cpu: TOPOLOGY[cpu] for cpu in range(cpus)}))
    return files


PIECES = st.sampled_from([None, None, 1, 61, 700, 4096, 10_000])


def assert_published(expected, files, read_bytes=None):
    found = plain.difference(expected, published(files, read_bytes).series, EPOCH * 1000)
    assert not found, found


# --- every sample is published


@examples(300)
@given(perf_outputs(), PIECES, st.booleans())
def test_every_count_and_ratio_of_perf_stat_is_published(output, read_bytes, archive):
    blocks, end, cpus = output
    text = joined(blocks)
    expected = plain.perf_stat(text, CPU_NAMES if cpus and cpus % 2 == 0 else {})
    assert_published(expected, perf_files(text.encode(), end, cpus, archive=archive), read_bytes)


@examples(40)
@given(perf_outputs(wide=True), PIECES, st.booleans())
def test_every_count_of_a_wide_perf_stat_is_published(output, read_bytes, archive):
    blocks, end, cpus = output
    text = joined(blocks)
    expected = plain.perf_stat(text, CPU_NAMES if cpus and cpus % 2 == 0 else {})
    assert_published(expected, perf_files(text.encode(), end, cpus, archive=archive), read_bytes)


CPU_COLUMNS = ["Busy%", "Avg_MHz", "Bzy_MHz", "IPC", "IRQ", "SMI", "NMI", "POLL%", "C1_ACPI%", "CPU%c1", "LLC%hit", "L2%hit"]
CORE_COLUMNS = ["CPU%c6", "CoreTmp", "CoreThr"]
PACKAGE_COLUMNS = ["PkgTmp", "Pkg%pc6", "CorWatt", "PkgWatt", "RAMWatt", "UncMHz", "UMHz0.0", "UMHz1.0"]
OTHER_COLUMNS = ["TSC_MHz", "POLL", "C1_ACPI", "haltpoll idle"]
WHOLE_COLUMNS = {
    "Avg_MHz", "Bzy_MHz", "IRQ", "SMI", "NMI", "CoreTmp", "CoreThr", "PkgTmp", "UncMHz", "UMHz0.0", "UMHz1.0", "TSC_MHz", "POLL"
}  # fmt: skip
WILD = ["184467440737.09", "4294967", "4294967295", "262183.99", "65541.00", "445.00", "110.01", "-0.01", "255", "-274", "150.01", "-60.01"]
UNMEASURED = ["-nan", "(neg)", "***.**", "nan", "-"]


def table_value(rng, column, odd):
    if odd and rng.random() < odd:
        return rng.choice(UNMEASURED)
    if odd and rng.random() < odd:
        return rng.choice(WILD)
    if column in ("CoreTmp", "PkgTmp") and rng.random() < 0.1:
        return str(-rng.randrange(1, 20))
    if column in ("CoreTmp", "PkgTmp"):
        return str(rng.randrange(150))
    if column in WHOLE_COLUMNS:
        return str(rng.choice([0, 1, 800, 2596, rng.randrange(6000), rng.randrange(9999)]))
    most = 5000 if column.endswith("Watt") else 100
    return f"{rng.choice([0, 99, rng.randrange(100), rng.randrange(most)])}.{rng.choice([0, 0, 50, rng.randrange(100)]):02d}"


def turbostat_row(names, place, stands, rng, odd, cut):
    """The fields of one row; stands: of which columns there are values; cut: whether empty fields at its end are left out."""
    fields = [place[name] if name in place else table_value(rng, name, odd) if name in stands else "" for name in names]
    while cut and not fields[-1]:
        fields.pop()
    return fields


@st.composite
def turbostat_tables(draw, wide=False, least=1, steady=False):
    """(blocks of rows, each row its fields; ends of the intervals in ns); steady: rows have a time, and no column stands in the summary
    alone"""
    rng = random.Random(draw(st.integers(0, 2**32)))
    packages, cores, threads = draw(st.tuples(st.integers(1, 2), st.integers(8, 24) if wide else st.integers(1, 3), st.integers(1, 2)))
    topology = ["Core", "CPU"] if draw(st.booleans()) else ["CPU"]
    if packages > 1 or draw(st.booleans()):
        topology.insert(0, "Package")
        if draw(st.booleans()):
            topology.insert(1, "Die")
    time = [plain.TIME] if steady or draw(st.booleans()) else []
    length = draw(LENGTHS)
    count = draw(st.integers(max(2, least), max(5, least)) if wide else st.integers(least, 8))
    times = end_times(rng, count, length) if time else [length * number for number in range(1, count + 1)]
    columns = [name for name in CPU_COLUMNS + CORE_COLUMNS + OTHER_COLUMNS + PACKAGE_COLUMNS + ["SysWatt"] if rng.random() < 0.6]
    columns = columns or ["Busy%"]
    if draw(st.booleans()):
        rng.shuffle(columns)
    in_summary_only = {name for name in PACKAGE_COLUMNS if rng.random() < 0.1 and not steady} - {"UncMHz", "UMHz0.0", "UMHz1.0"}
    odd = draw(st.sampled_from([0, 0.01, 0.1]))
    cut, repeated = draw(st.booleans()), draw(st.integers(1, 4))
    changes = draw(st.booleans())
    cpus = [(package, core, thread) for package in range(packages) for core in range(cores) for thread in range(threads)]
    number_of = {cpu: number for number, cpu in enumerate(sorted(cpus, key=lambda cpu: (cpu[2], cpu[0], cpu[1])))}
    names = [*time, *topology, *columns]
    blocks = []
    for interval, end in enumerate(times):
        rows = []
        if interval and changes and rng.random() < 0.2:
            # as with another turbostat on the same machine: columns in another order, or one fewer
            columns = rng.sample(columns, len(columns)) if len(columns) < 2 or rng.random() < 0.5 else columns[:-1]
            names = [*time, *topology, *columns]
            rows.append(names)
        elif interval % repeated == 0:
            rows.append(names)
        here = [cpu for cpu in cpus if not changes or rng.random() < 0.95] or cpus[:1]
        stamp = EPOCH * 10**9 + end
        summary = dict.fromkeys(topology, "-")
        summary.update(dict.fromkeys(time, f"{stamp // 10**9}.{stamp % 10**9 // 1000:06d}"))
        rows.append(turbostat_row(names, summary, columns, rng, odd, cut))
        seen = set()
        for position, (package, core, thread) in enumerate(here):
            place = {"Package": str(package), "Die": "0", "Core": str(core), "CPU": str(number_of[package, core, thread])}
            early = stamp - (len(here) - 1 - position) * 1000
            place.update(dict.fromkeys(time, f"{early // 10**9}.{early % 10**9 // 1000:06d}"))
            stands = set(CPU_COLUMNS + OTHER_COLUMNS)
            if (package, core) not in seen:
                stands.update(CORE_COLUMNS)
            if package not in seen:
                stands.update(set(PACKAGE_COLUMNS) - in_summary_only)
            seen.update([package, (package, core)])
            rows.append(turbostat_row(names, place, stands, rng, odd, cut))
        blocks.append(rows)
    return blocks, times


def tabbed(blocks, end="\n"):
    return "".join("\t".join(fields) + end for rows in blocks for fields in rows)


def aligned(blocks):
    """The table with blanks between the columns, as people copy it from a terminal."""
    width = 2 + max(len(field) for rows in blocks for fields in rows for field in fields)
    return "".join("".join(field.ljust(width) for field in fields).rstrip() + "\n" for rows in blocks for fields in rows)


def turbostat_files(content, times, interval=None, archive=False):
    return {
        OUTPUTS["turbostat"] + (".xz" if archive else ""): lzma.compress(content, preset=0) if archive else content,
        CLOCK: clock_file("turbostat", 0, times[-1] / 10**9),
        ENVIRONMENT: f"cpu_vendor=GenuineIntel\nturbostat_interval={interval or '1000000'}\n".encode(),
    }


def expected_of_table(blocks, times):
    """What the plain reader finds, and the length of an interval where the table does not tell the times."""
    stamped = blocks[0][0][0] == plain.TIME
    ends = None if stamped else [Fraction(time, 10**9) for time in times]
    return plain.turbostat(tabbed(blocks), ends, EPOCH), None if stamped else f"{times[0] / 10**9:.9f}"


@examples(250)
@given(turbostat_tables(), PIECES, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_every_value_of_turbostat_is_published(output, read_bytes, archive, line_end):
    blocks, times = output
    expected, interval = expected_of_table(blocks, times)
    files = turbostat_files(("turbostat version 2024.07.26\n" + tabbed(blocks, line_end)).encode(), times, interval, archive)
    assert_published(expected, files, read_bytes)


@examples(40)
@given(turbostat_tables(wide=True), PIECES)
def test_every_value_of_a_wide_turbostat_is_published(output, read_bytes):
    blocks, times = output
    expected, interval = expected_of_table(blocks, times)
    assert_published(expected, turbostat_files(tabbed(blocks).encode(), times, interval), read_bytes)


@examples(100)
@given(turbostat_tables())
def test_every_value_of_a_table_aligned_with_blanks_is_published(output):
    blocks, times = output
    expected, interval = expected_of_table(blocks, times)
    assert_published(expected, turbostat_files(aligned(blocks).encode(), times, interval))


CSV_COLUMNS = ["Timestamp", "CPUs", "Area", "Value", "Unit", "Description", "Sample", "Stddev", "Multiplex", "Bottleneck", "Idle"]
CPUS = {
    "": [""],
    "cores": ["C0", "C1", "C2"],
    "threads": ["C0-T0", "C0-T1", "C1-T0"],
    "sockets": ["S0", "S1"],
    "whole": ["S0-C0", "S0-C1", "S1-C0"],
    "cpus": ["CPU0", "CPU1", "CPU12"],
}


@st.composite
def toplev_tables(draw, wide=False, least=1):
    """(blocks of lines, times in ns, the header of an output without one)"""
    rng = random.Random(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(list(CPUS)))
    cpus = [f"S{number % 2}-C{number // 2}" for number in range(60)] if wide else CPUS[kind]
    delimiter = draw(st.sampled_from([",", ";"]))
    columns = CSV_COLUMNS if cpus != [""] else [name for name in CSV_COLUMNS if name != "CPUs"]
    old = draw(st.booleans())
    if old:
        columns = columns[:-1]
    elif draw(st.booleans()):
        columns = [columns[0], *rng.sample(columns[1:], len(columns) - 1)]
    description = '"A description, with commas; and ""quotes"""' if draw(st.booleans()) else ""
    nodes = rng.sample(list(plain.NODES), rng.randrange(1, len(plain.NODES)))
    times = end_times(rng, draw(st.integers(max(2, least), max(4, least)) if wide else st.integers(least, 8)), draw(LENGTHS))
    odd = draw(st.sampled_from([0, 0.05]))
    blocks = []
    for time in times:
        lines = []
        for place in cpus:
            for node in nodes:
                if rng.random() < odd and lines:
                    continue
                value = rng.choice(["0.0", "100.0", "-0.0", "-1.2", "100.3", f"{rng.randrange(1000) / 10}", f"{rng.randrange(1000) / 10}"])
                if rng.random() < odd:
                    value = rng.choice(["nan", "", "1000.0", "-1000.1", "18446744073709.6"])
                unit = rng.choice(["% Slots", "% Slots <", "%", "% Clocks", "% Clocks_Estimated <", "Metric", "CoreMetric <"])
                fields = {"Timestamp": seconds(time), "CPUs": place, "Area": node, "Value": value, "Unit": unit, "Description": description}
                lines.append(delimiter.join(fields.get(column, "") for column in columns))
        blocks.append(lines)
    if not old:
        blocks[0].insert(0, delimiter.join(columns))
        blocks[-1].append("# 5.1-full on Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz [icx]")
    return blocks, times, delimiter.join(columns) if old else None


def toplev_files(content, times, archive=False):
    name = OUTPUTS["toplev"] + (".xz" if archive else "")
    return {name: lzma.compress(content, preset=0) if archive else content, CLOCK: clock_file("toplev", 0, times[-1] / 10**9)}


@examples(200)
@given(toplev_tables(), PIECES, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_every_node_of_toplev_is_published(output, read_bytes, archive, line_end):
    blocks, times, header = output
    expected = plain.toplev_csv(joined(blocks), header)
    assert_published(expected, toplev_files(joined(blocks, line_end).encode(), times, archive), read_bytes)


@examples(20)
@given(toplev_tables(wide=True), PIECES)
def test_every_node_of_a_wide_toplev_is_published(output, read_bytes):
    blocks, times, header = output
    assert_published(plain.toplev_csv(joined(blocks), header), toplev_files(joined(blocks).encode(), times), read_bytes)


@st.composite
def metric_groups(draw):
    """(blocks of lines, times in ns) of perf's metric groups"""
    rng = random.Random(draw(st.integers(0, 2**32)))
    aggregation = draw(st.sampled_from(["system", "socket", "core", "cpu"]))
    places = [PLACES[aggregation](number) for number in range(1 if aggregation == "system" else draw(st.integers(1, 4)))]
    nodes = rng.sample(list(plain.PERF_NODES), rng.randrange(1, len(plain.PERF_NODES)))
    times = end_times(rng, draw(st.integers(1, 8)), draw(LENGTHS))
    odd = draw(st.sampled_from([0, 0.05]))
    text_values = draw(st.booleans())
    blocks = []
    for time in times:
        lines = []
        for place in places:
            where = "".join(f'"{key}" : "{name}", ' for key, name in place.items())
            for number, node in enumerate(nodes):
                if rng.random() < odd and lines:
                    continue
                value = rng.choice(["-0.000000", "0.000000", "100.000000", "-0.000077", f"{rng.randrange(10**8) / 10**6:.6f}"])
                value = rng.choice(["nan", "-nan"]) if rng.random() < odd else value
                value = f'"{value}"' if text_values else value
                event = ""
                if number == 0 or rng.random() < 0.7:
                    count = rng.choice(["5.000000", "5.000000", "<not counted>", "<not supported>"])
                    share = rng.choice(["100.00", f"{rng.randrange(10000) / 100:.2f}"])
                    event = f'"counter-value" : "{count}", "event" : "ev{number}", "event-runtime" : 1, "pcnt-running" : {share}, '
                lines.append(f'{{"interval" : {seconds(time)}, {where}{event}"metric-value" : {value}, "metric-unit" : "{node}"}}')
        blocks.append(lines)
    return blocks, times


@examples(100)
@given(metric_groups(), PIECES)
def test_every_node_of_perfs_metric_groups_is_published(output, read_bytes):
    blocks, times = output
    text = joined(blocks)
    assert_published(plain.toplev_json(text), perf_files(text.encode(), times[-1], 0, "toplev", "toplev-json"), read_bytes)


# --- damage costs what it hit


def insert(line, rng, what):
    at = rng.randrange(1, max(2, len(line)))
    return line[:at] + what + line[at:]


DAMAGES = {
    "delete": lambda line, rng: b"",
    "cut": lambda line, rng: line[: rng.randrange(1, max(2, len(line)))] + b"\n",
    "join": lambda line, rng: line,
    "NUL": lambda line, rng: insert(line, rng, b"\0" * rng.randrange(1, 50)) + b"\n",
    "no UTF-8": lambda line, rng: insert(line, rng, b"\xff\xfe") + b"\n",
    "foreign": lambda line, rng: line + b"\nSegmentation fault (core dumped) \x1b[0m\n",
}


def damaged(blocks, where, kind, rng):
    """The content with one line of block `where` damaged; blocks: of lines without line feed."""
    pick = rng.randrange(len(blocks[where]))
    return b"".join(
        DAMAGES[kind](line.encode(), rng) if (number, place) == (where, pick) else line.encode() + b"\n"
        for number, lines in enumerate(blocks)
        for place, line in enumerate(lines)
    )


# what may be of several records
SUMS = ("uncore", "nvidia", "tlb_miss", "flux_rd", "clockticks", *plain.UNSURE)


def assert_kept(expected, series, times, hit, written):
    """Every sample of the intervals before the one that was hit, and from the third after it on, is published, and no values but
    those written. (A line may be lost together with the next, and an interval may have one line. Of a sum, a lost line may have been
    the last part of the interval before.)"""
    ends = [round(Fraction(time, 10**6)) for time in times]
    for key, samples in expected.items():
        is_sum = any(name in text for name in SUMS for text in (key[0], dict(key[1]).get("counter", "")))
        first = hit - (is_sum or key[0] == "ipc")
        unclear = set(ends[max(0, first) : hit + 3])
        rows = series.get(key, [])
        for sample in samples:
            if sample.end not in unclear:
                covering = [row for row in rows if row[0] <= sample.end + EPOCH * 1000 <= row[1]]
                assert covering, f"{key}: nothing at {sample.end}"
                assert plain.is_value(covering[0][2], sample), f"{key}: {covering[0]}, not {sample}"
        for row in rows if written and not is_sum else ():  # a line of a sum may be gone without a trace
            is_known = any(sample.derived or plain.is_value(row[2], sample) for sample in samples)
            assert is_known or row[2] in written, f"{key}: {row} is written nowhere"
    # with the only count of a modifier, what kept a ratio from being computed may be gone
    assert {key for key in series if key[0] not in plain.DERIVED} <= set(expected)


def numbers(content):
    """Every number that is written in a text."""
    return {kind(text) for text in re.findall(r"-?[0-9]+(?:\.[0-9]+)?", content) for kind in (Fraction, float)}


@examples(200)
@given(perf_outputs(least=5, steady=True), st.sampled_from(sorted(DAMAGES)), st.integers(0, 8), st.integers(0, 2**32), PIECES)
def test_a_damaged_line_of_perf_stat_costs_its_interval_only(output, kind, hit, seed, read_bytes):
    blocks, end, cpus = output
    blocks = [[line for line in lines if not line.startswith("#")] for lines in blocks]
    hit %= len(blocks) - 1
    times = [round(Fraction(next(iter(plain.records(joined([lines]))))) * 10**9) for lines in blocks]
    expected = plain.perf_stat(joined(blocks), CPU_NAMES if cpus and cpus % 2 == 0 else {})
    found = published(perf_files(damaged(blocks, hit, kind, random.Random(seed)), end, cpus), read_bytes)
    assert_kept(expected, found.series, times, hit, numbers(joined(blocks)))


@examples(150)
@given(turbostat_tables(least=5, steady=True), st.sampled_from(sorted(DAMAGES)), st.integers(0, 8), st.integers(0, 2**32), PIECES)
def test_a_damaged_row_of_turbostat_costs_its_interval_only(output, kind, hit, seed, read_bytes):
    blocks, times = output
    expected, interval = expected_of_table(blocks, times)
    hit %= len(blocks) - 1
    head = blocks[hit][:-1] if len(blocks[hit]) < 3 else blocks[hit][:1] if blocks[hit][0][0].isidentifier() else []
    rng = random.Random(seed)
    lines = [["\t".join(fields) for fields in rows] for rows in blocks]
    rest = lines[hit][len(head) :]
    lines[hit] = rest
    content = damaged(lines, hit, kind, rng)
    before = "".join(line + "\n" for rows in lines[:hit] for line in rows).encode()
    content = before + "".join("\t".join(fields) + "\n" for fields in head).encode() + content[len(before) :]
    found = published(turbostat_files(content, times, interval), read_bytes)
    # what stands on the rows of that interval alone is taken from the summaries where these rows are lost
    end = round(Fraction(times[hit], 10**6))
    elsewhere = {key[0] for key, samples in expected.items() if any(sample.end != end for sample in samples)}
    series = {key: rows for key, rows in found.series.items() if key in expected or key[1] or key[0] in elsewhere}
    assert_kept(expected, series, times, hit, numbers(tabbed(blocks)) if kind not in ("cut", "join") else None)


@examples(150)
@given(toplev_tables(least=5), st.sampled_from(sorted(DAMAGES)), st.integers(0, 8), st.integers(0, 2**32), PIECES)
def test_a_damaged_row_of_toplev_costs_its_interval_only(output, kind, hit, seed, read_bytes):
    blocks, times, header = output
    expected = plain.toplev_csv(joined(blocks), header)
    hit = 1 + hit % (len(blocks) - 2)  # the header stands in the first
    found = published(toplev_files(damaged(blocks, hit, kind, random.Random(seed)), times), read_bytes)
    assert_kept(expected, found.series, times, hit, numbers(joined(blocks)))


# --- however it is read

TOKENS = (
    b"\n", b'"', b"e999", b"-", b"{", b"}", b",", b"9" * 30, b"0" * 320, b"null", b"NaN", b"-inf", b"\r", b"true", b"[", b"[" * 3000,
    b'{"a":' * 2000, b"\0", b"\0" * 100, b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\xef\xbb\xbf", b"1e400", b"1e5", b"\t", b" ",
    b"\t\t\t\t", b"\xc2\xa0", b"\xe2\x80\xa8", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xd9\xa1", b"<not counted>", b'"interval" : ',
    b"Core\tCPU\tBusy%\n", b"CPU", b"Time_Of_Day_Seconds", b"Timestamp,Area,Value,Unit\n", b"SUMMARY", b";", b"#", b".", b":", b"/",
    b"%", b"S0-C0",
)  # fmt: skip
MUTATION = st.tuples(
    st.sampled_from(["insert", "overwrite", "delete", "flip", "cut line", "twice", "swap", "drop", "join", "repeat", "end"]),
    st.integers(0, 2**20),
    st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6)),
)


def mutated(content, mutations):
    """The content after each of the mutations; positions count from its start, around its end."""
    for kind, position, data in mutations:
        at = position % (len(content) + 1)
        if kind == "insert":
            content = content[:at] + data + content[at:]
        elif kind == "overwrite":
            content = content[:at] + data + content[at + len(data) :]
        elif kind == "delete":
            content = content[:at] + content[at + len(data) + 1 :]
        elif kind == "flip":
            content = content[:at] + bytes(byte ^ (1 << len(data) % 8) for byte in content[at : at + 1]) + content[at + 1 :]
        elif kind == "repeat":
            content = content[:at] + content[at // 2 :]
        elif kind == "end" and not data:
            content = content[:at]
        else:
            lines = content.split(b"\n")
            line, other = position % len(lines), (position * 7 + len(data)) % len(lines)
            if kind == "cut line":
                lines[line] = lines[line][: other * 5]
            elif kind == "twice":
                lines.insert(other, lines[line])
            elif kind == "swap":
                lines[line], lines[other] = lines[other], lines[line]
            elif kind == "drop":
                del lines[line]
            elif kind == "join" and line + 1 < len(lines):
                lines[line : line + 2] = [lines[line] + lines[line + 1]]
            content = b"\n".join(lines)
    return content


def with_blank_lines(content):
    return content.replace(b"\n", b"\n\n")


def with_blanks(content):
    return content.replace(b"\n", b"  \n")


def assert_same_however_read(files_of, content, variants=(with_blank_lines,)):
    """The same is published from the content whole, in small pieces, from its archive, and with lines between that say nothing."""
    whole = published(files_of(content, False))
    small = published(files_of(content, False), 777)
    assert small.series == whole.series
    assert small.log == whole.log
    assert published(files_of(content, True)).series == whole.series
    for variant in variants:
        assert published(files_of(variant(content), False)).series == whole.series


@examples(60)
@given(perf_outputs(), st.lists(MUTATION, max_size=5))
def test_it_makes_no_difference_how_perf_stat_is_read(output, mutations):
    blocks, end, cpus = output

    def files_of(content, archive):
        return perf_files(content, end, cpus, archive=archive)

    assert_same_however_read(files_of, mutated(joined(blocks).encode(), mutations), (with_blank_lines, with_blanks))


@examples(10)
@given(perf_outputs(wide=True), st.lists(MUTATION, max_size=3))
def test_it_makes_no_difference_how_a_wide_perf_stat_is_read(output, mutations):
    blocks, end, cpus = output

    def files_of(content, archive):
        return perf_files(content, end, cpus, archive=archive)

    assert_same_however_read(files_of, mutated(joined(blocks).encode(), mutations), (with_blank_lines, with_blanks))


@examples(80)
@given(st.one_of(turbostat_tables(), turbostat_tables(wide=True)), st.lists(MUTATION, max_size=5))
def test_it_makes_no_difference_how_turbostat_is_read(output, mutations):
    blocks, times = output

    def files_of(content, archive):
        return turbostat_files(content, times, archive=archive)

    assert_same_however_read(files_of, mutated(tabbed(blocks).encode(), mutations))


@examples(50)
@given(toplev_tables(), st.lists(MUTATION, max_size=5))
def test_it_makes_no_difference_how_toplev_is_read(output, mutations):
    blocks, times, _ = output

    def files_of(content, archive):
        return toplev_files(content, times, archive)

    assert_same_however_read(files_of, mutated(joined(blocks).encode(), mutations))


# --- anything at all

HARMLESS = ("not counted", "zero", "spelled", "further")
SMALL = {
    "perf-stat": joined(
        perf_output("6.12", EVENT_SETS[1], [{"cpu": "0"}, {"cpu": "1"}], [10**9, 2 * 10**9, 25 * 10**8], 1, random.Random(1), HARMLESS)
    ),
    "toplev-json": "".join(
        f'{{"interval" : {second}.0, "counter-value" : "5.0", "event" : "{event}", "event-runtime" : 1, "pcnt-running" : 50.00, '
        f'"metric-value" : "{second}.5", "metric-unit" : "%  tma_{node}"}}\n'
        for second in (1, 2, 3)
        for event, node in (("cycles", "retiring"), ("slots", "backend_bound"))
    ),
    "turbostat": "cpu 0 pkg 0 core 0\n" + "".join(
        f"{plain.TIME}\tPackage\tCore\tCPU\tBusy%\tIRQ\tCPU%c6\tPkgWatt\n{EPOCH + second}.000000\t-\t-\t-\t5.00\t12\t50.00\t20.00\n"
        f"{EPOCH + second}.000000\t0\t0\t0\t7.00\t5\t50.00\t20.00\n{EPOCH + second}.000000\t0\t0\t1\t3.00\t7\n"
        for second in (1, 2, 3)
    ),
    "toplev": "Timestamp,CPUs,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle\n" + "".join(
        f'{second}.000212,C{core},{node},{second}0.4,% Slots{below},"a, b",,0.0,100.0,,Y\n'
        for second in (1, 2, 3)
        for core in (0, 1)
        for node, below in (("Retiring", ""), ("Backend_Bound.Memory_Bound", " <"))
    ) + "# 5.1-full on Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz [skx]\n",
}  # fmt: skip
SUBTOOL = {output: output.replace("-json", "") for output in OUTPUTS}

FOREIGN = st.one_of(
    st.binary(max_size=60), st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")), st.sampled_from(TOKENS)
)
EPOCHS = st.one_of(
    st.sampled_from([b"1700000000.5", b"0", b"-1", b"nan", b"inf", b"1e400", b"99999999999", b"1e-300", b"0.001", b"1_700_000_000", b""]),
    st.floats(EPOCH - 10, EPOCH + 10).map(lambda epoch: str(epoch).encode()),
    FOREIGN,
)
CLOCKS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([b"perf-stat", b"turbostat", b"toplev"]), st.sampled_from([b"begin", b"end"]), EPOCHS).map(b" ".join),
        FOREIGN,
    ),
    max_size=5,
).map(b"\n".join)
ENVIRONMENTS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([b"cpu_vendor", b"turbostat_interval", b"perf_stat_events_counted", b""]),
            st.one_of(
                st.sampled_from([b"AuthenticAMD", b"GenuineIntel", b"1", b"0", b"nan", b"1e9", b"cycles:u,cycles:k", b"{cycles,{,/}:W"]),
                FOREIGN,
            ),
        ).map(b"=".join),
        FOREIGN,
    ),
    max_size=4,
).map(b"\n".join)
TOPOLOGIES = st.dictionaries(
    st.tuples(
        st.sampled_from(["cpu0", "cpu1", "cpu00", "cpu1x", "cpu99999999999"]),
        st.sampled_from(["core_id", "die_id", "physical_package_id", "core_cpus_list", "thread_siblings_list"]),
    ).map(lambda names: f"sys/devices/system/cpu/{names[0]}/topology/{names[1]}"),
    st.one_of(
        st.sampled_from([b"0\n", b"1", b"-1\n", b"", b"\n", b"0-1", b"1-0", b"0,1,", b"0-1000", b"\0", b"65535", b" "]),
        st.binary(max_size=6),
    ),
    max_size=6,
)


@st.composite
def around(draw, output):
    """The files beside an output: mostly as they should be."""
    files = {CLOCK: clock_file(SUBTOOL[output], -0.1, 3)}
    if draw(st.integers(0, 2)) == 0:
        files[CLOCK] = draw(CLOCKS)
    if draw(st.integers(0, 2)) == 0:
        files[ENVIRONMENT] = draw(ENVIRONMENTS)
    if draw(st.integers(0, 2)) == 0:
        files.update(draw(TOPOLOGIES))
    return files


@pytest.mark.parametrize(
    "text",
    [
        '{"interval" : 1.0, "counter-value" : "5.000000", "event" : "\\u0063ycles"}\n',
        '{"interval":1.0,"counter-value":"5.0","event":"cycles:u"}\n{"interval":1.0,"counter-value":"<not counted>","event":"cycles:k"}\n',
    ],
)
def test_an_event_in_another_json_spelling_has_its_rate(text):
    assert_published(plain.perf_stat(text), perf_files(text.encode(), 10**9))


def test_a_damaged_byte_in_an_empty_field_does_not_cost_what_the_summary_has():
    rows = "".join(
        f"{EPOCH + second}.000000\t-\t20.00\n{EPOCH + second}.000000\t0\t{field}\n" for second, field in ((1, ""), (2, "\0"), (3, ""))
    )
    found = published({OUTPUTS["turbostat"]: f"{plain.TIME}\tCPU\tPkgWatt\n{rows}".encode(), CLOCK: clock_file("turbostat", 0, 3)})
    assert found.series == {("turbostat:package-power-watt", ()): [(EPOCH * 1000 + 1, EPOCH * 1000 + 3000, 20.0)]}


@pytest.mark.parametrize("output", ["perf-stat", "turbostat"])
def test_an_empty_file_of_the_topology_costs_no_sample(output):
    topology = {"sys/devices/system/cpu/cpu0/topology/core_id": b"\n"}
    content = SMALL[output].replace("\tCore", "\tNode").encode()
    published({OUTPUTS[output]: content, CLOCK: clock_file(SUBTOOL[output], -0.1, 3), **topology})


@pytest.mark.parametrize("output", list(OUTPUTS))
def test_the_small_outputs_are_published_whole(output):
    found = published({OUTPUTS[output]: SMALL[output].encode(), CLOCK: clock_file(SUBTOOL[output], -0.1, 3)})
    assert len(found.series) >= 3
    assert "WARNING" not in found.log


@pytest.mark.parametrize("output", list(OUTPUTS))
def test_no_bytes_break_post_processing(output):
    @examples(60)
    @given(st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(TOKENS), max_size=12).map(b"".join)), around(output), st.booleans())
    def holds(content, files, archive):
        files = {**files, OUTPUTS[output] + (".xz" if archive else ""): lzma.compress(content, preset=0) if archive else content}
        published(files)

    holds()


@pytest.mark.parametrize("output", list(OUTPUTS))
def test_no_mutation_breaks_post_processing(output):
    @examples(250)
    @given(st.lists(MUTATION, min_size=1, max_size=6), around(output), PIECES)
    def holds(mutations, files, read_bytes):
        published({**files, OUTPUTS[output]: mutated(SMALL[output].encode(), mutations)}, read_bytes)

    holds()


@pytest.mark.parametrize("output", list(OUTPUTS))
def test_no_damage_to_an_archive_breaks_post_processing(output):
    whole = lzma.compress(SMALL[output].encode())

    @examples(60)
    @given(st.lists(MUTATION, min_size=1, max_size=3), st.integers(0, 2 * len(whole)), st.booleans(), around(output))
    def holds(mutations, cut, twice, files):
        archive = whole * (1 + twice)
        published({**files, OUTPUTS[output] + ".xz": mutated(archive, mutations) if cut % 2 else archive[:cut]})

    holds()
