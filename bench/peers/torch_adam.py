"""torch as a peer: gloo all_reduce of the gradient, then torch's fused Adam, one thread a rank, unpinned.

    torch_adam.py FOLDER ELEMENTS      (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT from the environment)
"""
import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    w = torch.nn.Parameter(torch.full((count,), 0.5))
    w.grad = torch.ones(count)
    optimizer = torch.optim.Adam([w], lr=1e-3, fused=True)
    commands = open(f"{folder}/cmd.{rank}")
    out = open(f"{folder}/out", "w") if rank == 0 else None
    for line in commands:
        name, argument = line.split()
        if name == "quit":
            break
        w.grad.uniform_(-1, 1)
        dist.barrier()
        begin = time.perf_counter_ns()
        dist.all_reduce(w.grad)
        w.grad /= ranks
        optimizer.step()
        took = torch.tensor([time.perf_counter_ns() - begin], dtype=torch.float64)
        dist.reduce(took, 0, dist.ReduceOp.MAX)
        if out:
            print(float(took[0]), file=out, flush=True)
    dist.destroy_process_group()


main()
