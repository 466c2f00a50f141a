"""Every operation of torch.distributed on "weft" beside gloo, by torchrun: operations x dtypes x counts x sync and async.

Values encode (rank, position), outputs are poisoned, guards stand behind the end. Where gloo has no such case (AVG, some
dtypes), the expectation is computed in float64 or exact integers. Prints "cells N" and exits with 0 when all are right.
"""

import itertools
import os
import sys

import torch
import weft.torch  # noqa: F401  where the package is not installed
import torch.distributed as dist

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
COUNTS = [0, 1, 4, 37]
GUARD = 5
R = dist.ReduceOp


def filled(rank, count, dtype, salt=0):
    """Position-coded values, small enough that sums of few ranks are exact in every dtype."""
    position = torch.arange(count, dtype=torch.int64)
    if dtype == torch.bool:
        return ((position + rank + salt) % 3 == 0).to(dtype)
    return ((position * 3 + rank * 5 + salt) % 11 + 1).to(dtype)


class Guarded:
    """A tensor of `count` elements with guards on both sides, poisoned."""

    def __init__(self, count, dtype):
        self.poison = (torch.ones(1) * 99).to(dtype)
        self.whole = self.poison.repeat(count + 2 * GUARD)
        self.tensor = self.whole[GUARD : GUARD + count]

    def check(self, what):
        edges = torch.cat([self.whole[:GUARD], self.whole[GUARD + self.tensor.numel() :]])
        assert bool((edges == self.poison).all()), f"{what}: guards overwritten: {edges}"


