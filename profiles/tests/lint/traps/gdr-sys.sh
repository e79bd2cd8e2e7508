# N#1151, N#1188
export NCCL_NET_GDR_LEVEL=SYS
exec "$@"
