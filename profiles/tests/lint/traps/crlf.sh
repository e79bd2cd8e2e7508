#!/bin/bash
export NCCL_DEBUG=WARN
srun python train.py
