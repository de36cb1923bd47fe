# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# perf-stat - counts events on the whole system with perf stat, one record an interval, event and place.
#
# The list of events is tried before the collection, and reduced to what this machine counts:
# 1. the list as it is to be used, groups and all. Every event counted: that was it, one extra perf run.
# 2. otherwise every event singly (an unsupported one hides the good ones of its group), all in one run; by halves
#    where perf refuses that run for a name it does not know, alone where a record cannot be told to be an event's.
# 3. what is left in groups, once more: a group whose members are not counted does not fit the counters, and is
#    counted singly instead.
# Where perf refuses the list for want of open files (one an event and CPU), it is shortened until perf takes it: whole
# metrics go, the last of the catalogue first. The list that is launched is one that perf has taken as a whole.

parameter perf-stat-events events default "what to count; \"default\" in the list stands for the default list"
parameter perf-stat-aggregation choice:system,socket,die,node,core,cpu system "what one count stands for"
output perf-stat-output.json

PERF_STAT_EVENTS=instructions,cycles,cache-references,cache-misses,L1-dcache-load-misses,L1-icache-load-misses,LLC-load-misses
PERF_STAT_EVENTS+=,LLC-loads,branch-misses,branches,dTLB-load-misses,dTLB-loads,iTLB-load-misses,iTLB-loads,context-switches
PERF_STAT_EVENTS+=,cpu-migrations,stalled-cycles-backend,stalled-cycles-frontend

PERF=''
EVENT=()                # as perf takes it; the same index in:
GROUP=()                # its group's number, or nothing
DEFAULT=()              # 1 if it came from the word "default"
DROPPED=()              # why it is not counted, or nothing
MODIFIERS=()            # by group number: what follows the brace, as in :W
BROKEN=()               # by group number: 1 if its events are counted singly
GROUPS_MADE=0
COMPOSED=()             # the events in the order of the last composed list
OPENED=''               # the last list that perf took

subtool_usable() {
    find_perf || skip "$REPLY"
    PERF=$REPLY
    value_of perf-stat-events
    read_events "$REPLY"
    group_default_events
    perf_limits
    reduce_events
    compose_list
    if [[ -z $REPLY ]]; then
        refused_altogether && skip "perf counts nothing here: ${DROPPED[0]}"
        skip "none of its events can be counted here: $(reasons ': ' '; ')"
    fi
    keep perf "$PERF"
    keep events "$REPLY"
    report_dropped
}

subtool_start() {
    local perf events interval aggregation
    local -A flag=([system]='' [socket]=--per-socket [die]=--per-die [node]=--per-node [core]=--per-core [cpu]=-A)
    recall perf; perf=$REPLY
    recall events; events=$REPLY
    value_of interval; interval=$REPLY
    value_of perf-stat-aggregation; aggregation=$REPLY
    value_of perf-stat-events; environment perf_stat_events_asked "$REPLY"
    environment perf_stat_events_counted "$events"
    environment perf_stat_aggregation "$aggregation"
    environment perf_stat_interval "$interval"
    in_thousandths "$interval"
    launch perf-stat-output.json \
        "$perf" stat -a -I "$REPLY" --json -o perf-stat-output.json ${flag[$aggregation]:+"${flag[$aggregation]}"} -e "$events"
}

# ---- the list

