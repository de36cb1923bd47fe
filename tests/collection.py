# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the tests of collection share: a perf that is watched, a perf that is played, what lies in the data directory, processes."""

import json
import os
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from conftest import REPO

DEFAULT_EVENTS = [
    "instructions", "cycles", "cache-references", "cache-misses", "L1-dcache-load-misses", "L1-icache-load-misses", "LLC-load-misses",
    "LLC-loads", "branch-misses", "branches", "dTLB-load-misses", "dTLB-loads", "iTLB-load-misses", "iTLB-loads", "context-switches",
    "cpu-migrations", "stalled-cycles-backend", "stalled-cycles-frontend",
]  # fmt: skip
HARDWARE_EVENTS = [event for event in DEFAULT_EVENTS if event not in ("context-switches", "cpu-migrations")]

START_LOG = "kerneltools-start-stderrout.txt"
STOP_LOG = "kerneltools-stop-stderrout.txt"


# ---- the data directory


def log_lines(directory, name=START_LOG):
    """The log of kerneltools-start (or another) in directory, as lines."""
    return (Path(directory) / name).read_text(errors="replace").splitlines()


def lines_with(lines, *words):
    """Those of the lines that hold every one of the words."""
    return [line for line in lines if all(word in line for word in words)]


def warnings(directory, name=START_LOG):
    return [line for line in log_lines(directory, name) if line.startswith("WARNING: ")]


@dataclass(frozen=True)
class Collector:
    """One line of kerneltools-pids.txt."""

    subtool: str
    pid: int
    started: int


def recorded(directory):
    """The collectors that kerneltools-pids.txt records as started, in order; none where there is no such file."""
    record = Path(directory) / "kerneltools-pids.txt"
    if not record.exists():
        return []
    fields = [line.split() for line in record.read_text().splitlines()]
    return [Collector(f[0], int(f[1]), int(f[2])) for f in fields if len(f) > 2 and f[1].isdigit() and f[2].isdigit()]


def clock(directory):
    """kerneltools-clock.txt as {(subtool, "begin" or "end"): the epoch seconds as text}."""
    lines = (Path(directory) / "kerneltools-clock.txt").read_text().splitlines()
    return {(subtool, what): seconds for subtool, what, seconds in (line.split() for line in lines)}


def environment_file(directory):
    """kerneltools-environment.txt as a dictionary."""
    return dict(line.split("=", 1) for line in (Path(directory) / "kerneltools-environment.txt").read_text().splitlines())


# ---- processes


def wait_until(condition, seconds=5.0):
    """Whether condition() came true within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def processes_with(variable, value):
    """Pids of the processes, zombies apart, whose environment holds variable=value, whoever their parent is."""
    wanted = f"{variable}={value}".encode()
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                if wanted in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
            except OSError:
                continue
    return sorted(found)


def calling_script(path, body, program="kerneltools-start"):
    """Write a bash script that does what body says and becomes the program of this repository with its own arguments."""
    target = shlex.quote(str(REPO / program))
    path.write_text(f'#!/usr/bin/env bash\n{body}\nexec {target} "$@"\n')
    path.chmod(0o755)
    return path


def programs_without(directory, *names):
    """A value for PATH: every program that can be found on it now, but for those names."""
    directory.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = directory / program.name
            if program.name not in names and not link.is_symlink():
                link.symlink_to(program)
    return str(directory)


def copy_of_repository(directory):
    """A working copy of what is deployed, for a test that adds to it."""
    skip = shutil.ignore_patterns(".*", "__pycache__", "tests", "benchmarks")
    return Path(shutil.copytree(REPO, directory, ignore=skip))


# ---- a perf that is watched


class PerfCalls:
    """What was run as perf, in order."""

    def __init__(self, file):
        self.file = file

    def all(self):
        """The arguments of every run, and the environment variables noted with it, as (arguments, {"LC_ALL": ...})."""
        if not self.file.exists():
            return []
        calls = []
        for record in self.file.read_text().split("\0\n\0"):
            if record:
                lc_all, limit, *arguments = record.split("\0")
                calls.append((arguments, {"LC_ALL": lc_all, "open files": limit}))
        return calls

    def stat(self):
        """The arguments of every perf stat, without the word stat."""
        return [arguments[1:] for arguments, _ in self.all() if arguments[:1] == ["stat"]]

    def collections(self):
        """Those that count by interval (-I): the collection itself."""
        return [arguments for arguments in self.stat() if option(arguments, "-I", "--interval-print") is not None]

    def trials(self):
        """Those that do not."""
        return [arguments for arguments in self.stat() if option(arguments, "-I", "--interval-print") is None]

    def collected_events(self):
        """The event list that the one collection was given."""
        (arguments,) = self.collections()
        return events_of(arguments)


def option(arguments, *names):
    """The value of an option in perf's arguments; None where it is not given."""
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name and position + 1 < len(arguments):
                return arguments[position + 1]
            if name.startswith("--") and argument.startswith(name + "="):
                return argument[len(name) + 1 :]
            if not name.startswith("--") and argument.startswith(name) and len(argument) > len(name):
                return argument[len(name) :]
    return None


