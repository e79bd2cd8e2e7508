export NCCL_SOCKET_IFNAME="=eth0"
export NCCL_CROSS_NIC=1
mpirun -np 16 -x NCCL_SOCKET_IFNAME -x NCCL_CROSS_NIC -x PATH ./all_reduce_perf
