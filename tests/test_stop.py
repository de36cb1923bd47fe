# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""kerneltools-stop: ends what start recorded and nothing else, waits no longer than that takes, and loses nothing of what was collected.

Most tests drop stand-in subtools into a copy of the repository: small programs that end, ignore, die or write as the test wants.
"""

import contextlib
import errno
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
from typing import Callable

import pytest
from collection import copy_of_repository, programs_without
from conftest import end_recorded_collectors, start_time

CLOCK = "kerneltools-clock.txt"
LOG = "kerneltools-stop-stderrout.txt"
RECORD = "kerneltools-pids.txt"

# What every stand-in collector may use: its output, and notes to the test about when something happened to it.
PRELUDE = """\
import os, signal, subprocess, sys, time

OUTPUT, NOTES = sys.argv[1:]

def say(text):
    with open(OUTPUT, "a") as output:
        output.write(text + "\\n")

def note(name, text=""):
    new = os.path.join(NOTES, f"{name}.{os.getpid()}.new")
    with open(new, "w") as file:
        file.write(f"{time.time():.6f} {text}")
    os.rename(new, os.path.join(NOTES, name))

def on(number, function):
    signal.signal(number, lambda *_: function())

def stay():
    while True:
        time.sleep(0.02)

"""

OBEDIENT = """
def end():
    note("interrupted")
    say("last")
    sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
"""

DEAF = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
say("first")
stay()
"""


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)


@dataclass
class House:
    """A copy of the repository into which a test drops subtools, and the directory that it collects in."""

    root: Path
    run: Callable
    data: Path

    @property
    def notes(self):
        return self.root / "notes"

    def subtool(self, name, body, bash="", output=None):
        """Drop in a subtool whose collector is PRELUDE + body; bash: more of its bash file."""
        output = output or f"{name}-output.txt"
        program = self.root / f"{name}.py"
        program.write_text(PRELUDE + body)
        launch = ["launch", output, sys.executable, "-S", str(program), output, str(self.notes)]
        words = " ".join(map(shlex.quote, launch))
        (self.root / "kerneltools-subtools" / f"{name}.sh").write_text(f"output {output}\n{bash}\nsubtool_start() {{\n    {words}\n}}\n")

    def start(self, *subtools, script="kerneltools-start"):
        done = self.run(self.root / script, "--subtools=" + ",".join(subtools), cwd=self.data)
        assert done.rc == 0, done.err
        return done

    def stop(self, *args, deadline=None, env=None, timeout=60):
        env = {**(env or {}), "KERNELTOOLS_STOP_DEADLINE": deadline}
        return self.run(self.root / "kerneltools-stop", *args, cwd=self.data, env=env, timeout=timeout)

    @property
    def pids(self):
        """{subtool: pid} as start recorded them."""
        lines = [text.split() for text in (self.data / RECORD).read_text().splitlines()]
        return {fields[0]: int(fields[1]) for fields in lines if len(fields) >= 4 and fields[1].isdigit()}

    def rewrite_record(self, pid, started):
        """Put another pid and start time in place of those of the one collector there is."""
        name, old_pid, old_started, rest = (self.data / RECORD).read_text().splitlines()[0].split(" ", 3)
        assert old_pid.isdigit()
        started = old_started if started is None else started
        (self.data / RECORD).write_text(f"{name} {pid} {started} {rest}\n")

    def kill(self, subtool):
        """End a collector by SIGKILL, it alone and not its group, and see it gone."""
        pid = self.pids[subtool]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: start_time(pid) is None, f"the end of {subtool}")

    def noted(self, name):
        """The moment of a note of a collector's."""
        return float((self.notes / name).read_text().split()[0])

    def log(self):
        return (self.data / LOG).read_text()

    def clock(self, subtool, moment):
        """The clock file's begin or end of a subtool; None if there is none."""
        found = re.findall(rf"^{subtool} {moment} ([0-9]+\.[0-9]+)$", (self.data / CLOCK).read_text(), re.MULTILINE)
        assert len(found) <= 1, f"{subtool} has {len(found)} times {moment}"
        return float(found[0]) if found else None

    def archive(self, name):
        with lzma.open(self.data / f"{name}-output.txt.xz", "rb") as archive:
            return archive.read()

    def assert_collected(self, name, content=b"first\nlast\n"):
        assert self.archive(name) == content
        assert not (self.data / f"{name}-output.txt").exists()
        self.assert_nothing_partial()

    def assert_nothing_partial(self):
        """Nothing is named after an output but its archive, and that is whole."""
        for path in self.data.glob("*-output.txt.*"):
            assert path.name.endswith("-output.txt.xz"), f"{path.name} is left"
            lzma.decompress(path.read_bytes())