def events_of(arguments):
    """The event list among perf's arguments; several -e are one list."""
    lists = [arguments[i + 1] for i, argument in enumerate(arguments[:-1]) if argument in ("-e", "--event")]
    lists += [argument[len("--event=") :] for argument in arguments if argument.startswith("--event=")]
    return ",".join(lists)


def split_list(text):
    """A perf event list cut at the commas outside /.../ and {...}."""
    return re.findall(r"(?:\{[^{}]*\}|/[^/]*/|[^,{}/])+", text)


def groups_of(text):
    """An event list as a set of groups, each a frozenset of its events; single events are groups of one."""
    return {frozenset(split_list(re.sub(r"^\{(.*)\}(:\w+)?$", r"\1", item))) for item in split_list(text)}


def counted_events(text):
    """The events of a list, those in groups among them, in alphabetical order."""
    return sorted(event for group in groups_of(text) for event in group)


def watched(stand_in, tmp_path, perf, **variables):
    """Put a perf on PATH that notes how it is called and becomes the real one, with those environment variables set."""
    calls = tmp_path / "perf-calls"
    settings = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items())
    stand_in("perf", NOTE.format(calls=shlex.quote(str(calls))) + f'{settings}exec {shlex.quote(str(perf))} "$@"')
    return PerfCalls(calls)


NOTE = """printf '%s\\0' "${{LC_ALL:-}}" "$(ulimit -n)" "$@" $'\\n' >>{calls}
"""


# ---- a perf that is played

