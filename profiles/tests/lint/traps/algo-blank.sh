export NCCL_ALGO="allreduce: tree"
exec "$@"