read_events() { # LIST
    local item member again=()
    local -a items members members_of_group
    local -A seen=()
    split_events items "$1"
    split_events members "$PERF_STAT_EVENTS"
    for item in "${items[@]}"; do
        if [[ $item == default ]]; then
            for member in "${members[@]}"; do
                add_event "$member" '' 1
            done
        elif [[ $item =~ ^\{(.*)\}([^{}]*)$ ]] && split_events members_of_group "${BASH_REMATCH[1]}"; then
            add_group "$item" "${BASH_REMATCH[2]}"
        else
            add_event "$item" '' ''
        fi
    done
    (( ${#again[@]} == 0 )) || log "NOTE: perf-stat: listed twice, counted once: ${again[*]}"
}

# The two below belong to read_events and use its seen and again.
add_event() { # EVENT GROUP FROM_DEFAULT
    local index=${seen[$2/$1]:-}
    if [[ -n $index ]]; then
        again+=("$1")
        # "cycles,default": it still belongs to the default list's groups
        [[ -z $3 ]] || DEFAULT[index]=1
        return
    fi
    seen[$2/$1]=${#EVENT[@]}
    EVENT+=("$1") GROUP+=("$2") DEFAULT+=("$3") DROPPED+=('')
}

add_group() { # ITEM MODIFIERS; its members are in members_of_group
    local member number=$GROUPS_MADE own=${2#:} of_group=${2//[!WSDe]/}
    if [[ -n ${seen[$1]:-} ]]; then
        again+=("$1")
        return
    fi
    seen[$1]=1
    MODIFIERS[number]=${of_group:+:$of_group} BROKEN[number]=''
    GROUPS_MADE=$(( number + 1 ))
    for member in "${members_of_group[@]}"; do
        modified_event "$member" "${own//[WSDe]/}"
        add_event "$REPLY" "$number" ''
    done
}

# {cycles,instructions}:u is {cycles:u,instructions:u}, but perf would print its counts as cycles and instructions
modified_event() { # EVENT MODIFIERS
    REPLY=$1
    if [[ -n $2 ]]; then
        # A tracepoint has a colon of its own
        [[ $1 == */* || $1 =~ ^[^:]+:[ukhGHIpPWSDeRb]+$ ]] || REPLY+=:
        REPLY+=$2
    fi
}

# Events of the default list whose ratio is taken, by the catalogue, are counted together: they become one group.
group_default_events() {
    local line_subtool formula a b i event
    local -A together=() size=() group_of=()
    for i in "${!EVENT[@]}"; do
        [[ -z ${DEFAULT[i]} ]] || together[${EVENT[i]}]=${EVENT[i]}
    done
    while IFS=$'\t' read -r line_subtool _ _ _ _ formula _; do
        if [[ $line_subtool != perf-stat ]] || ! parse_formula "$formula"; then
            continue
        fi
        a=${together[${REPLY% *}]:-} b=${together[${REPLY#* }]:-}
        [[ -n $a && -n $b ]] || continue
        for event in "${!together[@]}"; do
            [[ ${together[$event]} != "$b" ]] || together[$event]=$a
        done
    done <"$CATALOGUE"
    for event in "${together[@]}"; do
        size[$event]=$(( ${size[$event]:-0} + 1 ))
    done
    for i in "${!EVENT[@]}"; do
        a=${together[${EVENT[i]}]:-}
        if [[ -z ${DEFAULT[i]} ]] || (( ${size[$a]} < 2 )); then
            continue
        fi
        if [[ -z ${group_of[$a]:-} ]]; then
            group_of[$a]=$GROUPS_MADE
            MODIFIERS[GROUPS_MADE]='' BROKEN[GROUPS_MADE]=''
            GROUPS_MADE=$(( GROUPS_MADE + 1 ))
        fi
        GROUP[i]=${group_of[$a]}
    done
}

members_left() { # ARRAY GROUP
    local -n members_into=$1
    local i
    members_into=()
    for i in "${!EVENT[@]}"; do
        if [[ ${GROUP[i]} == "$2" && -z ${DROPPED[i]} ]]; then
            members_into+=("$i")
        fi
    done
}

# compose_list [singly]: the events left as one list for perf, into REPLY
compose_list() {
    local i group list=''
    local -a members
    local -A emitted=()
    COMPOSED=()
    for i in "${!EVENT[@]}"; do
        group=${GROUP[i]}
        if [[ -n ${DROPPED[i]} || -n $group && -n ${emitted[$group]:-} ]]; then
            continue
        fi
        members=("$i")
        if [[ -n $group && -z ${1:-} && -z ${BROKEN[group]} ]]; then
            members_left members "$group"
        fi
        if (( ${#members[@]} > 1 )); then
            emitted[$group]=1
            written_group "$group" "${members[@]}"
        else
            REPLY=${EVENT[i]}
        fi
        list+=${list:+,}$REPLY
        COMPOSED+=("${members[@]}")
    done
    REPLY=$list
}

written_group() { # GROUP MEMBER...
    local number=$1 member list=''
    shift
    for member in "$@"; do
        list+=${list:+,}${EVENT[member]}
    done
    REPLY="{$list}${MODIFIERS[number]}"
}

# ---- trying it

RECORD_VALUE=()             # of each record in the last look
declare -A RECORDS_OF=()    # by a name that perf printed: " <index of a record>..."

look() { # LIST NUMBER_OF_EVENTS: what perf makes of it
    local line seconds=$(( 8 * $2 < 100 ? 100 : 8 * $2 ))
    # Where there are more events than counters they take turns of 4 ms: each is to have one
    printf -v seconds '%d.%03d' $(( seconds / 1000 )) $(( seconds % 1000 ))
    RECORD_VALUE=() RECORDS_OF=()
    try_perf "$PERF" stat -a --json -o /dev/stdout -e "$1" sleep "$seconds"
    for line in "${TRIED[@]}"; do
        if [[ $line =~ \"event\"[[:space:]]*:[[:space:]]*\"([^\"]*)\" ]]; then
            note_record "${BASH_REMATCH[1]}"
            if [[ $line =~ \"counter-value\"[[:space:]]*:[[:space:]]*\"([^\"]*)\" ]]; then
                RECORD_VALUE+=("${BASH_REMATCH[1]}")
            else
                RECORD_VALUE+=('')
            fi
        fi
    done
    (( ${#RECORD_VALUE[@]} == 0 )) || OPENED=$1
}

# Newer perfs print a plain name with its PMU: "event [pmu]", or pmu/event/
note_record() { # NAME
    local number=${#RECORD_VALUE[@]} name=${1% \[*\]}
    [[ -z $name ]] || RECORDS_OF[$name]+=" $number"
    plain_event "$name"
    [[ $REPLY == "$name" || -z $REPLY ]] || RECORDS_OF[$REPLY]+=" $number"
}

plain_event() { # pmu/event/u gives event:u
    REPLY=$1
    if [[ $1 =~ ^[A-Za-z0-9_.-]+/([^/=,]+)/([A-Za-z]*)$ ]]; then
        REPLY=${BASH_REMATCH[1]}${BASH_REMATCH[2]:+:${BASH_REMATCH[2]}}
    fi
}

# printed_as EVENT: the name of RECORDS_OF that its records have, nothing where there are none. perf drops the modifiers
# of tracepoints, and 6.x those of cache events.
printed_as() {
    local name
    plain_event "$1"
    for name in "$1" "$REPLY" "${1%:*}" "${REPLY%:*}"; do
        if [[ -n $name && -n ${RECORDS_OF[$name]:-} ]]; then
            REPLY=$name
            return
        fi
    done
    REPLY=''
}

counted() { # VALUE
    [[ $1 =~ ^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$ ]]
}

best_of() { # RECORD...: hybrid machines give one a core type, and one that counts is enough
    local record best=missing
    for record in "$@"; do
        if counted "${RECORD_VALUE[record]}"; then
            best=counted
        elif [[ $best != counted && ${RECORD_VALUE[record]} == '<not supported>' ]]; then
            best=unsupported
        elif [[ $best == missing ]]; then
            best=uncounted
        fi
    done
    REPLY=$best
}

# verdicts: what became in the last look of every composed event, into VERDICT (counted, uncounted, unsupported, or
# missing where no record can be told to be its), and how many of each, into TALLY
VERDICT=()
declare -A TALLY=()
verdicts() {
    local i value all=1
    local -a records name=()
    local -A like=() place=()
    TALLY=([counted]=0 [uncounted]=0 [unsupported]=0 [missing]=0)
    for value in "${RECORD_VALUE[@]}"; do
        counted "$value" || all=''
    done
    for i in "${COMPOSED[@]}"; do
        printed_as "${EVENT[i]}"
        name[i]=$REPLY
        [[ -z $REPLY ]] || like[$REPLY]=$(( ${like[$REPLY]:-0} + 1 ))
    done
    for i in "${COMPOSED[@]}"; do
        REPLY=missing
        value=${name[i]}
        if [[ -n $value ]]; then
            read -r -a records <<<"${RECORDS_OF[$value]}"
            # Several under one name: the first part of the records is the first one's
            if (( ${#records[@]} >= ${like[$value]} )); then
                records=("${records[@]:${place[$value]:-0} * ${#records[@]} / ${like[$value]}:${#records[@]} / ${like[$value]}}")
                place[$value]=$(( ${place[$value]:-0} + 1 ))
            fi
            best_of "${records[@]}"
        elif [[ -n $all ]] && (( ${#RECORD_VALUE[@]} >= ${#COMPOSED[@]} )); then
            # Under a name that cannot be matched, but everything was counted
            REPLY=counted
        fi
        VERDICT[i]=$REPLY
        TALLY[$REPLY]=$(( ${TALLY[$REPLY]} + 1 ))
    done
}

reduce_events() {
    look_at_whole
    VERDICT=()
    if [[ $TRIED_STATUS == 124 ]]; then
        warn "the list could not be tried, $TRIED_WORDS: it is counted as it was given"
        return
    fi
    verdicts
    (( TALLY[counted] < ${#COMPOSED[@]} )) || return 0
    if (( TALLY[missing] + TALLY[unsupported] > 0 )); then
        drop_unsupported
        look_at_groups
    fi
    break_groups
    make_sure
}

look_at_whole() { # the list that is left; shortened where perf is short of open files
    compose_list
    look "$REPLY" "${#COMPOSED[@]}"
    [[ -n $TRIED_SHORT ]] || return 0
    shorten
    compose_list
    [[ -z $REPLY ]] || look "$REPLY" "${#COMPOSED[@]}"
}

# Its parts were taken; is the list, as it will be launched?
make_sure() {
    compose_list
    while [[ -n $REPLY && $REPLY != "$OPENED" ]]; do
        look "$REPLY" "${#COMPOSED[@]}"
        if [[ $TRIED_STATUS == 124 ]]; then
            warn "the list could not be tried, $TRIED_WORDS: it is counted as it was given"
            return
        fi
        (( ${#RECORD_VALUE[@]} == 0 )) || return 0
        shorten
        compose_list
    done
}

# shorten: after perf has refused the list that is left; drops what follows the longest beginning that it takes, in the
# order of importance.
shorten() {
    local reason=$TRIED_WORDS short=$TRIED_SHORT low=0 high middle
    local -a UNIT=() units=()
    if [[ -n $short ]]; then
        compose_list singly
        short_of_files "${#COMPOSED[@]}" "$PERF" stat --json -o /dev/stdout -e "$REPLY" -C 0 sleep 0.01
        reason=$REPLY
    fi
    by_importance
    units=("${UNIT[@]}")        # without the holes
    high=${#units[@]}
    while (( high - low > 1 )); do
        middle=$(( (low + high) / 2 ))
        take_units "$middle" "$reason"
        compose_list
        look "$REPLY" "${#COMPOSED[@]}"
        # Where it is for files, a beginning that perf refuses for another reason (none of it is supported) is not too long
        if (( ${#RECORD_VALUE[@]} > 0 )) || [[ -n $short && -z $TRIED_SHORT ]]; then
            low=$middle
        else
            high=$middle
        fi
    done
    take_units "$low" "$reason"
}

take_units() { # NUMBER REASON: the first ones of units, which belongs to shorten, stay
    local number i
    for number in "${!units[@]}"; do
        for i in ${units[number]}; do
            DROPPED[i]=''
            (( number < $1 )) || DROPPED[i]=$2
        done
    done
}

# by_importance: what stays or goes together, into UNIT: the indices of the events that a metric of the catalogue needs and
# none before it, in the catalogue's order; then each that none needs, in the list's.
by_importance() {
    local line_subtool formula i j row=0 numerator denominator modifier name
    local -a names=() kind=() rank=()
    local -A indices=()
    for i in "${!EVENT[@]}"; do
        [[ -z ${DROPPED[i]} ]] || continue
        catalogue_names "${EVENT[i]}"
        # shellcheck disable=SC2153     # catalogue_names has set NAMES and KIND
        names[i]=${NAMES[*]} kind[i]=$KIND
        for name in "${NAMES[@]}"; do
            indices[$name]+=" $i"
        done
    done
    while IFS=$'\t' read -r line_subtool _ _ _ _ formula _; do
        if [[ $line_subtool != perf-stat ]] || ! parse_formula "$formula"; then
            continue
        fi
        numerator=${REPLY% *} denominator=${REPLY#* } row=$(( row + 1 ))
        for i in "${!names[@]}"; do
            for name in ${names[i]}; do
                modifier=${name#"$numerator"}
                [[ $name == "$numerator"* && $modifier == @(|:*) ]] || continue
                [[ $denominator == seconds && ${kind[i]} != same || -n ${indices[$denominator$modifier]:-} ]] || continue
                for j in "$i" ${indices[$denominator$modifier]:-}; do
                    rank[j]=${rank[j]:-$row}
                done
            done
        done
    done <"$CATALOGUE"
    for i in "${!names[@]}"; do
        j=${rank[i]:-$(( row + 1 + i ))}
        UNIT[j]="${UNIT[j]:-} $i"
    done
}

drop_unsupported() {
    local i
    # What is not supported leaves its place to what was left out for want of files
    for i in "${!DROPPED[@]}"; do
        DROPPED[i]=''
    done
    compose_list singly
    look_singly "${COMPOSED[@]}"
}

# Where perf refuses the list for one event that it does not know, that one is found by halves.
look_singly() { # INDEX...
    local i list=''
    local -a untold=()
    COMPOSED=("$@")
    for i in "$@"; do
        list+=${list:+,}${EVENT[i]}
    done
    look "$list" "$#"
    if (( ${#RECORD_VALUE[@]} == 0 && $# > 1 )); then
        look_singly "${@:1:$# / 2}"
        look_singly "${@:$# / 2 + 1}"
        return
    fi
    verdicts
    for i in "$@"; do
        if [[ ${VERDICT[i]} == missing && $# -gt 1 ]]; then
            untold+=("$i")
        elif [[ ${VERDICT[i]} == missing ]]; then
            best_of "${!RECORD_VALUE[@]}"
            if [[ $REPLY == missing ]]; then
                DROPPED[i]=$TRIED_WORDS
            elif [[ $REPLY == unsupported ]]; then
                DROPPED[i]='<not supported>'
            fi
        elif [[ ${VERDICT[i]} == unsupported ]]; then
            DROPPED[i]='<not supported>'
        fi
    done
    for i in "${untold[@]}"; do
        look_singly "$i"
    done
}

# The groups left, all in one run; each alone where perf refuses that, to see which it refuses.
look_at_groups() {
    local group several=''
    local -a members
    for (( group = 0; group < GROUPS_MADE; group++ )); do
        members_left members "$group"
        (( ${#members[@]} < 2 )) || several=1
    done
    VERDICT=()
    [[ -n $several ]] || return 0
    look_at_whole
    verdicts
    (( ${#RECORD_VALUE[@]} == 0 && ${#COMPOSED[@]} > 0 )) || return 0
    for (( group = 0; group < GROUPS_MADE; group++ )); do
        members_left members "$group"
        (( ${#members[@]} > 1 )) || continue
        look_at_group "$group" "${members[@]}"
    done
}

look_at_group() { # GROUP MEMBER...
    local as_group member
    written_group "$@"
    as_group=$REPLY
    look "$as_group" "$(( $# - 1 ))"
    shift
    COMPOSED=("$@")
    verdicts
    (( ${#RECORD_VALUE[@]} == 0 )) || return 0
    log "perf-stat: perf said of $as_group: $TRIED_WORDS"
    for member in "$@"; do
        VERDICT[member]=uncounted
    done
}

break_groups() { # those with a member that the last look found uncounted
    local i group
    local -a members
    for i in "${!EVENT[@]}"; do
        group=${GROUP[i]}
        if [[ -z $group || -n ${DROPPED[i]} || -n ${BROKEN[group]} || ${VERDICT[i]:-counted} == @(counted|missing) ]]; then
            continue
        fi
        members_left members "$group"
        (( ${#members[@]} > 1 )) || continue
        BROKEN[group]=1
        written_group "$group" "${members[@]}"
        warn "$REPLY is never scheduled as a group here: counted singly"
    done
}

# ---- what is lost

reasons() { # LINK SEPARATOR: "<events><link><reason>" for each reason
    local i reason text=''
    local -A told=()
    for i in "${!EVENT[@]}"; do
        reason=${DROPPED[i]}
        if [[ -z $reason || -n ${told[$reason]:-} ]]; then
            continue
        fi
        told[$reason]=1
        events_dropped_for "$reason"
        text+=${text:+$2}$REPLY$1$reason
    done
    printf '%s' "$text"
}

refused_altogether() { # all for one reason, which is not the events' own
    local reason
    for reason in "${DROPPED[@]}"; do
        [[ $reason == "${DROPPED[0]}" ]] || return 1
    done
    what_helps "$reason"
    [[ -n $REPLY ]]
}

events_dropped_for() { # REASON
    local i
    local -a names=()
    for i in "${!EVENT[@]}"; do
        if [[ ${DROPPED[i]} == "$1" ]]; then
            names+=("${EVENT[i]}")
        fi
    done
    joined ', ' "${names[@]}"
}

report_dropped() {
    local i line type
    local -a kept=() could can lost=()
    while IFS= read -r line; do
        [[ -z $line ]] || warn "$line"
    done < <(reasons ': dropped: ' $'\n'; printf '\n')
    for i in "${!EVENT[@]}"; do
        [[ -n ${DROPPED[i]} ]] || kept+=("${EVENT[i]}")
    done
    (( ${#kept[@]} < ${#EVENT[@]} )) || return 0
    event_metrics could perf-stat "${EVENT[@]}"
    event_metrics can perf-stat "${kept[@]}"
    for type in "${could[@]}"; do
        [[ " ${can[*]} " == *" $type "* ]] || lost+=("$type")
    done
    joined ', ' "${lost[@]}"
    (( ${#lost[@]} == 0 )) || warn "without these there is no $REPLY"
}
