. /testenv/reach.sh
export HOME=/root
if [ "$TE_VM" = 2 ]; then
  reach_serve
  while [ ! -e done ]; do
    if [ -e asked ] && [ ! -e answer ]; then rm asked; ps > answer.new; mv answer.new answer; fi
    sleep 0.1
  done
  kill "$reach_pid"
  exit 0
fi
trap 'touch done' EXIT
reach_client
cp gdrtune /tmp/gdrtune
timeout 210 ./tests cluster:: probe::
