docker run --rm --gpus all -e NCCL_PROTO=LL128 image python train.py
