"""torch.distributed on Weft, by torchrun. The cases are in workers/."""

import os
import re
import sys

import pytest
from conftest import needs_torch, run

pytestmark = needs_torch
SLOW = os.environ.get("WEFT_SLOW", "0") not in ("", "0")


@pytest.mark.parametrize("ranks, least", [(2, 3000), (3, 3000)])
def test_matrix_beside_gloo(torchrun, ranks, least):
    cells = [int(n) for n in re.findall(r"cells (\d+)", torchrun(ranks, "matrix.py"))]
    assert len(cells) == ranks and min(cells) >= least


@pytest.mark.parametrize("ranks, backend", [(2, "weft"), (3, "cpu:weft"), (2, "cpu:weft")])
def test_behaviour(torchrun, ranks, backend):
    assert int(re.search(r"cases (\d+)", torchrun(ranks, "behaviour.py", backend))[1]) >= 30


def test_behaviour_under_detail(torchrun):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL compares calls by gloo before ours sees them."""
    names = ["groups_within_groups", "coalesced_calls", "objects", "functional_collectives_and_dtensors", "what_is_coalesced_is_one_work"]
    assert "cases 5" in torchrun(2, "behaviour.py", "weft", *names, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parametrize("ranks", [2, 3])
def test_ddp_has_the_losses_of_gloo(torchrun, ranks):
    assert torchrun(ranks, "ddp.py").count("losses") == ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_optimizers(torchrun, ranks):
    assert int(re.search(r"cases (\d+)", torchrun(ranks, "optim.py"))[1]) >= 15


def trained(torchrun, ranks, optimizer):
    """(largest difference, first loss, last loss, torch's last loss, digest) that all ranks agree about."""
    said = torchrun(ranks, "training.py", optimizer, timeout=1200)
    rows = re.findall(r"error (\S+) losses (\S+) (\S+) (\S+) digest (\w+)", said)
    assert len(rows) == ranks and len(set(rows)) == 1, said
    return [*map(float, rows[0][:4]), rows[0][4]]


TRAININGS = [(2, "adamw"), *((ranks, name) for ranks in (2, 3) for name in ("adam", "lamb", "sgd")), (3, "adamw")]


@pytest.mark.parametrize("ranks, optimizer", TRAININGS if SLOW else TRAININGS[:1])
def test_100_steps_of_a_transformer(torchrun, ranks, optimizer):
    """As close to all_reduce + torch's class as docs/pytorch.md says, and the same bits in a second run."""
    error, first, last, other, digest = trained(torchrun, ranks, optimizer)
    tolerance = 2e-3 if optimizer == "lamb" else 2e-4
    assert error <= tolerance and abs(last - other) <= tolerance * other, (error, last, other)
    assert last < 0.8 * first
    assert trained(torchrun, ranks, optimizer)[4] == digest


@pytest.mark.skipif(not SLOW, reason="WEFT_SLOW is not set")
@pytest.mark.parametrize("ranks", [2, 3])
def test_optimizers_over_100_steps(torchrun, ranks):
    assert int(re.search(r"cases (\d+)", torchrun(ranks, "optim.py", "--long", timeout=1200))[1]) >= 15


def plans_taken(folder):
    """Lines of all ranks about plans that were loaded."""
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [line for line in lines if "collectives: all_reduce" in line]


@pytest.mark.parametrize("ranks", [2, 3])
def test_ordinary_tensors_take_plans_of_mapped_memory(torchrun, tmp_path, ranks):
    said = torchrun(ranks, "allocator.py", WEFT_DEBUG="info", WEFT_DEBUG_FILE=str(tmp_path / "%p"))
    assert int(re.search(r"cases (\d+)", said)[1]) >= 8
    plans = plans_taken(tmp_path)
    for count in (50001, 3000001, 300000):
        of_count = [line for line in plans if f", {count} elements" in line]
        assert not of_count or all("on mapped memory" in line for line in of_count), plans
    assert sum("on mapped memory" in line for line in plans) >= 2 * ranks, plans


def test_the_allocator_can_be_left_alone(torchrun, tmp_path):
    settings = dict(WEFT_DEBUG="info", WEFT_DEBUG_FILE=str(tmp_path / "%p"))
    assert "cases 1" in torchrun(2, "allocator.py", "--off", WEFT_TORCH_ALLOCATOR="0", **settings)
    assert plans_taken(tmp_path) and not any("on mapped memory" in line for line in plans_taken(tmp_path))
    assert "cases 1" in torchrun(2, "allocator.py", "--off", WEFT_ARENA="0")


def test_what_does_not_fit_lies_elsewhere_and_that_is_said_once(torchrun, tmp_path):
    said = torchrun(2, "allocator.py", "--small", WEFT_ARENA="2Mi", WEFT_DEBUG="info", WEFT_DEBUG_FILE=str(tmp_path / "%p"))
    assert "cases 1" in said
    texts = [file.read_text() for file in tmp_path.iterdir()]
    assert sum(text.count("has no room for") for text in texts) == 2 and max(text.count("has no room for") for text in texts) == 1


def test_one_rank_alone(torchrun):
    assert "losses" in torchrun(1, "ddp.py")


def test_what_cannot_be_built_says_so(tmp_path):
    code = "import weft.torch.build as b\ntry: b.load()\nexcept RuntimeError as e: print(e)"
    said = run([sys.executable, "-c", code], WEFT_TORCH_CACHE=str(tmp_path), CXX="no-such-compiler")
    assert "no-such-compiler missing" in said and "copy" in said
