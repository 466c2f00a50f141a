"""One rank of torch on a backend, for `./dev bench torch`: takes a step of what it is told and says how long it took, in us.

    torch_suite.py FOLDER gloo|weft|fake      (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT from the environment)

Every rank reads "COMMAND NUMBER" from FOLDER/cmd.RANK; rank 0 answers in FOLDER/out. One thread a rank, unpinned; inputs are
written anew before every timed call of more than 64 KiB; the slowest rank counts. Weft is loaded where it is measured only.
"""
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
BACKEND = sys.argv[2]
if BACKEND == "weft":
    import weft.optim
    import weft.torch  # before any tensor: they lie in the arena


def clock():
    return time.perf_counter_ns() / 1e3


class Suite:
    def __init__(self):
        self.made = {}

    def once(self, key, make):
        if key not in self.made:
            self.made.clear()  # one thing at a time: memory
            self.made[key] = make()
        return self.made[key]

    def slowest(self, us):
        took = torch.tensor([us], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item()

    # ---- collectives
    def all_reduce(self, size, dtype="float32"):
        dtype, size = getattr(torch, dtype), int(size)
        x, fresh = self.once(("all_reduce", size, dtype), lambda: [torch.zeros(size // dtype.itemsize, dtype=dtype) for _ in "xy"])
        if size <= 64 << 10:
            calls = 300 if size <= 4096 else 100
            for _ in range(20):
                dist.all_reduce(x)
            begin = clock()
            for _ in range(calls):
                dist.all_reduce(x)
            return self.slowest((clock() - begin) / calls)
        return statistics.median(self.timed(lambda: x.copy_(fresh), lambda: dist.all_reduce(x)) for _ in range(3))

    def timed(self, prepare, run):
        prepare()
        dist.barrier()
        begin = clock()
        run()
        return self.slowest(clock() - begin)

    # ---- optimizers: from gradients of each rank to new parameters on all
    def adam(self, shapes, how):
        parameters, flat, step = self.once(("adam", shapes, how), lambda: self.make_adam(shapes, how))

        def fresh():
            for p in parameters:
                p.grad.uniform_(-1, 1)

        return statistics.median(self.timed(fresh, step) for _ in range(2))

    def make_adam(self, shapes, how):
        parameters = [torch.nn.Parameter(torch.full(shape, 0.5)) for shape in shapes_of(shapes)]
        if BACKEND == "weft":
            for p in parameters:
                p.grad = torch.ones_like(p)
            optimizer = weft.optim.Adam(parameters, lr=1e-3)
            step = optimizer.step
            flat = None
        else:  # gloo's best: all gradients are one tensor
            flat = torch.ones(sum(p.numel() for p in parameters))
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                p.grad = part.view(p.shape)
            if how == "zero":
                from torch.distributed.optim import ZeroRedundancyOptimizer

                optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=1e-3, fused=True)
            else:
                optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)

            def step():
                dist.all_reduce(flat)
                flat.div_(dist.get_world_size())
                optimizer.step()

        step()
        return parameters, flat, step

    # ---- training: a GPT of 10 M parameters, 64 tokens a rank
    def batch(self):
        data = torch.randint(0, 256, (1, 65))
        return data[:, :-1], data[:, 1:]

    def loss(self, model):
        inputs, targets = self.batch()
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    def ddp_comm(self):
        """Forward and backward of DDP, less the same under no_sync."""
        model = self.once("ddp", lambda: torch.nn.parallel.DistributedDataParallel(gpt()))

        def step():
            self.loss(model).backward()

        def alone():
            with model.no_sync():
                self.loss(model).backward()

        together, apart = [], []
        for _ in range(4):
            together.append(self.timed(model.zero_grad, step))
            apart.append(self.timed(model.zero_grad, alone))
        return max(statistics.median(together) - statistics.median(apart), 0.01 * statistics.median(apart))

    def fsdp2(self):
        model, optimizer = self.once("fsdp2", self.make_fsdp2)

        def step():
            self.loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()

        return statistics.median(self.timed(lambda: None, step) for _ in range(2))

    def make_fsdp2(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = gpt()
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for _ in range(2):
            self.loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer


def shapes_of(name):
    if name != "bert-base":
        return [(int(name.split("x")[1]),)] * int(name.split("x")[0])
    lines = (ROOT / "examples" / "shapes" / "bert-base.shapes").read_text().splitlines()
    shapes = []
    for line in lines:
        numbers = [word for word in line.split("#")[0].replace(",", " ").replace("[", " ").replace("]", " ").split() if word.isdigit()]
        if numbers:
            shapes.append(tuple(map(int, numbers)))
    return shapes


def gpt():
    sys.path.insert(0, str(ROOT / "examples"))
    from torch_gpt import GPT

    torch.manual_seed(0)
    return GPT(320, 8, 4, 64)


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    if BACKEND == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    else:
        dist.init_process_group(BACKEND)
    suite = Suite()
    commands = open(f"{folder}/cmd.{0 if BACKEND == 'fake' else dist.get_rank()}")
    out = open(f"{folder}/out", "w") if dist.get_rank() == 0 else None
    for line in commands:
        words = line.split()[0].split(":")
        if words[0] == "quit":
            break
        took = getattr(suite, words[0])(*words[1:])
        if out:
            print(took, file=out, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
