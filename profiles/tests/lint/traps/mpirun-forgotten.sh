# N#260
export NCCL_SOCKET_IFNAME==eth0
export NCCL_CROSS_NIC=1
mpirun -np 16 -H node01:8,node02:8 -x NCCL_CROSS_NIC -x PATH \
    ./all_reduce_perf -b 8 -e 1G -f 2
