ARGS=(
  -x NCCL_PROTO=LL128
)
mpirun "${ARGS[@]}" -np 16 -x NCCL_IB_HCA=mlx5_1 -x NCCL_P2P_DISABLE=1 ./all_reduce_perf
