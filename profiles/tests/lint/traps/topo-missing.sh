export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml
exec "$@"
