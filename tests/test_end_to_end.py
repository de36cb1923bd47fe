# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The whole path on a real perf: start, work, stop, post-process; what comes out is there, plausible, and at the right time.

PERF_VERSIONS, a colon-separated list of programs, names further versions of perf that the tests of what comes out are run with.
"""

import json
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import FOREIGN_VARIABLES, REPO, end_recorded_collectors, start_time
from perf_output import EPOCH, read_back, table_of
from published import without_mark
from test_stop import disk_at, fill

# design, "Metrics": type -> class, unit, over places
DERIVED = {
    "ipc": ("throughput", "", "avg"),
    "l1d-cache-miss-rate": ("throughput", "ratio", "avg"),
    "l1i-cache-miss-rate": ("throughput", "ratio", "avg"),
    "cache-miss-rate": ("throughput", "ratio", "avg"),
    "llc-miss-rate": ("throughput", "ratio", "avg"),
    "branch-miss-rate": ("throughput", "ratio", "avg"),
    "dtlb-miss-rate": ("throughput", "ratio", "avg"),
    "itlb-miss-rate": ("throughput", "ratio", "avg"),
    "backend-stall-rate": ("percentage", "%", "avg"),
    "frontend-stall-rate": ("percentage", "%", "avg"),
    "context-switches-sec": ("count", "1/s", "sum"),
    "cpu-migrations-sec": ("count", "1/s", "sum"),
    "instructions-sec": ("throughput", "MIPS", "sum"),
    "cycles-sec": ("throughput", "GHz", "sum"),
}
SOFTWARE = {"context-switches-sec", "cpu-migrations-sec"}
DEFAULT_EVENTS = {
    "instructions", "cycles", "cache-references", "cache-misses", "L1-dcache-load-misses", "L1-icache-load-misses", "LLC-load-misses",
    "LLC-loads", "branch-misses", "branches", "dTLB-load-misses", "dTLB-loads", "iTLB-load-misses", "iTLB-loads", "context-switches",
    "cpu-migrations", "stalled-cycles-backend", "stalled-cycles-frontend",
}  # fmt: skip
LLC_LOAD_MISSES = "3:0x10002"  # PERF_TYPE_HW_CACHE; last level, read, miss

PERFS = {"installed": None, **{Path(program).name: program for program in os.environ.get("PERF_VERSIONS", "").split(":") if program}}


@pytest.fixture(params=PERFS)
def perf(request, real_perf, stand_in):
    """The perf that the tool finds on PATH: the installed one, or one of PERF_VERSIONS."""
    program = PERFS[request.param]
    if program is None:
        return real_perf
    return str(stand_in("perf", f'exec {shlex.quote(program)} "$@"'))


def work(seconds):
    """Switch tasks, change CPUs and touch memory, for that long; returns how often this process was sent to another CPU."""
    mine = os.sched_getaffinity(0)
    moves = 0
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            for cpu in sorted(mine)[:2]:
                os.sched_setaffinity(0, {cpu})
                moves += len(mine) > 1
                time.sleep(0.002)
            bytearray(1 << 20)[::4096] = bytes(256)
    finally:
        os.sched_setaffinity(0, mine)
    return moves


def switches_since_boot():
    return int(re.search(r"^ctxt ([0-9]+)$", Path("/proc/stat").read_text(), re.MULTILINE)[1])


def collect(run_script, *args, seconds=1.0, env=None):
    """Start, work and stop; returns how often work changed the CPU."""
    started = run_script("kerneltools-start", "--subtools=perf-stat", *args, env=env)
    assert started.rc == 0, started.err
    assert started.err == ""
    moves = work(seconds)
    stopped = run_script("kerneltools-stop", "--subtools=perf-stat", *args, env=env)
    assert (stopped.rc, stopped.err) == (0, "")
    return moves


def publish(run_script, directory):
    """Post-process a directory; its metrics. The closing table must hold all of them, with their units."""
    done = run_script("kerneltools-post-process", cwd=directory)
    assert done.rc == 0, done.out + done.err
    metrics = read_back(directory)
    table = table_of(done.out)
    assert set(table) == metrics.types
    for metric_type in metrics.types & set(DERIVED):
        assert table[metric_type][0] == DERIVED[metric_type][1]
    return metrics


def assert_described(metrics, metric_type):
    metric_class, _, aggregation = DERIVED[metric_type]
    desc = metrics.desc(metric_type)
    assert (desc["source"], desc["class"], desc["default-aggregation"]) == ("kernel", metric_class, aggregation)


def total(metrics, metric_type):
    """What a rate adds up to over its samples."""
    return sum(value * (end - begin + 1) / 1000 for begin, end, value in metrics.samples(metric_type))


def start_log(directory):
    return (directory / "kerneltools-start-stderrout.txt").read_text()


# ---- what comes out


def test_the_rates_of_real_work_are_what_the_kernel_counted(perf, run_script, data_dir):
    before = switches_since_boot()
    assert run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.5").rc == 0
    inner_before = switches_since_boot()
    moves = work(2)
    inner = switches_since_boot() - inner_before
    assert run_script("kerneltools-stop", "--subtools=perf-stat", "--interval=0.5").rc == 0
    outer = switches_since_boot() - before
    metrics = publish(run_script, data_dir)
    assert metrics.types >= SOFTWARE
    counted = total(metrics, "context-switches-sec")
    assert 0.7 * inner <= counted <= 1.2 * outer + 100
    assert len(metrics.samples("context-switches-sec")) >= 4
    assert metrics.samples("cpu-migrations-sec")
    migrations = total(metrics, "cpu-migrations-sec")
    assert 0.5 * moves <= migrations <= counted
    for metric_type in SOFTWARE:
        assert_described(metrics, metric_type)


def test_a_machine_without_a_pmu_yields_the_software_metrics_and_says_what_is_missing(perf, run_script, data_dir):
    command = [perf, "stat", "-a", "-e", "instructions,cycles,context-switches", "true"]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.stderr.count("<not supported>") != 2:
        pytest.skip("this machine counts instructions and cycles")
    collect(run_script, "--interval=0.2", seconds=0.5)
    metrics = publish(run_script, data_dir)
    assert metrics.types == SOFTWARE | {"context-switches", "cpu-migrations", "counter-running"}
    warnings = [text for text in start_log(data_dir).splitlines() if text.startswith("WARNING: perf-stat: ")]
    for name in (DEFAULT_EVENTS | set(DERIVED)) - SOFTWARE - {"context-switches", "cpu-migrations"}:
        assert [text for text in warnings if re.search(rf"(?<![\w-]){name}(?![\w-])", text)], f"no word about {name}"


def test_every_metric_is_published_where_every_event_is_counted(perf, hwshim, run_script, data_dir):
    collect(run_script, "--interval=0.3", seconds=1, env={"LD_PRELOAD": hwshim})
    metrics = publish(run_script, data_dir)
    assert metrics.types == set(DERIVED) | DEFAULT_EVENTS | {"counter-running"}
    for metric_type in DERIVED:
        assert_described(metrics, metric_type)
        assert metrics.places(metric_type) == [{}]
    for event in DEFAULT_EVENTS:
        assert (metrics.desc(event)["class"], metrics.desc(event)["default-aggregation"]) == ("count", "sum")
        assert metrics.samples("counter-running", counter=event)
    document = json.loads((data_dir / "postprocess" / "post-process-data.json").read_text())
    assert document["primary-metric"] == "ipc"
    assert document["tool"] == "kernel"
    assert [(period["name"], list(map(without_mark, period["metric-files"]))) for period in document["periods"]] == [
        ("measurement", ["metric-data-perf-stat"])
    ]
    assert "WARNING: perf-stat: without" not in start_log(data_dir)


def test_one_unsupported_event_costs_its_metric_and_no_other(perf, hwshim, run_script, data_dir):
    collect(run_script, "--interval=0.3", seconds=1, env={"LD_PRELOAD": hwshim, "HWSHIM_UNSUPPORTED": LLC_LOAD_MISSES})
    metrics = publish(run_script, data_dir)
    assert metrics.types == set(DERIVED) - {"llc-miss-rate"} | DEFAULT_EVENTS - {"LLC-load-misses"} | {"counter-running"}
    warnings = "\n".join(text for text in start_log(data_dir).splitlines() if text.startswith("WARNING: "))
    assert "LLC-load-misses" in warnings
    assert "llc-miss-rate" in warnings
    assert not [name for name in set(DERIVED) - {"llc-miss-rate"} if re.search(rf"(?<![\w-]){name}(?![\w-])", warnings)]


def numbers(cpu_list):
    """The CPUs of a list as the kernel writes it: 0-2,5."""
    found = []
    for part in filter(None, cpu_list.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def topology():
    """The breakouts of every CPU that is online: {cpu: {"package": ...}}."""
    system = Path("/sys/devices/system")
    nodes = {}
    for node in system.glob("node/node[0-9]*"):
        nodes.update(dict.fromkeys(numbers((node / "cpulist").read_text()), node.name[len("node") :]))
    places = {}
    for cpu in numbers((system / "cpu/online").read_text()):
        files = system / f"cpu/cpu{cpu}/topology"
        if not (files / "physical_package_id").is_file():
            pytest.skip("this machine does not tell its topology")
        die = (files / "die_id").read_text().strip() if (files / "die_id").is_file() else "0"
        siblings = sorted(numbers((files / "thread_siblings_list").read_text()))
        places[cpu] = {
            "package": (files / "physical_package_id").read_text().strip(),
            "die": "0" if int(die) < 0 else die,
            "core": (files / "core_id").read_text().strip(),
            "thread": str(siblings.index(cpu)),
            "cpu": str(cpu),
            "node": nodes.get(cpu, "0"),
        }
    return places


BREAKOUTS = {
    "system": [],
    "socket": ["package"],
    "die": ["package", "die"],
    "node": ["node"],
    "core": ["package", "die", "core"],
    "cpu": ["package", "die", "core", "thread", "cpu"],
}


@pytest.mark.parametrize("aggregation", BREAKOUTS)
def test_each_aggregation_has_its_breakouts(perf, hwshim, run_script, data_dir, aggregation):
    expected = {tuple(place[name] for name in BREAKOUTS[aggregation]) for place in topology().values()}
    args = ["--interval=0.3", f"--perf-stat-aggregation={aggregation}"]
    collect(run_script, *args, seconds=0.5, env={"LD_PRELOAD": hwshim})
    metrics = publish(run_script, data_dir)
    assert metrics.types == set(DERIVED) | DEFAULT_EVENTS | {"counter-running"}
    for metric_type in ("ipc", "context-switches-sec", "cycles"):
        places = metrics.places(metric_type)
        assert all(set(place) == set(BREAKOUTS[aggregation]) for place in places)
        assert {tuple(place[name] for name in BREAKOUTS[aggregation]) for place in places} == expected
    for metric_type in metrics.types - {"counter-running"}:
        assert {tuple(sorted(place)) for place in metrics.places(metric_type)} == {tuple(sorted(BREAKOUTS[aggregation]))}
    # hwshim's cycles are clock: a second of each CPU is 10^9 of them
    per_cpu = sum(total_of_place(metrics, "cycles-sec", place) for place in metrics.places("cycles-sec"))
    seconds = span(metrics, "cycles-sec", metrics.places("cycles-sec")[0])
    assert per_cpu / seconds == pytest.approx(len(topology()), rel=0.2)


def total_of_place(metrics, metric_type, place):
    return sum(value * (end - begin + 1) / 1000 for begin, end, value in metrics.samples(metric_type, **place))


def span(metrics, metric_type, place):
    samples = metrics.samples(metric_type, **place)
    return (samples[-1][1] - samples[0][0] + 1) / 1000


# ---- at the right time. The moments that a test holds the samples against are told by others than the tool: the stand-in
# of perf says when it became perf, a companion in its process group says when SIGINT came, the file system says when the
# output was last written.

COMPANION = """
import signal, sys, time

