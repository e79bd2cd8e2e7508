export NCCL_TUNER_PLUGIN=example
export NCCL_TUNER_CONFIG_FILE=nccl_tuner.conf
exec "$@"
