#!/bin/sh
# gdrtune settings for 4 nodes, 4 ranks
# NOT MEASURED WITH NCCL: gdrtune's native engine on host memory; choices do not carry over
# EMULATED: several ranks stood in for nodes on one machine or GPU
# measured with engine native; gdrtune 0.1.0
# run 2026-11-29T15:20:00Z-01ab: workload default, 96 trials, baseline stock
# cluster sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
# on another cluster or NCCL version these are hints to measure, not settings
# to re-check on these nodes: gdrtune verify profile.toml -w HOSTS
# rules by size (1) are in nccl-tuner.csv, for a tuner plugin
# on each node: sh torchrun.sh --nnodes 4 --nproc-per-node 1 ... SCRIPT

# 1.310x (1.200 to 1.400), P(faster) 1.000, 7 processes per arm
# read by gdrtune's native engine only
export GDRTUNE_NATIVE_CHUNKSIZE='1048576'

# 4.500x (4.300 to 4.700), P(faster) 1.000, 7 processes per arm
export NCCL_SOCKET_IFNAME='=rail0'

exec torchrun "$@"