class Matrix:
    def __init__(self):
        self.gloo = dist.group.WORLD
        self.weft = dist.new_group(backend="weft")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.cells = 0

    def same(self, what, got, want):
        self.cells += 1
        good = got.dtype == want.dtype and got.shape == want.shape and bool((got == want).all() if got.numel() else True)
        assert good, f"rank {self.rank}: {what}: {got} is not {want}"

    def finish(self, work, asynchronous):
        if asynchronous:
            work.wait()
            assert work.is_completed()

    def out(self, count, dtype):
        return Guarded(count, dtype)

    # ---- expectations, from everybody's inputs
    def all_inputs(self, count, dtype, salt=0):
        return [filled(rank, count, dtype, salt) for rank in range(self.size)]

    def reduced(self, op, inputs):
        dtype = inputs[0].dtype
        wide = torch.stack([x.to(torch.float64 if dtype.is_floating_point else torch.int64) for x in inputs])
        if op == R.SUM:
            got = wide.sum(0)
        elif op == R.PRODUCT:
            got = wide.prod(0)
        elif op == R.MIN:
            got = wide.min(0).values if wide.shape[1] else wide[0]
        elif op == R.MAX:
            got = wide.max(0).values if wide.shape[1] else wide[0]
        elif op == R.AVG:
            got = wide.sum(0)
            if not dtype.is_floating_point:
                return torch.div(got, self.size, rounding_mode="trunc").to(dtype)
            return (got.to(torch.float32 if dtype != torch.float64 else dtype).to(dtype).to(wide.dtype) / self.size).to(dtype)
        else:
            got = inputs[0].clone()
            for x in inputs[1:]:
                got = got & x if op == R.BAND else got | x if op == R.BOR else got ^ x
            return got
        return got.to(dtype)

    def legal(self, op, dtype):
        if op in (R.BAND, R.BOR, R.BXOR):
            return not dtype.is_floating_point
        return not (op == R.AVG and dtype == torch.bool)

    # ---- operations
    def reductions(self, dtype, count, asynchronous):
        for op in (R.SUM, R.PRODUCT, R.MIN, R.MAX, R.AVG, R.BAND, R.BOR, R.BXOR):
            if not self.legal(op, dtype):
                continue
            what = f"{op} {dtype} x {count}"
            want = self.reduced(op, self.all_inputs(count, dtype))
            y = self.out(count, dtype)
            y.tensor.copy_(filled(self.rank, count, dtype))
            self.finish(dist.all_reduce(y.tensor, op, self.weft, asynchronous), asynchronous)
            self.same("all_reduce " + what, y.tensor, want)
            y.check("all_reduce " + what)
            root = self.size - 1
            y.tensor.copy_(filled(self.rank, count, dtype))
            self.finish(dist.reduce(y.tensor, root, op, self.weft, asynchronous), asynchronous)
            self.same("reduce " + what, y.tensor, want if self.rank == root else filled(self.rank, count, dtype))
            y.check("reduce " + what)
            self.reduce_scatters(op, dtype, count, asynchronous, what)

    def reduce_scatters(self, op, dtype, count, asynchronous, what):
        whole = self.all_inputs(count * self.size, dtype)
        mine = whole[self.rank].clone()
        want = self.reduced(op, whole)[self.rank * count : (self.rank + 1) * count]
        y = self.out(count, dtype)
        self.finish(dist.reduce_scatter_tensor(y.tensor, mine, op, self.weft, asynchronous), asynchronous)
        self.same("reduce_scatter_tensor " + what, y.tensor, want)
        y.check("reduce_scatter_tensor " + what)
        self.same("reduce_scatter_tensor's input " + what, mine, whole[self.rank])
        counts = [(count + 2 * r) % (count + 3) for r in range(self.size)]  # uneven
        whole = self.all_inputs(sum(counts), dtype)
        starts = [sum(counts[:r]) for r in range(self.size)]
        y = self.out(counts[self.rank], dtype)
        parts = [x.clone() for x in whole[self.rank].split(counts)]
        self.finish(dist.reduce_scatter(y.tensor, parts, op, self.weft, asynchronous), asynchronous)
        self.same("reduce_scatter " + what, y.tensor, self.reduced(op, whole)[starts[self.rank] :][: counts[self.rank]])
        y.check("reduce_scatter " + what)

    def moves(self, dtype, count, asynchronous):
        what = f"{dtype} x {count}"
        for root in range(self.size):
            y = self.out(count, dtype)
            if self.rank == root:
                y.tensor.copy_(filled(root, count, dtype))
            self.finish(dist.broadcast(y.tensor, root, self.weft, asynchronous), asynchronous)
            self.same("broadcast " + what, y.tensor, filled(root, count, dtype))
            y.check("broadcast " + what)
            self.rooted(root, dtype, count, asynchronous, what)
        inputs = self.all_inputs(count, dtype)
        ys = [self.out(count, dtype) for _ in range(self.size)]
        self.finish(dist.all_gather([y.tensor for y in ys], inputs[self.rank], self.weft, asynchronous), asynchronous)
        for y, want in zip(ys, inputs):
            self.same("all_gather " + what, y.tensor, want)
            y.check("all_gather " + what)
        y = self.out(count * self.size, dtype)
        self.finish(dist.all_gather_into_tensor(y.tensor, inputs[self.rank], self.weft, asynchronous), asynchronous)
        self.same("all_gather_into_tensor " + what, y.tensor, torch.cat(inputs))
        y.check("all_gather_into_tensor " + what)

    def rooted(self, root, dtype, count, asynchronous, what):
        ys = [self.out(count, dtype) for _ in range(self.size)]
        outputs = [y.tensor for y in ys] if self.rank == root else None
        self.finish(dist.gather(filled(self.rank, count, dtype), outputs, root, self.weft, asynchronous), asynchronous)
        for rank, y in enumerate(ys if self.rank == root else []):
            self.same("gather " + what, y.tensor, filled(rank, count, dtype))
            y.check("gather " + what)
        y = self.out(count, dtype)
        inputs = [filled(root, count, dtype, salt=r) for r in range(self.size)] if self.rank == root else None
        self.finish(dist.scatter(y.tensor, inputs, root, self.weft, asynchronous), asynchronous)
        self.same("scatter " + what, y.tensor, filled(root, count, dtype, salt=self.rank))
        y.check("scatter " + what)

    def exchanges(self, dtype, count, asynchronous):
        what = f"{dtype} x {count}"
        y = self.out(count * self.size, dtype)
        mine = torch.cat([filled(self.rank, count, dtype, salt=to) for to in range(self.size)])
        self.finish(dist.all_to_all_single(y.tensor, mine, group=self.weft, async_op=asynchronous), asynchronous)
        want = torch.cat([filled(of, count, dtype, salt=self.rank) for of in range(self.size)])
        self.same("all_to_all_single " + what, y.tensor, want)
        y.check("all_to_all_single " + what)
        rows = lambda a, b: (a * 2 + b * 3 + count) % (count + 2)  # noqa: E731  uneven, zeros among them
        gives = [rows(self.rank, to) for to in range(self.size)]
        takes = [rows(of, self.rank) for of in range(self.size)]
        parts = [filled(self.rank, n, dtype, salt=to) for to, n in enumerate(gives)]
        want = [filled(of, n, dtype, salt=self.rank) for of, n in enumerate(takes)]
        y = self.out(sum(takes), dtype)
        work = dist.all_to_all_single(y.tensor, torch.cat(parts), takes, gives, self.weft, asynchronous)
        self.finish(work, asynchronous)
        self.same("all_to_all_single with splits " + what, y.tensor, torch.cat(want))
        y.check("all_to_all_single with splits " + what)
        ys = [self.out(n, dtype) for n in takes]
        self.finish(dist.all_to_all([y.tensor for y in ys], parts, self.weft, asynchronous), asynchronous)
        for y, w in zip(ys, want):
            self.same("all_to_all " + what, y.tensor, w)
            y.check("all_to_all " + what)

    def pairs(self, dtype, count, asynchronous):
        to, of = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        y = self.out(count, dtype)
        if asynchronous:
            works = [dist.irecv(y.tensor, of, self.weft, tag=3), dist.isend(filled(self.rank, count, dtype), to, self.weft, tag=3)]
            for work in works:
                work.wait()
        elif self.rank % 2 == 0:
            dist.send(filled(self.rank, count, dtype), to, self.weft)
            dist.recv(y.tensor, of, self.weft)
        else:
            dist.recv(y.tensor, of, self.weft)
            dist.send(filled(self.rank, count, dtype), to, self.weft)
        self.same(f"send and recv {dtype} x {count}", y.tensor, filled(of, count, dtype))
        y.check("recv")

    def beside_gloo(self, dtype, count):
        """The same calls on both backends, where gloo has them."""
        for op in (R.SUM, R.PRODUCT, R.MIN, R.MAX):
            a, b = filled(self.rank, count, dtype), filled(self.rank, count, dtype)
            dist.all_reduce(a, op, self.gloo)
            dist.all_reduce(b, op, self.weft)
            self.same(f"all_reduce {op} {dtype} x {count} beside gloo", b, a)

    def run(self):
        for dtype, count in itertools.product(DTYPES, COUNTS):
            for asynchronous in (False, True):
                self.reductions(dtype, count, asynchronous)
                self.moves(dtype, count, asynchronous)
                self.exchanges(dtype, count, asynchronous)
                self.pairs(dtype, count, asynchronous)
            if count and dtype not in (torch.bool, torch.bfloat16):
                self.beside_gloo(dtype, count)
        dist.barrier(self.weft)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    matrix = Matrix()
    matrix.run()
    print(f"rank {matrix.rank}: cells {matrix.cells}")
    sys.stdout.flush()
    dist.destroy_process_group()
    os._exit(0) if "--fast-exit" in sys.argv else None
