# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""One table of faults: each row is a fault, what must survive it, and the proof. The table stands at the end; `-v` prints its rows.

The collectors are real where perf is installed, otherwise stand-ins; the scripts and the post-processor always are. Whatever the
fault: no process is left, no text is evaluated (each row looks for a file named "evaluated"), errors are one line.

Times in proofs are ms after perf_output.EPOCH.
"""

import contextlib
import itertools
import json
import lzma
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, NamedTuple

import declared
import pytest
from collection import (
    STOP_LOG,
    clock,
    events_of,
    lines_with,
    log_lines,
    played,
    processes_with,
    recorded,
    wait_until,
    warnings,
)
from conftest import REPO, start_time
from perf_output import EPOCH, block, line, post_process, process, read_back, write_clock, write_topology
from published import metric_files, without_mark
from test_parameters import HOSTILE
from test_stop import disk_at, error_line, fill
from test_sysfs_trace import plain  # noqa: F401  (a fixture)
from test_toplev import CLOSING, HEADER

# ---- what each parser reads: an output of one metric, interval by interval


class Format(NamedTuple):
    """An output as a collector writes it: head, intervals, tail. In an interval stand @TIME@, @EPOCH@ (both in seconds) and @VALUE@.

    value: finds the values in an output again; names: the breakouts of the metric; header: what may stand in an output without
    an interval.
    """

    subtool: str
    output: str
    metric: str
    head: str
    interval: str
    value: str
    tail: str = ""
    names: tuple = ()
    header: str = "# started on Sun Nov 29 23:19:44 2026\n\n"

    def block(self, time, value):
        """The text of the interval that ends `time` s after EPOCH."""
        texts = {"@TIME@": f"{time:.9f}", "@EPOCH@": f"{EPOCH + time:.6f}", "@VALUE@": str(value)}
        return re.sub("@[A-Z]+@", lambda token: texts[token[0]], self.interval)

    def text(self, *parts):
        """A whole output. parts: (time, value) of an interval, or text that stands between intervals."""
        return self.head + "".join(part if isinstance(part, str) else self.block(*part) for part in parts) + self.tail

    def lost(self, time):
        """What is left of the first record of an interval that became unreadable."""
        return self.block(time, 1).removeprefix(self.header)[:19] + "\n"

    def values(self, text):
        """The values of the intervals in an output, equal neighbours once."""
        return [value for value, _ in itertools.groupby(map(int, re.findall(self.value, text, re.MULTILINE)))]


TURBOSTAT_HEADER = "Time_Of_Day_Seconds\tCore\tCPU\tBusy%\n"
RUNNING = '"event-runtime" : 100, "pcnt-running" : 100.00'
PERF_RECORD = '{"interval" : @TIME@, "counter-value" : "%s.000000", "unit" : "", "event" : "%s", ' + RUNNING
FORMATS = {
    "perf-stat": Format(
        "perf-stat", "perf-stat-output.json", "context-switches", "", PERF_RECORD % ("@VALUE@", "context-switches") + "}\n",
        value=r'"counter-value" : "([0-9]+)\.0+".*"context-switches.*}$',
    ),
    "toplev.py": Format(
        "toplev", "toplev-output.csv", "toplev:frontend-bound", HEADER + "\n", "@TIME@,Frontend_Bound,@VALUE@.0,% Slots,,,0.0,100.0,,\n",
        value=r",Frontend_Bound,([0-9]+)\.0,", tail=CLOSING + "\n", header=HEADER + "\n",
    ),
    "metric groups": Format(
        "toplev", "toplev-output.json", "toplev:frontend-bound", "",
        PERF_RECORD % ("5", "ev") + ', "metric-value" : "@VALUE@.0", "metric-unit" : "%  frontend_bound"}\n',
        value=r'"metric-value" : "([0-9]+)\.0"',
    ),
    "turbostat": Format(
        "turbostat", "turbostat-stdout.txt", "turbostat:cpu-busy-pct", "",
        TURBOSTAT_HEADER + "@EPOCH@\t-\t-\t@VALUE@.00\n@EPOCH@\t0\t0\t@VALUE@.00\n",
        value=r"\t0\t0\t([0-9]+)\.00$", header=TURBOSTAT_HEADER,
        names=(("package", "0"), ("die", "0"), ("core", "0"), ("thread", "0"), ("cpu", "0")),
    ),
}  # fmt: skip
SUBTOOLS = "perf-stat|toplev|turbostat"

# Plays turbostat or toplev.py: an interval each 50 ms, the last at SIGINT; the values count up. FORMAT: output, head, interval, tail.
COLLECTOR = r"""
import signal, sys, time

output, head, interval, tail = FORMAT
if "--version" in sys.argv:
    print("CPU: icx, played")
if "--version" in sys.argv or sys.argv[-1] == "true":
    sys.exit()
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
began, value = time.monotonic(), 0
with open(output, "w") as stream:
    stream.write(head)
    while not asked:
        time.sleep(0.05)
        value += 1
        text = interval.replace("@TIME@", f"{time.monotonic() - began:.9f}").replace("@EPOCH@", f"{time.time():.6f}")
        stream.write(text.replace("@VALUE@", str(value)))
        stream.flush()
    stream.write(tail)
"""


# ---- the machine that a fault befalls


class Node:
    """A data directory on a machine with perf, real or played; what a proof needs of the fixtures."""

    def __init__(self, request, run, data, stand_in, tmp_path):
        self.request, self.run, self.data, self.stand_in, self.tmp_path = request, run, data, stand_in, tmp_path
        self.mark = ("KT_MARK", str(tmp_path))

    def perf(self):
        """See that there is a perf that counts; the program, or None where it is played."""
        try:
            return self.request.getfixturevalue("real_perf")
        except pytest.skip.Exception:
            played(self.stand_in, self.tmp_path)
            return None

    def collectors(self, *formats):
        """Put collectors on PATH that are played; those of perf excepted."""
        for form in formats:
            body = f"FORMAT = {(form.output, form.head, form.interval, form.tail)!r}\n{COLLECTOR}"
            if form.subtool == "turbostat":
                self.stand_in("turbostat", body, python=True)
            else:
                lists = self.tmp_path / "event lists"
                lists.mkdir()
                (lists / "icx.json").write_text("[]")
                self.stand_in("toplev.py", f"#!/usr/bin/env python3\n{body}")
                self.env = {"CACHEDIR": lists, "FORCECPU": "icx"}

    env = None

    def start(self, *args, **kwargs):
        """kerneltools-start of perf-stat at a short interval, unless args say otherwise."""
        quick = ["--subtools=perf-stat", "--interval=0.05", "--perf-stat-events=context-switches"]
        return self.run("kerneltools-start", *quick, *args, env=self.env, **kwargs)

    def started(self, *args, **kwargs):
        done = self.start(*args, **kwargs)
        assert (done.rc, done.err) == (0, "")
        return done

    def stop(self, *args, **kwargs):
        return self.run("kerneltools-stop", *args, **kwargs)

    def in_background(self, script, *args):
        """A script that is under way, as its process."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([REPO / script, *args], cwd=self.data, start_new_session=True, **quiet)

    def post_process(self, directory=None):
        """The post-processor's Finished, and the metrics that it left."""
        directory = directory or self.data
        done = self.run("kerneltools-post-process", cwd=directory)
        assert "Traceback" not in done.out + done.err, done.out + done.err
        return done, read_back(directory, SUBTOOLS)

    def living(self):
        return processes_with(*self.mark)

    def nothing_lives(self):
        return wait_until(lambda: not self.living(), 10)


