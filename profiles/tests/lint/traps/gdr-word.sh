export NCCL_NET_GDR_LEVEL=NODE
exec "$@"
