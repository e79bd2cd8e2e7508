#!/bin/bash
cat > nccl.conf <<'EOF'
export NCCL_ALGO = "Tree"
NCCL_PROTO=LL128
EOF
cat <<-END | tee env
	NCCL_P2P_DISABLE=1
	END
echo "NCCL_IB_HCA=mlx5_1" >> notes # NCCL_DEBUG=INFO
grep NCCL_ALGO=Tree log
