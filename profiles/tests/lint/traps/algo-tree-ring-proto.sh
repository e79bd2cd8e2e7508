export NCCL_ALGO='allreduce:nvls'
export NCCL_PROTO='allreduce:ll'
exec "$@"
