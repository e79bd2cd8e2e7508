: "${NCCL_IB_HCA:==mlx5_0:1,mlx5_1:1}"; export NCCL_IB_HCA
[ -n "${NCCL_SOCKET_IFNAME:-}" ] || NCCL_SOCKET_IFNAME='=eth0'; export NCCL_SOCKET_IFNAME
: "${NCCL_CROSS_NIC:=1}"; export NCCL_CROSS_NIC
