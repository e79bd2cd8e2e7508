export NCCL_TUNER_PLUGIN=basic
exec "$@"
