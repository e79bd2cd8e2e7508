export NCCL_SOCKET_IFNAME=^docker0,lo
exec "$@"
