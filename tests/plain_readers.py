# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What must be published of an undamaged output, read by the shortest means: the whole text at once, in exact fractions.

Nothing of the project's parsing, catalogue or formulas is used. Each reader gives {(type, breakouts as sorted pairs): [Sample]}.
"""

import csv
import json
import re
from fractions import Fraction
from typing import NamedTuple

REACH_BACK = 3  # intervals without a value that the next sample may cover


class Sample(NamedTuple):
    """begin and end in ms after the collector's time 0, both included; derived: the value is published in 7 digits."""

    begin: int
    end: int
    value: Fraction
    derived: bool


class Expected:
    """The samples of every series, each beginning where its predecessor ended if that is not long ago."""

    def __init__(self):
        self.series = {}
        self._ordinals = {}

    def add(self, metric_type, names, interval, value, derived=False):
        """interval: (ordinal, begin, end)"""
        key = metric_type, tuple(sorted(names.items()))
        ordinal, begin, end = interval
        samples = self.series.setdefault(key, [])
        if samples and ordinal - self._ordinals[key] <= REACH_BACK + 1:
            begin = samples[-1].end + 1
        self._ordinals[key] = ordinal
        samples.append(Sample(begin, end, value, derived))


def is_value(published, sample):
    """Whether a published value is that of the sample."""
    if not sample.derived:
        return published == (sample.value if sample.value.denominator == 1 else float(sample.value))
    if sample.value == 0:
        return published == 0
    # half of the last of seven digits, and what floating point adds to that
    return abs(Fraction(published) - sample.value) <= abs(sample.value) * Fraction(51, 10**8)


def difference(expected, published, epoch):
    """What is not as expected, as text; "" where all is. Rows of equal values may have been made one. epoch: ms of time 0."""
    if set(expected) != set(published):
        return f"missing: {sorted(set(expected) - set(published))[:5]}, beyond: {sorted(set(published) - set(expected))[:5]}"
    for key, samples in expected.items():
        left = list(samples)
        for begin, end, value in published[key]:
            at = begin - epoch
            while left and left[0].begin == at and left[0].end <= end - epoch and is_value(value, left[0]):
                at = left.pop(0).end + 1
            if at != end - epoch + 1:
                return f"{key}: the row {begin - epoch}..{end - epoch} {value!r}; to come: {left[:3]}"
        if left:
            return f"{key}: not published: {left[:3]}"
    return ""


def intervals(times):
    """{time in seconds: (ordinal, begin, end)} of ascending times"""
    found, before = {}, Fraction(0)
    for ordinal, time in enumerate(times):
        found[time] = ordinal, round(before * 1000) + 1, round(time * 1000)
        before = time
    return found


# --- perf's JSON

FIELD = re.compile(r'"([^"]+)"\s*:\s*("(?:[^"\\]|\\.)*"|[^",{}\s]+)')

