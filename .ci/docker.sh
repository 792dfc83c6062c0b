#!/usr/bin/env bash
# Makes sure that a Docker engine answers: returns at once when one does, otherwise installs docker.io where it is
# missing and starts dockerd in the background. For machines without an init system, such as CI containers.
#
#   DOCKERD_LOG   where dockerd writes (default /var/log/dockerd.log)
#   DOCKERD_WAIT  seconds to wait for it (default 60)
set -euo pipefail

log=${DOCKERD_LOG:-/var/log/dockerd.log}
patience=${DOCKERD_WAIT:-60}

say() { printf 'docker.sh: %s\n' "$*" >&2; }

fail() {
    say "$1"
    exit 1
}

fail_with_log() {
    say "last lines of $log:"
    tail -n 30 "$log" >&2 || true
    fail "$1"
}

answers() { timeout 10 docker info >/dev/null 2>&1; }

# runs PIDFILE NAME: the process in the file lives and is that program, not a later one with the same number.
runs() {
    local pid
    pid=$(cat "$1" 2>/dev/null) && [[ -n $pid && $(cat "/proc/$pid/comm" 2>/dev/null) == "$2" ]]
}

install_engine() {
    command -v dockerd >/dev/null && command -v docker >/dev/null && return
    command -v apt-get >/dev/null || fail "Docker is missing and there is no apt-get: install the Docker engine"
    say "installing docker.io"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || fail "apt-get update failed"
    local packages=(docker.io iptables)
    # Since Debian 13 the client is a package of its own, which docker.io only recommends.
    if apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
    local output
    output=$(apt-get install -y -qq --no-install-recommends "${packages[@]}" 2>&1) && return
    tail -n 30 <<<"$output" >&2
    fail "could not install ${packages[*]}"
}

# A killed dockerd leaves its process id behind, and the next one refuses to start when that number lives again.
remove_stale() {
    local directory=/var/run
    runs "$directory/docker.pid" dockerd || rm -f "$directory/docker.pid"
    runs "$directory/docker/containerd/containerd.pid" containerd || rm -f "$directory/docker/containerd/containerd.pid"
}

start() {
    if runs /var/run/docker.pid dockerd; then
        say "dockerd is there but does not answer yet"
        return
    fi
    say "starting dockerd, log in $log"
    # The lock's descriptor is closed for dockerd, which would hold it for ever.
    setsid dockerd >"$log" 2>&1 </dev/null 9>&- &
    started=$!
}

wait_for_answer() {
    local end=$((SECONDS + patience))
    until answers; do
        if [[ -n ${started:-} ]] && ! kill -0 "$started" 2>/dev/null; then fail_with_log "dockerd ended"; fi
        ((SECONDS < end)) || fail_with_log "no answer from dockerd after $patience s"
        sleep 0.5
    done
}

answers && exit 0
[[ -z ${DOCKER_HOST:-} ]] || fail "the engine at DOCKER_HOST=$DOCKER_HOST does not answer"
[[ $EUID -eq 0 ]] || fail "no Docker engine answers, and starting one needs root"

exec 9>/var/lock/lbgen-docker.lock
flock 9
answers && exit 0
install_engine
remove_stale
start
wait_for_answer
say "Docker $(docker version --format '{{.Server.Version}}') answers"
