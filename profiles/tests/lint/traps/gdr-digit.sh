export NCCL_NET_GDR_LEVEL=5
exec "$@"
