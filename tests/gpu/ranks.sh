# Sourced by the scripts beside this file: ranks ARGUMENT..., also in a shell below this one, runs
# one process per GPU (gpus) of a Python script (rank_program); standard output is the job's own account.
# shellcheck shell=bash
ranks() {
  local port=$((20000 + RANDOM % 12000)) r pids=() rc=0
  for r in $(seq 0 $((${gpus:?} - 1))); do
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=$gpus MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      timeout 120 python3 "${rank_program:?}" "$@" &
    pids+=($!)
  done
  for r in "${pids[@]}"; do wait "$r" || rc=$?; done
  return $rc
}
export -f ranks