def interrupted(*_):
    with open(sys.argv[1], "w") as file:
        file.write(f"{time.time():.6f}")
    sys.exit(0)

signal.signal(signal.SIGINT, interrupted)
time.sleep(60)
"""


def slow_perf(folder, perf, delay):
    """A perf that opens its counters only after `delay` s; leaves its moments in folder. The value of PATH that finds it."""
    programs = folder / "bin"
    programs.mkdir()
    quoted = shlex.quote(str(folder))
    (programs / "perf").write_text(f"""#!/usr/bin/env bash
if [[ " $* " == *" -I"* ]]; then
    {shlex.quote(sys.executable)} -S -c {shlex.quote(COMPANION)} {quoted}/stopped &
    sleep {delay}
    date +%s.%N >{quoted}/began
fi
exec {shlex.quote(perf)} "$@"
""")
    (programs / "perf").chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def run_plainly(script, *args, cwd, path):
    """Run a script with that PATH; its exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    command = [REPO / script, *args]
    return subprocess.run(
        command, cwd=cwd, env={**environment, "PATH": path}, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=60
    ).returncode


@dataclass(frozen=True)
class Timed:
    """A finished collection and its moments, in epoch seconds."""

    directory: Path
    began: float  # the stand-in became perf: it began to count some ms later
    stopped: float  # SIGINT came
    written: float  # the output was last written
    last: float  # perf's own time of its last record

    def copy(self, place):
        """The directory as rickshaw brings it to the controller, mtimes and all."""
        return Path(shutil.copytree(self.directory, place / "copy"))


