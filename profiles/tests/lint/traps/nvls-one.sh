# N#1197, N#2186
export NCCL_NVLS_ENABLE=1
exec "$@"