@pytest.fixture
def node(request, run_script, data_dir, stand_in, tmp_path, monkeypatch):
    node = Node(request, run_script, data_dir, stand_in, tmp_path)
    monkeypatch.setenv(*node.mark)
    monkeypatch.delenv("TOOLBOX_HOME", raising=False)
    for variable in ("KERNELTOOLS_TOPLEV_OPTIONS", "PERFMONDIR", "EVENTMAP", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    yield node
    for pid in node.living():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def published(node, form, text, begin=0.0, end=None):
    """Post-process an output of one format; the Outcome, and the samples of its metric (None where there is none)."""
    (node.data / form.output).write_bytes(text.encode("utf-8", "surrogateescape"))
    write_clock(node.data, begin, end, form.subtool)
    done = process(node.data, form.subtool)
    return done, done.metrics.samples(form.metric, **dict(form.names)) if form.metric in done.metrics.types else None


def archived(directory, form):
    """The content of the archive of an output, beside which no raw file may be left."""
    assert not (directory / form.output).exists()
    return lzma.decompress((directory / f"{form.output}.xz").read_bytes()).decode()


def assert_holds(metrics, form, text):
    """The metric has the value of every whole interval of the output, in its order and without holes."""
    if form.subtool == "perf-stat":  # interrupted within 1 ms of a tick it adds an interval that no sample can have
        times = re.findall('^{"interval" : ([0-9.]+)', text, re.MULTILINE)
        *before, last = dict.fromkeys(map(float, times)) or [0.0]
        if before and last - before[-1] < 0.001:
            text = text[: text.index(f'{{"interval" : {last:.9f}')]
    expected = form.values(text)
    if not expected:
        assert form.metric not in metrics.types
        return []
    samples = metrics.samples(form.metric, **dict(form.names))
    assert [value for *_, value in samples] == expected
    assert all(later[0] == earlier[1] + 1 for earlier, later in zip(samples, samples[1:]))
    return samples


def kill_and_see_it_gone(pid):
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: start_time(pid) is None)


# ---- collection


def killed_at_random_moments(node, seed):
    node.perf()
    forms = [FORMATS["perf-stat"], FORMATS["toplev.py"], FORMATS["turbostat"]]
    node.collectors(*forms[1:])
    node.started("--subtools=perf-stat,toplev,turbostat")
    collectors = recorded(node.data)
    assert sorted(collector.subtool for collector in collectors) == ["perf-stat", "toplev", "turbostat"]
    chance = random.Random(seed)
    chance.shuffle(collectors)
    for collector in collectors:
        time.sleep(chance.uniform(0, 0.25))
        kill_and_see_it_gone(collector.pid)
    stopped = node.stop()
    assert stopped.rc == 1
    error = error_line(stopped)
    for form in forms:
        assert f"{form.subtool}: had ended before stop; its last words: it said nothing" in error
    texts = {form: archived(node.data, form) for form in forms}
    done, metrics = node.post_process()
    assert done.rc == any(text and not text.endswith("\n") for text in texts.values())
    begun = clock(node.data)
    for form, text in texts.items():
        samples = assert_holds(metrics, form, text)
        if samples:
            assert float(begun[form.subtool, "begin"]) * 1000 - 60 <= samples[0][0] + EPOCH * 1000
            assert samples[-1][1] + EPOCH * 1000 <= float(begun[form.subtool, "end"]) * 1000 + 60


def clock_stepped(node, form, step):
    """The step comes after the second of four intervals of 1 s. turbostat stamps with the stepped clock itself."""
    form = FORMATS[form]
    if form.subtool == "turbostat":
        done, samples = published(node, form, form.text((1, 10), (2, 20), (3 + step, 30), (4 + step, 40)), end=4 + step)
        if step > 0:
            assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 3_603_000, 30), (3_603_001, 3_604_000, 40)]
            assert done.rc == 0
        else:
            assert samples == [(1, 1000, 10), (1001, 2000, 20)]
            assert done.rc == 1
            assert lines_with(done.log.splitlines(), "turbostat: intervals not later than one before are dropped (2 times)")
        return
    done, samples = published(node, form, form.text((1, 10), (2, 20), (3, 30), (4, 40)), end=4 + step)
    assert done.rc == 0
    shift = max(step, 0) * 1000
    assert samples == [(begin + shift, begin + 999 + shift, value) for begin, value in ((1, 10), (1001, 20), (2001, 30), (3001, 40))]
    said = "the node's clock was set during the run" if step > 0 else "the node's clock was set back during the run"
    assert lines_with(done.log.splitlines(), f"NOTE: {form.subtool}: times are counted", said)


def clock_stepped_under_a_collector(node, step):
    """The begin in the clock file is made what the clock showed before the step."""
    node.perf()
    node.started()
    time.sleep(0.2)
    begin = float(clock(node.data)["perf-stat", "begin"]) - step
    (node.data / "kerneltools-clock.txt").write_text(f"perf-stat begin {begin:.9f}\n")
    stopped = node.stop()
    assert (stopped.rc, stopped.err) == (0, "")
    done, metrics = node.post_process()
    assert done.rc == 0
    assert "the node's clock was set" in done.out
    form = FORMATS["perf-stat"]
    text = archived(node.data, form)
    samples = assert_holds(metrics, form, text)
    length = float(re.findall(r'"interval" : ([0-9.]+)', text)[-1]) * 1000
    assert samples[-1][1] - samples[0][0] + 1 == pytest.approx(length, abs=1.5)
    if step > 0:
        assert samples[-1][1] + EPOCH * 1000 == pytest.approx(float(clock(node.data)["perf-stat", "end"]) * 1000, abs=1)
    else:
        assert samples[0][0] + EPOCH * 1000 == pytest.approx(begin * 1000 + 1, abs=1)


PAGE = 4096


def fill_but(disk, pages):
    """Leave that much room on a disk; returns the file that takes the rest."""
    ballast = fill(disk)
    os.truncate(ballast, max(0, ballast.stat().st_size - pages * PAGE))
    return ballast


