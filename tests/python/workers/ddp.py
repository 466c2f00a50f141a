"""DDP on gloo and on weft: a small model, the same data, the losses of every step. By torchrun; prints the losses of both.

find_unused_parameters, no_sync and a comm hook are in it; buffers (BatchNorm) are broadcast.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import weft.torch  # noqa: F401


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 33), torch.nn.BatchNorm1d(33), torch.nn.GELU(), torch.nn.Linear(33, 4))
        self.unused = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.body(x)


def hook(group, bucket):
    """Averages in bf16, through a future's callback."""
    half = bucket.buffer().to(torch.bfloat16)
    future = dist.all_reduce(half, group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0].to(torch.float32) / dist.get_world_size(group))


def losses(group, steps, with_hook):
    torch.manual_seed(1)
    model = DistributedDataParallel(Model(), process_group=group, find_unused_parameters=True, bucket_cap_mb=0.001)
    if with_hook:
        model.register_comm_hook(group, hook)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    rank, out = dist.get_rank(), []
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(steps):
        x = torch.randn(16, 8, generator=data)
        y = (x[:, :4].argmax(1)) % 4
        if step % 3 == 2:  # gradients of two halves, sent once
            with model.no_sync():
                F.cross_entropy(model(x[:8]), y[:8]).backward()
            loss = F.cross_entropy(model(x[8:]), y[8:])
        else:
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        out.append(loss.item())
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ours = dist.new_group(backend="weft")
    for with_hook in (False, True) if "--no-hook" not in sys.argv else (False,):
        theirs, mine = (losses(group, 12, with_hook) for group in (dist.group.WORLD, ours))
        tolerance = 0.0 if dist.get_world_size() == 2 and not with_hook else 2e-2 if with_hook else 1e-5
        for a, b in zip(theirs, mine):
            assert abs(a - b) <= tolerance * abs(a), (with_hook, theirs, mine)
        assert mine[-1] < mine[0]
    print(f"rank {dist.get_rank()}: losses {mine[0]:.4f} to {mine[-1]:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os.environ.pop("RANK", None)
