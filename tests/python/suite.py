"""The ctest side of tests/python: runs one test file in build/python, or says why it is skipped (exit status 77).

    python3 tests/python/suite.py test_programs.py
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / "build" / "python"


def main():
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        print("skipped: there is no build/python; tests/python/prepare.py (./dev test) makes it")
        return 77
    why = (ENVIRONMENT / "skipped.txt").read_text() if (ENVIRONMENT / "skipped.txt").exists() else ""
    probe = "import weft, pytest" + (", torch" if "torch" in sys.argv[1] else "")
    tried = subprocess.run([python, "-c", probe], capture_output=True, text=True, cwd="/")
    if tried.returncode:
        if why:
            print(f"skipped: {why}")
            return 77
        print(tried.stderr)  # it was prepared, so this is a failure
        return 1
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WEFT_LIBRARY")}
    environment.setdefault("WEFT_TORCH_CACHE", str(ENVIRONMENT / "torch-extension"))
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / sys.argv[1], *sys.argv[2:]]
    return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