def disk_full_at_start(node):
    """At once, and when the topology is kept and the record, the clock or the like has no room any more."""
    node.perf()
    kept = len([*Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/*")])
    with disk_at(node.tmp_path / "small disk") as disk:
        for pages in (0, kept + 2, kept + 3, kept + 4, kept + 5):
            directory = disk / f"{pages} pages"
            directory.mkdir()
            ballast = fill_but(disk, pages)
            done = node.start(cwd=directory)
            if done.rc == 0:  # the output itself had room
                assert pages
                assert done.err == ""
            else:
                assert done.rc == 1
                assert error_line(done).startswith("ERROR: nothing runs: perf-stat: ")
                assert node.nothing_lives()
            ballast.unlink()
            if done.rc:
                node.started(cwd=directory)
            stopped = node.stop(cwd=directory)
            assert (stopped.rc, stopped.err) == (0, "")
            assert archived(directory, FORMATS["perf-stat"])


def disk_full_before_the_end(node, seconds):
    """seconds: how long the collector goes on without being able to write."""
    node.perf()
    form = FORMATS["perf-stat"]
    with disk_at(node.tmp_path / "small disk") as disk:
        node.started("--interval=0.02", cwd=disk)
        time.sleep(0.3)
        ballast = fill(disk)
        time.sleep(seconds)
        stopped = node.stop(cwd=disk)
        assert stopped.rc == 1
        assert f"{form.output} could not be compressed and stays as it is" in error_line(stopped)
        assert node.nothing_lives()
        raw = (disk / form.output).read_text()
        assert form.values(raw)
        assert not (disk / f"{form.output}.xz").exists()
        ballast.unlink()
        again = node.stop(cwd=disk)
        assert (again.rc, again.err) == (0, "")
        assert archived(disk, form) == raw
        done, metrics = node.post_process(disk)
        assert done.rc == (0 if raw.endswith("}\n") else 1)
        assert_holds(metrics, form, raw)


ROOMS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 48]  # in pages


def disk_full_while_post_processing(node):
    forms = [FORMATS["perf-stat"], FORMATS["turbostat"]]
    with disk_at(node.tmp_path / "small disk") as disk:
        for form in forms:
            (disk / form.output).write_text(form.text((1, 10), (2, 20)))
        (disk / "kerneltools-clock.txt").write_text(f"perf-stat begin {EPOCH}.0\nperf-stat end {EPOCH + 2}.0\nturbostat begin {EPOCH}.0\n")
        codes = {}
        for pages in ROOMS:
            fill_but(disk, pages)
            done, metrics = node.post_process(disk)
            codes[pages] = done.rc
            for form in forms:
                if form.metric in metrics.types:
                    assert metrics.samples(form.metric, **dict(form.names)) == [(1, 1000, 10), (1001, 2000, 20)]
            if done.rc == 0:
                assert {form.metric for form in forms} <= metrics.types
            else:
                assert "No space left on device" in done.out + done.err
                assert len(done.err.splitlines()) <= 1
            assert list((disk / "postprocess").glob(".partial-*")) == []
        assert (codes[ROOMS[0]], codes[ROOMS[-1]]) == (1, 0)
        (disk / "ballast").unlink()


def xz_killed_midway(node):
    node.perf()
    form = FORMATS["perf-stat"]
    xz = shlex.quote(shutil.which("xz"))
    node.started()
    time.sleep(0.2)
    broken = node.stand_in("xz", f'{xz} "$@" | head -c 40; kill -KILL $$')
    stopped = node.stop()
    assert stopped.rc == 1
    assert error_line(stopped) == f"ERROR: {form.output} could not be compressed and stays as it is"
    assert sorted(path.name for path in node.data.glob(f"{form.output}*")) == [form.output]
    raw = (node.data / form.output).read_text()
    done, metrics = node.post_process()
    assert done.rc == 0
    first = assert_holds(metrics, form, raw)
    assert first
    broken.unlink()
    again = node.stop()
    assert (again.rc, again.err) == (0, "")
    assert archived(node.data, form) == raw
    done, metrics = node.post_process()
    assert done.rc == 0
    assert assert_holds(metrics, form, raw) == first


@contextlib.contextmanager
def read_only(directory):
    """The directory as it is seen under its path, while what is open in it stays open."""
    if os.geteuid() != 0:
        directory.chmod(0o555)
        try:
            yield
        finally:
            directory.chmod(0o755)
        return
    mounts = [["mount", "--bind", directory, directory], ["mount", "-o", "remount,ro,bind", directory]]
    done = 0
    try:
        for mount in mounts:
            if shutil.which("mount") is None or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
                pytest.skip("a directory cannot be made read-only here")
            done += 1
        yield
    finally:
        if done:
            subprocess.run(["umount", "-l", directory], check=True)


def read_only_at_start(node):
    node.perf()
    with read_only(node.data):
        done = node.start()
        assert done.rc == 1
        shown = subprocess.run(["bash", "-c", "printf %q \"$1\"", "bash", node.data], capture_output=True, text=True, check=True).stdout
        assert error_line(done) == f"ERROR: cannot write kerneltools-start-stderrout.txt in {shown}"
        assert node.nothing_lives()
    assert list(node.data.iterdir()) == []


def read_only_at_stop(node):
    node.perf()
    form = FORMATS["perf-stat"]
    node.started()
    time.sleep(0.2)
    with read_only(node.data):
        stopped = node.stop()
        assert stopped.rc == 1
        error = error_line(stopped)
        assert "cannot write kerneltools-stop-stderrout.txt in " in error
        assert f"{form.output} could not be compressed and stays as it is" in error
        assert node.nothing_lives()
        raw = (node.data / form.output).read_text()
        done = node.run("kerneltools-post-process")
        assert done.rc == 1
        assert re.fullmatch(r"ERROR: postprocess cannot be written: .*", error_line(done))
    # the first could not record what it did
    again = node.stop()
    assert again.rc == 1
    assert error_line(again) == "ERROR: perf-stat: had ended before stop; its last words: it said nothing"
    assert archived(node.data, form) == raw
    last = node.stop()
    assert (last.rc, last.err) == (0, "")
    done, metrics = node.post_process()
    assert done.rc == 0
    assert assert_holds(metrics, form, raw)


def stop_before_perf_is_there(node):
    """A perf that has not come so far as to take signals when the signal comes."""
    perf = node.perf() or node.stand_in("perf", "").resolve()
    node.stand_in("perf", f'[[ " $* " != *" -I "* ]] || sleep 30\nexec {shlex.quote(str(perf))} "$@"')
    node.started()
    stopped = node.stop()
    assert stopped.rc == 1
    assert error_line(stopped) == "ERROR: perf-stat: there is no perf-stat-output.json"
    assert stopped.seconds < 20, "it waited for what could not come"
    assert node.nothing_lives()
    done, metrics = node.post_process()
    assert done.rc == 1
    assert lines_with(done.out.splitlines(), "WARNING: perf-stat: was started, but its output is not here: perf-stat-output.json")
    assert metrics.types == set()


def stop_while_perf_opens_its_counters(node, delay):
    """start is killed as soon as perf is launched, for it waits for perf's first words; stop follows at once."""
    node.perf()
    start = node.in_background("kerneltools-start", "--subtools=perf-stat", "--interval=60", "--perf-stat-events=context-switches")
    assert wait_until(lambda: recorded(node.data), 30)
    start.kill()
    start.wait()
    time.sleep(delay)
    stopped = node.stop()
    assert node.nothing_lives()
    output = node.data / "perf-stat-output.json.xz"
    if stopped.rc == 0:
        assert stopped.err == ""
        text = lzma.decompress(output.read_bytes()).decode()
    else:
        assert error_line(stopped) == "ERROR: perf-stat: there is no perf-stat-output.json"
        text = ""
    done, metrics = node.post_process()
    values = FORMATS["perf-stat"].values(text)
    assert len(values) <= 1
    assert metrics.values("context-switches") == values if values else metrics.types == set()
    assert done.rc == (0 if output.exists() else 1)
    again = node.stop()
    assert (again.rc, again.err) == (0, "")


def interleaved(node, seed):
    """Two callers, each of whom starts and stops, at random moments in the same directory."""
    played(node.stand_in, node.tmp_path)
    chance = random.Random(seed)
    calls = []

    def caller(pauses):
        for script, pause in zip((node.start, node.stop), pauses):
            time.sleep(pause)
            calls.append((script.__name__, script()))

    callers = [threading.Thread(target=caller, args=([chance.uniform(0, 0.4), chance.uniform(0, 0.6)],)) for _ in range(2)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    last = node.stop()
    assert (last.rc, last.err) == (0, "")
    assert node.nothing_lives()
    assert sorted(name for name, _ in calls) == ["start", "start", "stop", "stop"]
    starts = [done for name, done in calls if name == "start"]
    assert sorted(done.rc for done in starts) == [0, 1], "only one of them may collect"
    (refused,) = [error_line(done) for done in starts if done.rc]
    assert re.match(
        r"ERROR: (another kerneltools-start or kerneltools-stop is at work in this directory"
        r"|collectors of an earlier start still run in this directory: perf-stat \(pid [0-9]+\); kerneltools-stop ends them"
        r"|perf-stat-output.json(\.xz)? of an earlier perf-stat is in this directory and would be overwritten; )",
        refused,
    )
    for done in (done for name, done in calls if name == "stop" and done.rc):
        assert re.match("ERROR: nothing was started in this directory", error_line(done))
    assert "had ended before stop" not in "".join(log_lines(node.data, STOP_LOG))
    done, metrics = node.post_process()
    assert done.rc == 0
    text = archived(node.data, FORMATS["perf-stat"])
    assert assert_holds(metrics, FORMATS["perf-stat"], text)


def million_characters_of_words(node, character, words):
    """On the standard error of a perf that dies at once."""
    played(node.stand_in, node.tmp_path, collection=f"sys.stderr.write({character!r} * 1_000_000 + '\\n')\nsys.exit(1)")
    done = node.start()
    assert done.rc == 1
    assert error_line(done) == f"ERROR: nothing runs: perf-stat: {words}"


def named_as_nobody_should(node):
    node.perf()
    directory = node.data / "it's a \"run\"\n$(touch evaluated) `touch evaluated`; * \\"
    directory.mkdir()
    node.started(cwd=directory)
    stopped = node.stop(cwd=directory)
    assert (stopped.rc, stopped.err) == (0, "")
    text = archived(directory, FORMATS["perf-stat"])
    done, metrics = node.post_process(directory)
    assert (done.rc, done.err) == (0, "")
    samples = assert_holds(metrics, FORMATS["perf-stat"], text)
    named = node.run("kerneltools-post-process", str(directory), cwd=node.tmp_path)
    assert (named.rc, named.err, named.out) == (0, "", done.out)
    assert read_back(directory).samples("context-switches") == samples


# ---- parameters

PARAMETERS = declared.load().parameters
CLOSED = [name for name, parameter in PARAMETERS.items() if parameter.kind.split(":")[0] not in ("options", "events", "command")]
GLOBS = ["*", "[a-z]*", "~", "$HOME"]
TAKEN = ["$(touch evaluated) `touch evaluated`", "x; touch evaluated && touch evaluated | touch evaluated & > evaluated",
         "x\ntouch evaluated", "* [a-z]* ~ $HOME ?"]  # fmt: skip


def closed_parameter_with_shell_characters(node, name):
    node.request.getfixturevalue("monkeypatch").chdir(node.data)
    assert not any(declared.accepted([f"--{name}={value}" for value in [*HOSTILE, *GLOBS]]))
    value = "\n".join([*HOSTILE, *GLOBS])
    for script in (node.start, node.stop):
        done = script(f"--{name}={value}")
        assert done.rc == 2
        assert re.match(rf"ERROR: --{name}: bad value .*; accepted: ", error_line(done))


def options_with_shell_characters(node, value):
    """perf, perf record and trace-cmd get them letter by letter."""
    calls = node.tmp_path / "calls"
    work = 'case " $* " in *" record "*) echo >"${@: -1}"; exec sleep 60 ;; esac'
    note = f"printf '%s\\0' \"$@\" $'\\n' >>{shlex.quote(str(calls))}\nset -- \"$@\" "
    node.stand_in("perf", f"{note}perf.data\n{work}")
    node.stand_in("trace-cmd", f"{note}trace.dat\n{work}")
    (node.data / "a file").touch()
    hostile = [f"--{name}={value}" for name in ("record-opts", "trace-cmd-record-opts")]
    hostile += [f"--sysfs-trace-{when}={value}" for when in ("setup", "cleanup")]
    node.started("--subtools=perf-record,trace-cmd", *hostile)
    stopped = node.stop(*hostile)
    assert len(stopped.err.splitlines()) <= 1
    assert node.nothing_lives()
    recordings = [call.split("\0")[:-1] for call in calls.read_text().split("\n\0") if "record\0" in call]
    words = shlex.split(value)
    assert [call[-len(words) :] for call in recordings] == [words, words]
    calls.unlink()

    perfs = played(node.stand_in, node.tmp_path)
    listed = node.data / "listed"
    listed.mkdir()
    (listed / "a file").touch()
    done = node.start(f"--perf-stat-events={value}", cwd=listed)
    if "\n" in value:  # perf takes it for a name that it does not know, and so does the played one
        assert done.rc == 1
        assert error_line(done).startswith("ERROR: nothing runs: perf-stat: none of its events can be counted here: x touch evaluated: ")
        assert {events_of(call) for call in perfs.stat()} == {value}
        return
    assert (done.rc, done.err) == (0, "")
    assert [events_of(call) for call in perfs.stat()] == [value, value]
    assert node.stop(f"--perf-stat-events={value}", cwd=listed).rc == 0


def commands_of_sysfs_trace(node):
    """The only parameters that are evaluated: once, by bash, in the tracing directory."""
    tracing = node.request.getfixturevalue("plain")("1", {0: {}})
    node.env = tracing.env
    command = 'for word in "two words" *on; do printf "%s|" "$word"; done >>{}; touch of-tracing `echo 2nd`'
    node.started("--subtools=sysfs-trace", *(f"--sysfs-trace-{when}={command.format(when)}" for when in ("setup", "cleanup")))
    assert tracing.read("setup") == "two words|tracing_on|"
    stopped = node.stop(env=tracing.env)
    assert (stopped.rc, stopped.err) == (0, "")
    assert tracing.read("setup") == tracing.read("cleanup") == "two words|tracing_on|"
    assert (tracing.path / "2nd").exists()
    assert not {"2nd", "of-tracing", "setup", "cleanup"} & {path.name for path in node.data.iterdir()}


def variables_with_shell_characters(node):
    """Not parameters, but as foreign: what stop and toplev take from the environment."""
    played(node.stand_in, node.tmp_path)
    value = "a[$(touch evaluated)]$(touch evaluated)`touch evaluated`"
    of_toplev = ("KERNELTOOLS_TOPLEV_OPTIONS", "PMU_TOOLS_HOME", "CACHEDIR", "PERFMONDIR")
    node.env = dict.fromkeys(("KERNELTOOLS_STOP_DEADLINE", "HK_CPUS", "WORKLOAD_CPUS", *of_toplev), value)
    node.started("--subtools=perf-stat,toplev")
    stopped = node.stop(env=node.env)
    assert (stopped.rc, stopped.err) == (0, "")
    assert lines_with(warnings(node.data, STOP_LOG), "KERNELTOOLS_STOP_DEADLINE: bad value ", "accepted: seconds; taken: 60")
    assert lines_with(warnings(node.data, STOP_LOG), "compressing on all CPUs, because taskset does not take HK_CPUS,WORKLOAD_CPUS=")
    assert FORMATS["perf-stat"].values(archived(node.data, FORMATS["perf-stat"]))


# ---- outputs

MILLION = 1_000_000
LONG_LINES = {
    "letters": "x" * MILLION,
    "digits": "1" * MILLION,
    "blanks": " " * (MILLION - 1) + "x",
    "tabs": "\t" * MILLION,
    "commas": "," * MILLION,
    "quotes": '"' * MILLION,
    "brackets": "[" * MILLION,
    "braces": '{"a":' * (MILLION // 5),
    "NUL": "\0" * MILLION,
    "no UTF-8": "\udcff" * MILLION,
    "a time": '{"interval" : 1.' + "0" * MILLION + "}",
    "a count": PERF_RECORD.replace("@TIME@", "2.000000000") % ("9" * MILLION, "page-faults") + "}",
    "an event": PERF_RECORD.replace("@TIME@", "2.500000000") % ("5", "e" * MILLION),
    "cut records": '{"interval" : 2.5' * (MILLION // 17),
    "cut rows": "2.5,Frontend_Bound" * (MILLION // 18),
    "words": f"{EPOCH + 2}.500000 " + "1 " * (MILLION // 2),
    "fields": f"{EPOCH + 2}.500000" + "\t1" * (MILLION // 2),
    "names": "CPU Busy% " * (MILLION // 10) + "(",
}


def million_characters(node, form):
    """Between the second and the third of four intervals; a minute for each would be a fault of its own."""
    form = FORMATS[form]
    for name, long_line in LONG_LINES.items():
        began = time.monotonic()
        done, samples = published(node, form, form.text((1, 10), (2, 20), long_line + "\n", (3, 30), (4, 40)), end=4)
        assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30), (3001, 4000, 40)], name
        assert len(done.out) < 20_000, f"{name}: {len(done.out)} characters are printed"
        assert time.monotonic() - began < 60, name


BACKTRACKING = {
    "perf-stat": PERF_RECORD.replace("@TIME@", "3.000000000") % ("5", "a [" * (MILLION // 3)) + "}",
    "metric groups": FORMATS["metric groups"].block(3, 1).replace("%  frontend_bound", "percent" + " " * MILLION + "!").strip(),
}


def million_characters_that_match_in_many_ways(node):
    """Beside a whole record of the same interval; it takes hours where each piece is tried with all that follow."""
    for name, long_line in BACKTRACKING.items():
        form = FORMATS[name]
        directory = node.data / name
        directory.mkdir()
        (directory / form.output).write_text(form.text((1, 10), (2, 20), (3, 30), long_line + "\n"))
        write_clock(directory, 0.0, 3.0, form.subtool)
        node.run("kerneltools-post-process", cwd=directory, timeout=8)
        assert read_back(directory, form.subtool).samples(form.metric) == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30)], name


TWO_HOURS = 7200


def two_hours_asleep(node, form):
    """The machine slept: nothing is missing, and the counts cover it. It is one sample of two hours."""
    form = FORMATS[form]
    slept = 72_000 if form.subtool == "perf-stat" else 72  # a count of it all, or a share of the time
    done, samples = published(node, form, form.text((1, 10), (2, 20), (2 + TWO_HOURS, slept), (3 + TWO_HOURS, 40)), end=3 + TWO_HOURS)
    assert done.rc == 0
    assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 7_202_000, slept), (7_202_001, 7_203_000, 40)]
    if form.subtool == "perf-stat":
        assert done.metrics.values("context-switches-sec") == [10, 20, 10, 40]


def two_hours_lost(node, form, before):
    """Lines were lost for two hours: a hole, and the interval after it is as long as the `before` ones of 1 s ahead of it."""
    form = FORMATS[form]
    after = before + TWO_HOURS
    parts = [*((second, 10) for second in range(1, before + 1)), form.lost(before + 1), (after, 10), (after + 1, 40)]
    done, samples = published(node, form, form.text(*parts), end=after + 1)
    assert done.rc == 1
    assert lines_with(done.log.splitlines(), f"WARNING: {form.subtool}: unreadable lines: line ")
    assert samples == [(1, before * 1000, 10), (after * 1000 - 999, after * 1000, 10), (after * 1000 + 1, after * 1000 + 1000, 40)]
    if form.subtool == "perf-stat":
        assert done.metrics.samples("context-switches-sec") == samples


def two_hours_uncounted(node):
    """One event had no turn for two hours while the other went on."""
    counts = [{"context-switches": 5, "cycles": "<not counted>" if 60 <= minute < 180 else 7} for minute in range(240)]
    records = [line(60.0 * (minute + 1), event, value) for minute, events in enumerate(counts) for event, value in events.items()]
    done = post_process(node.data, records)
    assert done.rc == 0
    assert done.metrics.samples("cycles") == [(1, 3_600_000, 7), (10_800_001, 14_400_000, 7)]
    assert done.metrics.samples("context-switches") == [(1, 14_400_000, 5)]
    assert lines_with(done.log.splitlines(), "NOTE: perf-stat: holes (more than 3 intervals without a value)", "cycles, 120 intervals")


def nothing_counted(node):
    """All events at once had no turn in the third of five intervals."""
    counts = [(1, 10), (2, 20), (3, "<not counted>"), (4, 40), (5, 50)]
    done = post_process(node.data, [line(float(second), "context-switches", count) for second, count in counts])
    assert done.rc == 0
    assert done.metrics.samples("context-switches") == [(1, 1000, 10), (1001, 2000, 20), (2001, 4000, 40), (4001, 5000, 50)]
    assert lines_with(done.log.splitlines(), "NOTE: perf-stat: context-switches: not counted in some intervals")


def out_of_order(node, form):
    form = FORMATS[form]
    done, samples = published(node, form, form.text((1, 10), (3, 30), (2, 20), (4, 40)), end=4)
    assert done.rc == 1
    assert samples == [(1, 1000, 10), (1001, 3000, 30), (3001, 4000, 40)]
    assert lines_with(done.log.splitlines(), f"WARNING: {form.subtool}: intervals not later than one before are dropped: line ")
    # one time that is ahead of all others does not cost them
    done, samples = published(node, form, form.text((1, 10), (9000, 90), (2, 20), (3, 30), (4, 40)), end=4)
    assert done.rc == 1
    assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30), (3001, 4000, 40)]
    assert lines_with(done.log.splitlines(), f"WARNING: {form.subtool}: intervals ahead of later ones are dropped: line ")


def duplicated(node, form):
    form = FORMATS[form]
    done, samples = published(node, form, form.text((1, 10), (2, 20), (1, 10), (2, 20), (3, 30)), end=3)
    assert done.rc == 1
    assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30)]
    assert lines_with(done.log.splitlines(), f"WARNING: {form.subtool}: intervals not later than one before are dropped (2 times): line ")
    # at once: no second sample of the interval
    done, samples = published(node, form, form.text((1, 10), (2, 20), (2, 20), (3, 30)), end=3)
    assert samples == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30)]


AWAY = {1: (3, 4), 2: (3, 7)}  # by CPU: the intervals, first and last, in which it was off-line
CPU = {cpu: {"package": "0", "die": "0", "core": str(cpu), "thread": "0", "cpu": str(cpu)} for cpu in range(3)}
UNPLUGGED = {0: [(1, 9000, 5)], 1: [(1, 9000, 6)], 2: [(1, 2000, 7), (7001, 9000, 7)]}  # two are reached back over, five are not


def hotplug():
    """(interval, {cpu: value}) of nine intervals; value None: the CPU was away."""
    for second in range(1, 10):
        away = {cpu for cpu, (first, last) in AWAY.items() if first <= second <= last}
        yield second, {cpu: None if cpu in away else 5 + cpu for cpu in CPU}


def hotplug_of_perf_stat(node, word):
    """perf prints no record of a CPU that is away, or that it was not counted."""
    write_topology(node.data, {cpu: (0, 0, cpu, str(cpu)) for cpu in range(3)})
    records = [
        line(float(second), "context-switches", word if value is None else value, cpu=str(cpu))
        for second, values in hotplug()
        for cpu, value in values.items()
        if value is not None or word != "no record"
    ]
    done = post_process(node.data, records)
    assert done.rc == 0
    assert {cpu: done.metrics.samples("context-switches", **CPU[cpu]) for cpu in CPU} == UNPLUGGED
    assert {cpu: done.metrics.samples("context-switches-sec", **CPU[cpu]) for cpu in CPU} == UNPLUGGED
    assert lines_with(done.log.splitlines(), "holes (more than 3 intervals without a value)", "cpu=2, 5 intervals")


def hotplug_of_turbostat(node):
    """turbostat begins anew when a CPU comes or goes, with a remark and a header."""
    write_topology(node.data, {cpu: (0, 0, cpu, str(cpu)) for cpu in range(3)})
    text = ""
    for second, values in hotplug():
        there = {cpu: value for cpu, value in values.items() if value is not None}
        text += f"turbostat: re-initialized with num_cpus {len(there)}\n" if second in (3, 5, 8) else ""
        rows = [("-", "-", 5), *((cpu, cpu, value) for cpu, value in there.items())]
        text += TURBOSTAT_HEADER + "".join(f"{EPOCH + second}.000000\t{core}\t{cpu}\t{value}.00\n" for core, cpu, value in rows)
    done, _ = published(node, FORMATS["turbostat"], text)
    assert done.rc == 0
    assert {cpu: done.metrics.samples("turbostat:cpu-busy-pct", **CPU[cpu]) for cpu in CPU} == UNPLUGGED


COUNTED = '{"interval" : %.9f, "counter-value" : "%d.000000", "unit" : "", "event" : "'
SPELLINGS = {  # of a record of an interval, a count and an event, and what follows each
    "2022, without braces": COUNTED[1:] + '%s", ' + RUNNING + ', "metric-value" : 0.000000, "metric-unit" : "(null)"}',
    "5.19": COUNTED + '%s", ' + RUNNING + ', "metric-value" : 0.000000, "metric-unit" : "(null)"}\n',
    "6.1": COUNTED + '%s", ' + RUNNING + ', "metric-value" : nan, "metric-unit" : ""}',
    "6.12": COUNTED + '%s", ' + RUNNING + ', "metric-value" : "0.000000", "metric-unit" : "(null)"}',
    "6.12, with PMU": COUNTED + '%s [cpu]", ' + RUNNING + ', "metric-value" : "1.500000", "metric-unit" : "insn per cycle"}',
    "6.12, as the PMU's": COUNTED + 'cpu/%s/", ' + RUNNING + ', "metric-value" : "1.500000", "metric-unit" : "insn per cycle"}',
    "6.13": COUNTED + '%s", ' + RUNNING + ", }",
    "7.2": COUNTED.replace('"counter-value"', '"counters" : 2, "counter-value"') + '%s", ' + RUNNING + "}",
}


def perf_of_version(node, version):
    """Two intervals as that perf prints them: 10 and 20 cycles, 15 and 10 instructions."""
    counts = [(1.001, 10, "cycles"), (1.001, 15, "instructions"), (2.001, 20, "cycles"), (2.001, 10, "instructions")]
    records = [SPELLINGS[version] % count for count in counts]
    started = ["# started on Sun Nov 29 23:19:44 2026", ""] if version in ("5.19", "6.1") else []
    done = post_process(node.data, [*started, *records], end=2.001)
    assert (done.rc, done.log) == (0, "")
    assert done.metrics.samples("cycles") == [(1, 1001, 10), (1002, 2001, 20)]
    assert done.metrics.samples("instructions") == [(1, 1001, 15), (1002, 2001, 10)]
    assert done.metrics.samples("ipc") == [(1, 1001, 1.5), (1002, 2001, 0.5)]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 2001, 100)]
    assert done.metrics.types == {"cycles", "instructions", "ipc", "cycles-sec", "instructions-sec", "counter-running"}


def perf_as_recorded(node):
    """Every recording of a real perf: all that it counted of context switches, in each place."""
    recordings = sorted(node.request.getfixturevalue("recordings").glob("perf-*/perf-stat-*.json"))
    assert {path.parent.name.split("-")[1] for path in recordings} >= {"6.1", "6.12"}
    switches = r'^.*?, (.*)"counter-value" : "([0-9]+)\.[0-9]+".* "event" : "context-switches[" ]'
    for path in recordings:
        text = path.read_text()
        done = post_process(node.data, text.splitlines())
        assert done.rc == 0, path
        counted = {}
        for place, value in re.findall(switches, text, re.MULTILINE):
            counted.setdefault(place, []).append(int(value))
        assert all(len(values) == 3 for values in counted.values()), path
        places = done.metrics.places("context-switches")
        found = [done.metrics.values("context-switches", **names) for names in places]
        assert sorted(found) == sorted([value for value, _ in itertools.groupby(values)] for values in counted.values()), path


def no_intervals(node, form, content):
    form = FORMATS[form]
    text = {"empty": "", "header": form.header, "comments": "# one\n# two\n", "blank lines": "\n\n \n"}[content]
    done, _ = published(node, form, text, end=4)
    assert done.rc == 0
    assert done.metrics.series == []
    assert done.metrics.prefixes == set()
    output = node.data / "postprocess"
    assert json.loads((output / "post-process-data.json").read_text()) == {
        "rickshaw-bench-metric": {"schema": {"version": "2021.04.12"}},
        "tool": "kernel",
        "primary-period": "measurement",
        "periods": [{"name": "measurement", "metric-files": []}],
    }
    assert lines_with(done.log.splitlines(), form.subtool, form.output)
    assert (output / "kernel.html").stat().st_size > 1000


# ---- the post-processor itself


def run_of_all(node, intervals):
    """A data directory with outputs of three subtools, as stop leaves it; its postprocess directory."""
    seconds = range(1, intervals + 1)
    moments = []
    for form in (FORMATS["perf-stat"], FORMATS["toplev.py"], FORMATS["turbostat"]):
        parts = [(second, second % 7) for second in seconds]
        if form.subtool == "perf-stat":
            parts = [form.block(*part) + "\n".join([*block(part[0], {"cycles": 9, "instructions": part[1]}), ""]) for part in parts]
        (node.data / f"{form.output}.xz").write_bytes(lzma.compress(form.text(*parts).encode(), preset=0))
        moments += [f"{form.subtool} begin {EPOCH}.000000000\n", f"{form.subtool} end {EPOCH + intervals}.000000000\n"]
    (node.data / "kerneltools-clock.txt").write_text("".join(moments))
    (node.data / "kerneltools-environment.txt").write_text("hostname=here\nperf_stat_events_counted=context-switches,cycles,instructions\n")
    return node.data / "postprocess"


def contents(output):
    """{name: bytes after decompression} of all that post-processing left, hidden files too."""
    return {
        str(path.relative_to(output)): lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


def whole_output(node, output, **variables):
    """Post-process, and see that it left what it should and nothing else; the contents."""
    done = node.run("kerneltools-post-process", env=variables)
    assert (done.rc, done.err) == (0, "")
    found = contents(output)
    assert sorted(map(without_mark, found)) == [
        "kernel.html",
        *(f"metric-data-{name}.{kind}.xz" for name in ("perf-stat", "toplev", "turbostat") for kind in ("csv", "json")),
        "post-process-data.json",
    ]
    return found


def run_twice(node):
    output = run_of_all(node, 50)
    first = whole_output(node, output, PYTHONHASHSEED="1")
    # what indexing leaves would win over a new one
    (toplev,) = [name for name in metric_files(node.data) if "toplev" in name]
    (output / f"{toplev}.json").write_text("[]")
    assert whole_output(node, output, PYTHONHASHSEED="2") == first


def assert_what_is_there_is_whole(output, whole):
    """Every descriptor file that an indexer would find is whole, and so are the rows beside it."""
    for path in output.glob("metric-data-*.json*"):
        rows = path.name.partition(".json")[0] + ".csv.xz"
        assert (output / rows).is_file(), f"{path.name} without {rows}"
        assert lzma.decompress((output / rows).read_bytes()) == whole[rows]
        if path.suffix == ".xz":
            assert lzma.decompress(path.read_bytes()) == whole[path.name]


def killed_while_post_processing(node):
    """At random moments, each in what the one before left."""
    output = run_of_all(node, 3000)
    began = time.monotonic()
    whole = whole_output(node, output)
    takes = time.monotonic() - began
    chance = random.Random(18)
    for _ in range(6):
        process = node.in_background("kerneltools-post-process")
        time.sleep(chance.uniform(0, takes))
        process.kill()
        process.wait()
        assert_what_is_there_is_whole(output, whole)
    assert whole_output(node, output) == whole


# Runs the post-processor and kills it just before its n-th change of the output directory: a file that is made, moved or removed.
KILL_AT_CHANGE = r"""
import os, signal, sys

left, directory = int(sys.argv[1]), sys.argv[2]
output = os.path.realpath(os.path.join(directory, "postprocess"))

DIRECTORY_ARGUMENT = {"os.rename": 2, "os.remove": 1, "os.mkdir": 2, "os.rmdir": 1}  # a descriptor, -1 for none

def changes(event, args):
    if event == "open" and not (isinstance(args[0], (str, os.PathLike)) and args[2] & (os.O_WRONLY | os.O_RDWR)):
        return False
    if event != "open" and event not in DIRECTORY_ARGUMENT:
        return False
    parent, name = os.path.split(args[0])
    opened = args[DIRECTORY_ARGUMENT[event]] if event != "open" else -1
    if opened >= 0:
        parent = os.path.join(f"/proc/self/fd/{opened}", parent)
    # the directory may be known by its descriptor only
    return os.path.join(os.path.realpath(parent), name).startswith(output)

def hook(event, args):
    global left
    if changes(event, args):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

from kerneltools import main

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core: all that it does is done by this process
sys.addaudithook(hook)
sys.exit(main.main([directory]))
"""


def killed_at_every_change(node, *orders):
    """orders: in which the files of an earlier run were made, as that may be the order in which they are found; none: there are none."""
    output = run_of_all(node, 3)
    whole = whole_output(node, output)
    files = {path.name: path.read_bytes() for path in output.iterdir()}
    for files in [[*sorted(files.items(), reverse=order == "reversed")] for order in orders] or [[]]:
        kill_at_each_change(node, output, whole, files)


def kill_at_each_change(node, output, whole, files):
    """files: (name, bytes) of what lies in the output directory before."""
    for number in itertools.count():
        shutil.rmtree(output, ignore_errors=True)
        for name, content in files:
            output.mkdir(exist_ok=True)
            (output / name).write_bytes(content)
        command = [sys.executable, "-SEc", f"import sys; sys.path.insert(0, {str(REPO)!r})\n{KILL_AT_CHANGE}", str(number), str(node.data)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert_what_is_there_is_whole(output, whole)
        if done.returncode != -signal.SIGKILL:
            break
        assert number < 200, "it is never done"
    assert number > 10, "the changes were not seen"
    assert done.returncode == 0
    assert contents(output) == whole


# ---- the table


class Fault(NamedTuple):
    """A row. cases: the arguments with which the proof is run, one after the other; fails: why it does not hold yet."""

    fault: str
    survives: str
    proof: Callable
    cases: tuple = ((),)
    fails: str = ""


PARSERS = [(name,) for name in FORMATS]
CONTENTS = ["empty", "header", "comments", "blank lines"]
HOUR = 3600

FAULTS = [
    Fault("collectors are killed (SIGKILL) at random moments",
          "all that each had written, at its time; stop ends what they left behind, names each in one line, exit 1",
          killed_at_random_moments, [(seed,) for seed in (1, 2, 3)]),
    Fault("the clock is stepped by an hour during the run, in the output",
          "every interval with its own length; times from the launch or back from the end, which is said; of turbostat, what is "
          "later than all before: the others are counted",
          clock_stepped, [(name, step) for name in FORMATS for step in (HOUR, -HOUR)]),
    Fault("the clock is stepped by an hour under a running collector",
          "start, stop and every sample; the run ends at the end's time, or begins at the launch's",
          clock_stepped_under_a_collector, [(HOUR,), (-HOUR,)]),
    Fault("the disk is full at start",
          "the machine: nothing is left running, one line, exit 1; with room the same start works",
          disk_full_at_start),
    Fault("the disk becomes full during collection, or just before stop",
          "all that was written, raw; with room a second stop compresses it, and every whole line is published",
          disk_full_before_the_end, [(0,), (0.7,)]),
    Fault("the disk is full while post-processing, with more and more room",
          "the raw files; each metric file is whole or not there, exit 1 and the reason; the metrics where only the page has no room",
          disk_full_while_post_processing),
    Fault("xz is killed midway",
          "the raw file; stop exits 1 and names it; post-processing reads it raw; a second stop compresses it",
          xz_killed_midway),
    Fault("the directory is read-only at start",
          "the directory as it was; nothing runs, one line, exit 1",
          read_only_at_start),
    Fault("the directory becomes read-only before stop and post-processing",
          "collectors are ended all the same; the raw file; one line, exit 1; once writable stop does what is left",
          read_only_at_stop),
    Fault("stop comes before perf takes signals",
          "stop does not wait for it; one line, exit 1; nothing is published, which is said",
          stop_before_perf_is_there),
    Fault("stop comes while perf starts and opens its counters",
          "no process; at most one short interval, or one line that there is none",
          stop_while_perf_opens_its_counters, [(delay,) for delay in (0, 0.005, 0.02, 0.05)]),
    Fault("two callers start and stop in one directory, interleaved",
          "one collection, whole; the other start is refused in one line; no stop fails for the other's sake",
          interleaved, [(seed,) for seed in (1, 2, 3, 4)]),
    Fault("the directory's name has blanks, quotes, a newline and commands",
          "the whole path from start to metrics, inside it and by its name",
          named_as_nobody_should),
    Fault("shell characters in a parameter with a list or a range of values",
          "nothing is evaluated or started: start and stop refuse it in one line, exit 2",
          closed_parameter_with_shell_characters, [(name,) for name in CLOSED]),
    Fault("shell characters in options and event lists",
          "nothing is evaluated, no glob expanded: perf and trace-cmd get the words as they were given",
          options_with_shell_characters, [(value,) for value in TAKEN]),
    Fault("shell characters in the commands of sysfs-trace",
          "they are commands: each runs once, in the tracing directory, and none is run by another subtool (row above)",
          commands_of_sysfs_trace),
    Fault("shell characters in environment variables",
          "nothing is evaluated; what cannot be used is said, and the run is whole",
          variables_with_shell_characters),
    Fault("a line of a million characters in an output",
          "every interval before and after it; the log stays short and it does not take minutes",
          million_characters, PARSERS),
    Fault("a line of a million characters in which a pattern matches in many ways",
          "as above",
          million_characters_that_match_in_many_ways),
    Fault("a collector's last words are a line of a million characters",
          "start: it names the collector and the beginning of the words, in one line that can be read, at once",
          million_characters_of_words, [("x", "x" * 1000), (" ", "it said nothing")]),
    Fault("the machine sleeps for two hours during the run",
          "every interval; the one that slept is as long as it was, and so is its rate",
          two_hours_asleep, PARSERS),
    Fault("two hours of an output are unreadable",
          "every interval before and after; the hole stays a hole and is a counted loss",
          two_hours_lost, [(name, 5) for name in FORMATS]),
    Fault("two hours of a short output of turbostat are unreadable",
          "the hole stays a hole, however few intervals tell how long one is",
          two_hours_lost, [("turbostat", 2)]),
    Fault("an event is not counted for two hours",
          "the hole stays a hole and is said; the other event is contiguous",
          two_hours_uncounted),
    Fault("nothing at all is counted in an interval",
          "all others; the sample after it reaches back, which is no loss",
          nothing_counted),
    Fault("intervals are out of order",
          "the order of time: what comes too late, or far too early, is dropped and counted",
          out_of_order, PARSERS),
    Fault("blocks are written twice",
          "every interval once, the second copies are counted",
          duplicated, PARSERS),
    Fault("CPUs vanish and come back, perf stat -A",
          "each CPU's own samples, reaching back over at most three intervals; the longer hole stays",
          hotplug_of_perf_stat, [("no record",), ("<not counted>",)]),
    Fault("CPUs vanish and come back, turbostat",
          "each CPU's own samples, as above",
          hotplug_of_turbostat),
    Fault("perf from 5.19 to 7.2 prints its records otherwise",
          "the same metrics from all of them, without a word",
          perf_of_version, [(version,) for version in SPELLINGS]),
    Fault("perf 6.1 and 6.12 as recorded",
          "each count in each place",
          perf_as_recorded),
    Fault("an output has no interval",
          "the run: exit 0, no metric file, the output is named, the page and post-process-data.json are there",
          no_intervals, [(name, content) for name in FORMATS for content in CONTENTS]),
    Fault("the post-processor is run twice",
          "the same bytes (after decompression) in every file, whatever lay there and however Python hashes",
          run_twice),
    Fault("the post-processor is killed (SIGKILL) at random moments",
          "no descriptors without all of their rows; run again, all is whole",
          killed_while_post_processing),
    Fault("the post-processor is killed just before each change of its directory",
          "the same, at every one of them",
          killed_at_every_change),
    Fault("the post-processor is killed just before each change of a directory that holds an earlier run's files",
          "the same: of the earlier run, too, no descriptors without all of their rows",
          killed_at_every_change, [("sorted", "reversed")]),
]  # fmt: skip


def rows():
    """Each case of each row, with an id that reads as the table."""
    for row in FAULTS:
        for case in row.cases:
            words = ", ".join(str(part).replace("\n", " ")[:80] for part in case)
            marks = [pytest.mark.xfail(reason=row.fails, strict=True)] if row.fails else []
            yield pytest.param(row, case, id=f"{row.fault}: {words}" if words else row.fault, marks=marks)


@pytest.mark.parametrize(("row", "case"), [*rows()])
def test_what_must_survive_a_fault_does(row, case, node):
    row.proof(node, *case)
    assert node.nothing_lives(), row.survives
    assert not list(node.tmp_path.rglob("evaluated")), "a text was evaluated"
