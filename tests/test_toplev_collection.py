# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""toplev from start to metrics: which engine measures, what is said where none can, and that nothing is lost or left behind at the end.

The real toplev.py is that of the test dependency pmu-tools, over a perf that is played: it answers any event list with counts.
"""

import csv
import importlib.metadata
import json
import lzma
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from collection import (
    START_LOG,
    STOP_LOG,
    calling_script,
    clock,
    environment_file,
    lines_with,
    log_lines,
    processes_with,
    programs_without,
    recorded,
    wait_until,
)
from conftest import REPO
from published import metric_files, without_mark
from test_toplev import SIX, read_back

QUICK = ["--subtools=toplev", "--interval=0.2"]
MINE = (
    "KERNELTOOLS_TOPLEV_OPTIONS", "PMU_TOOLS_HOME", "CACHEDIR", "XDG_CACHE_HOME", "PERFMONDIR", "MAPFILE", "EVENTMAP", "CPUINFO",
    "FORCECPU",
)  # fmt: skip

# An Ice Lake server as /proc/cpuinfo has it; two cores.
CPUINFO = "".join(
    f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n"
    "model name\t: Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz\nstepping\t: 6\nphysical id\t: 0\n"
    f"core id\t\t: {cpu}\nflags\t\t: fpu rtm\n\n"
    for cpu in range(2)
)
EVENT_LIST = "GenuineIntel-6-6A-core.json"

# What it was called with goes to CALLS. With an event list it prints intervals as perf stat -x\; does, the last at SIGINT. It counts
# four times as many cycles as of anything else, or nodes were beyond their bounds that take events for ten cycles each.
COUNTING_PERF = r"""
import os, re, signal, sys, time
CYCLES = "cpu/event=0x3c,umask=0x0/"
arguments = sys.argv[1:]
with open(CALLS, "a") as calls:
    print(*arguments, *(f"{name}={os.environ.get(name)}" for name in ("MAPFILE", "PERFMONDIR")), file=calls)
if arguments[:1] == ["--version"]:
    print("perf version 6.12.0")
if arguments[:1] != ["stat"] or "-I" not in arguments:
    sys.exit(0)
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
interval = int(arguments[arguments.index("-I") + 1]) / 1000
listed = re.sub(r"[{}](:[a-zA-Z]+)?", "", arguments[arguments.index("-e") + 1])
events = [re.sub("/[a-zA-Z]+$", "/", event) for event in re.findall(r"(?:/[^/]*/|[^,/])+", listed)]
out = os.fdopen(int(arguments[arguments.index("--log-fd") + 1]), "w")
begin, number = time.monotonic(), 0
while True:
    number += 1
    while not asked and time.monotonic() < begin + number * interval:
        time.sleep(0.002)
    now = time.monotonic() - begin
    for place, event in enumerate(events):
        count = (1000000 + 7919 * ((place * 31 + number) % 97)) * (4 if event == CYCLES else 1)
        out.write(f"{now:.9f};{count};;{event};{interval * 1e9:.0f};75.00;;\n")
    out.flush()
    if asked:
        sys.exit(130)
"""

# A toplev.py that knows its CPU and says so; what else it does follows.
PLAYED_TOPLEV = """
import os, signal, subprocess, sys, time
if "--version" in sys.argv:
    print("toplev, CPU: icx, TMA version: 5.1-full")
    sys.exit()
with open(CALLS, "a") as calls:
    print(*sys.argv[1:], file=calls)
output = open("toplev-output.csv", "w")
"""
PERF_CHILD = 'perf = subprocess.Popen(["perf", "stat", "-I", "200", "-e", "cycles", "--log-fd", "1"], stdout=subprocess.DEVNULL)\n'
ENDLESS = PERF_CHILD + "perf.wait()\nprint('# closed', file=output)"

# A perf with metric groups. PART: "offers", the groups that it lists; "nodes", by group the values of its nodes; "singly",
# what is different with --metric-no-group; "says", the words with which it refuses; "short", the lists for which it has too
# few open files, but on one CPU.
METRIC_PERF = r"""
import json, signal, sys, time
part = json.loads(PART)
arguments = sys.argv[1:]
with open(CALLS, "a") as calls:
    print(*arguments, file=calls)
if arguments[:1] == ["--version"]:
    print("perf version 6.99.0")
elif arguments[:1] == ["list"]:
    print("\nMetric Groups:\n\n" + "\n".join(part["offers"]))
