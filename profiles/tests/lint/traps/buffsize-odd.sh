export NCCL_BUFFSIZE=5000000
exec "$@"
