"""What the backend does beside plain operations, by torchrun: strides, refusals, disagreement, groups, futures, pairs.

Every case is a function of (rank, size); all run in one job, on ("weft" or "cpu:weft") as the argument says. Prints "cases N".
"""

import datetime
import sys
import time

import torch
import torch.distributed as dist

import cases
import weft.torch

CASES = []


def case(function):
    CASES.append(function)
    return function


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return
    raise AssertionError(f"{words} was not refused")


def fresh(timeout_s=60):
    return dist.new_group(backend="weft", timeout=datetime.timedelta(seconds=timeout_s))


# ---- strides
@case
def broadcast_of_a_column(rank, size):
    whole = torch.arange(8.0).view(4, 2) + 10 * rank
    dist.broadcast(whole[:, 0], 0)
    assert whole[:, 0].tolist() == [0, 2, 4, 6]
    assert whole[:, 1].tolist() == [1 + 10 * rank, 3 + 10 * rank, 5 + 10 * rank, 7 + 10 * rank], "a neighbour was written"


@case
def all_reduce_and_reduce_of_columns(rank, size):
    whole = torch.arange(8.0).view(4, 2) + 10 * rank
    dist.all_reduce(whole[:, 1])
    assert whole[:, 1].tolist() == [size * x + 10 * sum(range(size)) for x in (1, 3, 5, 7)]
    assert whole[:, 0].tolist() == [x + 10 * rank for x in (0, 2, 4, 6)]
    before = whole.clone()
    dist.reduce(whole[:, 0], 0)
    assert torch.equal(whole, before) or rank == 0


@case
def layouts_of_images(rank, size):
    x = (torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5) + rank).to(memory_format=torch.channels_last)
    want = sum(torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5) + r for r in range(size))
    dist.all_reduce(x)
    assert torch.equal(x, want) and x.is_contiguous(memory_format=torch.channels_last)
    y = torch.arange(12.0).view(3, 4) + rank
    y = y.t() if rank else y.t().contiguous()  # ranks differ in strides, not in values
    dist.all_reduce(y)
    assert torch.equal(y, sum((torch.arange(12.0).view(3, 4) + r).t() for r in range(size)))


@case
def gather_and_scatter_of_columns(rank, size):
    whole = torch.arange(8).view(4, 2) + 100 * rank
    outputs = [torch.full((4, 3), -1)[:, 1] for _ in range(size)] if rank == 0 else None
    dist.gather(whole[:, 0], outputs)
    for r, got in enumerate(outputs or []):
        assert got.tolist() == [100 * r + x for x in (0, 2, 4, 6)]
    source = torch.linspace(0, 5, 6)
    got = torch.empty(3, 2)[:, 0]
    dist.scatter(got, [source[::2] + r for r in range(size)] if rank == 0 else None)
    assert got.tolist() == [rank, 2 + rank, 4 + rank]
    into = torch.full((2 * size, 2), -1.0)
    dist.all_gather_into_tensor(into[:, 0], torch.tensor([1.0, 2.0]) + rank)
    assert into[:, 0].tolist() == [v + r for r in range(size) for v in (1, 2)] and bool((into[:, 1] == -1).all())
    part = torch.full((2, 2), -1.0)
    dist.reduce_scatter_tensor(part[:, 1], torch.arange(4.0 * size)[::2])
    assert part[:, 1].tolist() == [size * 2 * (2 * rank), size * 2 * (2 * rank + 1)] and bool((part[:, 0] == -1).all())


@case
def outputs_that_share_memory_are_refused(rank, size):
    refused(ValueError, ["share memory"], lambda: dist.all_reduce(torch.ones(1).expand(4)))
    refused(NotImplementedError, ["unsupported"], lambda: dist.all_reduce(torch.eye(2).to_sparse()))
    x = torch.ones(2)
    dist.all_reduce(x)  # nothing was sent by what was refused
    assert x.tolist() == [size, size]


