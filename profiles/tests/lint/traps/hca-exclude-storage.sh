# the storage NIC, mlx5_1, is not for NCCL
export NCCL_IB_HCA="^mlx5_1"
exec "$@"
