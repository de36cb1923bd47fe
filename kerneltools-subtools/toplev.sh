# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# toplev - top-down breakdown of pipeline slots, with toplev (pmu-tools) or perf.
# Known, so that its parameters are checked, but not built yet.

parameter toplev-level integer:1-6 3 "how deep the breakdown goes"
output toplev-output.csv
output toplev-output.json

subtool_usable() {
    skip "this version does not have it yet"
}
