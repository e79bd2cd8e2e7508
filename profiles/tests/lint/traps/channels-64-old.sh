export NCCL_MIN_CTAS=64
exec "$@"
