"""gloo through torch as a peer of `weft bench`: the same cells, timed in the same way. One thread a rank, unpinned.

    torch_collectives.py FOLDER BYTES      (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT from the environment)
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64,
          "i8": torch.int8, "u8": torch.uint8}
COMBINES = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


def call_of(operation, send, recv, count, ranks, rank, combine, root):
    """(what to run, what is rewritten, what is read)"""
    if operation == "all_reduce":
        return lambda: dist.all_reduce(send[:count], combine), send[:count], send[:count]
    if operation == "broadcast":
        return lambda: dist.broadcast(send[:count], root), send[:count if rank == root else 0], send[:count]
    if operation == "all_gather":
        parts = list(recv[:count * ranks].chunk(ranks))
        return lambda: dist.all_gather(parts, send[:count]), send[:count], recv[:count * ranks]
    if operation == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(recv[:count], send[:count * ranks], combine), send[:count * ranks], recv[:count]
    if operation == "all_to_all":
        return lambda: dist.all_to_all_single(recv[:count * ranks], send[:count * ranks]), send[:count * ranks], recv[:count * ranks]
    return None, None, None


def measure(fields, count, room, rank, ranks):
    operation, dtype, combine, root, _, touch, read, iterations = fields
    if dtype not in DTYPES or combine not in COMBINES:
        return -1
    size = torch.tensor([], dtype=DTYPES[dtype]).element_size()
    send, recv = torch.ones(room // size + 64, dtype=DTYPES[dtype]), torch.ones(room // size + 64, dtype=DTYPES[dtype])
    run, written, result = call_of(operation, send, recv, count, ranks, rank, COMBINES[combine], int(root))
    if run is None:
        return -1
    for _ in range(2):
        run()
    spans = []
    for i in range(int(iterations)):
        if touch == "1":
            written.fill_(i & 1)
        dist.barrier()
        begin = time.perf_counter_ns()
        run()
        if read == "1":
            result.sum()
        spans.append(time.perf_counter_ns() - begin)
    took = torch.tensor([statistics.median(spans)], dtype=torch.float64)
    dist.reduce(took, 0, dist.ReduceOp.MAX)
    return float(took[0])


def main():
    folder, room = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    commands = open(f"{folder}/cmd.{rank}")
    out = open(f"{folder}/out", "w") if rank == 0 else None
    for line in commands:
        name, count = line.split()
        if name == "quit":
            break
        took = measure(name.split(","), int(count), room, rank, ranks)
        if out:
            print(took, file=out, flush=True)
    dist.destroy_process_group()


main()
