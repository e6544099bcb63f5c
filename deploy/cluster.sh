#!/usr/bin/env bash
# Starts Redis and three nodes on this machine, prints what to try, and ends everything at Ctrl-C.
#
#   deploy/cluster.sh PROGRAM           until Ctrl-C
#   deploy/cluster.sh PROGRAM --check   tries it by itself, and says whether it worked
#
# `make cluster` builds the program and calls this. Needs redis-server (Debian: redis-server) or valkey-server.
set -euo pipefail

program=$(realpath "${1:?usage: deploy/cluster.sh PROGRAM [--check]}")
mode=${2:-}
# Settings of the caller's own daemon are not for these.
for name in "${!SHELLKEEP_@}"; do unset "$name"; done

server=$(command -v redis-server || command -v valkey-server) || {
    echo "deploy/cluster.sh: neither redis-server nor valkey-server is installed (Debian: apt install redis-server)" >&2
    exit 1
}
directory=$(mktemp -d "${TMPDIR:-/tmp}/shellkeep-cluster.XXXXXX")
redis=
declare -A pid url

finish() {
    trap - EXIT INT TERM
    # A node that is killed cannot end its shells, so they get the chance to end in order.
    for node in "${!pid[@]}"; do kill -TERM "${pid[$node]}" 2>/dev/null || true; done
    for node in "${!pid[@]}"; do wait "${pid[$node]}" 2>/dev/null || true; done
    [ -z "$redis" ] || { kill -TERM "$redis" 2>/dev/null || true; wait "$redis" 2>/dev/null || true; }
    rm -rf "$directory"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits until a command succeeds.
until_true() {
    local what=$1
    shift
    for _ in $(seq 200); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.05
    done
    echo "deploy/cluster.sh: $what; see the logs in $directory" >&2
    trap - EXIT
    exit 1
}

start_redis() {
    local candidate
    for candidate in $(shuf -i 20000-60000 -n 20); do
        "$server" --port "$candidate" --bind 127.0.0.1 --save '' --maxmemory-policy noeviction --dir "$directory" \
            >"$directory/redis.log" 2>&1 &
        redis=$!
        for _ in $(seq 100); do
            if grep -q 'Ready to accept connections' "$directory/redis.log"; then port=$candidate; return; fi
            # The port may be taken.
            kill -0 "$redis" 2>/dev/null || break
            sleep 0.05
        done
    done
    echo "deploy/cluster.sh: Redis does not start; see $directory/redis.log" >&2
    trap - EXIT
    exit 1
}

start_node() {
    local node=$1
    SHELLKEEP_NODE=$node SHELLKEEP_CLUSTER_SECRET=$secret SHELLKEEP_TOKEN=$token \
        "$program" serve --store "redis://127.0.0.1:$port" --listen 127.0.0.1:0 \
        --data "$directory/$node" --socket "$directory/$node.sock" >"$directory/$node.log" 2>&1 &
    pid[$node]=$!
    until_true "node $node does not start" grep -q 'listening on http' "$directory/$node.log"
    url[$node]=$(sed -n 's/^listening on \(http.*\)/\1/p' "$directory/$node.log")
}

# Runs a command in the session `demo`, through a node.
through() {
    "$program" run --socket "$directory/$1.sock" -s demo -- "$2"
}

secret=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
start_redis
for node in n1 n2 n3; do start_node $node; done

if [ "$mode" = --check ]; then
    through n1 'cd /usr; n=1'
    through n2 'n=$((n+1))'
    [ "$(through n3 'echo "$PWD $n"')" = '/usr 2' ]
    "$program" nodes ls --socket "$directory/n2.sock"
    kill -KILL "${pid[n1]}"
    goes_on() { [ "$(through n2 'echo "$PWD $n"' 2>/dev/null)" = '/usr 2' ]; }
    until_true "the session does not go on when its node is killed" goes_on
    "$program" nodes drain n2 --socket "$directory/n3.sock"
    [ "$(through n2 'echo "$PWD $n"')" = '/usr 2' ]
    echo "ok: the session went on after its node was killed, and after its next node was drained"
    exit
fi

cat <<TEXT
Redis is on 127.0.0.1:$port, and three nodes share it:

  n1  ${url[n1]}  pid ${pid[n1]}
  n2  ${url[n2]}  pid ${pid[n2]}
  n3  ${url[n3]}  pid ${pid[n3]}

Try in another terminal:

  cd $directory; export PATH=$(dirname "$program"):\$PATH
  shellkeep run --socket n1.sock -s demo -- 'cd /usr; n=1'         # the session is on n1
  shellkeep run --socket n2.sock -s demo -- 'pwd; echo \$((n+1))'   # n2 sends it to n1
  shellkeep nodes ls --socket n3.sock
  kill -KILL ${pid[n1]}                                            # n1 dies
  shellkeep run --socket n2.sock -s demo -- 'pwd; echo \$n'         # within 7 s another node goes on with it
  shellkeep nodes drain n2 --socket n3.sock                        # moves its sessions in order
  redis-cli -p $port HGETALL 'sk:{demo}:head'

Logs are in $directory. Ctrl-C ends everything and removes them.
TEXT
wait "$redis"
