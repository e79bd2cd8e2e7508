export NCCL_CROSS_NIC=1
export NCCL_CROSS_NIC=0
exec "$@"
