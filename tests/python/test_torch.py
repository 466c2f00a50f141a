"""torch.distributed on Weft, by torchrun. The cases are in workers/."""

import re
import sys

import pytest
from conftest import needs_torch, run

pytestmark = needs_torch


@pytest.mark.parametrize("ranks, least", [(2, 3000), (3, 3000)])
def test_matrix_beside_gloo(torchrun, ranks, least):
    cells = [int(n) for n in re.findall(r"cells (\d+)", torchrun(ranks, "matrix.py"))]
    assert len(cells) == ranks and min(cells) >= least


@pytest.mark.parametrize("ranks, backend", [(2, "weft"), (3, "cpu:weft"), (2, "cpu:weft")])
def test_behaviour(torchrun, ranks, backend):
    assert int(re.search(r"cases (\d+)", torchrun(ranks, "behaviour.py", backend))[1]) >= 25


def test_behaviour_under_detail(torchrun):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL compares calls by gloo before ours sees them."""
    names = ["groups_within_groups", "coalesced_calls", "objects", "functional_collectives_and_dtensors"]
    assert "cases 4" in torchrun(2, "behaviour.py", "weft", *names, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parametrize("ranks", [2, 3])
def test_ddp_has_the_losses_of_gloo(torchrun, ranks):
    assert torchrun(ranks, "ddp.py").count("losses") == ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_optimizers(torchrun, ranks):
    assert int(re.search(r"cases (\d+)", torchrun(ranks, "optim.py"))[1]) >= 15


def test_one_rank_alone(torchrun):
    assert "losses" in torchrun(1, "ddp.py")


def test_what_cannot_be_built_says_so(tmp_path):
    code = "import weft.torch.build as b\ntry: b.load()\nexcept RuntimeError as e: print(e)"
    said = run([sys.executable, "-c", code], WEFT_TORCH_CACHE=str(tmp_path), CXX="no-such-compiler")
    assert "no-such-compiler missing" in said and "copy" in said
