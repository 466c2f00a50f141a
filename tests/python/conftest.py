"""What the tests share: jobs of several ranks by torchrun, and skips with their reasons."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def has(module):
    return importlib.util.find_spec(module) is not None


needs_torch = pytest.mark.skipif(not has("torch"), reason="torch is not installed in this environment")


def run(command, timeout=300, **environment):
    """Runs it to its end, and shows all it said where it fails."""
    env = dict(os.environ, OMP_NUM_THREADS="1", **environment)
    env["PATH"] = str(pathlib.Path(sys.executable).parent) + os.pathsep + env["PATH"]
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture
def torchrun():
    """torchrun(ranks, worker, *arguments): the output of a script in workers/."""

    def launch(ranks, worker, *arguments, timeout=300, **environment):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
        return run([*command, HERE / "workers" / worker, *arguments], timeout, **environment)

    return launch
