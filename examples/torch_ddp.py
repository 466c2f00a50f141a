"""A small GPT, trained from scratch on a text of this repository with DDP on gloo and on Weft: same losses, both times.

    torchrun --nproc-per-node 2 examples/torch_ddp.py [--short]

Without torchrun it starts two ranks itself. The third row is weft.optim.AdamW: no DDP, the step communicates.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_gpt import GPT

import weft.optim
import weft.torch  # noqa: F401  needed only where the package is not installed

TEXT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "program.md"


def train(options, group, fused):
    torch.manual_seed(0)
    model = GPT(options.width, options.layers, 4, options.context)
    if fused:
        optimizer = weft.optim.AdamW(model.parameters(), 1e-3)
    else:
        model = DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    data = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    order = torch.Generator().manual_seed(dist.get_rank())
    losses, times = [], []
    for _ in range(options.steps):
        at = torch.randint(0, len(data) - options.context - 1, (options.batch,), generator=order)
        batch = torch.stack([data[i : i + options.context + 1] for i in at.tolist()])
        begin = time.perf_counter()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=group)
        losses.append(mean.item() / dist.get_world_size())
    return losses, sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes")
    options = parser.parse_args()
    short = options.short
    options.width, options.layers, options.context = (32, 2, 32) if short else (256, 8, 64)
    options.batch, options.steps = (2, 15) if short else (1, 60)
    if "RANK" not in os.environ:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *sys.argv]
        sys.exit(subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1")).returncode)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ours = dist.new_group(backend="weft")
    rows = {
        "gloo, DDP": train(options, dist.group.WORLD, False),
        "weft, DDP": train(options, ours, False),
        "weft.optim.AdamW": train(options, ours, True),
    }
    if dist.get_rank() == 0:
        for name, (losses, seconds) in rows.items():
            print(f"{name:18} loss {losses[0]:.4f} to {losses[-1]:.4f}, {seconds * 1e3:8.2f} ms a step")
    reference = rows["gloo, DDP"][0]
    for name, (losses, _) in rows.items():
        error = max(abs(a - b) / abs(b) for a, b in zip(losses, reference))
        assert error < 2e-3, f"{name}: losses differ by {error}"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