# spelling: (name, modifiers, core PMU, instance of a PMU that there are several of)
EVENTS = {
    **{
        name: (name, "", "", "")
        for name in (
            "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "stalled-cycles-frontend",
            "stalled-cycles-backend", "context-switches", "cpu-migrations", "page-faults", "task-clock", "L1-dcache-load-misses",
            "L1-icache-load-misses", "LLC-loads", "LLC-load-misses", "dTLB-loads", "dTLB-load-misses", "iTLB-loads", "iTLB-load-misses",
            "sched:sched_switch", "größe", 'cpu "quoted" \\ name', "power/energy-pkg/", "msr/tsc/",
        )
    },
    "cpu-cycles": ("cycles", "", "", ""),
    "branch-instructions": ("branches", "", "", ""),
    "cs": ("context-switches", "", "", ""),
    "migrations": ("cpu-migrations", "", "", ""),
    "cycles:u": ("cycles", "u", "", ""),
    "instructions:u": ("instructions", "u", "", ""),
    "cycles:k": ("cycles", "k", "", ""),
    "instructions:k": ("instructions", "k", "", ""),
    "branches:u": ("branches", "u", "", ""),
    "branch-misses:u": ("branch-misses", "u", "", ""),
    "context-switches [software]": ("context-switches", "", "", ""),
    "task-clock [software]": ("task-clock", "", "", ""),
    "cycles [cpu]": ("cycles", "", "cpu", ""),
    "instructions [cpu]": ("instructions", "", "cpu", ""),
    "dTLB-loads [cpu]": ("dTLB-loads", "", "cpu", ""),
    "cpu/event=0x87,umask=0x01/": ("cpu/event=0x87,umask=0x01/", "", "cpu", ""),
    "tlb_miss [smmuv3_pmcg_100140202]": ("tlb_miss", "", "", "100140202"),
    "tlb_miss [smmuv3_pmcg_27ffe0202]": ("tlb_miss", "", "", "27ffe0202"),
    "flux_rd [hisi_sccl1_ddrc0]": ("flux_rd", "", "", "1 0"),
    "flux_rd [hisi_sccl3_ddrc0]": ("flux_rd", "", "", "3 0"),
    "clockticks [uncore_cha_0]": ("uncore_cha/clockticks/", "", "", "0"),
    "clockticks [uncore_cha_1]": ("uncore_cha/clockticks/", "", "", "1"),
    "clockticks [uncore_imc_0]": ("uncore_imc/clockticks/", "", "", "0"),
    "cycles [nvidia_scf_pmu_0]": ("nvidia_scf_pmu/cycles/", "", "", "0"),
    "cpu_cycles": ("cpu_cycles", "", "", ""),
    "inst_retired": ("inst_retired", "", "", ""),
    "cpu_core/cycles:u/": ("cycles", "u", "cpu_core", ""),
    "cpu_core/instructions:u/": ("instructions", "u", "cpu_core", ""),
    "cpu_atom/cycles:u/": ("cycles", "u", "cpu_atom", ""),
    "cpu_atom/instructions:u/": ("instructions", "u", "cpu_atom", ""),
    "cpu_core/cycles/": ("cycles", "", "cpu_core", ""),
    "cpu_core/instructions/": ("instructions", "", "cpu_core", ""),
    "cpu_atom/cycles/": ("cycles", "", "cpu_atom", ""),
    "cpu_atom/instructions/": ("instructions", "", "cpu_atom", ""),
    "uncore_imc_0/cas_count_read/": ("uncore_imc/cas_count_read/", "", "", "0"),
    "uncore_imc_1/cas_count_read/": ("uncore_imc/cas_count_read/", "", "", "1"),
    "uncore_imc_7/cas_count_read/": ("uncore_imc/cas_count_read/", "", "", "7"),
}  # fmt: skip
# what the counts of a ratio are called by CPUs' own lists
SAME = {"inst_retired": "instructions", "cpu_cycles": "cycles"}
# names under which perf may print any number of records for a CPU: one for each unit of what counts it
UNSURE = {"größe", 'cpu "quoted" \\ name', "cpu_cycles", "inst_retired"}
# type: numerator, denominator (None: the interval's seconds), factor
DERIVED = {
    "ipc": ("instructions", "cycles", 1),
    "l1d-cache-miss-rate": ("L1-dcache-load-misses", "cache-references", 1),
    "l1i-cache-miss-rate": ("L1-icache-load-misses", "instructions", 1),
    "cache-miss-rate": ("cache-misses", "cache-references", 1),
    "llc-miss-rate": ("LLC-load-misses", "LLC-loads", 1),
    "branch-miss-rate": ("branch-misses", "branches", 1),
    "dtlb-miss-rate": ("dTLB-load-misses", "dTLB-loads", 1),
    "itlb-miss-rate": ("iTLB-load-misses", "iTLB-loads", 1),
    "backend-stall-rate": ("stalled-cycles-backend", "cycles", 100),
    "frontend-stall-rate": ("stalled-cycles-frontend", "cycles", 100),
    "context-switches-sec": ("context-switches", None, 1),
    "cpu-migrations-sec": ("cpu-migrations", None, 1),
    "instructions-sec": ("instructions", None, Fraction(1, 10**6)),
    "cycles-sec": ("cycles", None, Fraction(1, 10**9)),
}


def records(text):
    """The records of perf, as {key: text}, grouped by interval in their order: {time: [record]}."""
    found = {}
    for line in text.split("\n"):
        record = {key: json.loads(value) if value[0] == '"' else value for key, value in FIELD.findall(line)}
        if "interval" in record:
            found.setdefault(Fraction(record["interval"]), []).append(record)
    return found


def place_of(record, topology):
    """Breakouts of a record's place."""
    if "cpu" in record:
        return topology.get(record["cpu"], {"cpu": record["cpu"]})
    names = {"core": ("package", "die", "core"), "die": ("package", "die"), "socket": ("package",), "node": ("node",)}
    for key, breakouts in names.items():
        if key in record:
            return dict(zip(breakouts, re.findall("[0-9]+", record[key])))
    return {}


def count_of(record):
    """The count of a record, None where it was not counted."""
    text = record["counter-value"]
    if text.startswith("<"):
        return None
    count = Fraction(text)
    return count if 0 <= count < 2**63 else None


