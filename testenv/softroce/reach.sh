# shellcheck shell=bash
# Guest side, two VMs: hosts vm1 and vm2 for gdrtune's --launcher-cmd '/tmp/reach {host} {agent_line}', from VM 1.
#   reach_serve    in VM 2: runs the lines that come over rail 1's network (port 7000); sets reach_pid
#   reach_client   in VM 1: makes /tmp/reach
reach_serve() {
  cat > /tmp/serve <<'S'
#!/bin/sh
read -r line
exec sh -c "$(echo "$line" | base64 -d)"
S
  chmod 755 /tmp/serve
  busybox nc -ll -p 7000 -e /tmp/serve &
  # shellcheck disable=SC2034 # for whoever sources this
  reach_pid=$!
}
reach_client() {
  cat > /tmp/reach <<'R'
#!/bin/sh
[ "$1" != vm1 ] || exec sh -c "$2"
{ printf %s "$2" | base64 | tr -d '\n'; echo; exec cat; } | exec busybox nc "$TE_PEER1" 7000
R
  chmod 755 /tmp/reach
}