def last_time(output):
    """perf's time of the last whole record of its output."""
    opened = lzma.open if output.name.endswith(".xz") else open
    with opened(output, "rt", errors="replace") as file:
        times = [float(found[1]) for found in map(re.compile(r'^\{"interval" : ([0-9.]+),.*\}$').match, file.read().splitlines()) if found]
    return times[-1]


def recorded_perf(directory):
    """pid of the one collector."""
    return int((directory / "kerneltools-pids.txt").read_text().split()[1])


@pytest.fixture(scope="module", params=[0, 1], ids=["at once", "after a second"])
def timed(request, real_perf, tmp_path_factory):
    """A collection of about two and a half seconds, by a perf that opens its counters at once, or takes a second."""
    folder = tmp_path_factory.mktemp("timed")
    path = slow_perf(folder, real_perf, request.param)
    directory = folder / "data"
    directory.mkdir()
    try:
        assert run_plainly("kerneltools-start", "--subtools=perf-stat", "--interval=0.5", cwd=directory, path=path) == 0
        work(2.3)
        assert run_plainly("kerneltools-stop", cwd=directory, path=path) == 0
    finally:
        end_recorded_collectors(directory)
    archive = directory / "perf-stat-output.json.xz"
    moments = [float((folder / name).read_text()) for name in ("began", "stopped")]
    return Timed(directory, *moments, archive.stat().st_mtime, last_time(archive))


