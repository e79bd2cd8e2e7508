export NCCL_SOCKET_IFNAME="=lo"
torchrun --nnodes 2 train.py