@pytest.fixture
def house(tmp_path, data_dir, run_script):
    root = copy_of_repository(tmp_path / "the house")
    (root / "notes").mkdir()
    return House(root, run_script, data_dir)


@contextlib.contextmanager
def disk_at(place):
    """A file system of its own at a new directory, which can be filled."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here (it takes root)")
    try:
        yield place
    finally:
        end_recorded_collectors(place)
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with disk_at(tmp_path / "small disk") as place:
        yield place


def fill(place):
    """Leave no room on the disk of a directory; returns the file that takes it."""
    ballast = place / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    try:
        (place / "one more").write_bytes(b"x")
    except OSError as full:
        assert full.errno == errno.ENOSPC
    else:
        pytest.fail("the disk is not full")
    (place / "one more").unlink(missing_ok=True)
    return ballast


def error_line(done):
    """The one line of a script's stderr, which is an error."""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("ERROR: ")
    return lines[0]


# ---- how long it takes


def test_an_idle_perf_stat_is_stopped_at_once(real_perf, run_script, data_dir):
    assert run_script("kerneltools-start", "--subtools=perf-stat").rc == 0
    done = run_script("kerneltools-stop", "--subtools=perf-stat")
    assert done.rc == 0, done.err
    assert done.err == ""
    assert done.seconds < 3
    assert (data_dir / "perf-stat-output.json.xz").is_file()
    assert not (data_dir / "perf-stat-output.json").exists()


def test_stop_does_not_sleep(house, stand_in, tmp_path):
    slept = tmp_path / "slept"
    stand_in("sleep", f'echo "$*" >> {shlex.quote(str(slept))}; exec {shutil.which("sleep")} "$@"')
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    done = house.stop()
    assert done.rc == 0, done.err
    assert done.seconds < 3
    assert not slept.exists(), f"sleep {slept.read_text()}"


def test_all_collectors_are_signalled_at_once_and_the_slowest_decides(house):
    for name in ("toy-a", "toy-b", "toy-c", "toy-d"):
        house.subtool(
            name,
            f"""
def end():
    note("{name}")
    time.sleep(1.5)
    say("last")
    sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
""",
        )
    house.start("toy-a", "toy-b", "toy-c", "toy-d")
    done = house.stop()
    assert done.rc == 0, done.err
    moments = [house.noted(name) for name in ("toy-a", "toy-b", "toy-c", "toy-d")]
    assert max(moments) - min(moments) < 1
    assert 1.5 <= done.seconds < 4.5  # one after the other it would be 6
    for name in ("toy-a", "toy-b", "toy-c", "toy-d"):
        house.assert_collected(name)


