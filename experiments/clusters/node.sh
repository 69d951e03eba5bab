#!/usr/bin/env bash
# One part of a run on this host; every launcher here starts it on each.
#
#   node.sh sampler         an inference server, started again when it ends
#   node.sh env [FLAGS]     an environment server, likewise
#   node.sh trainer FLAGS   a rank of launch.py, once the servers answer
#
# The ranks find each other by the launcher's variables (agentrl/runtime/ranks.py).
# Variables of all parts, the first three required:
#   AGENTRL_SAMPLERS, AGENTRL_ENVS   hosts, separated by spaces
#   AGENTRL_SHARED    folder that all hosts see, for weights; with POSIX renames
#   AGENTRL_MODEL     (sampler) model that a server starts with, of the run's shape
#   AGENTRL_ENV       (env) name of the environment
#   AGENTRL_SAMPLER_PORT, AGENTRL_ENV_PORT   30000 and 36000
#   AGENTRL_UNTIL     file that ends the servers once it exists; none: nothing does
#   AGENTRL_WAIT_S    seconds that a rank waits for the servers; 1800
#   PYTHON            of agentrl; .venv/bin/python of this repository
#   SGLANG_PYTHON     of SGLang's environment; /opt/sglang/bin/python
#   SGLANG_MODULE     sglang.launch_server, or agentrl.serving.launch_server on CPUs
#   SGLANG_FLAGS      more flags of an inference server, as words
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
cd "$repository"
: "${AGENTRL_SAMPLERS:?names the hosts of inference servers}"
: "${AGENTRL_ENVS:?names the hosts of environment servers}"
: "${AGENTRL_SHARED:?names a folder that all hosts see}"
python=${PYTHON:-$repository/.venv/bin/python}
sampler_port=${AGENTRL_SAMPLER_PORT:-30000}
env_port=${AGENTRL_ENV_PORT:-36000}

# Runs a server, and again when it ends: of its own, or because its host was full.
keep() {
  local child
  while [[ -z ${AGENTRL_UNTIL:-} || ! -e $AGENTRL_UNTIL ]]; do
    "$@" &
    child=$!
    trap 'kill "$child" || true; wait "$child" || true; exit 0' TERM INT
    while kill -0 "$child" 2>/dev/null; do
      if [[ -n ${AGENTRL_UNTIL:-} && -e $AGENTRL_UNTIL ]]; then
        kill "$child"
        wait "$child" || true
        return
      fi
      sleep 2 &
      wait $! || true  # so that a signal need not wait for sleep
    done
    wait "$child" || echo "node.sh: $* ended with code $?; again in 5 s" >&2
    sleep 5
  done
}

# Returns once a port of each host takes connections.
answer() {
  local port=$1 host
  shift
  for host in "$@"; do
    until (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; do
      if ((SECONDS > ${AGENTRL_WAIT_S:-1800})); then
        echo "node.sh: http://$host:$port does not answer after $SECONDS s" >&2
        exit 1
      fi
      sleep 1
    done
  done
}

# ('http://a:1', 'http://b:1',)
urls() {
  local port=$1 host
  shift
  printf '('
  for host in "$@"; do printf "'http://%s:%s'," "$host" "$port"; done
  printf ')'
}

part=${1:?"one of sampler, env, trainer"}
shift
read -ra samplers <<<"$AGENTRL_SAMPLERS"
read -ra envs <<<"$AGENTRL_ENVS"
case $part in
  sampler)
    read -ra flags <<<"${SGLANG_FLAGS:-}"
    keep "${SGLANG_PYTHON:-/opt/sglang/bin/python}" \
      -m "${SGLANG_MODULE:-sglang.launch_server}" \
      --model-path "${AGENTRL_MODEL:?names a model}" \
      --host 0.0.0.0 --port "$sampler_port" "${flags[@]}"
    ;;
  env)
    keep "$python" launch.py \
      --config="configs/serve_env.py:env=${AGENTRL_ENV:?names an environment},host=0.0.0.0,port=$env_port" \
      "$@"
    ;;
  trainer)
    answer "$env_port" "${envs[@]}"
    answer "$sampler_port" "${samplers[@]}"
    exec "$python" launch.py "$@" \
      --config.env.url="$(urls "$env_port" "${envs[@]}")" \
      --config.sampler.kind=sglang \
      --config.sampler.urls="$(urls "$sampler_port" "${samplers[@]}")" \
      --config.sampler.push_dir="$AGENTRL_SHARED/weights"
    ;;
  *)
    echo "node.sh: no part is called $part; there are sampler, env, trainer" >&2
    exit 2
    ;;
esac
