# SPDX-License-Identifier: Apache-2.0
"""The subtools that yield metrics, one module each (perf_stat.py for perf-stat); a module is registered by lying here.

Each module has
    OUTPUTS             the names of its raw outputs, without .xz; the first that is there is read
    Frames(run, raw, spool)
                        reads `raw` (kerneltools.rawfile.RawFile) and gives its frames (kerneltools.frames.Frame), one for
                        each interval in order of time; `series` (a SeriesList) says what their values are of, `intervals`
                        how many there can be at most. What the frames need is kept in `spool`, so that an output is read once
and its metrics are rows of catalogue.tsv under the subtool's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """The subtools that have a module here, in alphabetical order."""
    return sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(__path__))


def module(subtool: str) -> ModuleType:
    """A subtool's module; raises whatever its import raises."""
    return importlib.import_module(f"{__name__}.{subtool.replace('-', '_')}")