elif arguments[:1] == ["stat"] and "-M" in arguments:
    groups = arguments[arguments.index("-M") + 1].split(",")
    if part.get("says"):
        print(part["says"], file=sys.stderr)
        sys.exit(129)
    if ",".join(groups) in part.get("short", ()) and "-C" not in arguments:
        print("Error:\nToo many events are opened.\nHint: Try increasing the limit with 'ulimit -n <limit>'", file=sys.stderr)
        sys.exit(255)
    nodes = {name: value for group in groups for name, value in part["nodes"][group].items()}
    if "--metric-no-group" in arguments:
        nodes.update(part.get("singly", {}))
    stream = open(arguments[arguments.index("-o") + 1], "w")
    begin = time.monotonic()

    def records(stamped):
        stamp = f'"interval" : {time.monotonic() - begin:.9f}, ' if stamped else ""
        for name, value in nodes.items():
            stream.write(f'{{{stamp}"counter-value" : "5.0", "unit" : "", "event" : "ev", "event-runtime" : 1, "pcnt-running" : 87.50, '
                         f'"metric-value" : "{value}", "metric-unit" : "%  {name}"}}\n')
        stream.flush()

    def last(*_):
        records(True)
        sys.exit(130)

    if "-I" not in arguments:
        records(False)
        sys.exit()
    signal.signal(signal.SIGINT, last)
    while True:
        time.sleep(int(arguments[arguments.index("-I") + 1]) / 1000)
        records(True)
"""
AMD_NODES = {
    "PipelineL1": {"frontend_bound": 10.0, "bad_speculation": 5.0, "backend_bound": 60.0, "retiring": 20.0, "smt_contention": 5.0},
    "PipelineL2": {"backend_bound_memory": 45.0, "backend_bound_cpu": 15.0},
}


@pytest.fixture(autouse=True)
def no_foreign_settings(monkeypatch, tmp_path):
    """What the caller's shell says of pmu-tools and its event lists must not decide."""
    for name in MINE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def mark(tmp_path):
    """A variable for the environment of what a test starts, by which all of it can be found."""
    return {"KT_MARK": str(tmp_path)}


@pytest.fixture
def nothing_lives(mark):
    yield lambda: wait_until(lambda: not processes_with("KT_MARK", mark["KT_MARK"]), 2)


@pytest.fixture
def counting_perf(stand_in, tmp_path):
    """A perf that counts whatever it is asked for; the file in which its calls stand."""
    calls = tmp_path / "perf-calls"
    stand_in("perf", f"CALLS = {str(calls)!r}{COUNTING_PERF}", python=True)
    return calls


@pytest.fixture
def metric_perf(stand_in, tmp_path):
    """metric_perf(**part): a perf with metric groups; gives the file in which its calls stand."""

    def put(**part):
        calls = tmp_path / "perf-calls"
        stand_in("perf", f"CALLS, PART = {(str(calls), json.dumps(part))!r}{METRIC_PERF}", python=True)
        return calls

    return put


@pytest.fixture
def machine(tmp_path, mark):
    """machine(cpuinfo, *pmus): the environment of a machine with that CPU and those PMUs."""

    def make(cpuinfo, *pmus):
        procfs, sysfs = tmp_path / "proc", tmp_path / "sys"
        procfs.mkdir()
        (procfs / "cpuinfo").write_text(cpuinfo)
        for pmu in pmus:
            (sysfs / "bus/event_source/devices" / pmu).mkdir(parents=True)
        (sysfs / "devices/system/cpu").mkdir(parents=True)
        return {"KERNELTOOLS_PROCFS": procfs, "KERNELTOOLS_SYSFS": sysfs, "PMU_TOOLS_HOME": tmp_path / "no-pmu-tools", **mark}

    return make


@pytest.fixture
def intel(machine):
    return machine(CPUINFO, "cpu")


@pytest.fixture
def amd(machine):
    return machine(CPUINFO.replace("GenuineIntel", "AuthenticAMD"), "cpu")


@pytest.fixture(scope="session")
def pmu_tools():
    """The directory of the real toplev.py."""
    try:
        files = importlib.metadata.files("pmu-tools") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(file.locate()) for file in files if file.name == "toplev.py"]
    if not found or not found[0].is_file():
        pytest.skip("pmu-tools (tests/requirements.txt) is not installed")
    return found[0].parent


