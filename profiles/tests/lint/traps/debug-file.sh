export NCCL_DEBUG=INFO
export NCCL_DEBUG_FILE=/tmp/nccl.log
exec "$@"