class Count(NamedTuple):
    """What one of the times that an event was asked for counted; share: the least in percent; enabled: None where not known."""

    value: Fraction
    share: Fraction
    enabled: Fraction
    units: int


def count_of_units(found):
    """The count of all units, None where one was not counted."""
    values = [count_of(record) for record in found]
    if None in values:
        return None
    shares = [Fraction(record.get("pcnt-running", "-1")) for record in found]
    times = [Fraction(record.get("event-runtime", "0")) for record in found]
    enabled = sum(time / share for time, share in zip(times, shares) if share > 0) * 100
    is_known = all(time and 0 < share <= 100 for time, share in zip(times, shares))
    return Count(sum(values), min([share for share in shares if 0 <= share <= 100], default=Fraction(-1)), is_known and enabled, len(found))


def agree(one, other):
    """Whether both may count the same."""
    greater = max(one.value, other.value)
    apart = float(abs(one.value - other.value)) - (3 * float(greater) ** 0.5 if greater.denominator == 1 else 0)
    if apart <= greater / 10:
        return True
    as_many = not (one.enabled and other.enabled) or abs(one.enabled - other.enabled) <= max(one.enabled, other.enabled) / 10
    took_turns = any(0 <= count.share < 100 for count in (one, other))
    return took_turns and as_many and apart <= greater / 2


def best_of(counts):
    """Of an event that was asked for several times, the count that ran longest; None where they contradict each other."""
    most = max((count.units for count in counts), default=0)
    whole = [count for count in counts if count.units == most]
    if not whole or not all(agree(count, whole[0]) for count in whole):
        return None
    return max(whole, key=lambda count: 100 if count.share < 0 else count.share)


def perf_stat(text, topology=None):
    """The samples of `perf stat --json`; topology: breakouts per CPU, as text."""
    outputs = records(text)
    when = intervals(outputs)
    every = [record for found in outputs.values() for record in found if "event" in record]
    counted = {EVENTS[record["event"]][:3] for record in every if not record["counter-value"].startswith("<")}
    is_hybrid = len({pmu for _, _, pmu in counted} - {""}) > 1
    families = {EVENTS[record["event"]][0].split("/")[0] for record in every if record["event"].startswith("clockticks [")}
    expected = Expected()
    all_units = {}
    before = Fraction(0)
    for time, found in outputs.items():
        requests, occurrences, running = {}, {}, {}
        for record in found:
            if "event" not in record:
                continue
            name, modifiers, pmu, unit = EVENTS[record["event"]]
            if record["event"].startswith("clockticks [") and len(families) == 1:
                name = "clockticks"
            where = tuple(sorted(place_of(record, topology or {}).items()))
            slot = where, (name, modifiers, pmu if is_hybrid else "")
            turn = occurrences[where, record["event"]] = occurrences.get((where, record["event"]), -1) + 1
            spelled = record["event"] if not unit else name
            requests.setdefault(slot, {}).setdefault((spelled, turn), {})[unit] = record
        counts = {}
        for (where, counter), asked in requests.items():
            at_place = counts.setdefault(where, {})
            at_place[counter] = None
            sums = []
            for request, units in asked.items():
                known = all_units.setdefault((where, counter, request), set())
                if known <= set(units):
                    known.update(units)
                    sums.append(count_of_units(units.values()))
            is_unclear = counter[0] in UNSURE and len(asked) > 1 and "cpu" in next(iter(units.values()))
            best = None if is_unclear else best_of([count for count in sums if count])
            if best:
                at_place[counter] = best.value
                if best.share >= 0:
                    running[counter[:2]] = min(best.share, running.get(counter[:2], best.share))
        for where, at_place in counts.items():
            for (name, modifiers, device), count in at_place.items():
                if count is not None:
                    metric_type = f"{name}:{modifiers}" if modifiers else name
                    expected.add(metric_type, {**dict(where), **({"device": device} if device else {})}, when[time], count)
            for metric_type, (numerator, denominator, factor) in DERIVED.items():
                modifiers = {event[1] for event in counted if is_called(event, numerator, denominator)}
                if denominator:
                    modifiers &= {event[1] for event in counted if is_called(event, denominator, denominator)}
                if "" not in modifiers and len(modifiers) != 1:
                    continue
                chosen = "" if "" in modifiers else modifiers.pop()
                for device in {event[2] for event in at_place}:
                    over = at_place.get((called(numerator, chosen, device, counted, is_hybrid, denominator), chosen, device))
                    under = time - before
                    if denominator:
                        under = at_place.get((called(denominator, chosen, device, counted, is_hybrid, denominator), chosen, device))
                    if over is not None and under:
                        names = {**dict(where), **({"device": device} if device else {})}
                        expected.add(metric_type, names, when[time], over / under * factor, derived=True)
        for (name, modifiers), share in running.items():
            names = {"counter": f"{name}:{modifiers}" if modifiers else name}
            expected.add("counter-running", names, when[time], Fraction(float(share)))
        before = time
    return expected.series