# ---- numbers
@case
def scaled_sums_and_complex(rank, size):
    x = torch.tensor([1.0, 3.0]) * (rank + 1)
    total = size * (size + 1) / 2
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [0.5 * total, 1.5 * total]
    z = torch.complex(torch.ones(3) * rank, torch.arange(3.0))
    dist.all_reduce(z)
    assert z.tolist() == [complex(sum(range(size)), size * k) for k in range(3)]
    refused(ValueError, ["complex"], lambda: dist.all_reduce(z, dist.ReduceOp.MAX))
    refused(ValueError, ["bool"], lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG))
    refused(ValueError, ["integers"], lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND))


@case
def sums_of_16_bits_are_rounded_once(rank, size):
    x = torch.full((5,), [2048.0, 1.0, 1.0][rank % 3], dtype=torch.float16)
    dist.all_reduce(x)
    assert x.tolist() == [2050.0 if size == 3 else 2048.0] * 5
    y = torch.full((7,), float("nan") if rank == size - 1 else 1.0)
    dist.all_reduce(y, dist.ReduceOp.MIN)
    assert bool(y.isnan().all())


# ---- arguments
@case
def bad_arguments_are_refused_before_anything_is_sent(rank, size):
    refused(ValueError, ["rows"], lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)))
    refused(ValueError, ["negative"], lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [4] + [0] * (size - 1), [-1, 5] + [0] * (size - 2)))
    refused(Exception, [], lambda: dist.all_gather([torch.ones(2)], torch.ones(2)))
    refused(Exception, [], lambda: dist.broadcast(torch.ones(2), size))
    dist.barrier()


@case
def counts_that_differ_are_one_error_with_both(rank, size):
    group = fresh()
    refused(Exception, ["5000", "5001"], lambda: dist.all_reduce(torch.ones(5000 + (rank == 0)), group=group))
    group = fresh()
    kind = torch.float32 if rank else torch.int64
    refused(Exception, ["f32", "i64"], lambda: dist.broadcast(torch.ones(6, dtype=kind), 0, group))
    group = fresh()
    splits = [1] * size
    takes = [2 if rank == 1 and of == 0 else 1 for of in range(size)]
    call = lambda: dist.all_to_all_single(torch.empty(sum(takes)), torch.ones(size), takes, splits, group)  # noqa: E731
    refused(Exception, ["rank 0 sends 1 elements to rank 1", "rank 1 expects 2 from rank 0"], call)


# ---- works
@case
def works_complete_by_themselves(rank, size):
    x = torch.ones(1000) * (rank + 1)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future().then(lambda f: f.value()[0].sum().item())
    assert future.wait() == 1000 * size * (size + 1) / 2
    works = [dist.all_reduce(torch.ones(k + 1), async_op=True) for k in range(20)]
    deadline = time.monotonic() + 30
    while not all(work.is_completed() for work in works):
        assert time.monotonic() < deadline, "works without a wait do not complete"
        time.sleep(0.001)
    assert works[3].is_success() and works[3].result()[0].tolist() == [size] * 4


@case
def a_wait_ends_at_its_timeout(rank, size):
    group = fresh()
    if rank == 0:
        work = dist.all_reduce(torch.ones(4096), group=group, async_op=True)
        begin = time.monotonic()
        refused(Exception, ["not complete after 200 ms"], lambda: work.wait(datetime.timedelta(milliseconds=200)))
        assert time.monotonic() - begin < 5
    dist.barrier()
    if rank != 0:
        dist.all_reduce(torch.ones(4096), group=group)
    else:
        work.wait()


@case
def a_rank_that_does_not_come_is_named(rank, size):
    group = fresh(timeout_s=4)
    if rank != 1:
        begin = time.monotonic()
        refused(Exception, ["rank 1"], lambda: dist.all_reduce(torch.ones(4096), group=group))
        assert time.monotonic() - begin < 30
    dist.barrier()


@case
def an_abort_ends_the_others(rank, size):
    group = fresh()
    dist.barrier(group)
    if rank == 0:
        time.sleep(0.2)
        group._get_backend(torch.device("cpu")).abort()
        refused(Exception, ["abort"], lambda: dist.all_reduce(torch.ones(4096), group=group))
    else:
        refused(Exception, ["abort"], lambda: dist.all_reduce(torch.ones(4096), group=group))


