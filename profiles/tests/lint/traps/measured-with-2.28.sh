# gdrtune settings for 4 nodes, 32 ranks, NVIDIA H200
# measured with engine nccl, NCCL 2.28.9; gdrtune 0.1.0
export NCCL_SOCKET_IFNAME='=eth0'