def is_called(event, name, denominator):
    """Whether a counted event is what a formula names; a rate is only of the default list's own names."""
    return event[0] == name or (denominator and SAME.get(event[0]) == name)


def called(name, modifiers, device, counted, is_hybrid, denominator):
    """What the event of a formula is called here: by the default list, where that name was counted; else by the CPU's own."""
    if denominator and not any(event[:2] == (name, modifiers) and (not is_hybrid or event[2] == device) for event in counted):
        return next((own for own, same in SAME.items() if same == name), name)
    return name


# --- turbostat's table

# column: (type without its prefix, what it is a property of); CorWatt: of an Intel CPU
COLUMNS = {
    "Busy%": ("cpu-busy-pct", "cpu"),
    "%Busy": ("cpu-busy-pct", "cpu"),
    "Avg_MHz": ("cpu-freq-avg-mhz", "cpu"),
    "Bzy_MHz": ("cpu-busy-freq-mhz", "cpu"),
    "IPC": ("ipc", "cpu"),
    "IRQ": ("irq", "cpu"),
    "SMI": ("smi", "cpu"),
    "POLL%": ("poll-pct", "cpu"),
    "C1_ACPI%": ("c1-acpi-pct", "cpu"),
    "CPU%c1": ("cpu-c1-pct", "cpu"),
    "CPU%c6": ("cpu-c6-pct", "core"),
    "CoreTmp": ("core-temp-celsius", "core"),
    "CoreThr": ("core-throttle", "core"),
    "PkgTmp": ("package-temp-celsius", "package"),
    "Pkg%pc6": ("pkg-pc6-pct", "package"),
    "CorWatt": ("core-power-watt", "package"),
    "PkgWatt": ("package-power-watt", "package"),
    "RAMWatt": ("ram-power-watt", "package"),
    "UncMHz": ("uncore-freq-mhz", "package"),
    "UMHz0.0": ("uncore-freq-mhz", "package"),
    "UMHz1.0": ("uncore-freq-mhz", "package"),
    "SysWatt": ("system-power-watt", "system"),
    "NMI": ("nmi", "cpu"),
    "LLC%hit": ("llc-hit-pct", "cpu"),
    "L2%hit": ("l2-hit-pct", "cpu"),
}
# by the end of a type: least and greatest value that is published
LIMITS = {
    "pct": (0, 110), "mhz": (0, 20000), "watt": (0, 5000), "celsius": (-60, 150), "ipc": (0, 100),
    "irq": (0, 2**31 - 1), "smi": (0, 2**31 - 1), "nmi": (0, 2**31 - 1), "throttle": (0, 2**31 - 1),
}  # fmt: skip
WATTS_OF_A_MACHINE = (0, 50000)
TIME = "Time_Of_Day_Seconds"
PLACES = ("Package", "Die", "Core", "CPU")


def table_blocks(text):
    """The intervals of a table that has a summary row in each: [[{column: text}]]"""
    blocks, header = [], []
    for line in text.split("\n"):
        fields = line.rstrip("\r").split("\t")
        if not line.strip() or "\t" not in line:
            continue
        if fields[0][:1].isalpha() and fields[0] != "-":
            header = fields
            continue
        row = dict(zip(header, fields))
        if row["CPU"] == "-":
            blocks.append([])
        blocks[-1].append(row)
    return blocks


