# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The subtools that yield metrics, one module each (perf_stat.py for perf-stat); a module is registered by lying here.

Each module has
    OUTPUTS         the names of its raw outputs, without .xz; the first that is there is read
    publish(run, raw, publication)
                    reads `raw` (kerneltools.rawfile.RawFile) and hands every sample to `publication`
and its metrics are rows of catalogue.tsv under the subtool's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules() -> dict[str, ModuleType]:
    """Every module of this package by its subtool's name, in alphabetical order."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    return {name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}") for name in names}
