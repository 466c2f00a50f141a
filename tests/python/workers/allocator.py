"""torch's CPU tensors in the arena of the process, by torchrun: mapped, right, private in forks, alive beyond the group.

    allocator.py [--off | --small]      without the allocator, and with an arena that is soon full

Prints "cases N" on rank 0. What plans were taken is in the files of WEFT_DEBUG_FILE, which the caller reads.
"""

import gc
import os
import sys
import threading

import torch
import torch.distributed as dist

import cases
import weft.torch

before_any_group = torch.arange(300_000.0)


def coded(rank, count, dtype=torch.float32):
    return (torch.arange(count) * 3 % 17 + rank).to(dtype)


def check_all_reduce(rank, size, tensor, group=None):
    tensor.copy_(coded(rank, tensor.numel(), tensor.dtype).view(tensor.shape))
    dist.all_reduce(tensor, group=group)
    want = sum(coded(r, tensor.numel(), torch.float64) for r in range(size)).to(tensor.dtype).view(tensor.shape)
    assert torch.equal(tensor, want)


def ordinary_tensors_are_mapped(rank, size):
    assert weft.torch.is_mapped(before_any_group) and weft.torch.is_mapped(torch.empty(4096))
    assert not weft.torch.is_mapped(torch.empty(4095))
    for count in (4096, 4097, 50_001, 3_000_001):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            whole = torch.empty(count + 7, dtype=dtype)
            check_all_reduce(rank, size, whole[3 : 3 + count])  # a view at an odd place
    check_all_reduce(rank, size, before_any_group)
    model = torch.nn.Linear(300, 300)
    model(torch.ones(50, 300)).sum().backward()
    assert all(weft.torch.is_mapped(x) for x in (model.weight, model.weight.grad))


def groups_that_are_made_later_map_it_too(rank, size):
    tensor = torch.empty(20_000)
    group = dist.new_group(backend="weft")
    check_all_reduce(rank, size, tensor, group)
    pair = dist.new_group([0, 1], backend="weft")
    if rank < 2:
        check_all_reduce(rank, 2, tensor, pair)
    dist.barrier()


def storages_grow_shrink_and_vanish(rank, size):
    x = torch.empty(0)
    assert x.data_ptr() == 0 and x.untyped_storage().nbytes() == 0
    for count in (10, 5_000, 100_000, 1_000_000, 100):
        known = x.clone()
        x.resize_(count)
        kept = min(known.numel(), count)
        assert torch.equal(x[:kept], known[:kept]) and x.data_ptr() % 64 == 0
        x.copy_(torch.arange(float(count)))
    storage = torch.arange(50_000.0).untyped_storage()
    storage.resize_(400_000), storage.resize_(0)
    lazily = torch._lazy_clone(torch.arange(30_000.0))
    lazily += 1
    assert lazily[29_999].item() == 30_000
    shared = torch.arange(30_000.0).share_memory_()  # torch's own shared memory
    check_all_reduce(rank, size, shared)


def threads_allocate_at_once(rank, size):
    wrong = []

    def work(number):
        for i in range(60):
            tensors = [torch.full((4096 * (1 + (i + k) % 5),), float(number * 1000 + k)) for k in range(6)]
            if not all(bool((t == number * 1000 + k).all()) for k, t in enumerate(tensors)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


class Changing(torch.utils.data.Dataset):
    """Its workers write into the tensor that the parent holds."""

    def __init__(self):
        self.data = torch.arange(64 * 8192.0).view(64, 8192)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        row = self.data[i].clone()
        self.data[i] = -1.0
        return row + torch.ones(8192)


def forked_loaders_write_into_copies(rank, size):
    data = Changing()
    total = 0.0
    for batch in torch.utils.data.DataLoader(data, 8, num_workers=2, multiprocessing_context="fork"):
        total += batch.double().sum().item()
    count = 64 * 8192
    assert total == count * (count - 1) / 2 + count
    assert torch.equal(data.data.flatten(), torch.arange(float(count))), "a worker wrote into its parent's tensor"
    check_all_reduce(rank, size, data.data)


def forks_that_go_on_with_torch(rank, size):
    held = torch.arange(100_000.0)
    child = os.fork()
    if child == 0:
        try:
            fresh = torch.arange(100_000.0) * 2
            good = not weft.torch.is_mapped(fresh) and bool((fresh == 2 * held).all())
            held.zero_()
            del held, fresh
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert held[99_999].item() == 99_999.0


def the_profiler_counts_its_memory(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        x = torch.empty(250_000)
        del x
    used = [event.self_cpu_memory_usage for event in profile.key_averages() if event.key == "aten::empty"]
    assert used and used[0] >= 1_000_000, used


def memory_outlives_the_group(rank, size):
    kept = [coded(rank, 40_000 + i) for i in range(10)]
    group = dist.new_group(backend="weft")
    for tensor in kept:
        dist.all_reduce(tensor, group=group)
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    for i, tensor in enumerate(kept):
        assert torch.equal(tensor, sum(coded(r, 40_000 + i) for r in range(size)))
        tensor += 1
    del kept[::2]
    gc.collect()
    dist.init_process_group("weft")
    check_all_reduce(rank, size, kept[0])
    check_all_reduce(rank, size, torch.empty(70_000))


CASES = [
    ordinary_tensors_are_mapped, groups_that_are_made_later_map_it_too, storages_grow_shrink_and_vanish, threads_allocate_at_once,
    forked_loaders_write_into_copies, forks_that_go_on_with_torch, the_profiler_counts_its_memory, memory_outlives_the_group,
]  # fmt: skip


def off(rank, size):
    assert not weft.torch.is_mapped(before_any_group)
    check_all_reduce(rank, size, torch.empty(50_001))


def small(rank, size):
    """An arena of 2 MiB: what does not fit is ordinary memory."""
    tensors = [torch.empty(50_000) for _ in range(30)]
    mapped = [weft.torch.is_mapped(tensor) for tensor in tensors]
    assert any(mapped) and not all(mapped)
    for tensor in tensors:
        check_all_reduce(rank, size, tensor)
    del tensors
    assert weft.torch.is_mapped(torch.empty(50_000)), "what was released is not used again"


if __name__ == "__main__":
    cases.run([off] if "--off" in sys.argv else [small] if "--small" in sys.argv else CASES)