# ---- groups
@case
def groups_within_groups(rank, size):
    pair = dist.new_group([0, 1], backend="weft")
    single = dist.new_group([rank_ for rank_ in range(size) if rank_ == 1], backend="weft")
    if rank < 2:
        x = torch.tensor([float(rank)])
        dist.broadcast(x, 1, group=pair)
        assert x.item() == 1
        dist.broadcast(x.fill_(rank), group=pair, group_src=0)
        assert x.item() == 0
    if rank == 1:
        y = torch.ones(3)
        dist.all_reduce(y, dist.ReduceOp.AVG, group=single)
        assert y.tolist() == [1, 1, 1]
    dist.barrier()


@case
def two_groups_in_opposite_order(rank, size):
    groups = [fresh(), fresh()]
    order = groups if rank == 0 else groups[::-1]
    xs = {id(group): torch.ones(100000) for group in groups}
    works = [dist.all_reduce(xs[id(group)], group=group, async_op=True) for group in order]
    for work in works:
        work.wait()
    assert all(x[-1].item() == size for x in xs.values())


@case
def groups_come_and_go(rank, size):
    for k in range(10):
        group = fresh()
        x = torch.ones(3) * k
        dist.all_reduce(x, group=group)
        assert x[0].item() == k * size
        dist.destroy_process_group(group)


@case
def a_group_of_the_same_name_is_made_again(rank, size):
    store = dist.distributed_c10d._get_default_store()
    for life in range(3):
        prefix = dist.PrefixStore(f"again of {size}", store)
        group = weft.torch._build.load().create(prefix, rank, size, datetime.timedelta(seconds=30))
        x = torch.full((3,), float(life + rank))
        group.allreduce([x]).wait()
        assert x[0].item() == life * size + sum(range(size))
        group.shutdown() if rank % 2 else time.sleep(0.05)
        del group


@case
def monitored_barrier_names_the_missing(rank, size):
    weft.torch.monitored_barrier()
    group = fresh()
    if rank == 1:
        dist.barrier()
        return
    words = ["1", "failed to pass monitoredBarrier"]
    refused(RuntimeError, words, lambda: weft.torch.monitored_barrier(group, datetime.timedelta(seconds=1), wait_all_ranks=True))
    dist.barrier()


