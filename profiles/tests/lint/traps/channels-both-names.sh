export NCCL_MAX_CTAS=16
export NCCL_MAX_NCHANNELS=32
exec "$@"
