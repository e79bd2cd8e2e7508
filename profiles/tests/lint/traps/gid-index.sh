# N#718, N#1333, N#769
export NCCL_IB_GID_INDEX=3
exec "$@"
