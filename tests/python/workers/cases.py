"""Runs the cases of a worker, one after the other, on a group that is made and ended around them."""

import torch
import torch.distributed as dist


def run(cases, backend="weft", **options):
    """cases: functions of (rank, ranks). Rank 0 prints "cases N"; a case that fails is named by the rank that it fails on."""
    torch.set_num_threads(1)
    dist.init_process_group(backend, **options)
    rank, size = dist.get_rank(), dist.get_world_size()
    for one in cases:
        try:
            one(rank, size)
        except BaseException:
            print(f"rank {rank}: {one.__name__} failed", flush=True)
            raise
    dist.barrier()
    if rank == 0:
        print(f"cases {len(cases)}", flush=True)
    dist.destroy_process_group()
