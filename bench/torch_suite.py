"""torch on Weft against torch on gloo: figures of `./dev bench torch`.

Two ranks, one thread each, unpinned. Jobs of the backends (bench/peers/torch_suite.py) live side by side and take steps in turn
when they are told, so that what disturbs the machine disturbs all alike. The Python is that of tests/python/prepare.py
(build/python), or WEFT_BENCH_PYTHON: one with torch and weft.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile

import run

RANKS = 2
SIZES = [8 << (2 * k) for k in range(13)]  # 8 B to 128 MB
WORKER = os.path.join(run.ROOT, "bench", "peers", "torch_suite.py")


def python():
    given = os.environ.get("WEFT_BENCH_PYTHON")
    if given:
        return given
    subprocess.run([sys.executable, os.path.join(run.ROOT, "tests", "python", "prepare.py")], check=True)
    return os.path.join(run.ROOT, "build", "python", "bin", "python")


def has_torch(interpreter):
    return not subprocess.run([interpreter, "-c", "import torch, weft"], capture_output=True, cwd="/").returncode


class Jobs:
    """Jobs by the name of their backend, started when they are first asked."""

    def __init__(self, interpreter):
        self.interpreter, self.running = interpreter, {}

    def step(self, backend, command):
        """Microseconds."""
        if backend not in self.running:
            self.running[backend] = self.start(backend)
        return self.running[backend].step(command)

    def start(self, backend):
        ranks = 1 if backend == "fake" else RANKS
        port = str(20000 + (os.getpid() + 7919 * len(self.running)) % 20000)

        def command(n):
            return [([self.interpreter, WORKER, "FOLDER", backend], {"RANK": str(rank), "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1",
                                                                     "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}) for rank in range(n)]
        if backend == "weft":  # a minute where it is not built yet
            subprocess.run([self.interpreter, "-c", "import weft.torch.build as b; b.build()"], check=True, capture_output=True, cwd="/")
        return run.Fifo(command, ranks, f"torch on {backend}")

    def close(self):
        for job in self.running.values():
            job.close()


def all_reduces(figures, jobs):
    if figures.wanted("all_reduce_8B_over_fake_us"):
        figures.measure([("all_reduce_8B_over_fake_us", "us", 2, False)],
                        lambda: [jobs.step("weft", "all_reduce:8") - jobs.step("fake", "all_reduce:8")])
    if figures.wanted("all_reduce_worst_vs_gloo"):
        rounds = {size: [] for size in SIZES}
        for _ in range(figures.rounds):
            for size in SIZES:
                ours, theirs = (jobs.step(backend, f"all_reduce:{size}") for backend in ("weft", "gloo"))
                rounds[size].append((theirs / ours, ours, theirs))
        for size, rows in rounds.items():
            ratio, ours, theirs = (statistics.median(row[i] for row in rows) for i in range(3))
            run.say(f"  all_reduce {size:>10} B: weft {ours:10.1f} us, gloo {theirs:10.1f} us, ratio {ratio:6.2f}")
        worst = min(rounds.values(), key=lambda rows: statistics.median(row[0] for row in rows))
        figures.add("all_reduce_worst_vs_gloo", [row[0] for row in worst], "ratio", 4, True)
    if figures.wanted("all_reduce_bf16_vs_f32"):
        def per_byte():
            return jobs.step("weft", f"all_reduce:{16 << 20}:bfloat16") / jobs.step("weft", f"all_reduce:{16 << 20}")
        figures.ratio("all_reduce_bf16_vs_f32", 1.1, False, per_byte)


def against_gloo(figures, jobs, name, goal, ours, theirs):
    if figures.wanted(name):
        figures.ratio(name, goal, True, lambda: jobs.step("gloo", theirs) / jobs.step("weft", ours))


def import_time(figures, interpreter):
    if not figures.wanted("import_s"):
        return
    code = "import time; begin = time.perf_counter(); import weft, sys; assert 'torch' not in sys.modules; print(time.perf_counter() - begin)"

    def take():
        done = subprocess.run([interpreter, "-c", code], check=True, capture_output=True, text=True, cwd="/")
        return [float(done.stdout)]
    figures.measure([("import_s", "s", 0.3, False)], take)


def wheel_size(figures, interpreter):
    """What pip installed, packed as a wheel is."""
    if not figures.wanted("wheel_mb"):
        return
    code = "import importlib.metadata as m; print('\\n'.join(str(f.locate()) for f in m.files('weft') if '__pycache__' not in str(f)))"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, cwd="/")
    if done.returncode:
        run.say("  wheel_mb: weft is not installed by pip here")
        return
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in done.stdout.splitlines():
                archive.write(path)
        figures.add("wheel_mb", [packed.tell() / 1e6], "MB", 10, False)


def torch(figures):
    interpreter = python()
    import_time(figures, interpreter)
    wheel_size(figures, interpreter)
    if not has_torch(interpreter):
        run.say("  torch is not there (build/python/skipped.txt says why): its figures are left out")
        return
    jobs = Jobs(interpreter)
    try:
        all_reduces(figures, jobs)
        against_gloo(figures, jobs, "adam_16Mi_vs_gloo_fused", 5.5, "adam:1x16777216:fused", "adam:1x16777216:fused")
        against_gloo(figures, jobs, "adam_bert_base_vs_gloo_fused", 4.5, "adam:bert-base:fused", "adam:bert-base:fused")
        against_gloo(figures, jobs, "adam_16Mi_vs_zero", 9, "adam:16x1048576:fused", "adam:16x1048576:zero")
        against_gloo(figures, jobs, "ddp_comm_time_vs_gloo", 5, "ddp_comm", "ddp_comm")
        against_gloo(figures, jobs, "fsdp2_vs_gloo", 2, "fsdp2", "fsdp2")
    finally:
        jobs.close()