PLAYED = r'''
import json, os, re, signal, sys, time

part = json.loads(PART)
arguments = sys.argv[1:]
began = time.monotonic()
if arguments[:1] != ["stat"]:
    print("perf version 0.0.played")
    sys.exit(0)
arguments = arguments[1:]
lists, output, interval = [], None, None
while arguments:
    word = arguments.pop(0)
    name, equals, value = word.partition("=")
    if name in ("-e", "--event", "-o", "--output", "-I", "--interval-print", "--timeout"):
        value = value if equals else arguments.pop(0)
        if name in ("-e", "--event"):
            lists.append(value)
        elif name in ("-o", "--output"):
            output = value
        elif name in ("-I", "--interval-print"):
            interval = int(value)
    elif word == "--" or not word.startswith("-"):
        break  # the workload, which takes no time here


def die(status, words):
    sys.stderr.write(words + "\n")
    sys.exit(status)


def cut(text):
    return re.findall(r"(?:\{[^{}]*\}|/[^/]*/|[^,{}/])+", text)


if interval is not None and part.get("collection"):
    exec(part["collection"])
sys.stderr.write(part.get("says", ""))
groups = []
for item in cut(",".join(lists)):
    match = re.match(r"^\{(.*)\}(:\w+)?$", item)
    groups.append(cut(match[1]) if match else [item])
events = [event for group in groups for event in group]
for event in events:
    if event in part.get("unknown", ()):
        die(129, f"event syntax error: '{event}'\n                     \\___ unknown event\nRun 'perf list' for a list of valid events\n\n"
                 " Usage: perf stat [<options>] [<command>]\n\n    -e, --event <event>   event selector.")


def unsupported(event):
    if "supported" in part:
        return event not in part["supported"]
    return event in part.get("unsupported", ())


opened = events if part.get("names_count") else [event for event in events if not unsupported(event)]
most = part.get("most", len(opened))
if part.get("skips") and len(opened) > most:
    part.setdefault("unsupported", []).extend(opened[most:])
    part["supported"] = [event for event in opened[:most] if not unsupported(event)]
    if "-v" in sys.argv:
        sys.stderr.write(f"Warning:\nskipping event {opened[most]} that kernel failed to open.\nToo many events are opened.\n")
elif len(opened) > most:
    die(255, "Error:\nToo many events are opened.\nProbably the maximum number of open file descriptors has been reached.\n"
             "Hint: Try again after reducing the number of events.\nHint: Try increasing the limit with 'ulimit -n <limit>'")
values = []
for group in groups:
    if len(group) == 1:
        values.append((group[0], "<not supported>" if unsupported(group[0]) else "1002.000000"))
        continue
    if unsupported(group[0]):
        if part.get("leader") == "exit":
            die(255, f"Error:\nThe sys_perf_event_open() syscall returned with 2 (No such file or directory) for event ({group[0]}).\n"
                     '/bin/dmesg | grep -i perf may provide additional information.\n')
        values += [(event, "<not supported>") for event in group]
    elif any(unsupported(event) for event in group):
        values += [(event, "<not supported>" if unsupported(event) else "<not counted>") for event in group]
    elif len(group) > part.get("counters", 100):
        values += [(event, "<not counted>") for event in group]
    else:
        values += [(event, "1002.000000") for event in group]
if part.get("status") == "1 if all unsupported" and all(value == "<not supported>" for _, value in values):
    for event, _ in values:
        sys.stderr.write(f"Error:\nNo supported events found.\nThe {event} event is not supported.\n")
    sys.exit(1)

stream = sys.stderr if output is None else open(output, "w")


def records(seconds):
    for event, value in values:
        versions = [(name, value) for name in part.get("printed", {}).get(event, [event])]
        if part.get("hybrid") and event in part["hybrid"]:
            versions = [(f"cpu_core/{event}/", value), (f"cpu_atom/{event}/", part.get("atom", "<not counted>"))]
        for shown, number in versions:
            shown = part.get("spelling", "{}").format(shown)
            stamp = "" if seconds is None else f'"interval" : {seconds:.9f}, '
            running = "0.00" if number.startswith("<") else "100.00"
            end = part.get("end", ', "metric-value" : "0.000000", "metric-unit" : "(null)"}')
            stream.write(f'{{{stamp}"counter-value" : "{number}", "unit" : "", "event" : "{shown}", "event-runtime" : 100, '
                         f'"pcnt-running" : {running}{end}\n')
    stream.flush()


def last(*_):
    records(time.monotonic() - began)
    sys.exit(130)


if interval is None:
    records(None)
    sys.exit(0)
signal.signal(signal.SIGINT, last)
while True:
    time.sleep(interval / 1000)
    records(time.monotonic() - began)
'''


def played(stand_in, tmp_path, **part):
    """Put a perf on PATH that notes how it is called and plays one that is described by part; every event is supported otherwise.

    unknown, unsupported: events; supported: the only ones that are. leader="exit": exit 255 where a group's first event is
    unsupported (6.1), else the whole group is <not supported> (7.2). counters: larger groups are never scheduled.
    status="1 if all unsupported" (7.2). spelling: how an event's name is printed. end: how a record ends.
    printed: the names under which an event's records come. hybrid: events that are counted by two core PMUs, what the second
    gives is atom. most: of more supported events it says that they are too many open files, of more names where names_count, and
    skips the others as if they were not supported where skips is set (7.2). says: what stands on stderr besides.
    collection: Python that is run first where it is run with -I.
    """
    calls, program = tmp_path / "perf-calls", tmp_path / "played-perf.py"
    program.write_text(f"PART = {json.dumps(json.dumps(part))}\n{PLAYED}")
    command = f'exec {shlex.quote(sys.executable)} -SE {shlex.quote(str(program))} "$@"'
    stand_in("perf", NOTE.format(calls=shlex.quote(str(calls))) + command)
    return PerfCalls(calls)
