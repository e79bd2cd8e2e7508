#!/bin/sh
NCCL_HOME=/opt/nccl
NCCL_VERSION=2.28.9
export LD_LIBRARY_PATH="$NCCL_HOME/lib:$LD_LIBRARY_PATH"
NCCL_TESTS_DEVICE=0 ./all_reduce_perf
hca=$(ibstat -l | head -1)
export NCCL_IB_HCA="=$hca"
set -a
NCCL_CROSS_NIC=1
set +a
