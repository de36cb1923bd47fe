# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the subtools declare at the head of their bash files, and what start and stop accept, asked of the scripts themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

SUBTOOLS_DIR = Path(__file__).resolve().parent.parent / "kerneltools-subtools"

_TELL = r"""
source "$0/common.sh" && load_declarations || exit
tell() { printf '%s\0' "$@" ''; }
for name in "${SUBTOOLS[@]}"; do
    tell subtool "$name"
    outputs_of files "$name" compressed plain
    for file in "${files[@]}"; do tell output "$name" "$file" "${PLAIN[$file]}"; done
done
for name in "${!FORMER[@]}"; do tell former "$name" "${FORMER[$name]}"; done
for name in "${PARAMETERS[@]}"; do
    "describe_${KIND[$name]%%:*}" "${KIND[$name]#*:}"
    tell parameter "$name" "${KIND[$name]}" "${VALUE[$name]:--}" "${MEANING[$name]}" "$REPLY" "${OWNER[$name]:--}"
done
"""

_JUDGE = r"""
source "$0/common.sh" && load_declarations || exit
while IFS= read -r -d '' argument; do
    if parse_parameters "$argument" 2>/dev/null; then echo accepted; else echo refused; fi
done
"""


class Parameter(NamedTuple):
    """A parameter of start and stop; default is "" where there is none, owner is "" where it is for all subtools."""

    name: str
    kind: str
    default: str
    meaning: str
    accepted: str
    owner: str


class Declarations(NamedTuple):
    """Everything declared: outputs by subtool as names in the data directory after stop, former names of subtools."""

    subtools: list[str]
    parameters: dict[str, Parameter]
    outputs: dict[str, list[str]]
    former: dict[str, str]


def _bash(program: str, text: str = "") -> str:
    done = subprocess.run(["bash", "-c", program, SUBTOOLS_DIR], input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def load() -> Declarations:
    """Ask the scripts; raises CalledProcessError where they cannot say."""
    declared = Declarations([], {}, {}, {})
    for record in _bash(_TELL).split("\0\0")[:-1]:
        what, name, *more = record.split("\0")
        if what == "subtool":
            declared.subtools.append(name)
            declared.outputs[name] = []
        elif what == "output":
            file, treatment = more
            declared.outputs[name].append(file if treatment == "plain" else f"{file}.xz")
        elif what == "former":
            declared.former[name] = more[0]
        else:
            kind, default, meaning, accepted, owner = ("" if field == "-" else field for field in more)
            declared.parameters[name] = Parameter(name, kind, default, meaning, accepted, owner)
    return declared


def accepted(arguments: list[str]) -> list[bool]:
    """For each argument, as in --interval=1, whether start's own check accepts it. Nothing is started."""
    verdicts = _bash(_JUDGE, "".join(f"{argument}\0" for argument in arguments)).split()
    assert len(verdicts) == len(arguments)
    return [verdict == "accepted" for verdict in verdicts]
