# gdrtune settings for 4 nodes, 32 ranks, NVIDIA H200
# measured with engine nccl, NCCL 2.28.9; gdrtune 0.1.0
# run 2026-11-29T14:02:11Z-7f3a: workload default, 412 trials, baseline site
# cluster sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
# on another cluster or NCCL version these are hints to measure, not settings
# to re-check on these nodes: gdrtune verify profile.toml -w HOSTS
# rules by size (2) are in nccl-tuner.csv, for a tuner plugin (gdrtune install brings one)
# values that are set already are kept

# 1.210x (1.170 to 1.250), P(faster) 1.000, 9 processes per arm
: "${NCCL_IB_HCA:==mlx5_0:1,mlx5_1:1}"; export NCCL_IB_HCA

# 1.042x (1.031 to 1.055), P(faster) 0.987, 9 processes per arm
# debugging setting: NCCL's guide says not to keep it; re-check it with every NCCL after 2.28.9
: "${NCCL_IB_QPS_PER_CONNECTION:=4}"; export NCCL_IB_QPS_PER_CONNECTION

# not measured alone
: "${NCCL_SOCKET_IFNAME:==eth0}"; export NCCL_SOCKET_IFNAME

# rules by size for the tuner plugin, which has to be installed and named on its own
: "${NCCL_TUNER_CONFIG_FILE:=/opt/gdrtune/nccl-tuner.csv}"; export NCCL_TUNER_CONFIG_FILE
