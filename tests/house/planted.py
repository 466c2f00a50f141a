#!/usr/bin/env python3
"""The house check must be able to fail: plants one breach of each kind in a throw-away tree and expects each to be found."""
import os
import subprocess
import sys
import tempfile

ROOMS = "".join(f"weft_room({room} USES {below})\n" for room, below in
                [("base", ""), ("expr", "base"), *((f"r{i}", "base") for i in range(10))])
PLANTS = {
    "weft/base/up.cpp": ('#include "weft/expr/expr.h"\n', "base may not include expr"),
    "weft/expr/long.cpp": ("int f() {\n" + "  g();\n" * 90 + "}\n", "a function of 92 lines"),
    "weft/expr/file.cpp": ("//\n" * 700, "701 lines"),
    "weft/expr/word.cpp": ("// " + "TO" + "DO later\n", "promises instead of doing"),
}


def main():
    with tempfile.TemporaryDirectory() as root:
        files = {"CMakeLists.txt": ROOMS, **{path: text for path, (text, _) in PLANTS.items()}}
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as file:
                file.write(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        subprocess.run(["git", "-C", root, "add", "-A"], check=True)
        check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
        run = subprocess.run([sys.executable, check, root], capture_output=True, text=True)
        assert run.returncode == 1, run.stdout
        for path, (_, expected) in PLANTS.items():
            assert any(line.startswith(path) and expected in line for line in run.stdout.split("\n")), (path, run.stdout)
        print(f"{len(PLANTS)} planted breaches found")


if __name__ == "__main__":
    main()
