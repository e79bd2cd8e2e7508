# shellcheck shell=bash
# mps.sh, to be sourced: several ranks share one GPU under an MPS daemon of the script's own
#
#   lab_open NAME              makes the temporary folder $work and starts the daemon in it; from then on, however the
#                              script ends, what it started is ended, the daemon stopped and $work removed
#   lab_start LIMIT_S CMD...   starts CMD in the background, in a process group of its own, ended after LIMIT_S
#   lab_wait                   waits for all that was started; the first that fails ends the others and is the status
#   lab_run LIMIT_S CMD...     both
#
# Without MPS kernels of different processes take turns of milliseconds, and nothing measured means anything. Another
# MPS daemon, in its own folders, is not spoken to, and no setting of the GPU is touched.

lab_children=()

lab_open() {
  local name=$1
  command -v nvidia-cuda-mps-control >/dev/null ||
    { echo "$name: nvidia-cuda-mps-control is missing (it comes with the driver)" >&2; exit 2; }
  work=$(mktemp -d)
  export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
  mkdir "$work/pipe" "$work/log"
  trap lab_close EXIT
  trap 'exit 143' TERM INT HUP
  nvidia-cuda-mps-control -d >/dev/null || { echo "$name: the MPS daemon did not start" >&2; exit 1; }
}

# The number in our own pipe folder, while it is an MPS daemon's.
lab_daemon() {
  local pid
  pid=$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" 2>/dev/null) || return 1
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) = nvidia-cuda-mps* ]] || return 1
  echo "$pid"
}

# shellcheck disable=SC2317 # called by the trap
lab_close() {
  local rc=$? turn pid
  trap '' TERM INT HUP
  trap - EXIT
  lab_end_children
  echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || true
  for ((turn = 0; turn < 50; turn++)); do lab_daemon >/dev/null || break; sleep 0.1; done
  if pid=$(lab_daemon); then kill -TERM "$pid" 2>/dev/null || true; fi
  [ "$rc" = 0 ] || tail -n 20 "$work"/log/*.log >&2 2>/dev/null || true
  rm -rf "$work"
  exit "$rc"
}

# `timeout` passes the signal on to its process group, and after 10 s it kills.
lab_end_children() {
  [ ${#lab_children[@]} -gt 0 ] || return 0
  kill -TERM "${lab_children[@]}" 2>/dev/null || true
  wait "${lab_children[@]}" 2>/dev/null || true
  lab_children=()
}

# A signal to the script is only handled while it waits, not while a command runs in the foreground: hence the background.
lab_start() {
  local limit_s=$1
  shift
  timeout -k 10 "$limit_s" "$@" &
  lab_children+=("$!")
}

lab_wait() {
  local rc=0 ended='' pid left
  while [ ${#lab_children[@]} -gt 0 ]; do
    wait -n -p ended "${lab_children[@]}" || rc=$?
    left=()
    for pid in "${lab_children[@]}"; do [ "$pid" = "$ended" ] || left+=("$pid"); done
    lab_children=("${left[@]}")
    [ "$rc" = 0 ] || { lab_end_children; return "$rc"; }
  done
}

lab_run() {
  lab_start "$@"
  lab_wait
}
