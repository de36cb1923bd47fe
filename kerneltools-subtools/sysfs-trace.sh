# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# sysfs-trace - reads the kernel's trace buffer while the caller's commands arm it.
# Known, so that its parameters are checked, but not built yet.

parameter sysfs-trace-setup command '' "run in the tracing directory before; may be given more than once"
parameter sysfs-trace-cleanup command '' "run in the tracing directory after; may be given more than once"
parameter sysfs-trace-collection choice:per-cpu,system per-cpu "one output a CPU, or one"
output trace.out
output 'trace.cpu*.out'

subtool_usable() {
    skip "this version does not have it yet"
}
