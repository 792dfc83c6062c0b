#!/usr/bin/env bash
# What the action does. Its inputs come as environment variables, lists with one entry a line; they reach
# lbgen as whole arguments, the files behind '--'.
#
# Exit codes as lbgen's own: 0 fine, 1 findings, 2 work that could not be done; the gravest of all steps.
set -uo pipefail

code=0

note() { # note EXIT-CODE: remembers the gravest
    if (($1 > code)); then code=$1; fi
}

lines() { # lines ARRAY TEXT: the lines of a text, without empty ones and blanks around them
    mapfile -t "$1" < <(sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e '/^$/d' <<<"$2")
}

options() { # options ARRAY OPTION TEXT: appends 'OPTION=LINE' for each line
    local -n into=$1
    local found line
    lines found "$3"
    for line in "${found[@]}"; do into+=("$2=$line"); done
}

summarise() { # summarise TITLE FILE: adds a text to the job's summary
    printf '### lbgen %s\n\n```text\n%s\n```\n' "$1" "$(cat "$2")" >>"$GITHUB_STEP_SUMMARY"
}

check() {
    local wanted=()
    options wanted --target "${TARGET:-}"
    options wanted --binary "${BINARY:-}"
    if [[ ${STRICT:-} == true ]]; then wanted+=(--strict); fi
    lbgen check --format=github "${wanted[@]}" -- "${fleet[@]}"
    note $?
    if [[ -n ${SARIF:-} ]]; then
        lbgen check --quiet --format=sarif "${wanted[@]}" -- "${fleet[@]}" >"$SARIF"
    fi
}

plan() {
    local targets target changed=false file="$RUNNER_TEMP/lbgen-plan.md" status
    lines targets "${TARGET:-}"
    if ((${#targets[@]} == 0)); then
        echo '::error title=lbgen::plan-to needs target: a plan is for one target'
        note 2
        return
    fi
    : >"$file"
    for target in "${targets[@]}"; do
        lbgen plan --target="$target" --to="$PLAN_TO/$target" --format=markdown --diff --exit-code \
            -- "${fleet[@]}" >>"$file"
        status=$?
        if ((status == 1)); then changed=true; else note "$status"; fi
        printf '\n' >>"$file"
    done
    cat "$file" >>"$GITHUB_STEP_SUMMARY"
    printf 'plan=%s\nchanged=%s\n' "$file" "$changed" >>"$GITHUB_OUTPUT"
}

simulate() {
    local wanted=() file="$RUNNER_TEMP/lbgen-simulate.txt"
    options wanted --strategy "$SIMULATE"
    lbgen simulate --quiet "${wanted[@]}" -- "${fleet[@]}" | tee "$file"
    note "${PIPESTATUS[0]}"
    summarise simulate "$file"
}

trial() {
    local wanted=() file="$RUNNER_TEMP/lbgen-trial.txt"
    options wanted --target "${TARGET:-}"
    options wanted --strategy "$TRIAL"
    options wanted --expect "${EXPECT:-}"
    lbgen trial "${wanted[@]}" -- "${fleet[@]}" | tee "$file"
    note "${PIPESTATUS[0]}"
    summarise trial "$file"
}

lines fleet "${FLEET:-}"
if ((${#fleet[@]} == 0)); then
    echo '::error title=lbgen::fleet names no file'
    exit 2
fi
check
# What a fleet with errors would change or do is not known.
if ((code == 0)); then
    if [[ -n ${PLAN_TO:-} ]]; then plan; fi
    if [[ -n ${SIMULATE:-} ]]; then simulate; fi
    if [[ -n ${TRIAL:-} ]]; then trial; fi
fi
exit "$code"
