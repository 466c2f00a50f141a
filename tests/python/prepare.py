"""Makes build/python: a virtual environment with the package, pytest, NumPy and torch's CPU wheel, for tests/python.

    python3 tests/python/prepare.py [--no-torch]

Run by ./dev test. What cannot be had is said in build/python/skipped.txt, and the tests that need it are skipped with that
reason; the exit status is 0 all the same. A package that does not build is a failure. torch comes from WEFT_TORCH_WHEEL (a file), what pip finds as the CPU build, or
PyTorch's CPU index; never the CUDA build. Does nothing where nothing has changed.
"""

import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build" / "python"
TOOLS = ["scikit-build-core==1.1.2", "nanobind==2.15.0", "ninja==1.13.2", "numpy", "pytest", "setuptools", "wheel"]
TORCH = "2.13.0+cpu"
INDEX = "https://download.pytorch.org/whl/cpu"
SOURCES = ["weft", "python", "cmake", "tools", "CMakeLists.txt", "pyproject.toml"]


class Unavailable(Exception):
    pass


def quietly(what, *command):
    # The compiler under CMake's own name for it: the compiler cache then knows what the other builds have made.
    environment = {"CC": "cc", "CXX": "c++", **os.environ}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["failed"]
        telling = [line for line in lines if ": error: " in line] or [line for line in lines if "ERROR" in line] or lines[-1:]
        raise Unavailable(f"{what}: {telling[0].strip()}")


def pip(what, *arguments):
    quietly(what, ENVIRONMENT / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments)


def digest():
    """Of everything that the package is made of."""
    out = hashlib.sha256("".join(TOOLS).encode())
    for name in SOURCES:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                out.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return out.hexdigest()


def has(module):
    return not subprocess.run([ENVIRONMENT / "bin" / "python", "-c", f"import {module}"], capture_output=True).returncode


def install_torch():
    wheel = os.environ.get("WEFT_TORCH_WHEEL")
    if wheel:
        return pip("the wheel of WEFT_TORCH_WHEEL", wheel)
    try:
        pip("torch", f"torch=={TORCH}")
    except Unavailable:
        pip("torch", f"torch=={TORCH}", "--extra-index-url", INDEX)


def prepare(torch):
    if not (ENVIRONMENT / "bin" / "python").exists():
        quietly("python3 -m venv (Debian: python3-venv)", sys.executable, "-m", "venv", ENVIRONMENT)
    if not (has("nanobind") and has("scikit_build_core") and has("pytest") and has("numpy")):
        pip("pip", *TOOLS)
    mark, now = ENVIRONMENT / "installed.txt", digest()
    if not mark.exists() or mark.read_text() != now:
        try:
            pip("building the package", "--no-build-isolation", "--no-deps", "--force-reinstall", ".")
        except Unavailable as error:
            sys.exit(f"prepare: {error}")  # all that it needs is there: a failure, not a skip
        mark.write_text(now)
    if torch and not has("torch"):
        install_torch()


def main():
    (ROOT / "build").mkdir(exist_ok=True)
    reason = ""
    try:
        prepare("--no-torch" not in sys.argv)
    except (Unavailable, OSError) as error:
        reason = str(error)
        print(f"prepare: skipped in tests/python: {reason}", file=sys.stderr)
    if ENVIRONMENT.exists():
        (ENVIRONMENT / "skipped.txt").write_text(reason)


if __name__ == "__main__":
    main()
