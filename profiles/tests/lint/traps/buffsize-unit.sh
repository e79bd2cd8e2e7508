export NCCL_BUFFSIZE=8M
exec "$@"
