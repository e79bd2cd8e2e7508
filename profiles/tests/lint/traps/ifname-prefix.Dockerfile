FROM nvcr.io/nvidia/pytorch:25.01-py3
ENV NCCL_SOCKET_IFNAME=eth1 \
    NCCL_IB_TIMEOUT=22
