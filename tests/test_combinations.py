# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Several subtools in one run: each one's trouble stays its own."""

import json
import os
import signal
import subprocess
import time

import pytest
from collection import STOP_LOG, copy_of_repository, lines_with, log_lines, recorded, wait_until, warnings
from conftest import start_time
from published import metric_files, without_mark
from test_sysfs_trace import Tracing, collected_events, tracefs, tracing  # noqa: F401  (fixtures)

# Collectors that need a second to end, under the names of four subtools' programs; each writes while it ends.
LINGERS = 1.0
COLLECTOR = r"""
finish() { echo last >>"$output"; sleep "$LINGERS"; echo end >>"$output"; exit 0; }
collect() {
    output=$1
    trap finish INT
    echo first >"$output"
    while sleep 0.02; do :; done
}
"""
PERF = f"""{COLLECTOR}
[[ $1 != --buildid-dir ]] || shift 2
case "$1 $*" in
    record*) collect perf.data ;;
    stat*" -I "*) collect perf-stat-output.json ;;
    stat*) echo '{{"counter-value" : "1.0", "unit" : "", "event" : "cs", "event-runtime" : 1, "pcnt-running" : 100.00}}' ;;
    archive*) echo 'perf archive: no build-ids found'; exit 1 ;;
esac"""
TRACE_CMD = f"{COLLECTOR}\n[[ $1 != record ]] || collect trace.dat"
TURBOSTAT = f"{COLLECTOR}\n[[ $1 != --interval ]] || collect turbostat-stdout.txt"


@pytest.fixture
def copy(tmp_path, data_dir):
    """A copy of the tool, for subtools of a test's own, and a data directory."""
    return copy_of_repository(tmp_path / "house"), data_dir


