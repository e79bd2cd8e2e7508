export NCCL_MIN_NCHANNELS=16
exec "$@"