def samples_of(metrics):
    """context-switches as (begin, end) in epoch seconds: of the first ms and of the last one that belong to it."""
    return [(begin / 1000 + EPOCH, end / 1000 + EPOCH) for begin, end, _ in metrics.samples("context-switches-sec")]


def assert_contiguous(samples):
    for (_, end), (begin, _) in zip(samples, samples[1:]):
        assert round((begin - end) * 1000) == 1


def assert_right_time(samples, began, zero, last):
    """From the moment that perf began to count (zero, by a witness of its own; after began) to that of its last record."""
    assert_contiguous(samples)
    assert samples[0][0] == pytest.approx(zero, abs=0.1)
    assert -0.02 <= samples[0][0] - began < 0.4
    assert samples[-1][1] == pytest.approx(zero + last, abs=0.1)
    assert samples[-1][1] - samples[0][0] == pytest.approx(last, abs=0.003)


def test_samples_reach_from_the_moment_perf_counted_to_the_moment_it_was_stopped(timed, run_script, tmp_path):
    samples = samples_of(publish(run_script, timed.copy(tmp_path)))
    late = max(0, timed.written - timed.stopped)  # a loaded machine's perf writes when it gets a CPU
    assert timed.stopped - 0.1 <= samples[-1][1] <= timed.stopped + 0.1 + late
    assert_right_time(samples, timed.began, timed.stopped + late / 2 - timed.last, timed.last)
    assert len(samples) >= 3


