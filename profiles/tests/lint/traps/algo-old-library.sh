export NCCL_ALGO="allreduce:tree;allgather:ring"
exec "$@"