def decompressed(path):
    return subprocess.run(["xz", "-dc", path], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def four(stand_in, monkeypatch):
    """The programs of four collectors that take LINGERS seconds to end, and start's parameters."""
    monkeypatch.setenv("LINGERS", str(LINGERS))
    for name, body in (("perf", PERF), ("trace-cmd", TRACE_CMD), ("turbostat", TURBOSTAT)):
        stand_in(name, body)
    return ["--subtools=turbostat,perf-record,perf-stat,trace-cmd", "--perf-stat-events=cs"]


OUTPUTS = ["turbostat-stdout.txt", "perf.data", "perf-stat-output.json", "trace.dat"]


def test_stop_takes_as_long_as_the_slowest_collector_not_as_all_together(four, run_script, data_dir):
    assert run_script("kerneltools-start", *four).rc == 0, log_lines(data_dir)
    assert log_lines(data_dir)[-1] == "running: turbostat perf-record perf-stat trace-cmd"
    done = run_script("kerneltools-stop", *four)
    assert (done.rc, done.err) == (0, ""), log_lines(data_dir, STOP_LOG)
    assert LINGERS < done.seconds < 2 * LINGERS
    for output in OUTPUTS:
        assert decompressed(data_dir / f"{output}.xz") == "first\nlast\nend\n", output


def test_one_that_is_killed_costs_the_other_three_nothing(four, run_script, data_dir):
    assert run_script("kerneltools-start", *four).rc == 0
    victim = next(collector for collector in recorded(data_dir) if collector.subtool == "perf-stat")
    os.kill(victim.pid, signal.SIGKILL)
    assert wait_until(lambda: start_time(victim.pid) is None)
    done = run_script("kerneltools-stop")
    assert done.rc == 1
    (missing,) = lines_with(warnings(data_dir, STOP_LOG), "had ended before stop")
    assert missing.startswith("WARNING: perf-stat: ")
    for output in OUTPUTS:
        assert decompressed(data_dir / f"{output}.xz") == ("first\n" if output.startswith("perf-stat") else "first\nlast\nend\n"), output


def test_one_that_cannot_run_costs_the_others_nothing(four, run_script, stand_in, data_dir):
    stand_in("turbostat", "echo 'turbostat: no MSR' >&2; exit 255")
    assert run_script("kerneltools-start", *four).rc == 0
    assert warnings(data_dir) == ["WARNING: turbostat: skipped: turbostat: no MSR"]
    assert log_lines(data_dir)[-1] == "running: perf-record perf-stat trace-cmd"
    assert run_script("kerneltools-stop").rc == 0
    assert [decompressed(data_dir / f"{output}.xz") for output in OUTPUTS[1:]] == ["first\nlast\nend\n"] * 3


@pytest.mark.parametrize("victim", ["perf-record", "perf-stat"])
def test_recording_counting_and_tracing_in_one_run_with_one_killed_midway(real_perf, tracing, run_script, data_dir, victim):  # noqa: F811
    assert isinstance(tracing, Tracing)
    parameters = [
        "--subtools=perf-record,perf-stat,sysfs-trace", "--interval=1", "--record-opts=-e cpu-clock -F 199 --all-kernel",
        "--sysfs-trace-setup=echo 1 > events/sched/sched_switch/enable", "--sysfs-trace-cleanup=echo 0 > events/enable",
    ]  # fmt: skip
    done = run_script("kerneltools-start", *parameters, env=tracing.env)
    assert done.rc == 0, log_lines(data_dir)
    assert wait_until(lambda: (data_dir / "perf-stat-output.json").read_text().count('"interval" : 1.') > 0)
    collector = next(collector for collector in recorded(data_dir) if collector.subtool == victim)
    os.kill(collector.pid, signal.SIGKILL)
    tracing.benchmark()
    time.sleep(1.0)
    events = tracing.events()
    done = run_script("kerneltools-stop", *parameters, env=tracing.env)
    assert done.rc == 1
    (missing,) = lines_with(warnings(data_dir, STOP_LOG), "had ended before stop")
    assert missing.startswith(f"WARNING: {victim}: ")
    assert events
    assert sorted(collected_events(data_dir)) == sorted(events)
    assert tracing.events() == []
    records = [json.loads(line) for line in decompressed(data_dir / "perf-stat-output.json.xz").splitlines() if line.startswith("{")]
    times = sorted({record["interval"] for record in records})
    if victim == "perf-record":
        # whole seconds, and one that was cut short by stop
        assert [round(time) for time in times[:-1]] == list(range(1, len(times)))
        assert len(times) >= 3
    else:
        assert times
        subprocess.run(["xz", "-d", data_dir / "perf.data.xz"], check=True)
        script = [real_perf, "script", "-i", data_dir / "perf.data", "-F", "time"]
        samples = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
        assert float(samples[-1].rstrip(":")) - float(samples[0].rstrip(":")) > times[-1] + 0.9, "it went on"
    done = run_script("kerneltools-post-process", data_dir)
    assert done.rc == 0, done
    published = json.loads((data_dir / "postprocess" / "post-process-data.json").read_text())["rickshaw-bench-metric"]
    assert published
    assert "context-switches-sec" in done.out
    assert list(map(without_mark, metric_files(data_dir))) == ["metric-data-perf-stat"]


def test_what_follows_the_ends_takes_as_long_as_the_slowest_of_it(copy, run_script):
    """Not the sum: reports and archives are made side by side."""
    house, data = copy
    for name in ("one", "two", "three"):
        (house / "kerneltools-subtools" / f"{name}.sh").write_text(
            f"output {name}.txt\n"
            f"subtool_start() {{ launch {name}.txt bash -c 'echo begun >{name}.txt; exec sleep 60'; }}\n"
            "subtool_finish() { sleep 1.5; }\n"
        )
    assert run_script(house / "kerneltools-start", "--subtools=one,two,three", cwd=data).rc == 0
    done = run_script(house / "kerneltools-stop", cwd=data)
    assert done.rc == 0, done.err
    assert 1.5 <= done.seconds < 3.5
    assert sorted(path.name for path in data.glob("*.txt.xz")) == ["one.txt.xz", "three.txt.xz", "two.txt.xz"]


def test_what_failed_after_the_end_is_done_again_by_the_next_stop(copy, run_script):
    house, data = copy
    (house / "kerneltools-subtools" / "one.sh").write_text(
        "output one.txt\noutput report.txt plain\n"
        "subtool_start() { launch one.txt bash -c 'echo begun >one.txt; exec sleep 60'; }\n"
        "subtool_finish() { [[ -e allowed ]] && cat one.txt >report.txt; }\n"
    )
    assert run_script(house / "kerneltools-start", "--subtools=one", cwd=data).rc == 0
    assert run_script(house / "kerneltools-stop", cwd=data).rc == 1
    assert (data / "one.txt.xz").exists(), "what was collected is compressed all the same"
    (data / "allowed").touch()
    assert run_script(house / "kerneltools-stop", cwd=data).rc == 0
    assert (data / "report.txt").read_text() == "begun\n"
    assert (data / "one.txt.xz").exists()
    assert not (data / "one.txt").exists()
    assert run_script(house / "kerneltools-stop", cwd=data).rc == 0


def test_a_killed_stop_leaves_its_after_work_to_itself(copy, run_script):
    """A second stop waits for what the first one left running, and does it no second time beside it."""
    house, data = copy
    (house / "kerneltools-subtools" / "one.sh").write_text(
        "output one.txt\n"
        "subtool_start() { launch one.txt bash -c 'echo begun >one.txt; exec sleep 60'; }\n"
        "subtool_finish() { echo in >>order; sleep 1; echo out >>order; }\n"
    )
    assert run_script(house / "kerneltools-start", "--subtools=one", cwd=data).rc == 0
    first = subprocess.Popen([house / "kerneltools-stop"], cwd=data, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 10
    while not (data / "order").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    first.kill()
    first.wait()
    assert run_script(house / "kerneltools-stop", cwd=data).rc == 0
    assert (data / "order").read_text().split() in (["in", "out"], ["in", "out", "in", "out"])
