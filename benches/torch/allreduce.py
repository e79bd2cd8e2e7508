#!/usr/bin/env python3
"""One rank of a plain torch.distributed all-reduce loop with the NCCL backend; rank 0 prints JSON.

The job comes from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as with any launcher of torch. Every rank takes GPU
LOCAL_RANK (or else RANK), counted round where there are fewer GPUs. Nothing here knows how NCCL is configured.

For each size, in place: one checked call, warm-ups, then --batches batches of calls without a wait in between.
wall_us: median over the batches of a batch's wall time per call. event_us: median over all calls of the time between
CUDA events around the call. Both are means over the ranks.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

WARMUPS = 3
FEWEST_CALLS, MOST_CALLS = 2, 1000


def mean_over_ranks(values, device):
    """The element-wise mean of every rank's values."""
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor)
    return (tensor / dist.get_world_size()).tolist()


def check(data, size):
    """A result that is wrong ends the job: a fast wrong sum is worth nothing."""
    data.fill_(dist.get_rank() + 1)
    dist.all_reduce(data)
    world = dist.get_world_size()
    wrong = int((data != world * (world + 1) / 2).sum())
    if wrong:
        sys.exit(f"rank {dist.get_rank()}: {wrong} wrong elements at {size} bytes")
    data.zero_()


def batch(data, calls):
    """Wall time per call, and the event time of each call, in microseconds."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    torch.cuda.synchronize()
    dist.barrier(device_ids=[data.device.index])
    torch.cuda.synchronize()
    started = time.perf_counter()
    events[0].record()
    for event in events[1:]:
        dist.all_reduce(data)
        event.record()
    torch.cuda.synchronize()
    wall_us = (time.perf_counter() - started) * 1e6 / calls
    return wall_us, [1e3 * begin.elapsed_time(end) for begin, end in zip(events, events[1:])]


def measure(size, dtype, device, options):
    """One size in bytes."""
    data = torch.empty(size // dtype.itemsize, dtype=dtype, device=device)
    check(data, size)
    batch(data, WARMUPS)
    # All ranks must make the same number of calls: it comes from a mean that all of them know.
    guess_us = mean_over_ranks([min(batch(data, WARMUPS)[0] for _ in range(2))], device)[0]
    calls = int(min(max(options.batch_ms * 1e3 / guess_us, FEWEST_CALLS), MOST_CALLS))
    walls_us, events_us = zip(*(batch(data, calls) for _ in range(options.batches)))
    event_us = statistics.median(us for batch_us in events_us for us in batch_us)
    wall_us, event_us = mean_over_ranks([statistics.median(walls_us), event_us], device)
    return {"bytes": size, "calls": calls, "wall_us": wall_us, "event_us": event_us}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", required=True, help="bytes, separated by commas")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--batch-ms", type=float, default=30.0)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    dtype = getattr(torch, options.dtype)
    if any(size <= 0 or size % dtype.itemsize for size in sizes):
        parser.error(f"--sizes: whole numbers of {options.dtype} elements only")

    local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
    device = torch.device("cuda", local % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    results = [measure(size, dtype, device, options) for size in sizes]
    if dist.get_rank() == 0:
        nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
        head = {"torch": torch.__version__, "nccl": nccl, "ranks": dist.get_world_size(), "data_type": options.dtype}
        print(json.dumps({**head, "results": results}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
