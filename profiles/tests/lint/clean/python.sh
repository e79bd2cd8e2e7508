#!/usr/bin/env python3
import os
os.environ["NCCL_ALGO"] = "Tree"
