"""Builds the torch backend against the installed torch, once per torch version, and loads it.

The result is kept in WEFT_TORCH_CACHE, else in $XDG_CACHE_HOME/weft (~/.cache/weft), under a name made of the versions of
torch, Python and Weft and of the sources. Ranks that need it at the same time wait for the first one.
"""

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = [
    "backend.cpp", "collectives.cpp", "all_to_all.cpp", "messages.cpp", "engine.cpp", "post.cpp", "tensors.cpp", "allocator.cpp",
    "module.cpp",
]  # fmt: skip
_module = None


def library():
    """Path of libweft.so.N, which the extension links to: beside the package, or WEFT_LIBRARY."""
    if os.environ.get("WEFT_LIBRARY"):
        return pathlib.Path(os.environ["WEFT_LIBRARY"])
    found = sorted(HERE.parent.glob("libweft.so.*"))
    if not found:
        raise RuntimeError(f"weft: there is no libweft.so in {HERE.parent}; install the package (pip install .)")
    return found[-1]


def header():
    """Folder of weft.h."""
    for folder in (HERE.parent / "include", HERE.parents[2] / "weft" / "capi"):
        if (folder / "weft.h").exists():
            return folder
    raise RuntimeError(f"weft: weft.h is not beside {HERE}; install the package (pip install .)")


def cache_folder():
    if os.environ.get("WEFT_TORCH_CACHE"):
        return pathlib.Path(os.environ["WEFT_TORCH_CACHE"])
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft"


def key():
    """What the extension depends on, as part of its file name."""
    import torch

    digest = hashlib.sha256()
    for path in [header() / "weft.h", *sorted((HERE / "csrc").iterdir())]:
        digest.update(path.read_bytes())
    digest.update(str(library()).encode())
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"weft_torch-{torch.__version__}-{python}-{digest.hexdigest()[:12]}"


def _compile(folder):
    from torch.utils import cpp_extension

    missing = [tool for tool in ("ninja", os.environ.get("CXX", "c++").split()[0]) if not shutil.which(tool)]
    if missing:
        raise RuntimeError(
            "weft: the torch backend is built on first use, and here it cannot be: " + ", ".join(missing) + " missing. "
            "Install a C++20 compiler and ninja (pip install ninja), or build it on a machine that has them and copy "
            f"{cache_folder()}"
        )
    source = library()
    whole = folder / "weft_torch_all.cpp"  # one unit: torch's headers are most of the work
    whole.write_text("".join(f'#include "{HERE / "csrc" / name}"\n' for name in SOURCES))
    cpp_extension.load(
        name="weft_torch",
        sources=[str(whole)],
        extra_include_paths=[str(header())],
        extra_cflags=["-O2", "-std=c++20", "-fvisibility=hidden"],
        extra_ldflags=[str(source), f"-Wl,-rpath,{source.parent}"],
        build_directory=str(folder),
        is_python_module=False,
        verbose=bool(os.environ.get("WEFT_TORCH_VERBOSE")),
    )
    return folder / "weft_torch.so"


def build():
    """Path of the extension; builds it (about a minute) where it is not there yet. RuntimeError says what is missing."""
    place = cache_folder()
    target = place / (key() + ".so")
    if target.exists():
        return target
    place.mkdir(parents=True, exist_ok=True)
    with open(place / (target.stem + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        scratch = pathlib.Path(tempfile.mkdtemp(dir=place))
        try:
            os.replace(_compile(scratch), target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def load():
    """The extension module."""
    global _module
    if _module is None:
        import torch  # noqa: F401  its libraries come first

        path = str(build())
        loader = importlib.machinery.ExtensionFileLoader("weft_torch", path)
        spec = importlib.util.spec_from_file_location("weft_torch", path, loader=loader)
        _module = importlib.util.module_from_spec(spec)
        loader.exec_module(_module)
    return _module
