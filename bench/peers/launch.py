#!/usr/bin/env python3
"""Starts a peer of `weft bench` with the settings in which it is best; builds it first where needed.

    launch.py NAME RANKS FOLDER BYTES      NAME: openmpi openmpi-ucx openmpi-tcp intelmpi mpich mpich-tcp gloo

Its ranks take commands from the pipes FOLDER/cmd.RANK; rank 0 answers into FOLDER/out. A peer that is not installed ends
with status 1 and one line that says how to get it.
"""
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import run as bench  # noqa: E402  (where compilers, folders and the Python environment are known)

SOURCE = "collectives_mpi.cpp"


def missing(text):
    sys.exit(text)


def openmpi(ranks, folder, room, flavour):
    if not shutil.which("mpicxx.openmpi"):
        missing("Open MPI is not installed: apt-get install openmpi-bin libopenmpi-dev")
    binary = bench.compiled(SOURCE, "collectives_openmpi", ["mpicxx.openmpi"])
    # It allocates a temporary per call: without these every large call pays for fresh pages.
    env = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    words += ["--bind-to", "core"] if ranks <= os.cpu_count() else ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    words += {"": ["--mca", "pml", "ob1"],
              "ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=posix,sysv,cma,self"],
              "tcp": ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]}[flavour]
    return words + ["-x", "MALLOC_MMAP_MAX_", "-x", "MALLOC_TRIM_THRESHOLD_", binary, folder, room], env


def intelmpi(ranks, folder, room, _):
    place = bench.venv(("impi-rt==2021.19.0", "impi-devel==2021.19.0"))
    launcher = os.path.join(place, "bin", "mpiexec.hydra")
    headers, libraries = os.path.join(place, "include"), os.path.join(place, "lib")
    if not os.path.exists(launcher) or not os.path.exists(os.path.join(headers, "mpi.h")):
        missing("Intel MPI is not there: pip install impi-rt impi-devel")
    binary = bench.compiled(SOURCE, "collectives_intel", ["g++", "-I" + headers, "-L" + libraries, "-Wl,-rpath," + libraries, "-Wl,--no-as-needed", "-lmpi"])
    env = {"I_MPI_FABRICS": "shm", "I_MPI_ROOT": place, "LD_LIBRARY_PATH": libraries}
    env.update({"I_MPI_PIN": "0", "I_MPI_THREAD_YIELD": "2"} if ranks > os.cpu_count() else {})
    return [launcher, "-n", str(ranks), binary, folder, room], env


def mpich(ranks, folder, room, flavour):
    if not shutil.which("mpicxx.mpich"):
        missing("MPICH is not installed: apt-get install mpich libmpich-dev")
    if ranks > os.cpu_count():
        missing("MPICH spins without yielding: not with more ranks than cores")
    binary = bench.compiled(SOURCE, "collectives_mpich", ["mpicxx.mpich"])
    return ["mpirun.mpich", "-n", str(ranks), binary, folder, room], {"UCX_TLS": "tcp,self"} if flavour else {}


def gloo(ranks, folder, room, _):
    python = os.path.join(bench.venv(("numpy", "torch==2.13.0+cpu")), "bin", "python")
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        missing("torch is not there: pip install torch --index-url https://download.pytorch.org/whl/cpu")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_collectives.py")
    port = str(20000 + os.getpid() % 20000)
    children = [subprocess.Popen([python, script, folder, room], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                                                                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
                for rank in range(ranks)]
    sys.exit(max(child.wait() for child in children))


PEERS = {"openmpi": (openmpi, ""), "openmpi-ucx": (openmpi, "ucx"), "openmpi-tcp": (openmpi, "tcp"), "intelmpi": (intelmpi, ""),
         "mpich": (mpich, ""), "mpich-tcp": (mpich, "tcp"), "gloo": (gloo, "")}


def main():
    name, ranks, folder, room = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if name not in PEERS:
        missing(f"no peer is called {name}: there are {', '.join(PEERS)}")
    start, flavour = PEERS[name]
    words, env = start(ranks, folder, room, flavour)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.execvpe(words[0], words, {**os.environ, **env})


if __name__ == "__main__":
    main()