def test_times_are_right_where_the_clock_lacks_the_end(timed, run_script, tmp_path):
    """Also where perf was slow to count: its last record was written when it was stamped, which the file's mtime tells."""
    data = timed.copy(tmp_path)
    clock = (data / "kerneltools-clock.txt").read_text().splitlines()
    begin = [text for text in clock if text.startswith("perf-stat begin ")]
    assert len(begin) == 1
    (data / "kerneltools-clock.txt").write_text(begin[0] + "\n")
    samples = samples_of(publish(run_script, data))
    assert_right_time(samples, timed.began, timed.written - timed.last, timed.last)


def test_times_count_from_the_launch_where_neither_end_nor_mtime_tells(timed, run_script, tmp_path):
    data = timed.copy(tmp_path)
    clock = (data / "kerneltools-clock.txt").read_text().splitlines()
    begin = next(text for text in clock if text.startswith("perf-stat begin "))
    (data / "kerneltools-clock.txt").write_text(begin + "\n")
    os.utime(data / "perf-stat-output.json.xz", (1, 1))
    samples = samples_of(publish(run_script, data))
    assert samples[0][0] == pytest.approx(float(begin.split()[2]), abs=0.002)


def test_times_are_right_without_a_clock_file(timed, run_script, tmp_path):
    data = timed.copy(tmp_path)
    (data / "kerneltools-clock.txt").unlink()
    samples = samples_of(publish(run_script, data))
    assert_right_time(samples, timed.began, timed.written - timed.last, timed.last)
    assert samples[-1][1] == pytest.approx(timed.written, abs=0.002)


def test_a_perf_that_was_killed_early_keeps_its_time(real_perf, run_script, data_dir, tmp_path):
    path = slow_perf(tmp_path, real_perf, 0.5)
    assert run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.3", env={"PATH": path}).rc == 0
    work(0.7)
    pid = recorded_perf(data_dir)
    os.kill(pid, signal.SIGKILL)
    while start_time(pid) is not None:
        time.sleep(0.01)
    output = data_dir / "perf-stat-output.json"
    written, last = output.stat().st_mtime, last_time(output)
    time.sleep(1.5)
    stopped = run_script("kerneltools-stop", env={"PATH": path})
    assert stopped.rc == 1
    assert "perf-stat" in stopped.err
    samples = samples_of(publish(run_script, data_dir))
    assert_right_time(samples, float((tmp_path / "began").read_text()), written - last, last)


def test_a_disk_that_was_full_before_the_end_keeps_times_right_and_loses_nothing_that_was_written(real_perf, run_script, tmp_path):
    with disk_at(tmp_path / "small disk") as disk:
        path = slow_perf(tmp_path, real_perf, 0)
        args = ["--subtools=perf-stat", "--interval=0.02"]
        assert run_script("kerneltools-start", *args, cwd=disk, env={"PATH": path}).rc == 0
        work(0.5)
        ballast = fill(disk)
        work(1.5)  # by now the last page of the output is full, too
        output = disk / "perf-stat-output.json"
        raw = output.read_bytes()
        cut = raw.splitlines()[-1]
        assert not cut.endswith(b"}"), "the disk was not full soon enough: the output is whole"
        stopped = run_script("kerneltools-stop", *args, cwd=disk, env={"PATH": path})
        assert stopped.rc == 1
        assert len(stopped.err.splitlines()) == 1
        assert output.read_bytes() == raw
        assert not (disk / "perf-stat-output.json.xz").exists()
        ballast.unlink()
        again = run_script("kerneltools-stop", *args, cwd=disk, env={"PATH": path})
        assert (again.rc, again.err) == (0, "")
        assert lzma.decompress((disk / "perf-stat-output.json.xz").read_bytes()) == raw
        assert not output.exists()
        done = run_script("kerneltools-post-process", cwd=disk)
        assert done.rc == 1  # the cut line is a loss
        samples = samples_of(read_back(disk))
    began = float((tmp_path / "began").read_text())
    last = max(float(found) for found in re.findall(rb'(?m)^\{"interval" : ([0-9.]+),.*\}$', raw))
    assert_contiguous(samples)
    assert -0.1 <= samples[0][0] - began < 0.3
    assert samples[-1][1] - samples[0][0] == pytest.approx(last, abs=0.05)