@pytest.mark.parametrize("caller", ["as it should be", "ignores SIGINT"])
def test_a_collector_that_relies_on_the_default_sigint_ends_on_it(house, caller):
    """A Python program as toplev is one: started in the background it would have SIGINT ignored."""
    script = house.root / "start"
    script.write_text('#!/usr/bin/env bash\nexec "${0%/*}/kerneltools-start" "$@"\n')
    script.chmod(0o755)
    if caller == "ignores SIGINT":
        script.write_text(script.read_text().replace("exec", "trap '' INT QUIT\nexec"))
        if subprocess.run(["env", "--default-signal=INT", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            pytest.skip("env does not know --default-signal here")
    house.subtool(
        "toy",
        """
say("first")
try:
    stay()
except KeyboardInterrupt:
    say("last")
""",
    )
    house.start("toy", script="start")
    done = house.stop(deadline=5)
    assert done.rc == 0, done.err
    assert done.seconds < 5
    house.assert_collected("toy")


def test_what_a_collector_writes_long_after_the_signal_is_collected(house):
    house.subtool(
        "toy",
        """
def end():
    for number in range(20):
        say(f"late {number}")
        time.sleep(0.1)
    sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
""",
    )
    house.start("toy")
    done = house.stop(deadline=1)
    assert done.rc == 0, done.err
    assert done.seconds >= 1.9
    assert "SIGTERM" not in house.log()
    house.assert_collected("toy", b"first\n" + b"".join(b"late %d\n" % number for number in range(20)))


def test_what_a_child_writes_after_its_parent_has_ended_is_collected(house):
    """toplev's perf, for one."""
    house.subtool(
        "toy",
        """
child = '''
import signal, sys, time
def end(*_):
    time.sleep(0.8)
    open(sys.argv[1], "a").write("last of the child\\\\n")
    sys.exit(0)
signal.signal(signal.SIGINT, end)
open(sys.argv[1], "a").write("child\\\\n")
time.sleep(60)
'''
subprocess.Popen([sys.executable, "-S", "-c", child, OUTPUT])
on(signal.SIGINT, lambda: os._exit(0))
stay()
""",
    )
    house.start("toy")
    wait_until((house.data / "toy-output.txt").exists, "the child's first line")
    assert house.stop().rc == 0
    house.assert_collected("toy", b"child\nlast of the child\n")


# ---- collectors that do not end


def assert_named(house, subtool, strongest):
    lines = [text for text in house.log().splitlines() if subtool in text and strongest in text]
    assert lines, f"the log does not say that {subtool} got {strongest}:\n{house.log()}"


def test_a_collector_that_ignores_sigint_is_ended_by_sigterm_and_named(house):
    house.subtool("toy-deaf", DEAF)
    house.subtool("toy-good", OBEDIENT)
    house.start("toy-deaf", "toy-good")
    pids = house.pids
    done = house.stop(deadline=1)
    assert 1 <= done.seconds < 15
    assert start_time(pids["toy-deaf"]) is None
    assert_named(house, "toy-deaf", "SIGTERM")
    assert "SIGKILL" not in house.log()
    assert not [text for text in house.log().splitlines() if "toy-good" in text and "SIGTERM" in text]
    house.assert_collected("toy-deaf", b"first\n")
    house.assert_collected("toy-good")


def test_a_collector_that_ignores_sigterm_too_is_killed_and_named(house):
    house.subtool("toy-deaf", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF)
    house.start("toy-deaf")
    pid = house.pids["toy-deaf"]
    done = house.stop(deadline=1)
    assert 2 <= done.seconds < 30
    assert start_time(pid) is None
    assert_named(house, "toy-deaf", "SIGTERM")
    assert_named(house, "toy-deaf", "SIGKILL")
    house.assert_collected("toy-deaf", b"first\n")


def test_a_collector_that_writes_on_for_ever_is_ended_after_ten_deadlines(house):
    house.subtool(
        "toy-mill",
        """
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    say("on and on")
    time.sleep(0.02)
""",
    )
    house.start("toy-mill")
    pid = house.pids["toy-mill"]
    done = house.stop(deadline=0.5)
    assert 5 <= done.seconds < 20
    assert start_time(pid) is None
    assert_named(house, "toy-mill", "SIGTERM")
    assert house.clock("toy-mill", "end") == pytest.approx((house.data / "toy-mill-output.txt.xz").stat().st_mtime, abs=0.001)


def test_a_frozen_collector_is_ended_and_named(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    pid = house.pids["toy"]
    os.kill(pid, signal.SIGSTOP)
    done = house.stop(deadline=0.5)
    assert done.seconds < 20
    assert start_time(pid) is None
    assert_named(house, "toy", "SIGKILL")
    house.assert_collected("toy", b"first\n")


# ---- collectors that are gone, and processes that are not ours


def test_a_dead_collector_is_reported_with_the_last_line_of_its_stderr(house):
    house.subtool("toy-dead", 'print("well so far", "out of wits", sep="\\n", file=sys.stderr, flush=True)\n' + OBEDIENT)
    house.subtool("toy-good", OBEDIENT)
    house.start("toy-dead", "toy-good")
    house.kill("toy-dead")
    done = house.stop()
    assert done.rc == 1
    assert done.seconds < 4
    error = error_line(done)
    assert "toy-dead" in error
    assert "out of wits" in error
    assert "well so far" not in error
    assert "toy-good" not in error
    assert error in house.log().splitlines()
    house.assert_collected("toy-dead", b"first\n")
    house.assert_collected("toy-good")


def test_a_second_stop_does_not_report_the_dead_collector_again(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    house.kill("toy")
    assert house.stop().rc == 1
    again = house.stop()
    assert (again.rc, again.err) == (0, "")


@pytest.fixture
def adopted(house):
    """The one collector runs as a child of the test, which does not wait for it."""
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    os.kill(house.pids["toy"], signal.SIGKILL)
    (house.data / "toy-output.txt").unlink()
    command = [sys.executable, "-S", house.root / "toy.py", "toy-output.txt", house.notes]
    child = subprocess.Popen(command, cwd=house.data, start_new_session=True, stdin=subprocess.DEVNULL)
    wait_until((house.data / "toy-output.txt").exists, "the collector's first line")
    house.rewrite_record(child.pid, start_time(child.pid))
    yield child
    with contextlib.suppress(OSError):
        child.kill()
    child.wait()


def test_a_zombie_that_nobody_reaps_is_not_waited_for(house, adopted):
    done = house.stop(deadline=20)
    assert done.rc == 0, done.err
    assert done.seconds < 5
    assert Path(f"/proc/{adopted.pid}").exists()  # still unreaped
    assert "SIGTERM" not in house.log()
    house.assert_collected("toy")


def test_a_zombie_that_died_before_stop_is_a_dead_collector(house, adopted):
    adopted.kill()
    wait_until(lambda: start_time(adopted.pid) is None, "the collector's end")
    assert Path(f"/proc/{adopted.pid}").exists()
    done = house.stop(deadline=20)
    assert done.rc == 1
    assert "toy" in error_line(done)
    assert done.seconds < 5
    house.assert_collected("toy", b"first\n")


def test_a_pid_that_is_someone_elses_by_now_is_not_signalled(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    house.kill("toy")
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True, cwd=house.data)
    try:
        house.rewrite_record(stranger.pid, None)
        done = house.stop(deadline=1)
        assert stranger.poll() is None, "the stranger was ended"
    finally:
        stranger.kill()
        stranger.wait()
    assert done.rc == 1
    assert "toy" in error_line(done)
    house.assert_collected("toy", b"first\n")


def test_a_strangers_process_group_is_not_signalled_either(house):
    """The number of a collector that is long gone names the group of a shell that has ended: its job is no business of ours."""
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    house.kill("toy")
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], start_new_session=True, cwd="/", stdout=subprocess.PIPE, text=True
    )
    job = int(shell.communicate()[0])
    try:
        house.rewrite_record(shell.pid, None)
        house.stop(deadline=1)
        assert start_time(job) is not None, "the stranger's job was ended"
    finally:
        with contextlib.suppress(OSError):
            os.kill(job, signal.SIGKILL)


@pytest.mark.parametrize("child", ["sleep 60", "trap '' INT; sleep 60"], ids=["obedient", "ignores SIGINT"])
def test_children_left_behind_by_a_killed_leader_are_ended(house, child):
    house.subtool("toy", f'child = subprocess.Popen(["sh", "-c", {child!r} + "; :"])\nnote("child", child.pid)\n' + OBEDIENT)
    house.start("toy")
    left_behind = int((house.notes / "child").read_text().split()[1])
    house.kill("toy")
    assert start_time(left_behind) is not None
    try:
        done = house.stop(deadline=1)
        assert start_time(left_behind) is None, "the child still runs"
    finally:
        with contextlib.suppress(OSError):
            os.killpg(os.getpgid(left_behind), signal.SIGKILL)
    assert done.rc == 1
    assert "SIGKILL" not in house.log()
    house.assert_collected("toy", b"first\n")


# ---- what it works from


def test_stop_without_a_start_is_an_error(run_script, data_dir):
    done = run_script("kerneltools-stop", "--subtools=perf-stat")
    assert done.rc == 1
    assert error_line(done) in (data_dir / LOG).read_text().splitlines()


def test_a_second_stop_finds_nothing_to_do_and_says_so(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop().rc == 0
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in house.data.iterdir() if path.is_file()}
    first_log = house.log()
    again = house.stop()
    assert (again.rc, again.err) == (0, "")
    assert house.log().startswith(first_log)
    assert "nothing to do" in house.log()[len(first_log) :]
    after = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in house.data.iterdir() if path.is_file()}
    assert {name: after[name] for name in after if name != LOG} == {name: before[name] for name in before if name != LOG}


BAD_PARAMETERS = {
    "--nonsense=1": "--nonsense",
    "--subtools=nonesuch": "nonesuch",
    "--interval=soon": "soon",
    "--perf-stat-aggregation=planet": "planet",
    "words": "words",
}


@pytest.mark.parametrize("bad", BAD_PARAMETERS)
def test_bad_parameters_are_complained_about_after_everything_is_collected(house, bad):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    pid = house.pids["toy"]
    done = house.stop(bad)
    assert done.rc == 2
    error = error_line(done)
    assert BAD_PARAMETERS[bad] in error
    assert error in house.log().splitlines()
    assert start_time(pid) is None
    house.assert_collected("toy")
    assert house.clock("toy", "end") is not None


@pytest.mark.parametrize("args", [["--subtools=turbostat"], ["--subtools=perf-stat", "--interval=3"], []], ids=" ".join)
def test_stop_works_from_the_record_not_from_its_parameters(house, args):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    done = house.stop(*args)
    assert (done.rc, done.err) == (0, "")
    house.assert_collected("toy")


def test_what_follows_a_collectors_end_happens_between_end_and_compression(house):
    house.subtool("toy", OBEDIENT, bash="subtool_finish() {\n    cat toy-output.txt >seen\n}\n")
    house.start("toy")
    assert house.stop().rc == 0
    assert (house.data / "seen").read_bytes() == b"first\nlast\n"


def test_what_follows_an_end_may_fail_at_its_own_cost_only(house):
    house.subtool("toy-a", OBEDIENT, bash="subtool_finish() {\n    exit 3\n}\n")
    house.subtool("toy-b", OBEDIENT)
    house.start("toy-a", "toy-b")
    done = house.stop()
    assert done.rc == 1
    assert "toy-a" in error_line(done)
    assert "toy-b" not in error_line(done)
    house.assert_collected("toy-a")
    house.assert_collected("toy-b")


def test_an_output_that_is_gone_is_missed(house):
    house.subtool("toy", 'on(signal.SIGINT, lambda: sys.exit(0))\nsay("first")\nstay()\n')
    house.start("toy")
    (house.data / "toy-output.txt").unlink()
    done = house.stop()
    assert done.rc == 1
    assert "toy" in error_line(done)


NAMES = ["with blanks", "it's \"quoted\"", "a\nb", "$(echo x) `echo y` ; *", "-dash", "back\\slash"]


@pytest.mark.parametrize("name", NAMES)
def test_directories_may_have_any_name(house, name):
    house.data = house.data / name
    house.data.mkdir()
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    done = house.stop()
    assert (done.rc, done.err) == (0, "")
    house.assert_collected("toy")
    assert house.clock("toy", "end") is not None
    again = house.stop("--nonsense")
    assert again.rc == 2
    error_line(again)


def test_a_house_may_lie_anywhere(house, tmp_path):
    root = tmp_path / "it's\na \"house\" $(x)"
    house.root.rename(root)
    house.root = root
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop().rc == 0
    house.assert_collected("toy")


# ---- compression


BROKEN_XZ = {
    "fails": "cat >/dev/null; printf half; exit 1",
    "is killed": "printf half; kill -KILL $$",
    "cannot be run": "#!/no/such/interpreter\n",
    "fails without a word": "exit 1",
}


@pytest.mark.parametrize("trouble", BROKEN_XZ)
def test_an_xz_that_fails_costs_nothing(house, stand_in, trouble):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    broken = stand_in("xz", BROKEN_XZ[trouble])
    done = house.stop()
    assert done.rc == 1
    assert "toy-output.txt" in error_line(done)
    assert (house.data / "toy-output.txt").read_bytes() == b"first\nlast\n"
    house.assert_nothing_partial()
    assert not (house.data / "toy-output.txt.xz").exists()
    end = house.clock("toy", "end")
    assert end is not None
    broken.unlink()
    again = house.stop()
    assert (again.rc, again.err) == (0, "")
    house.assert_collected("toy")
    assert house.clock("toy", "end") == end


def test_a_missing_xz_costs_nothing(house, tmp_path):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    done = house.stop(env={"PATH": programs_without(tmp_path / "no xz", "xz")})
    assert done.rc == 1
    assert "xz" in error_line(done)
    assert (house.data / "toy-output.txt").read_bytes() == b"first\nlast\n"
    assert not (house.data / "toy-output.txt.xz").exists()
    house.assert_nothing_partial()
    assert house.stop().rc == 0
    house.assert_collected("toy")


def test_a_disk_without_room_for_the_archive_costs_nothing(house, small_disk):
    house.data = small_disk
    house.subtool(
        "toy",
        """
on(signal.SIGINT, lambda: sys.exit(0))
with open(OUTPUT, "wb") as output:
    output.write(os.urandom(1 << 20))
stay()
""",
    )
    house.start("toy")
    content = (house.data / "toy-output.txt").read_bytes()
    ballast = fill(small_disk)
    done = house.stop()
    assert done.rc == 1
    assert "toy-output.txt" in error_line(done)
    assert (house.data / "toy-output.txt").read_bytes() == content
    assert not (house.data / "toy-output.txt.xz").exists()
    house.assert_nothing_partial()
    ballast.unlink()
    again = house.stop()
    assert (again.rc, again.err) == (0, "")
    house.assert_collected("toy", content)


def test_an_archive_of_somebody_elses_is_not_overwritten(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    foreign = house.data / "toy-output.txt.xz"
    foreign.write_bytes(lzma.compress(b"foreign\n"))
    for _ in range(2):
        done = house.stop()
        assert done.rc == 1
        assert "toy-output.txt" in error_line(done)
        assert house.archive("toy") == b"foreign\n"
        assert (house.data / "toy-output.txt").read_bytes() == b"first\nlast\n"
    foreign.unlink()
    assert house.stop().rc == 0
    house.assert_collected("toy")


def test_the_archive_keeps_the_outputs_mtime(house):
    house.subtool(
        "toy",
        """
def end():
    say("last")
    os.utime(OUTPUT, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
""",
    )
    house.start("toy")
    assert house.stop().rc == 0
    house.assert_collected("toy")
    assert (house.data / "toy-output.txt.xz").stat().st_mtime_ns == 1_600_000_000_123_456_789


def test_outputs_are_compressed_side_by_side(house, stand_in, tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    times = tmp_path / "times"
    stand_in(
        "xz",
        f"""
date '+begin %s.%N' >>{shlex.quote(str(times))}
sleep 1
date '+end %s.%N' >>{shlex.quote(str(times))}
exec {shutil.which("xz")} "$@"
""",
    )
    house.subtool("toy-a", OBEDIENT)
    house.subtool("toy-b", OBEDIENT)
    house.start("toy-a", "toy-b")
    assert house.stop().rc == 0
    begins, ends = (
        [float(text.split()[1]) for text in times.read_text().splitlines() if text.startswith(moment)] for moment in ("begin", "end")
    )
    assert len(begins) >= 2
    assert max(begins) < min(ends)


@pytest.fixture
def affinity_of_xz(stand_in, tmp_path):
    """The CPU lists on which xz ran, as the kernel writes them."""
    told = tmp_path / "affinity"
    xz = shutil.which("xz")
    stand_in("xz", f'grep Cpus_allowed_list /proc/self/status >>{shlex.quote(str(told))}\nexec {xz} "$@"')
    return lambda: set(re.findall(r"Cpus_allowed_list:\s*(\S+)", told.read_text()))


@pytest.mark.parametrize(("files", "threads", "at_once"), [(1, 16, 1), (3, 5, 3), (40, 1, 16)])
def test_compression_takes_bounded_memory_on_many_cpus(house, stand_in, tmp_path, files, threads, at_once):
    """On 384 CPUs: each xz's threads, and how many xz run at the same time."""
    work = tmp_path / "work"
    work.mkdir()
    stand_in("nproc", "echo 384")
    stand_in(
        "xz",
        f"cd {shlex.quote(str(work))}; : >at-work.$$; ls -d at-work.* | wc -l >>counts; printf '%s\\n' \"$@\" | grep ^-T >>threads\n"
        "sleep 0.2; rm at-work.$$; echo packed",
    )
    house.subtool("toy", OBEDIENT, bash="output 'more.*'")
    house.start("toy")
    for number in range(files - 1):
        (house.data / f"more.{number}").write_text("counted\n")
    assert house.stop().rc == 0
    assert set((work / "threads").read_text().split()) == {f"-T{threads}"}
    assert max(map(int, (work / "counts").read_text().split())) == at_once


def own_affinity():
    return re.search(r"Cpus_allowed_list:\s*(\S+)", Path("/proc/self/status").read_text())[1]


def test_compression_keeps_to_the_cpus_it_is_given(house, affinity_of_xz):
    cpu = min(os.sched_getaffinity(0))
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop(env={"HK_CPUS": cpu, "WORKLOAD_CPUS": cpu}).rc == 0
    assert affinity_of_xz() == {str(cpu)}
    house.assert_collected("toy")


def test_both_lists_of_cpus_are_handed_to_taskset(house, stand_in, tmp_path):
    calls = tmp_path / "calls"
    stand_in("taskset", f'echo "$*" >>{shlex.quote(str(calls))}\nshift 2\nexec "$@"')
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop(env={"HK_CPUS": "0,4-7", "WORKLOAD_CPUS": "1-3"}).rc == 0
    words = [text.split() for text in calls.read_text().splitlines()]
    assert words
    assert all("0,4-7,1-3" in call for call in words)
    assert any("xz" in Path(word).name for call in words for word in call)
    house.assert_collected("toy")


@pytest.mark.parametrize("only", ["HK_CPUS", "WORKLOAD_CPUS"])
def test_one_list_of_cpus_alone_confines_nothing(house, affinity_of_xz, only):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop(env={only: min(os.sched_getaffinity(0))}).rc == 0
    assert affinity_of_xz() == {own_affinity()}


@pytest.mark.parametrize("cpus", ["nonsense", "999999", "-1", "0;true"])
def test_a_bad_list_of_cpus_does_not_keep_from_compressing(house, affinity_of_xz, cpus):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    done = house.stop(env={"HK_CPUS": cpus, "WORKLOAD_CPUS": cpus})
    assert (done.rc, done.err) == (0, "")
    assert affinity_of_xz() == {own_affinity()}
    house.assert_collected("toy")


# ---- the clock's end


def test_the_end_is_the_moment_of_sigint_where_that_ended_it(house):
    """However long it goes on writing."""
    house.subtool(
        "toy",
        """
def end():
    note("interrupted")
    say("last")
    time.sleep(1)
    say("after all")
    sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
""",
    )
    house.start("toy")
    before = time.time()
    assert house.stop().rc == 0
    end = house.clock("toy", "end")
    assert before <= end <= house.noted("interrupted") + 0.01
    assert house.noted("interrupted") - end < 0.5  # its output's last write is 1 s later


def test_the_end_of_one_that_died_earlier_is_its_last_write(house):
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    house.kill("toy")
    last_write = (house.data / "toy-output.txt").stat().st_mtime
    time.sleep(0.3)
    assert house.stop().rc == 1
    assert house.clock("toy", "end") == pytest.approx(last_write, abs=0.001)


def test_the_end_of_one_that_needed_more_than_sigint_is_its_last_write(house):
    house.subtool("toy", DEAF)
    house.start("toy")
    last_write = (house.data / "toy-output.txt").stat().st_mtime
    house.stop(deadline=0.5)
    assert house.clock("toy", "end") == pytest.approx(last_write, abs=0.001)


def test_there_is_no_end_where_the_disk_was_full_before(house, small_disk):
    """Its last record was not written: neither the moment of SIGINT nor that of the vain attempt is that of the last record there."""
    house.data = small_disk
    house.subtool(
        "toy",
        """
def end():
    try:
        say("last")
    except OSError:
        note("full")
    sys.exit(0)

on(signal.SIGINT, end)
say("x" * (4096 - 1))
stay()
""",
    )
    house.start("toy")
    begin = house.clock("toy", "begin")
    ballast = fill(small_disk)
    done = house.stop()
    house.noted("full")
    assert done.rc == 1
    error_line(done)
    assert (house.data / "toy-output.txt").read_bytes() == b"x" * 4095 + b"\n"
    assert house.clock("toy", "end") is None
    ballast.unlink()
    assert house.stop().rc == 0
    assert house.clock("toy", "begin") == begin
    assert house.clock("toy", "end") is None
    house.assert_collected("toy", b"x" * 4095 + b"\n")


def test_every_collector_has_its_own_begin_and_end(house):
    before = time.time()
    house.subtool("toy-a", OBEDIENT)
    house.subtool("toy-b", OBEDIENT)
    house.start("toy-a", "toy-b")
    started = time.time()
    assert house.stop().rc == 0
    for name in ("toy-a", "toy-b"):
        assert before <= house.clock(name, "begin") <= started <= house.clock(name, "end") <= time.time()
    for text in (house.data / CLOCK).read_text().splitlines():
        assert re.fullmatch(r"toy-[ab] (begin|end) [0-9]+\.[0-9]{9}", text)


# ---- interrupted, and side by side with start


SLOW = """
def end():
    if not os.path.exists(os.path.join(NOTES, "interrupted")):
        note("interrupted")
        say("last")
        time.sleep(1)
        sys.exit(0)

on(signal.SIGINT, end)
say("first")
stay()
"""


@pytest.fixture
def running_stop(house):
    """running_stop(env): a stop under way, as its process, a session of its own."""
    processes = []

    def run(**env):
        process = subprocess.Popen(
            [house.root / "kerneltools-stop"], cwd=house.data, env={**os.environ, **env}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        processes.append(process)
        return process

    yield run
    for process in processes:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_group(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("collector", ["still ending", "gone"])
def test_a_stop_that_was_killed_while_it_waited_is_made_good_by_another(house, running_stop, collector):
    house.subtool("toy", SLOW)
    house.start("toy")
    pid = house.pids["toy"]
    first = running_stop()
    wait_until((house.notes / "interrupted").exists, "SIGINT")
    time.sleep(0.1)
    kill_group(first)
    if collector == "gone":
        wait_until(lambda: start_time(pid) is None, "the collector's end")
        time.sleep(0.5)
    done = house.stop()
    assert (done.rc, done.err) == (0, "")
    assert start_time(pid) is None
    house.assert_collected("toy")
    assert house.clock("toy", "end") is not None
    if collector == "gone":
        assert house.clock("toy", "end") == pytest.approx(house.noted("interrupted"), abs=0.5)


def test_a_stop_that_was_killed_while_it_compressed_is_made_good_by_another(house, running_stop, stand_in, tmp_path):
    slow = tmp_path / "xz is at work"
    broken = stand_in("xz", f"printf half\n: >{shlex.quote(str(slow))}\nsleep 30")
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    first = running_stop()
    wait_until(slow.exists, "compression")
    kill_group(first)
    assert (house.data / "toy-output.txt").read_bytes() == b"first\nlast\n"
    assert not (house.data / "toy-output.txt.xz").exists(), "half an archive looks like a whole one"
    broken.unlink()
    done = house.stop()
    assert (done.rc, done.err) == (0, "")
    house.assert_collected("toy")


def test_a_stop_that_was_killed_before_the_raw_file_went_is_made_good_by_another(house):
    """The archive is whole and has its file's mtime, and the file is there still."""
    house.subtool("toy", OBEDIENT)
    house.start("toy")
    assert house.stop().rc == 0
    raw = house.data / "toy-output.txt"
    raw.write_bytes(house.archive("toy"))
    stamp = (house.data / "toy-output.txt.xz").stat().st_mtime_ns
    os.utime(raw, ns=(stamp, stamp))
    done = house.stop()
    assert (done.rc, done.err) == (0, "")
    house.assert_collected("toy")


def test_two_stops_at_once_do_each_others_work_once(house, running_stop):
    house.subtool("toy", SLOW)
    house.start("toy")
    first = running_stop()
    second = running_stop()
    assert (first.wait(timeout=30), second.wait(timeout=30)) == (0, 0)
    house.assert_collected("toy")
    assert house.clock("toy", "end") is not None


def test_a_stop_that_comes_while_start_is_at_work_ends_what_start_launches(house):
    house.subtool("toy", OBEDIENT, bash="subtool_usable() {\n    : >usable\n    sleep 1.5\n}\n")
    start = subprocess.Popen(
        [house.root / "kerneltools-start", "--subtools=toy"], cwd=house.data, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until((house.data / "usable").exists, "start's question")
    done = house.stop()
    assert start.wait(timeout=20) == 0
    assert (done.rc, done.err) == (0, "")
    assert start_time(house.pids["toy"]) is None
    house.assert_collected("toy")
