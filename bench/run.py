#!/usr/bin/env python3
"""Benchmarks against peers, taken alternately in one run: a table with goals, or figures as JSON.

    ./dev bench optimizer|collectives|torch|sim|fuzz [--json] [--rounds N] [--only TEXT]      ./dev bench --list

Peers run as processes that block until told to take one step, so that what disturbs the machine disturbs all alike.
A figure is a median over rounds (a ratio: the median of the rounds' own ratios); spread is the interquartile range over
the median. A figure that misses its goal is measured three times more and all rounds count. A peer that is not
installed is named and left out.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
PEERS = os.path.join(ROOT, "build", "peers")
SHAPES = os.path.join(ROOT, "examples", "shapes", "bert-base.shapes")
ADAM, LAMB = (os.path.join(ROOT, "examples", f"{name}.weft") for name in ("adam", "lamb"))
MI = 1 << 20


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- peers: processes that take a step when told

class Piped:
    """Weft's own server: a line in, a figure out."""

    def __init__(self, arguments, name):
        self.name = name
        self.process = subprocess.Popen([os.path.join(BUILD, "bench", "weft_bench"), *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"{name}: {' '.join(arguments)} ended early")
            if line.strip() == "ready":
                break
            say(f"  {name} {line.strip()}")

    def step(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.communicate("quit\n")


class Fifo:
    """A peer whose ranks each block on a pipe of their own; rank 0 answers."""

    def __init__(self, command, ranks, name, env=None, argument=0):
        self.name, self.ranks, self.number = name, ranks, argument
        self.folder = tempfile.mkdtemp(prefix="weft-bench-")
        for pipe in [f"cmd.{rank}" for rank in range(ranks)] + ["out"]:
            os.mkfifo(os.path.join(self.folder, pipe))
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.processes = [subprocess.Popen([part.replace("FOLDER", self.folder) for part in words], env={**os.environ, **(env or {}), **extra},
                                           stdout=self.log, stderr=self.log) for words, extra in command(ranks)]
        self.commands = [self.open_when_ready(f"cmd.{rank}") for rank in range(ranks)]
        self.out = open(os.path.join(self.folder, "out"))

    def open_when_ready(self, pipe):
        import errno
        import time
        deadline = time.monotonic() + 90
        while True:                       # a writer may open a pipe only when somebody reads it, or it would wait for ever
            try:
                return os.fdopen(os.open(os.path.join(self.folder, pipe), os.O_WRONLY | os.O_NONBLOCK), "w")
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            if time.monotonic() > deadline or any(p.poll() not in (None, 0) for p in self.processes):
                self.log.flush()
                raise RuntimeError(f"{self.name} did not start: {open(self.log.name).read()[-400:]}")
            time.sleep(0.05)

    def step(self, command):
        self.number += 1
        for pipe in self.commands:
            pipe.write(f"{command} {1000 if command == 'small' else self.number}\n")
            pipe.flush()
        return float(self.out.readline())

    def close(self):
        for pipe in self.commands:
            try:
                pipe.write("quit 0\n")
                pipe.close()
            except BrokenPipeError:
                pass
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def compiled(source, output, command):
    os.makedirs(PEERS, exist_ok=True)
    target = os.path.join(PEERS, output)
    path = os.path.join(ROOT, "bench", "peers", source)
    if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(path):
        subprocess.run([*command, "-O3", "-march=native", "-fno-math-errno", "-std=c++20", path, "-o", target], check=True)
    return target


def openmpi(elements, ranks, ucx):
    if not shutil.which("mpicxx.openmpi"):
        return None
    binary = compiled("mpi.cpp", "mpi_openmpi", ["mpicxx.openmpi"])
    env = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    words += ["--bind-to", "core"] if ranks <= os.cpu_count() else ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    if ucx:
        words += ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=posix,sysv,cma,self"]
    else:
        words += ["--mca", "pml", "ob1"]
    words += ["-x", "MALLOC_MMAP_MAX_", "-x", "MALLOC_TRIM_THRESHOLD_", binary, "FOLDER", str(elements)]
    return Fifo(lambda _: [(words, {})], ranks, "Open MPI " + ("ucx" if ucx else "ob1"), env)


def venv(packages=("impi-rt==2021.19.0", "impi-devel==2021.19.0", "numpy", "torch==2.13.0+cpu")):
    """A Python environment of the benchmarks' own, with Intel MPI and torch where their packages can be had."""
    folder = os.path.join(ROOT, "build", "bench-venv")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for package in packages:
        stamp = os.path.join(folder, "have-" + package.split("=")[0])
        if not os.path.exists(stamp):
            extra = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"] if package.startswith("torch") else []
            extra += ["--no-deps"] if package.startswith("impi") else []      # over shared memory it needs no libfabric
            done = subprocess.run([python, "-m", "pip", "install", "-q", package, *extra], capture_output=True, text=True)
            if done.returncode == 0:                                          # one that failed is tried again next time
                open(stamp, "w").close()
    return folder


def intelmpi(elements, ranks):
    folder = venv()
    run = os.path.join(folder, "bin", "mpiexec.hydra")
    if not os.path.exists(run):
        run = os.path.join(folder, "bin", "mpiexec")
    headers = os.path.join(folder, "include")
    if not os.path.exists(run) or not os.path.exists(os.path.join(headers, "mpi.h")):
        return None
    libraries = os.path.join(folder, "lib")
    binary = compiled("mpi.cpp", "mpi_intel", ["g++", "-I" + headers, "-L" + libraries, "-Wl,-rpath," + libraries, "-Wl,--no-as-needed", "-lmpi"])
    env = {"I_MPI_FABRICS": "shm", "I_MPI_ROOT": folder, "LD_LIBRARY_PATH": libraries}
    env.update({"I_MPI_PIN": "0", "I_MPI_THREAD_YIELD": "2"} if ranks > os.cpu_count() else {})
    return Fifo(lambda _: [([run, "-n", str(ranks), binary, "FOLDER", str(elements)], {})], ranks, "Intel MPI", env)


def torch(elements, ranks):
    python = os.path.join(venv(), "bin", "python")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        return None
    script = os.path.join(ROOT, "bench", "peers", "torch_adam.py")
    port = str(20000 + os.getpid() % 20000)

    def command(n):
        return [([python, script, "FOLDER", str(elements)], {"RANK": str(rank), "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for rank in range(n)]
    return Fifo(command, ranks, "torch gloo + fused Adam")


def hand_written(elements, ranks):
    binary = compiled("hand_written.cpp", "hand_written", ["g++"])
    return Fifo(lambda n: [([binary, "FOLDER", str(elements), str(n)], {})], ranks, "hand-written")


# ---------------------------------------------------------------- figures

class Figures:
    def __init__(self, rounds, only):
        self.rounds, self.only, self.rows = rounds, only, []

    def wanted(self, *names):
        return not self.only or any(self.only in name for name in names)

    def add(self, name, values, unit, goal, least):
        values = [v for v in values if v is not None]
        median = statistics.median(values)
        quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [median] * 3
        self.rows.append({"name": name, "value": median, "unit": unit, "spread": (quartiles[2] - quartiles[0]) / median if median else 0,
                          "goal": goal, "reached": median >= goal if least else median <= goal, "least": least})

    def measure(self, goals, take, rounds=None):
        """take() measures one round: a value for each of `goals` ((name, unit, goal, at least?) each). Where one is missed,
        three times as many rounds more, and all count."""
        rounds = rounds or self.rounds
        rows = [take() for _ in range(rounds)]
        medians = [statistics.median(row[i] for row in rows) for i in range(len(goals))]
        if any(median < goal if least else median > goal for median, (_, _, goal, least) in zip(medians, goals)):
            rows += [take() for _ in range(3 * rounds)]
        for i, (name, unit, goal, least) in enumerate(goals):
            self.add(name, [row[i] for row in rows], unit, goal, least)

    def ratio(self, name, goal, least, take):
        self.measure([(name, "ratio", goal, least)], lambda: [take()])

    def print(self, as_json):
        if as_json:
            print(json.dumps({"figures": [{k: row[k] for k in ("name", "value", "unit", "spread", "goal")} for row in self.rows]}, indent=2))
            return
        print(f"{'figure':32} {'value':>10} {'unit':6} {'spread':>7}   goal")
        for row in self.rows:
            print(f"{row['name']:32} {row['value']:10.3f} {row['unit']:6} {100 * row['spread']:6.1f}%   {'>=' if row['least'] else '<='} {row['goal']:g}"
                  f"{'' if row['reached'] else '   MISSED'}")


def weft(program, ranks, *size, name="weft"):
    return Piped(["serve", program, str(ranks), *size], name)


def against_peers(figures, ranks, peers, prefix):
    """Adam, 16 Mi: best against plain, the best MPI, torch, and plain against the hand-written one, in shared rounds."""
    ours = weft(ADAM, ranks, "P=16Mi")
    running = []
    for start in peers:
        try:
            peer = start()
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            say(f"  peer left out: {error}")
            continue
        if peer:
            running.append(peer)
        else:
            say("  a peer is not installed: " + start.__doc__)
    for peer in running:
        peer.step("adam")                                            # warm
    rounds = []

    def more(count):
        for _ in range(count):
            row = {"best": ours.step("best"), "plain": ours.step("plain")}
            row.update({peer.name: peer.step("adam") for peer in running})
            rounds.append(row)

    def ratios(top, bottom):
        return [min(row[t] for t in top) / row[bottom] if bottom == "best" else row["plain"] / row[bottom] for row in rounds]

    mpi = [peer.name for peer in running if "MPI" in peer.name]
    wanted = [(f"adam_16Mi_n{ranks}_vs_plain", ["plain"], "best", 1.8, True)] if ranks == 2 else []
    wanted += [(f"adam_16Mi_n{ranks}_vs_mpi", mpi, "best", 2.6, True)] if mpi else []
    wanted += [(f"adam_16Mi_n{ranks}_vs_torch", [p.name for p in running if "torch" in p.name], "best", 5.5, True)] if any("torch" in p.name for p in running) else []
    wanted += [("plain_vs_hand_written", None, "hand-written", 1.15, False)] if any(p.name == "hand-written" for p in running) else []
    more(figures.rounds)
    missed = [w for w in wanted if (statistics.median(ratios(w[1], w[2])) < w[3]) == w[4] and statistics.median(ratios(w[1], w[2])) != w[3]]
    if missed:
        more(3 * figures.rounds)
    for name, top, bottom, goal, least in wanted:
        figures.add(name, ratios(top, bottom), "ratio", goal, least)
    for name in rounds[0]:
        say(f"  n={ranks} {name}: {statistics.median(row[name] for row in rounds) / 1e6:.2f} ms")
    for peer in [ours, *running]:
        peer.close()


def named(function, name):
    function.__doc__ = name
    return function


def optimizer(figures):
    mpi2 = [named(lambda: openmpi(16 * MI, 2, False), "Open MPI (apt-get install openmpi-bin libopenmpi-dev)"),
            named(lambda: openmpi(16 * MI, 2, True), "Open MPI with ucx"),
            named(lambda: intelmpi(16 * MI, 2), "Intel MPI (PyPI: impi-rt, impi-devel)")]
    if figures.wanted("adam_16Mi_n2_vs_plain", "adam_16Mi_n2_vs_mpi", "adam_16Mi_n2_vs_torch", "plain_vs_hand_written"):
        against_peers(figures, 2, [*mpi2, named(lambda: torch(16 * MI, 2), "torch 2.13 (CPU wheel)"),
                                   named(lambda: hand_written(16 * MI, 2), "the hand-written yardstick")], "")
    if figures.wanted("adam_16Mi_n4_vs_mpi"):
        against_peers(figures, 4, [named(lambda: openmpi(16 * MI, 4, False), "Open MPI"), named(lambda: intelmpi(16 * MI, 4), "Intel MPI")], "")
    if figures.wanted("scattered_vs_contiguous", "lamb_vs_adam"):
        scattered_and_lamb(figures)
    small_figures(figures)
    if figures.wanted("all_reduce_8B_n2_us", "all_reduce_8B_n2_vs_mpi"):
        small_all_reduce(figures)
    if figures.wanted("demo_tune_s", "demo_gb"):
        demo(figures)


def scattered_and_lamb(figures):
    total = sum(_elements(line) for line in open(SHAPES) if line.strip() and not line.startswith("#"))
    scattered, contiguous = weft(ADAM, 2, "@" + SHAPES, name="scattered"), weft(ADAM, 2, f"P={total}", name="contiguous")
    figures.ratio("scattered_vs_contiguous", 1.05, False, lambda: scattered.step("best") / contiguous.step("best"))
    contiguous.close()
    lamb = weft(LAMB, 2, "@" + SHAPES, name="lamb")
    figures.ratio("lamb_vs_adam", 1.5, False, lambda: lamb.step("best") / scattered.step("best"))
    scattered.close()
    lamb.close()


def _elements(line):
    product = 1
    for word in line.split("#")[0].replace("[", " ").replace("]", " ").replace(",", " ").split()[1:]:
        product *= int(word)
    return product


def bench(*arguments, env=None):
    return subprocess.run([os.path.join(BUILD, "bench", "weft_bench"), *arguments], capture_output=True, text=True, check=True,
                          env={**os.environ, **(env or {})}).stdout


def small_figures(figures):
    examples = [os.path.join(ROOT, "examples", name) for name in sorted(os.listdir(os.path.join(ROOT, "examples"))) if name.endswith(".weft")]
    if figures.wanted("bucket_bytes_per_1024"):
        figures.add("bucket_bytes_per_1024", [float(bench("buckets", SHAPES))], "bytes", 12, False)
    if figures.wanted("enumerate_all_s"):
        figures.measure([("enumerate_all_s", "s", 2, False)], lambda: [float(bench("enumerate", *examples))], rounds=3)
    if figures.wanted("codegen_cold_s", "codegen_cached_ms"):
        figures.measure([("codegen_cold_s", "s", 2, False), ("codegen_cached_ms", "ms", 5, False)], codegen, rounds=3)
    if figures.wanted("step_overhead_ns"):
        figures.measure([("step_overhead_ns", "ns", 50, False)], lambda: [float(bench("step"))], rounds=3)


def codegen():
    """One process compiles into an empty cache; a second, fresh one finds the code there and loads it."""
    with tempfile.TemporaryDirectory() as cache:
        cold, cached = (float(bench("codegen", ADAM, env={"WEFT_CACHE_DIR": cache})) for _ in range(2))
    return [cold / 1e3, cached]


def small_all_reduce(figures):
    ours = Piped(["small", "1000"], "weft")
    peers = [peer for peer in (openmpi(2, 2, False), openmpi(2, 2, True), intelmpi(2, 2)) if peer]
    goals = [("all_reduce_8B_n2_us", "us", 0.4, False)] + ([("all_reduce_8B_n2_vs_mpi", "ratio", 1, True)] if peers else [])

    def take():
        us, others = ours.step("go") / 1e3, [peer.step("small") for peer in peers]
        return [us] + ([min(others) / 1e3 / us] if peers else [])
    figures.measure(goals, take, rounds=max(21, figures.rounds))
    for peer in [ours, *peers]:
        peer.close()


def footprint(process):
    """Bytes of a process and all below it, pages that several of them map counted once (proportional set sizes)."""
    total = 0
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            total = sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children") as file:
                total += sum(footprint(child) for child in file.read().split())
    except OSError:
        pass                                                                  # it has ended meanwhile
    return total


def demo(figures):
    """The demo's tuning run on a warm build: its seconds, and the most memory that it holds, sampled from outside."""
    import time

    def take():
        begin, peak = time.monotonic(), 0
        command = [os.path.join(BUILD, "tools", "weft"), "tune", ADAM, "--model", "bert-base", "--ranks", "2", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
        while process.poll() is None:
            peak = max(peak, footprint(process.pid))
            time.sleep(0.5)
        if process.returncode:
            raise RuntimeError(f"the demo ended with status {process.returncode}")
        return [time.monotonic() - begin, peak / 1e9]
    figures.measure([("demo_tune_s", "s", 60, False), ("demo_gb", "GB", 8, False)], take, rounds=1)


def collectives(figures):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import collectives as room
    room.collectives(figures)


def simulator(figures, accuracy=False):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import sim as room
    (room.accuracy if accuracy else room.sim)(figures)


def torch_suite(figures):
    sys.modules["run"] = sys.modules["__main__"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch_suite as room
    room.torch(figures)


def fuzzing(figures):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import fuzz as room
    room.fuzz(figures)


BENCHMARKS = {"optimizer": optimizer, "torch": torch_suite, "collectives": collectives, "sim": simulator, "fuzz": fuzzing,
              "accuracy": lambda figures: simulator(figures, accuracy=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="only figures whose name contains this")
    options = parser.parse_args()
    if options.list or not options.name:
        print("\n".join(sorted(BENCHMARKS)))
        return
    subprocess.run(["cmake", "--build", BUILD, "--target", "weft_bench", "weft", "-j2"], check=True, stdout=subprocess.DEVNULL)
    figures = Figures(options.rounds, options.only)
    BENCHMARKS[options.name](figures)
    figures.print(options.json)


if __name__ == "__main__":
    main()
