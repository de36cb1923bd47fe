# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# toplev - top-down breakdown: on what the pipeline's slots were spent, and whether a stall is memory's or the core's.
#
# Two engines, tried in this order:
# 1. toplev.py of pmu-tools, where the CPU is Intel, pmu-tools knows it and its event list lies on this machine;
#    toplev.py itself says whether that is so (0.3 s for each directory with event lists).  -> toplev-output.csv
# 2. perf's own metric groups, where this perf has them for this CPU: AMD PipelineL1 and PipelineL2, Intel and Arm
#    TopdownL1 and TopdownL2. They are tried once, 0.1 s.  -> toplev-output.json
#
# Nothing is fetched over the network. Event lists are looked for in $CACHEDIR, $XDG_CACHE_HOME/pmu-events, pmu-events
# beside toplev.py, /usr/local/share/pmu-tools/pmu-events, ~/.cache/pmu-events, and in the local copy of them that
# $PERFMONDIR names (a directory, or file:///...; what is needed of it is copied to toplev-pmu-events/ until stop).
#
# ENVIRONMENT: PMU_TOOLS_HOME                where toplev.py is, instead of PATH and /usr/local/share/pmu-tools
#              KERNELTOOLS_TOPLEV_OPTIONS    further options of toplev.py, as in "--per-core" or "--force-cpu=icx"; with
#                                            --force-cpu or --force-cpuinfo (or toplev's FORCECPU, CPUINFO) it runs
#                                            without a look at the CPU that this machine really has

parameter toplev-level integer:1-6 3 "how deep the breakdown goes (perf's own metric groups: 2 at most)"
output toplev-output.csv
output toplev-output.json

PMU_TOOLS=/usr/local/share/pmu-tools
LOCAL_EVENTS=toplev-pmu-events      # in the data directory, until stop

subtool_usable() {
    local perf level without_toplev
    value_of toplev-level; level=$REPLY
    # toplev.py needs it, too
    find_perf || skip "$REPLY"
    perf=$REPLY
    if toplev_runs; then
        log "toplev: measured by $TOPLEV, event lists from $EVENTS"
        keep engine toplev.py
        keep toplev "$TOPLEV"
        keep events "$EVENTS"
        perf_limits
        return
    fi
    without_toplev=$REPLY
    if ! find_groups "$perf" "$level" || ! try_groups "$perf"; then
        skip "$without_toplev; $REPLY"
    fi
    joined , "${GROUPS_FOUND[@]}"
    keep groups "$REPLY"
    log "toplev: measured by perf's metric groups $REPLY, because $without_toplev"
    (( level <= 2 )) || log "NOTE: toplev: level $level is capped at ${#GROUPS_FOUND[@]}: perf's metric groups are not taken deeper"
    keep engine perf
    keep level "${#GROUPS_FOUND[@]}"
    keep perf "$perf"
    keep singly "$SINGLY"
    perf_limits
}

subtool_start() {
    local engine level perf groups singly milliseconds
    local -a command
    value_of interval
    environment toplev_interval "$REPLY"
    in_thousandths "$REPLY"
    milliseconds=$REPLY
    recall engine; engine=$REPLY
    environment toplev_engine "$engine"
    if [[ $engine == perf ]]; then
        recall perf; perf=$REPLY
        recall level; level=$REPLY
        recall groups; groups=$REPLY
        recall singly; singly=$REPLY
        environment toplev_level "$level"
        environment toplev_metric_groups "$groups"
        launch toplev-output.json \
            "$perf" stat -a -I "$milliseconds" --json -o toplev-output.json ${singly:+"$singly"} -M "$groups"
        return
    fi
    value_of toplev-level; level=$REPLY
    environment toplev_level "$level"
    recall toplev; TOPLEV=$REPLY
    recall events; EVENTS=$REPLY
    read_own_options
    toplev_command command
    command+=(-a -I "$milliseconds" -l "$level" -v -x "," --no-desc -o toplev-output.csv)
    rows_for_all_cpus && command+=(--global)
    launch toplev-output.csv bash -p -c "source \"\$0/common.sh\" && source \"\$0/toplev.sh\" && run_until_perf_ends \"\$@\"" \
        "$SUBTOOLS_DIR" "${command[@]}" "${OWN_OPTIONS[@]}"
}

