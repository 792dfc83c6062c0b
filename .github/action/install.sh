#!/usr/bin/env bash
# Installs this checkout of lbgen for the steps that follow, in an environment of its own.
set -euo pipefail

environment="$RUNNER_TEMP/lbgen"
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH[lab]"
printf '%s\n' "$environment/bin" >>"$GITHUB_PATH"