@pytest.fixture(scope="session")
def event_list(pmu_tools):
    """An event list that names every event of pmu-tools' model of this CPU, with codes of no meaning."""
    names = sorted(set(re.findall(r'EV\("([\w.]+)', (pmu_tools / "icx_server_ratios.py").read_text())))
    common = {"Counter": "0,1,2,3,4,5,6,7", "EdgeDetect": "0", "Invert": "0", "CounterMask": "0", "PublicDescription": "", "Errata": "null"}
    rows = [{"EventName": name, "EventCode": hex(32 + n // 16), "UMask": hex(1 + n % 16), **common} for n, name in enumerate(names)]
    assert len(rows) > 50
    return json.dumps(rows)


@pytest.fixture
def real_toplev(pmu_tools, event_list, counting_perf, tmp_path, mark):
    """The environment in which the real toplev.py believes in an Intel CPU, and has its event list; perf's calls."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / EVENT_LIST).write_text(event_list)
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    env = {"PMU_TOOLS_HOME": pmu_tools, "CPUINFO": tmp_path / "cpuinfo", "CACHEDIR": tmp_path / "lists", **mark}
    return SimpleNamespace(env=env, calls=counting_perf)


@pytest.fixture
def played_toplev(tmp_path, intel, counting_perf):
    """played_toplev(body): the environment in which a toplev.py is played, and where its calls stand."""

    def put(body):
        home, calls = tmp_path / "played", tmp_path / "toplev-calls"
        (home / "pmu-events").mkdir(parents=True)
        (home / "pmu-events" / EVENT_LIST).write_text("[]")
        (home / "toplev.py").write_text(f"CALLS = {str(calls)!r}{PLAYED_TOPLEV}{body}\n")
        return SimpleNamespace(env={**intel, "PMU_TOOLS_HOME": home}, calls=calls, perf_calls=counting_perf)

    return put


def output_text(directory):
    """toplev's output after stop."""
    with lzma.open(directory / "toplev-output.csv.xz", "rt") as archive:
        return archive.read()


def output_rows(directory):
    """Its rows as dictionaries, and its last line."""
    lines = output_text(directory).splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#"))), lines[-1]


def skipped(directory):
    """The one line that says why toplev does not run."""
    (line,) = lines_with(log_lines(directory, START_LOG), "WARNING: toplev: skipped: ")
    return line


# --- the real toplev.py


def assert_whole_run(directory, run_script, seconds):
    """Every interval until stop is in the output and among the metrics."""
    rows, last_line = output_rows(directory)
    times = sorted({float(row["Timestamp"]) for row in rows})
    assert len(times) >= seconds / 0.2 - 3
    assert all(0.1 < later - earlier < 0.35 for earlier, later in zip(times, times[1:-1]))
    assert last_line.startswith("# ")
    assert last_line.endswith("[icx]")
    areas = [sorted(row["Area"] for row in rows if float(row["Timestamp"]) == moment) for moment in times]
    assert all(area == areas[0] for area in areas), "a node is missing in some interval"
    assert "CPUs" not in rows[0]
    assert all(row["Description"] == "" for row in rows)
    done = run_script("kerneltools-post-process")
    assert done.rc == 0, done.out
    series = {desc["type"]: rows for desc, _, rows in read_back(directory)}
    assert {f"toplev:{name}" for name in [*SIX, "mux"]} <= set(series)
    moments = clock(directory)
    begin, end = (float(moments["toplev", moment]) * 1000 for moment in ("begin", "end"))
    for samples in series.values():
        assert begin < samples[0][0]
        assert abs(samples[-1][1] - end) <= 60
    for (_, _, value) in series["toplev:mux"]:
        assert value == 75.0
    return rows


def test_every_interval_until_stop_becomes_metrics(real_toplev, run_script, data_dir, nothing_lives):
    started = run_script("kerneltools-start", *QUICK, env=real_toplev.env)
    assert (started.rc, started.err) == (0, ""), log_lines(data_dir, START_LOG)
    time.sleep(1.3)
    stopped = run_script("kerneltools-stop", *QUICK, env=real_toplev.env)
    assert (stopped.rc, stopped.err) == (0, ""), log_lines(data_dir, STOP_LOG)
    assert stopped.seconds < 3
    assert nothing_lives()
    assert not lines_with(log_lines(data_dir, STOP_LOG), "SIGTERM")
    rows = assert_whole_run(data_dir, run_script, 1.3)
    assert {"Backend_Bound.Memory_Bound.DRAM_Bound"} <= {row["Area"] for row in rows}, "level 3"
    kept = environment_file(data_dir)
    assert (kept["toplev_engine"], kept["toplev_level"], kept["toplev_interval"]) == ("toplev.py", "3", "0.2")
    assert kept["toplev_version"].startswith("toplev, CPU: icx, TMA version: ")
    (call,) = [line for line in real_toplev.calls.read_text().splitlines() if " -e " in line]
    assert " -a" in call
    assert call.endswith("MAPFILE=/dev/null PERFMONDIR=file:///nowhere")


def test_a_caller_that_ignores_sigint_changes_nothing(real_toplev, run_script, data_dir, tmp_path, nothing_lives):
    script = calling_script(tmp_path / "caller", "trap '' INT QUIT")
    assert run_script(script, *QUICK, env=real_toplev.env).rc == 0
    time.sleep(0.8)
    stopped = run_script("kerneltools-stop", *QUICK, env=real_toplev.env)
    assert (stopped.rc, stopped.err) == (0, "")
    assert nothing_lives()
    assert_whole_run(data_dir, run_script, 0.8)


def test_a_cpu_can_be_named_by_an_option(real_toplev, run_script, data_dir):
    env = {**real_toplev.env, "CPUINFO": None, "KERNELTOOLS_TOPLEV_OPTIONS": "--force-cpu=icx --no-desc"}
    assert run_script("kerneltools-start", *QUICK, "--toplev-level=1", env=env).rc == 0, log_lines(data_dir, START_LOG)
    time.sleep(0.5)
    assert run_script("kerneltools-stop", env=env).rc == 0
    rows, last_line = output_rows(data_dir)
    assert last_line.endswith("[icx]")
    assert {row["Area"] for row in rows} == {"Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring", "MUX"}


def test_without_its_event_list_nothing_is_fetched(real_toplev, run_script, data_dir, tmp_path):
    (tmp_path / "lists" / EVENT_LIST).rename(tmp_path / "lists" / "GenuineIntel-6-55-core.json")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        env = {**real_toplev.env, "PERFMONDIR": url, "http_proxy": url, "https_proxy": url}
        started = run_script("kerneltools-start", *QUICK, env=env)
        with pytest.raises(TimeoutError if sys.version_info >= (3, 10) else socket.timeout):
            server.accept()
    assert started.rc == 1
    assert "event list is not there" in skipped(data_dir)
    assert str(tmp_path / "lists") in skipped(data_dir)


def test_without_any_event_list_it_is_said_how_to_get_one(real_toplev, run_script, data_dir, tmp_path):
    shutil.rmtree(tmp_path / "lists")
    assert run_script("kerneltools-start", *QUICK, env=real_toplev.env).rc == 1
    assert "no event lists on this machine" in skipped(data_dir)
    assert "event_download.py" in skipped(data_dir)


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_local_copy_of_the_event_lists_is_enough(real_toplev, event_list, run_script, data_dir, tmp_path, prefix):
    copy = tmp_path / "perfmon"
    (copy / "ICX").mkdir(parents=True)
    (copy / "ICX" / "core.json").write_text(event_list)
    (copy / "mapfile.csv").write_text("Family-model,Version,Filename,EventType\nGenuineIntel-6-6A,V1,/ICX/core.json,core\n")
    for name in ("README.md", "LICENSE"):
        (copy / name).write_text("")
    env = {**real_toplev.env, "CACHEDIR": None, "PERFMONDIR": f"{prefix}{copy}"}
    started = run_script("kerneltools-start", *QUICK, env=env)
    assert started.rc == 0, log_lines(data_dir, START_LOG)
    time.sleep(0.5)
    assert run_script("kerneltools-stop", env=env).rc == 0
    assert_whole_run(data_dir, run_script, 0.5)
    assert not (data_dir / "toplev-pmu-events").exists()


def test_a_cpu_that_pmu_tools_does_not_know_is_said(real_toplev, run_script, data_dir, tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO.replace(": 106", ": 250"))
    (tmp_path / "lists" / EVENT_LIST).rename(tmp_path / "lists" / "GenuineIntel-6-FA-core.json")
    assert run_script("kerneltools-start", *QUICK, env=real_toplev.env).rc == 1
    assert "does not know this CPU; a newer pmu-tools may" in skipped(data_dir)


# --- toplev.py, played: what it is given, and how it ends


def start_played(run_script, data_dir, toplev, *args, **env):
    started = run_script("kerneltools-start", *QUICK, *args, env={**toplev.env, **env})
    assert started.rc == 0, log_lines(data_dir, START_LOG)
    assert wait_until(toplev.calls.exists, 3)
    return toplev.calls.read_text().split()


def test_toplev_multiplexes_and_prints_every_node_for_the_whole_system(played_toplev, run_script, data_dir):
    words = start_played(run_script, data_dir, played_toplev(ENDLESS), "--interval=1.5", "--toplev-level=5")
    assert words[words.index("-I") + 1] == "1500"
    assert words[words.index("-l") + 1] == "5"
    assert words[words.index("-x") + 1] == ","
    assert {"-a", "-v", "--global", "--no-desc"} <= set(words)
    assert "--no-multiplex" not in words


def test_two_kinds_of_core_are_kept_apart(played_toplev, run_script, data_dir, tmp_path):
    toplev = played_toplev(ENDLESS)
    for pmu in ("cpu_core", "cpu_atom"):
        (tmp_path / "sys/bus/event_source/devices" / pmu).mkdir()
    assert "--global" not in start_played(run_script, data_dir, toplev)


def test_other_rows_can_be_asked_for(played_toplev, run_script, data_dir):
    words = start_played(run_script, data_dir, played_toplev(ENDLESS), KERNELTOOLS_TOPLEV_OPTIONS="--per-core --nodes '+L1 Bound'")
    assert "--global" not in words
    assert words[-4:] == ["--per-core", "--nodes", "+L1", "Bound"]


def test_a_perf_that_begins_late_is_ended_too(played_toplev, run_script, data_dir, nothing_lives):
    toplev = played_toplev("time.sleep(2.5)\n" + ENDLESS)
    start_played(run_script, data_dir, toplev)
    stopped = run_script("kerneltools-stop", env=toplev.env)
    assert nothing_lives()
    assert stopped.seconds < 6
    assert not lines_with(log_lines(data_dir, STOP_LOG), "SIGTERM")


def test_what_waits_for_toplev_sleeps_until_it_is_told_to_end(played_toplev, run_script, data_dir, mark):
    """toplev.py is kept in a group of its own by a bash: the only thing of ours between start and stop, and never on a CPU."""
    toplev = played_toplev(ENDLESS)
    start_played(run_script, data_dir, toplev)
    wait_until(lambda: calls_of(toplev.perf_calls, "-I"), 2)
    programs = {pid: Path(f"/proc/{pid}/exe").resolve().name for pid in processes_with("KT_MARK", mark["KT_MARK"])}
    (ours,) = [pid for pid, name in programs.items() if name == "bash"]
    assert {name.rstrip("0123456789.") for name in programs.values()} == {"bash", "python"}, "beside it toplev.py and its perf"

    def work():
        """Ticks on a CPU, and how often it was put there."""
        ticks = Path(f"/proc/{ours}/stat").read_text().rpartition(")")[2].split()[11:13]
        return ticks, re.findall(r"ctxt_switches:\t([0-9]+)", Path(f"/proc/{ours}/status").read_text())

    before = work()
    time.sleep(1)
    assert work() == before
    assert run_script("kerneltools-stop", env=toplev.env).rc == 0


def test_a_toplev_that_dies_takes_its_perf_with_it(played_toplev, run_script, data_dir, nothing_lives):
    toplev = played_toplev(PERF_CHILD + "time.sleep(1.5)\nsys.exit('Input corruption')")
    start_played(run_script, data_dir, toplev)
    (collector,) = recorded(data_dir)
    assert wait_until(lambda: not Path(f"/proc/{collector.pid}").exists(), 4)
    assert nothing_lives()
    stopped = run_script("kerneltools-stop", env=toplev.env)
    assert stopped.rc == 1
    assert "toplev: had ended before stop; its last words: Input corruption" in stopped.err


def test_a_toplev_that_dies_at_start_is_skipped_with_its_words(played_toplev, run_script, data_dir, nothing_lives):
    toplev = played_toplev("sys.exit('All measured values 0. perf broken?')")
    started = run_script("kerneltools-start", *QUICK, env=toplev.env)
    assert started.rc == 1
    assert skipped(data_dir).endswith("skipped: All measured values 0. perf broken?")
    assert nothing_lives()
    assert not (data_dir / "toplev-output.csv").exists()


def test_an_output_that_was_being_written_is_whole_after_stop(played_toplev, run_script, data_dir):
    body = PERF_CHILD + "perf.wait()\ntime.sleep(0.3)\noutput.write('x' * 100000 + '\\n# closed\\n')"
    toplev = played_toplev(body)
    start_played(run_script, data_dir, toplev)
    assert wait_until(lambda: " -e " in toplev.perf_calls.read_text(), 3)
    time.sleep(0.3)
    assert run_script("kerneltools-stop", env=toplev.env).rc == 0
    assert output_text(data_dir).endswith("\n# closed\n")


def test_a_toplev_that_hangs_does_not_hang_start_or_stop(played_toplev, run_script, data_dir, nothing_lives):
    toplev = played_toplev("time.sleep(1000)")
    start_played(run_script, data_dir, toplev)
    run_script("kerneltools-stop", env={**toplev.env, "KERNELTOOLS_STOP_DEADLINE": "1"})
    assert lines_with(log_lines(data_dir, STOP_LOG), "toplev", "SIGTERM")
    assert nothing_lives()


# --- perf's metric groups


def calls_of(calls, *words):
    return [line for line in calls.read_text().splitlines() if all(word in line for word in words)]


def collect(run_script, env, *args):
    started = run_script("kerneltools-start", *QUICK, *args, env=env)
    if started.rc == 0:
        time.sleep(0.5)
        assert run_script("kerneltools-stop", env=env).rc == 0
    return started


def test_amd_gets_the_six_types_from_perf(metric_perf, amd, run_script, data_dir, nothing_lives):
    calls = metric_perf(offers=["PipelineL1", "PipelineL2", "tlb"], nodes=AMD_NODES)
    assert collect(run_script, amd).rc == 0
    assert nothing_lives()
    assert len(calls_of(calls, "-M")) == 2, "one trial, one collection"
    assert calls_of(calls, "-I 200 --json -o toplev-output.json -M PipelineL1,PipelineL2")
    (said,) = lines_with(log_lines(data_dir), "measured by perf's metric groups PipelineL1,PipelineL2")
    assert "AuthenticAMD" in said
    assert lines_with(log_lines(data_dir), "NOTE: toplev: level 3 is capped at 2")
    done = run_script("kerneltools-post-process")
    assert done.rc == 0, done.out
    values = {desc["type"].partition(":")[2]: {row[2] for row in rows} for desc, _, rows in read_back(data_dir)}
    assert values == {
        "frontend-bound": {10.0}, "bad-speculation": {5.0}, "backend-bound": {60.0}, "retiring": {20.0}, "smt-contention": {5.0},
        "memory-bound": {45.0}, "core-bound": {15.0}, "mux": {87.5},
    }  # fmt: skip
    kept = environment_file(data_dir)
    assert (kept["toplev_engine"], kept["toplev_level"], kept["toplev_metric_groups"]) == ("perf", "2", "PipelineL1,PipelineL2")


@pytest.mark.parametrize(
    ("offers", "level", "groups", "capped"),
    [
        (["PipelineL1", "PipelineL2"], 1, "PipelineL1", False),
        (["PipelineL1", "PipelineL2"], 2, "PipelineL1,PipelineL2", False),
        (["TopdownL1 [Metrics for top-down breakdown at level 1]", "TopdownL2 [..]"], 6, "TopdownL1,TopdownL2", True),
        (["TopdownL1"], 3, "TopdownL1", True),  # Arm
    ],
)
def test_the_level_chooses_the_groups(metric_perf, machine, run_script, data_dir, offers, level, groups, capped):
    nodes = {**AMD_NODES, "TopdownL1": {"tma_retiring": 20.0}, "TopdownL2": {"tma_memory_bound": 45.0}}
    calls = metric_perf(offers=offers, nodes=nodes)
    assert collect(run_script, machine("processor : 0\n", "armv8_pmuv3_0"), f"--toplev-level={level}").rc == 0
    assert calls_of(calls, "-I", f"-M {groups}")
    assert bool(lines_with(log_lines(data_dir), "capped")) is capped


def test_groups_that_do_not_fit_are_counted_singly(metric_perf, amd, run_script, data_dir):
    nodes = {**AMD_NODES, "PipelineL2": {"backend_bound_memory": "nan", "backend_bound_cpu": "nan"}}
    calls = metric_perf(offers=["PipelineL1", "PipelineL2"], nodes=nodes, singly=AMD_NODES["PipelineL2"])
    assert collect(run_script, amd).rc == 0
    assert calls_of(calls, "-I", "--metric-no-group -M PipelineL1,PipelineL2")
    assert lines_with(log_lines(data_dir), "WARNING: toplev: ", "counted singly")


def test_groups_that_give_no_value_are_skipped(metric_perf, amd, run_script, data_dir):
    metric_perf(offers=["PipelineL1"], nodes={"PipelineL1": dict.fromkeys(AMD_NODES["PipelineL1"], "nan")})
    assert collect(run_script, amd).rc == 1
    assert "cannot count them here: none of its nodes gets a value" in skipped(data_dir)


def test_where_open_files_do_for_one_level_that_is_counted(metric_perf, amd, run_script, data_dir):
    """Seven nodes, each with one event in this perf's output; on 64 CPUs: 7 * 64 + 32."""
    calls = metric_perf(offers=["PipelineL1", "PipelineL2"], nodes=AMD_NODES, short=["PipelineL1,PipelineL2"])
    online = Path(amd["KERNELTOOLS_SYSFS"]) / "devices/system/cpu/online"
    online.parent.mkdir(parents=True, exist_ok=True)
    online.write_text("0-63\n")
    assert sum(map(len, AMD_NODES.values())) == 7
    assert collect(run_script, amd).rc == 0
    assert calls_of(calls, "-I", "-M PipelineL1")
    assert not calls_of(calls, "-I", "-M PipelineL1,PipelineL2")
    (warning,) = lines_with(log_lines(data_dir), "WARNING: toplev: level 2 is dropped, only PipelineL1 is counted")
    assert "too many open files: the limit is " in warning
    assert " 480 would do for all of it" in warning
    assert "there is no toplev:memory-bound, toplev:core-bound" in warning
    assert environment_file(data_dir)["toplev_metric_groups"] == "PipelineL1"


def test_a_perf_that_cannot_list_its_metric_groups_is_not_said_to_have_none(amd, stand_in, run_script, data_dir):
    stand_in("perf", "[[ $1 == --version ]] && echo perf version 6.99.0 && exit; echo 'perf: cannot read its lists' >&2; exit 1")
    assert collect(run_script, amd).rc == 1
    assert "perf does not tell its metric groups: perf: cannot read its lists" in skipped(data_dir)
    assert "no top-down metric groups" not in skipped(data_dir)


def test_perfs_own_words_tell_why_it_cannot_count(metric_perf, machine, run_script, data_dir):
    words = "event syntax error: 'ex_ret_ops'\n         \\___ Bad event or PMU\n\nUsage: perf stat"
    metric_perf(offers=["PipelineL1"], nodes={}, says=words)
    started = collect(run_script, machine(CPUINFO.replace("GenuineIntel", "AuthenticAMD")))
    assert started.rc == 1
    assert "cannot count them here: Bad event or PMU; this machine has no PMU" in skipped(data_dir)
    assert started.err.count("\n") == 1


def test_a_perf_without_such_groups_costs_toplev_only(metric_perf, amd, run_script, data_dir):
    metric_perf(offers=["tlb"], nodes={})
    assert collect(run_script, amd).rc == 1
    assert "knows Intel CPUs only (this one: AuthenticAMD); perf version 6.99.0 has no top-down metric groups" in skipped(data_dir)


def test_without_toplev_an_intel_cpu_is_measured_by_perf(metric_perf, intel, run_script, data_dir):
    metric_perf(offers=["TopdownL1", "TopdownL2"], nodes={"TopdownL1": {"tma_retiring": 20.0}, "TopdownL2": {"tma_memory_bound": 4.0}})
    assert collect(run_script, intel).rc == 0
    assert lines_with(log_lines(data_dir), "measured by perf's metric groups", "there is no toplev.py (install pmu-tools")
    done = run_script("kerneltools-post-process")
    assert {desc["type"] for desc, *_ in read_back(data_dir)} == {"toplev:retiring", "toplev:memory-bound", "toplev:mux"}, done.out


def test_a_quote_that_is_not_closed_is_said(metric_perf, intel, run_script, data_dir):
    metric_perf(offers=[], nodes={})
    assert collect(run_script, {**intel, "KERNELTOOLS_TOPLEV_OPTIONS": "--nodes '+a"}).rc == 1
    assert "KERNELTOOLS_TOPLEV_OPTIONS: a quote is not closed" in skipped(data_dir)


def test_without_perf_neither_engine_runs(run_script, data_dir, tmp_path, mark):
    env = {**mark, "PATH": programs_without(tmp_path / "programs", "perf")}
    if Path("/usr/local/bin/perf").exists():
        pytest.skip("perf is in /usr/local/bin, where it is found without PATH")
    assert run_script("kerneltools-start", *QUICK, env=env).rc == 1
    assert "install perf" in skipped(data_dir)


def test_on_this_machine_perf_stat_is_collected_beside_it(real_perf, run_script, data_dir):
    """Whatever this machine is: what toplev cannot do costs perf-stat nothing, and is said in one line."""
    started = run_script("kerneltools-start", "--subtools=toplev,perf-stat", "--interval=0.2", "--perf-stat-events=context-switches")
    assert (started.rc, started.err) == (0, "")
    time.sleep(0.5)
    assert run_script("kerneltools-stop").rc == 0
    assert (data_dir / "perf-stat-output.json.xz").is_file()
    if not list(data_dir.glob("toplev-output.*")):
        assert len(skipped(data_dir)) > 40


# --- a real perf that knows AMD's groups, over a PMU that is made up


def perfs_with_pipeline_groups():
    """Each perf of PERF_VERSIONS, or on PATH, that has PipelineL1 for AMD Genoa."""
    candidates = [program for program in os.environ.get("PERF_VERSIONS", "").split(":") if program] + [shutil.which("perf")]
    for program in filter(None, candidates):
        env = {**os.environ, "PERF_CPUID": "AuthenticAMD-25-17-1"}
        done = subprocess.run([program, "list", "metricgroups"], capture_output=True, text=True, env=env, check=False)
        if "\nPipelineL1\n" in done.stdout:
            yield program


PIPELINE_PERFS = {Path(program).name: program for program in perfs_with_pipeline_groups()}


@pytest.mark.parametrize("name", PIPELINE_PERFS or [pytest.param("", marks=pytest.mark.skip("no perf with PipelineL1 (PERF_VERSIONS)"))])
def test_a_real_perf_publishes_the_six_types_of_amd(name, hwshim, stand_in, run_script, data_dir, tmp_path, mark, nothing_lives):
    stand_in("perf", f'exec {shlex.quote(PIPELINE_PERFS[name])} "$@"')
    sysfs = tmp_path / "sysfs"
    devices = sysfs / "bus" / "event_source" / "devices"
    (devices / "cpu" / "format").mkdir(parents=True)
    for entry in Path("/sys").iterdir():
        if entry.name != "bus":
            (sysfs / entry.name).symlink_to(entry)
    for entry in Path("/sys/bus/event_source/devices").iterdir():
        if entry.name != "cpu":
            (devices / entry.name).symlink_to(entry.resolve())
    (devices / "cpu" / "type").write_text("4\n")
    for field, bits in {"event": "0-7,32-35", "umask": "8-15", "cmask": "24-31", "inv": "23", "edge": "18"}.items():
        (devices / "cpu" / "format" / field).write_text(f"config:{bits}\n")
    env = {"SYSFS_PATH": sysfs, "PERF_CPUID": "AuthenticAMD-25-17-1", "LD_PRELOAD": hwshim, **mark}
    assert collect(run_script, env).rc == 0, log_lines(data_dir)
    assert nothing_lives()
    done = run_script("kerneltools-post-process")
    assert done.rc == 0, done.out
    series = {desc["type"].partition(":")[2]: rows for desc, _, rows in read_back(data_dir)}
    assert {*SIX, "mux", "smt-contention"} <= set(series)
    assert list(map(without_mark, metric_files(data_dir))) == ["metric-data-toplev"]
    end = float(clock(data_dir)["toplev", "end"]) * 1000
    assert all(abs(rows[-1][1] - end) < 60 for rows in series.values())


def test_the_file_names_no_subtool_but_its_own():
    text = (REPO / "kerneltools-subtools" / "toplev.sh").read_text()
    assert not re.search(r"perf-stat|turbostat|trace-cmd", text)
