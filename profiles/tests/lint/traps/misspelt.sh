export NCCL_SOCKET_IFNAMES==eth0
export NCLL_DEBUG=WARN
exec "$@"
