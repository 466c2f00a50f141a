"""100 steps of a small GPT on this repository's text: weft.optim beside all_reduce + torch.optim, by torchrun.

    training.py [adamw|adam|sgd|lamb] [--steps N]

Prints, per rank, "error E losses A B digest D": E the largest difference of a parameter over its norm, D of the parameters'
bits. The caller runs it twice and compares.
"""

import os
import argparse
import copy
import hashlib
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft.optim
import weft.torch  # noqa: F401

TEXT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "program.md"
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "examples"), str(pathlib.Path(__file__).resolve().parent)]
from optim import Lamb  # noqa: E402
from torch_gpt import GPT  # noqa: E402

CONTEXT = 32
PAIRS = {
    "adamw": lambda m, o: (weft.optim.AdamW if o else torch.optim.AdamW)(m.parameters(), 1e-3),
    "adam": lambda m, o: (weft.optim.Adam if o else torch.optim.Adam)(m.parameters(), 1e-3, weight_decay=1e-2),
    "sgd": lambda m, o: (weft.optim.SGD if o else torch.optim.SGD)(m.parameters(), 0.05, 0.9),
    "lamb": lambda m, o: (weft.optim.LAMB if o else Lamb)(m.parameters(), 5e-3),
}


def batches(steps):
    data = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()[:40_000]
    order = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        at = torch.randint(0, len(data) - CONTEXT - 1, (4,), generator=order)
        yield torch.stack([data[i : i + CONTEXT + 1] for i in at.tolist()])


def train(model, optimizer, steps, reduces):
    losses = []
    for batch in batches(steps):
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        if reduces:
            for p in model.parameters():
                dist.all_reduce(p.grad, dist.ReduceOp.AVG)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def difference(name, ours, theirs):
    if name.endswith("qkv.bias"):  # the keys' bias has no gradient but rounding, which Adam divides by itself
        ours, theirs = (torch.cat(x.chunk(3)[::2]) for x in (ours, theirs))
    return (ours - theirs).norm().item() / max(1e-6, theirs.norm().item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optimizer", choices=sorted(PAIRS), nargs="?", default="adamw")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("weft")
    torch.manual_seed(7)
    ours = GPT(64, 3, 4, CONTEXT)
    theirs = copy.deepcopy(ours)
    losses = [train(model, PAIRS[options.optimizer](model, fused), options.steps, not fused) for model, fused in ((ours, True), (theirs, False))]
    error = max(difference(name, a, b) for (name, a), b in zip(ours.named_parameters(), theirs.parameters()))
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in ours.parameters())).hexdigest()[:16]
    said = f"error {error:.3e} losses {losses[0][0]:.4f} {losses[0][-1]:.4f} {losses[1][-1]:.4f} digest {digest}\n"
    os.write(1, said.encode())  # one write: the lines of two ranks do not mix
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
