export NCCL_ALGO=CollNet
exec "$@"
