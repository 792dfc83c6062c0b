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

fail() { # fail SENTENCE: work that could not be done
    echo "::error title=lbgen::$1"
    note 2
}

append() { # append NAME: adds standard input to the file of GitHub's that this variable names
    cat >>"${!1}" || fail "$1 cannot be written"
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

summarise() { # summarise TITLE FILE: adds a text, if there is any, to the job's summary
    if [[ -s $2 ]]; then
        append GITHUB_STEP_SUMMARY < <(printf '### lbgen %s\n\n```text\n%s\n```\n' "$1" "$(cat "$2")")
    fi
}

check() {
    local wanted=()
    options wanted --target "${TARGET:-}"
    options wanted --binary "${BINARY:-}"
    if $strict; then wanted+=(--strict); fi
    lbgen check --format=github "${wanted[@]}" -- "${fleet[@]}"
    note $?
    if [[ -n ${SARIF:-} ]]; then sarif "${wanted[@]}"; fi
}

sarif() { # sarif OPTIONS: the problems in a file; without it where there is nothing to say, such as no fleet
    local file="$RUNNER_TEMP/lbgen.sarif"
    lbgen check --quiet --format=sarif "$@" -- "${fleet[@]}" >"$file"
    if [[ ! -s $file ]]; then
        rm -f -- "$SARIF"
    elif ! cat "$file" >"$SARIF"; then
        fail 'sarif cannot be written'
    fi
}

plan() {
    local targets target changed=false file="$RUNNER_TEMP/lbgen-plan.md" status
    lines targets "${TARGET:-}"
    if ((${#targets[@]} == 0)); then
        fail 'plan-to needs target: a plan is for one target'
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
    append GITHUB_STEP_SUMMARY <"$file"
    append GITHUB_OUTPUT <<<"plan=$file"$'\n'"changed=$changed"
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
strict=false
if ((${#fleet[@]} == 0)); then fail 'fleet names no file'; fi
case ${STRICT:-false} in
    true | True | TRUE | 1 | yes) strict=true ;;
    false | False | FALSE | 0 | no) ;;
    *) fail 'strict is true or false' ;;
esac
if [[ -n ${EXPECT:-} && -z ${TRIAL:-} ]]; then fail 'expect is for trial, which names no strategies'; fi
if ((code)); then exit "$code"; fi
check
# What a fleet with errors would change or do is not known.
if ((code == 0)); then
    if [[ -n ${PLAN_TO:-} ]]; then plan; fi
    if [[ -n ${SIMULATE:-} ]]; then simulate; fi
    if [[ -n ${TRIAL:-} ]]; then trial; fi
fi
exit "$code"
