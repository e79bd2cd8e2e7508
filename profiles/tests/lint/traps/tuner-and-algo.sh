export NCCL_TUNER_PLUGIN=libnccl-tuner-gdrtune.so
export NCCL_ALGO=allreduce:ring   # N#1661: measured with 2.28
exec "$@"
