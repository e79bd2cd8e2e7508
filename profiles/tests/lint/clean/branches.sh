#!/bin/bash
if [ "$CLUSTER" = alps ]; then
    export NCCL_NET="AWS Libfabric"
elif [ "$CLUSTER" = azure ]; then
    export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml
    export NCCL_NET=IB
else
    export NCCL_NET=Socket
fi
case "$FABRIC" in
    roce) export NCCL_IB_TC=106 ;;
    ib) export NCCL_IB_TC=0 ;;
esac
[ -n "$DEBUG" ] && export NCCL_DEBUG=WARN
exec "$@"
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes ${NNODES:-1} # of the job
)
(( ${#DISTRIBUTED_ARGS[@]} > 1 )) && echo "it's $((1 + 2))" $'a\'b'
