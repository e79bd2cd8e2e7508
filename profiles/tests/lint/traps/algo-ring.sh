NCCL_ALGO=Ring mpirun -np 8 ./all_reduce_perf
