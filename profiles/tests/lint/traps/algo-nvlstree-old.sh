export NCCL_ALGO=Ring,Tree,PAT
exec "$@"