# ---- lists, objects, pairs
@case
def coalesced_calls(rank, size):
    xs = [torch.full((k,), float(rank + k)) for k in (1, 4, 0, 7)]
    dist.all_reduce_coalesced(xs)
    for x, k in zip(xs, (1, 4, 0, 7)):
        assert x.tolist() == [sum(range(size)) + size * k] * k
    ins = [torch.full((k,), float(rank)) for k in (2, 3)]
    outs = [torch.empty(k * size) for k in (2, 3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for o, i in zip(outs, ins):
            dist.all_gather_into_tensor(o, i)
    manager.wait()
    for o, k in zip(outs, (2, 3)):
        assert o.tolist() == [float(r) for r in range(size) for _ in range(k)]
    shards = [torch.empty(k) for k in (2, 3)]
    with dist._coalescing_manager():
        for s, o in zip(shards, outs):
            dist.reduce_scatter_tensor(s, o)
    for s in shards:
        assert bool((s == size * rank).all())
    lists = [[torch.empty(2), torch.empty(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, ins)
    assert [one.tolist() for one in lists[size - 1]] == [[size - 1.0] * 2, [size - 1.0] * 3]
    uneven = [torch.full((r + 1,), -1.0) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [u.tolist() for u in uneven] == [[float(r)] * (r + 1) for r in range(size)]


@case
def objects(rank, size):
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank, "text": "x" * (100 * rank)})
    assert [one["rank"] for one in got] == list(range(size))
    told = ["hello", 3] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, 0)
    assert told == ["hello", 3]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]
    gathered = [None] * size if rank == 1 else None
    dist.gather_object(rank * 10, gathered, 1)
    assert rank != 1 or gathered == [10 * r for r in range(size)]


@case
def tags_are_honoured_and_batches_do_not_block(rank, size):
    if rank == 0:
        works = [dist.isend(torch.full((4,), float(tag)), 1, tag=tag) for tag in (5, 6)]
        [work.wait() for work in works]
    if rank == 1:
        later, sooner = torch.empty(4), torch.empty(2, 4)[:, ::2]
        dist.recv(later, 0, tag=6)
        dist.recv(sooner, 0, tag=5)
        assert later.tolist() == [6.0] * 4 and sooner.tolist() == [[5.0, 5.0], [5.0, 5.0]]
    mine, theirs = torch.full((3,), float(rank)), torch.empty(3)
    ops = [dist.P2POp(dist.irecv, theirs, (rank - 1) % size), dist.P2POp(dist.isend, mine, (rank + 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert theirs.tolist() == [float((rank - 1) % size)] * 3
    dist.barrier()


@case
def counts_of_a_pair_must_fit(rank, size):
    group = fresh()
    if rank == 0:
        refused(Exception, ["3000 elements", "2000 elements"], lambda: dist.send(torch.ones(3000), 1, group))
    if rank == 1:
        refused(Exception, ["3000 elements", "2000 elements"], lambda: dist.recv(torch.ones(2000), 0, group))
    group = fresh()  # small ones do not wait for their receiver, which is told
    if rank == 0:
        dist.send(torch.ones(3), 1, group)
    if rank == 1:
        refused(Exception, ["3 elements", "2 elements"], lambda: dist.recv(torch.ones(2), 0, group))
    dist.barrier()


@case
def messages_come_from_any_source(rank, size):
    for count in (5, 70_000):
        if rank == 0:
            seen = {}
            for _ in range(2 * (size - 1)):
                got = torch.full((count, 2), -1.0)
                source = dist.recv(got[:, 1], tag=9)
                assert bool((got[:, 0] == -1).all()), "a neighbour was written"
                seen.setdefault(source, []).append(got[:, 1].clone())
            assert sorted(seen) == list(range(1, size))
            for source, (first, second) in seen.items():  # in the order in which they were sent
                assert torch.equal(first, torch.arange(count) * 3.0 + source) and torch.equal(second, first + 100)
        else:
            dist.send(torch.arange(count) * 3.0 + rank, 0, tag=9)
            dist.send(torch.arange(count) * 3.0 + rank + 100, 0, tag=9)
        dist.barrier()  # or the next count could come from one rank before the last of another
    if rank == size - 1:
        group_source = torch.empty(3)
        work = dist.irecv(group_source, tag=1)
        dist.send(torch.ones(1), 0, tag=2)
        work.wait()
        assert work._source_rank() == 0 and group_source.tolist() == [7.0, 7.0, 7.0]
    if rank == 0:
        dist.recv(torch.empty(1), size - 1, tag=2)
        dist.send(torch.full((3,), 7.0), size - 1, tag=1)
    dist.barrier()


@case
def messages_and_collectives_do_not_wait_for_each_other(rank, size):
    big = 300_000
    theirs = torch.empty(big)
    if rank == 0:
        work = dist.isend(torch.arange(big, dtype=torch.float32), 1, tag=4)
    if rank == 1:
        early = dist.irecv(theirs, 0, tag=4)
    x = torch.ones(big)
    dist.all_reduce(x)
    assert x[0].item() == size
    if rank == 0:
        work.wait()
    if rank == 1:
        early.wait()
        assert torch.equal(theirs, torch.arange(big, dtype=torch.float32))
    future = None
    if rank == 0:
        future = dist.isend(torch.ones(3), 1, tag=8).get_future()
    if rank == 1:
        future = dist.irecv(torch.ones(3), 0, tag=8).get_future()
    if future:
        future.wait()
    dist.barrier()


@case
def a_message_that_nobody_sends_ends_at_the_timeout(rank, size):
    group = fresh(timeout_s=3)
    if rank == 1:
        begin = time.monotonic()
        refused(Exception, ["receive 4 elements from rank 0, tag 3"], lambda: dist.recv(torch.ones(4), 0, group, tag=3))
        assert 2 < time.monotonic() - begin < 20
    group = fresh()
    if rank == 1:
        work = dist.irecv(torch.ones(4), 0, group, tag=3)
        refused(Exception, ["not complete after 200 ms"], lambda: work.wait(datetime.timedelta(milliseconds=200)))
        group._get_backend(torch.device("cpu")).abort()
        refused(Exception, ["abort"], lambda: work.wait())
    dist.barrier()


@case
def what_is_coalesced_is_one_work(rank, size):
    cpu = torch.device("cpu")
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (3, 60_000):
        # Sends first on all ranks, larger than what needs no receiver; gathers and messages in one.
        theirs, back = torch.empty(count), torch.empty(count)
        ops = [
            dist.P2POp(dist.isend, torch.full((count,), float(rank)), right), dist.P2POp(dist.isend, torch.full((count,), -float(rank)), left),
            dist.P2POp(dist.irecv, back, right), dist.P2POp(dist.irecv, theirs, left),
        ]  # fmt: skip
        works = dist.batch_isend_irecv(ops)
        assert len(works) == 1 or dist.get_debug_level() == dist.DebugLevel.DETAIL
        [work.wait() for work in works]
        if size > 2:
            assert bool((theirs == left).all()) and bool((back == -right).all())
        else:  # two messages from one rank: in the order in which they were sent
            assert bool((back == left).all()) and bool((theirs == -left).all())
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return
    a, b = torch.ones(50_000), torch.full((7,), float(rank))
    whole = [torch.empty(7) for _ in range(size)]
    with dist._coalescing_manager(device=cpu, async_ops=True) as manager:
        dist.broadcast(a, 0)
        dist.all_gather(whole, b)
        dist.reduce(a, size - 1)
    manager.wait()
    assert [one[6].item() for one in whole] == [float(r) for r in range(size)]
    assert a[49_999].item() == (size if rank == size - 1 else 1)
    future = manager.works[0].get_future()
    assert len(future.value()) == 2 + size and manager.works[0].is_success()


@case
def groups_are_split(rank, size):
    members = [r for r in range(size) if r != 1]
    if rank != 1:  # only those that are in it take part
        group = dist.group.WORLD.split_group(members, group_name=f"without one of {size}")
        x = torch.full((30_000,), float(rank))
        group.allreduce([x]).wait()
        assert x[29_999].item() == sum(members) and group.size() == size - 1
    dist.barrier()


# ---- what stands on it
@case
def functional_collectives_and_dtensors(rank, size):
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
    assert functional.wait_tensor(x).tolist() == [size] * 4
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(5.0 * 6).view(5, 6)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    weight = distribute_tensor(torch.arange(12.0).view(6, 2), mesh, [Replicate()])
    assert torch.equal((sharded @ weight).full_tensor(), whole @ torch.arange(12.0).view(6, 2))


@case
def fully_sharded_modules(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    make = lambda: torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 3))  # noqa: E731
    plain = make()
    sharded = make()
    sharded.load_state_dict(plain.state_dict())
    mesh = init_device_mesh("cpu", (size,))
    for layer in sharded:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (plain, sharded)]
    for step in range(3):
        inputs = torch.arange(size * 2 * 6.0).view(size, 2, 6) / 10 + step
        losses = []
        for model, optimizer in zip((plain, sharded), optimizers):
            data = inputs.view(-1, 6) if model is plain else inputs[rank]
            loss = model(data).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        dist.all_reduce(losses[1], dist.ReduceOp.AVG)
        assert torch.allclose(losses[0], losses[1], rtol=1e-5), losses


@case
def data_loaders_that_fork(rank, size):
    data = torch.utils.data.TensorDataset(torch.arange(40.0))
    seen = sum(batch[0].sum().item() for batch in torch.utils.data.DataLoader(data, 8, num_workers=2))
    x = torch.tensor([seen])
    dist.all_reduce(x)
    assert x.item() == size * 780


@case
def the_profiler_sees_calls(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(4))
        dist.broadcast(torch.ones(4), 0)
    names = {event.key for event in profile.key_averages()}
    assert {"weft:all_reduce", "weft:broadcast"} <= names, names


if __name__ == "__main__":
    only = sys.argv[2:]
    cases.run([one for one in CASES if not only or one.__name__ in only], sys.argv[1], timeout=datetime.timedelta(seconds=60))