subtool_finish() {
    rm -rf -- "$LOCAL_EVENTS"
}

# ---- toplev.py

TOPLEV=''               # its path
EVENTS=''               # the directory of its event lists
OWN_OPTIONS=()          # those of KERNELTOOLS_TOPLEV_OPTIONS

read_own_options() {
    split_words OWN_OPTIONS "${KERNELTOOLS_TOPLEV_OPTIONS:-}"
}

# May toplev.py measure here? If not: why, in REPLY.
toplev_runs() {
    local said=''
    local -a directories
    if ! read_own_options; then
        REPLY='toplev.py cannot run: KERNELTOOLS_TOPLEV_OPTIONS: a quote is not closed'
        return 1
    fi
    if ! cpu_is_named; then
        vendor
        if [[ $REPLY != GenuineIntel ]]; then
            REPLY="toplev.py knows Intel CPUs only (this one: ${REPLY:-another})"
            return 1
        elif ! has_pmu; then
            REPLY="toplev.py cannot count: $NO_PMU"
            return 1
        fi
    fi
    if ! find_toplev; then
        REPLY="there is no toplev.py (install pmu-tools in $PMU_TOOLS, or name its place in PMU_TOOLS_HOME)"
        return 1
    elif ! find_program python3; then
        REPLY='toplev.py needs python3, which is not installed'
        return 1
    fi
    event_directories directories
    if (( ${#directories[@]} == 0 )); then
        REPLY='toplev.py has no event lists on this machine (event_download.py -a of pmu-tools fetches them where there is a network)'
        return 1
    fi
    for EVENTS in "${directories[@]}"; do
        if toplev_knows_cpu; then
            return 0
        fi
        said=$REPLY
    done
    rm -rf -- "$LOCAL_EVENTS"
    joined , "${directories[@]}"
    REPLY="toplev.py does not start: $said (event lists looked for in $REPLY)"
    return 1
}

cpu_is_named() {
    [[ -n ${FORCECPU:-}${CPUINFO:-} || " ${OWN_OPTIONS[*]}" == *\ --force-cpu* ]]
}

vendor() { # of the CPU, as Linux spells it; empty where it has none (Arm)
    local key value
    while IFS=: read -r key value; do
        trim "$key"
        if [[ $REPLY == vendor_id ]]; then
            trim "$value"
            return
        fi
    done < <(cat -- "$PROCFS/cpuinfo" 2>/dev/null)
    REPLY=''
}

NO_PMU='this machine has no PMU (a virtual machine without one?)'
has_pmu() {
    local pmu
    for pmu in "$SYSFS"/bus/event_source/devices/{cpu,cpu_core,armv*}; do
        [[ ! -e $pmu ]] || return 0
    done
    return 1
}

find_toplev() {
    if [[ -n ${PMU_TOOLS_HOME:-} ]]; then
        TOPLEV=$PMU_TOOLS_HOME/toplev.py
    elif find_program toplev.py; then
        TOPLEV=$(readlink -f -- "$REPLY")
    else
        TOPLEV=$PMU_TOOLS/toplev.py
    fi
    [[ -f $TOPLEV ]]
}

event_directories() { # ARRAY: those that hold something that may be an event list
    local -n directories_into=$1
    local directory
    local -A seen=()
    directories_into=()
    for directory in "${CACHEDIR:-}" "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/pmu-events}" "${TOPLEV%/*}/pmu-events" \
        "$PMU_TOOLS/pmu-events" "${HOME:+$HOME/.cache/pmu-events}"; do
        if [[ -n $directory && -z ${seen[$directory]:-} ]] && compgen -G "$directory/*.json" >/dev/null; then
            seen[$directory]=1
            [[ $directory == /* ]] || directory=$PWD/$directory
            directories_into+=("$directory")
        fi
    done
    if local_perfmon; then
        directories_into+=("$PWD/$LOCAL_EVENTS")
    fi
    # EVENTMAP is toplev's: it may name one file
    if [[ ${EVENTMAP:-} == */* ]]; then
        directories_into+=("$PWD")
    fi
}

local_perfmon() { # the URL of PERFMONDIR into REPLY, if that is a local copy
    REPLY=${PERFMONDIR:-}
    [[ $REPLY != /* ]] || REPLY=file://$REPLY
    [[ $REPLY == file:///* && -f ${REPLY#file://}/mapfile.csv ]]
}

# toplev_command ARRAY: toplev.py, without options. Where MAPFILE is set it never fetches anything; PERFMONDIR is for
# versions that do not know MAPFILE.
toplev_command() {
    local -n command_into=$1
    local map=$EVENTS/mapfile.csv
    command_into=(env "CACHEDIR=$EVENTS")
    type -P perf >/dev/null || command_into+=("PATH=$PATH:/usr/local/bin")
    if [[ $EVENTS == "$PWD/$LOCAL_EVENTS" ]] && local_perfmon; then
        command_into+=("PERFMONDIR=$REPLY")
    else
        [[ -f $map ]] || map=/dev/null
        command_into+=("MAPFILE=$map" PERFMONDIR=file:///nowhere)
    fi
    find_program python3
    # -E -s: an empty entry in PYTHONPATH would have Python run what lies in the data directory
    command_into+=("$REPLY" -E -s "$TOPLEV")
}

# Does it know the CPU, and is the CPU's event list in $EVENTS? It tells its version only after it has found both. If
# not: why, in REPLY.
toplev_knows_cpu() {
    local said status
    local -a command
    toplev_command command
    [[ $EVENTS != "$PWD/$LOCAL_EVENTS" ]] || { rm -rf -- "$LOCAL_EVENTS"; mkdir -- "$LOCAL_EVENTS"; }
    said=$(timeout 20 "${command[@]}" --version "${OWN_OPTIONS[@]}" 2>&1 </dev/null)
    status=$?
    if (( status == 124 )); then
        REPLY='it did not come back within 20 s'
        return 1
    elif [[ $said == *'CPU: ,'* || $said == *'CPU: simple,'* || $said == *'simple model'* ]]; then
        REPLY='it does not know this CPU; a newer pmu-tools may'
        return 1
    fi
    own_words <(printf '%s\n' "$said")
    if (( status != 0 )); then
        [[ $REPLY != *'event map not found'* ]] || REPLY='it does not know this CPU, or its event list is not there'
        return 1
    fi
    environment toplev_version "$REPLY"
}

# One row a node, for the whole system? Not on machines with two kinds of core, where toplev would print both kinds' rows
# under one name; not where the user asks for other rows.
rows_for_all_cpus() {
    local option
    for option in "${OWN_OPTIONS[@]}"; do
        [[ $option != @(--per-*|--no-aggr|-A|--single-thread|-S) ]] || return 1
    done
    [[ ! -e $SYSFS/bus/event_source/devices/cpu_core || ! -e $SYSFS/bus/event_source/devices/cpu_atom ]]
}

# Runs as the collector. Stop's SIGINT is for perf, which stamps a last interval and ends; toplev.py then reads what is
# left, writes it and ends, too. It runs with SIGINT ignored, as every command in the background here: if it were
# interrupted while it computes, it would lose the last intervals. A perf that was not yet there when the signal came
# gets another one.
run_until_perf_ends() { # COMMAND...
    local pid status since
    trap : INT
    "$@" &
    pid=$!
    wait "$pid"
    status=$?
    uptime_now
    since=$REPLY
    while read_stat "$pid" && [[ ${STAT[0]} != [ZX] ]]; do
        pause 0.01
        uptime_now
        if (( REPLY - since >= 100 )); then
            since=$REPLY
            kill -INT 0
        fi
    done
    # A toplev.py that failed leaves its perf behind
    kill -INT 0
    exit "$status"
}

# ---- perf's metric groups

GROUPS_FOUND=()         # what perf is to take, level 1 first
SINGLY=''               # perf's option that counts the events outside groups, where those do not fit

# find_groups PERF LEVEL: those that this perf has for this CPU. None: why, in REPLY.
find_groups() {
    local family name listed offered=' '
    if ! listed=$(timeout 20 "$1" list metricgroups 2>/dev/null </dev/null); then
        own_words <(timeout 20 "$1" list metricgroups 2>&1 </dev/null)
        REPLY="perf does not tell its metric groups: $REPLY"
        return 1
    fi
    while read -r name _; do
        offered+="$name "
    done < <(printf '%s\n' "$listed")
    for family in Pipeline Topdown; do
        if [[ $offered == *" ${family}L1 "* ]]; then
            GROUPS_FOUND=("${family}L1")
            if (( $2 > 1 )) && [[ $offered == *" ${family}L2 "* ]]; then
                GROUPS_FOUND+=("${family}L2")
            fi
            return 0
        fi
    done
    REPLY="$(timeout 20 "$1" --version 2>/dev/null </dev/null) has no top-down metric groups for this CPU"
    REPLY+=' (AMD Zen 4 and newer, Arm Neoverse and Intel have them, each from some perf on: a newer one may)'
    has_pmu || REPLY+="; $NO_PMU"
    return 1
}

# try_groups PERF: as they are; if a node has no value then (its group does not fit the counters), with the events counted
# singly; then level 1 alone. What gives most nodes is taken, as it was tried. None gives any: why, in REPLY.
try_groups() {
    local option list best=0 singly='' words='' all short=''
    local -a taken=()
    joined , "${GROUPS_FOUND[@]}"
    all=$REPLY
    for list in "$all" "${GROUPS_FOUND[0]}"; do
        for option in '' --metric-no-group; do
            look_at_nodes "$1" "$list" "$option"
            words=${words:-$TRIED_WORDS} short=${short:-$TRIED_SHORT}
            if (( VALUED > best )); then
                best=$VALUED singly=$option
                IFS=, read -r -a taken <<<"$list"
            fi
            (( VALUED == 0 || VALUED < NODES )) || break 2
        done
        # With fewer groups there are fewer nodes
        (( best == 0 )) || break
    done
    if [[ -n $short ]]; then
        short_of_files 0 "$1" stat --json -o /dev/stdout -M "$all" -C 0 sleep 0.01
        words=$REPLY
    fi
    if (( best == 0 )); then
        REPLY="perf has the metric groups $all for this CPU, but cannot count them here: $words"
        has_pmu || REPLY+="; $NO_PMU"
        return 1
    fi
    (( ${#taken[@]} == ${#GROUPS_FOUND[@]} )) || lost_level "${taken[0]}" "$words"
    GROUPS_FOUND=("${taken[@]}")
    SINGLY=$singly
    if [[ -n $singly && -n $short ]]; then
        warn "counted singly, so that a node's parts may be of different moments: $words"
    elif [[ -n $singly ]]; then
        warn "groups of events do not fit the counters here: counted singly, so that a node's parts may be of different moments"
    fi
}

# lost_level TAKEN REASON: says which nodes there will not be
lost_level() {
    local line_subtool type formula
    local -a lost=()
    while IFS=$'\t' read -r line_subtool type _ _ _ formula _; do
        [[ $line_subtool != toplev || $formula != @(Memory_Bound|Core_Bound),* ]] || lost+=("$type")
    done <"$CATALOGUE"
    joined ', ' "${lost[@]}"
    warn "level 2 is dropped, only $1 is counted: $2; there is no $REPLY"
}

NODES=0 VALUED=0

look_at_nodes() { # PERF GROUPS OPTION: how many nodes perf prints, to how many of them it has a value
    local line
    local -r node='"metric-value"[[:space:]]*:[[:space:]]*"?([^",]*)"?,[[:space:]]*"metric-unit"[[:space:]]*:[[:space:]]*"(%|percent[^"]*)[[:space:]]+[A-Za-z_]'
    NODES=0 VALUED=0
    try_perf "$1" stat -a --json -o /dev/stdout ${3:+"$3"} -M "$2" sleep 0.1
    for line in "${TRIED[@]}"; do
        if [[ $line =~ $node ]]; then
            NODES=$(( NODES + 1 ))
            [[ ! ${BASH_REMATCH[1]} =~ ^-?[0-9.]+$ ]] || VALUED=$(( VALUED + 1 ))
        fi
    done
    [[ $TRIED_STATUS != 0 ]] || (( NODES == 0 || VALUED > 0 )) || TRIED_WORDS='none of its nodes gets a value'
}