def turbostat(text, ends, epoch):
    """The samples of a table; ends: the end of each interval in seconds where the rows do not tell; epoch: of time 0, in seconds."""
    blocks = table_blocks(text)
    if not ends:
        ends = [Fraction(rows[0][TIME]) - epoch for rows in blocks]
    when = intervals(ends)
    rows_with_place = [row for rows in blocks for row in rows if row["CPU"] != "-"]
    cores, carried = {}, set()
    for row in rows_with_place:
        cores.setdefault((row.get("Package", "0"), row.get("Die", "0"), row.get("Core")), set()).add(int(row["CPU"]))
        carried |= {COLUMNS[column][0] for column, value in row.items() if column in COLUMNS and value}
    expected = Expected()
    for rows, end in zip(blocks, ends):
        for row in rows:
            values = {}
            for column, value in row.items():
                if column in COLUMNS and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value.strip()):
                    values.setdefault(COLUMNS[column], []).append(Fraction(value.strip()))
            package, die, core, cpu = row.get("Package", "0"), row.get("Die", "0"), row.get("Core"), row["CPU"]
            for (metric_type, scope), found in values.items():
                if cpu == "-":
                    if scope != "system" and metric_type in carried:
                        continue
                    names = {}
                elif scope == "package":
                    names = {"package": package}
                elif core is None:
                    names = {"package": package, "die": die, "cpu": cpu}
                elif scope == "core":
                    names = {"package": package, "die": die, "core": core}
                else:
                    thread = sorted(cores[package, die, core]).index(int(cpu))
                    names = {"package": package, "die": die, "core": core, "thread": str(thread), "cpu": cpu}
                least, greatest = LIMITS[metric_type.rpartition("-")[2]]
                if metric_type.endswith("watt") and not names:
                    least, greatest = WATTS_OF_A_MACHINE
                possible = [value for value in found if least <= value <= greatest]
                if possible:
                    mean = sum(possible) / len(possible)
                    expected.add(f"turbostat:{metric_type}", names, when[end], mean, derived=len(possible) > 1)
    return expected.series


# --- toplev

FARTHEST = 1000  # percent from 0 that a node may be
NODES = {
    "Frontend_Bound": "frontend-bound", "Bad_Speculation": "bad-speculation", "Backend_Bound": "backend-bound", "Retiring": "retiring",
    "Backend_Bound.Memory_Bound": "memory-bound", "Backend_Bound.Core_Bound": "core-bound", "MUX": "mux",
    "Backend_Bound.Memory_Bound.DRAM_Bound": "dram-bound", "Backend_Bound.Memory_Bound.L1_Bound": "l1-bound",
    "Bad_Speculation.Branch_Mispredicts": "branch-mispredicts", "Frontend_Bound.Fetch_Latency.ITLB_Misses": "itlb-misses",
    "Retiring.Light_Operations.FP_Arith": "fp-arith", "Info.Thread.IPC": "ipc", "Info.System.CPU_Utilization": "cpu-utilization",
}  # fmt: skip
PERF_NODES = {
    "%  frontend_bound": "frontend-bound", "%  bad_speculation": "bad-speculation", "%  backend_bound": "backend-bound",
    "%  tma_retiring": "retiring", "%  backend_bound_memory": "memory-bound", "percent of slots  backend_bound_cpu": "core-bound",
    "%  smt_contention": "smt-contention", "%  tma_dram_bound": "dram-bound",
}  # fmt: skip


def cpus_of(text):
    """Breakouts of the CPUs column."""
    words = {"S": "package", "C": "core", "T": "thread", "CPU": "cpu"}
    return {words[word]: value for word, value in re.findall(r"(CPU|S|C|T)([0-9]+)", text)}


def toplev_csv(text, header=None):
    """The samples of `toplev.py -x,`; header: of an output that has none."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(("#", "SUMMARY"))]
    lines = [header, *lines] if header else lines
    rows = list(csv.DictReader(lines, delimiter=";" if ";" in lines[0] else ","))
    when = intervals(dict.fromkeys(Fraction(row["Timestamp"]) for row in rows))
    expected = Expected()
    for row in rows:
        if row["Unit"].strip().startswith("%") and row["Value"] not in ("", "nan"):
            value = Fraction(row["Value"])
            place = cpus_of(row.get("CPUs") or "")
            if abs(value) > FARTHEST:
                continue
            expected.add(f"toplev:{NODES[row['Area']]}", place, when[Fraction(row["Timestamp"])], Fraction(float(value)))
    return expected.series


def toplev_json(text):
    """The samples of perf's metric groups."""
    outputs = records(text)
    when = intervals(outputs)
    expected = Expected()
    for time, found in outputs.items():
        for record in found:
            if record.get("metric-unit") in PERF_NODES and "nan" not in record["metric-value"]:
                place = place_of(record, {})
                value = Fraction(float(record["metric-value"]))
                if abs(value) > FARTHEST:
                    continue
                expected.add(f"toplev:{PERF_NODES[record['metric-unit']]}", place, when[time], value)
        shares = [Fraction(float(r["pcnt-running"])) for r in found if "pcnt-running" in r and r["counter-value"] != "<not supported>"]
        if shares:
            expected.add("toplev:mux", {}, when[time], min(shares))
    return expected.series
