"""What pip installed: its size, its pieces, and that torch finds the backend without an import."""

import importlib.metadata
import pathlib
import sys
import tempfile
import zipfile

import pytest
from conftest import ROOT, needs_torch, run

try:
    importlib.metadata.distribution("weft")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("the package is not installed by pip here", allow_module_level=True)


def files():
    return [pathlib.Path(path.locate()) for path in importlib.metadata.files("weft") if "__pycache__" not in str(path)]


def test_everything_is_there_and_small():
    names = {path.name for path in files()}
    assert {"weft.h", "_weft.pyi", "backend.cpp", "py.typed"} <= names
    assert any(name.startswith("libweft.so") for name in names)
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files():
                archive.write(path)
        assert packed.tell() < 10e6, f"{packed.tell()} bytes as a wheel"


@needs_torch
def test_torch_finds_the_backend_by_itself():
    code = "import torch.distributed as d; print(d.Backend('weft'), 'weft' in d.Backend.backend_list)"
    assert run([sys.executable, "-c", code]).split() == ["weft", "True"]


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_examples_run(script):
    if "torch" in (ROOT / "examples" / script).read_text():
        pytest.importorskip("torch", reason="torch is not installed in this environment")
    run([sys.executable, ROOT / "examples" / script, "--short"], timeout=600)
