#!/usr/bin/env python3
"""House rules that a machine can check: layering of rooms, size of functions and files, words that promise.

    tests/house/check.py ROOT

Prints every breach and ends with status 1 if there is one. docs/contributing.md has the rules with their reasons.
"""
import os
import re
import subprocess
import sys

FUNCTION_LIMIT, FILE_LIMIT = 80, 600
PROMISES = re.compile(r"\b(TODO|FIXME|XXX|HACK|[Nn]ot implemented|[Ss]tubbed)\b")


def rooms_of(root):
    """Which room may include which, read from CMakeLists.txt: one source of truth for linking and for including."""
    uses = {}
    with open(os.path.join(root, "CMakeLists.txt")) as file:
        for name, rest in re.findall(r"^weft_room\((\w+)\s+USES([^)]*)\)", file.read(), re.M):
            uses[name] = set(rest.split("LINKS")[0].split())
    return uses


def reachable(uses, room):
    seen, stack = set(), [room]
    while stack:
        for below in uses.get(stack.pop(), ()):
            if below not in seen:
                seen.add(below)
                stack.append(below)
    return seen


def upward_includes(path, lines, uses):
    parts = path.split("/")
    if parts[0] != "weft" or len(parts) < 3:
        return
    room = parts[1]
    if room not in uses:
        yield f"{path}:1: room {room} is not declared in CMakeLists.txt"
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*["<]weft/(\w+)/', line)
        if match and match[1] != room and match[1] not in uses[room]:
            yield f"{path}:{number}: {room} may not include {match[1]} (it may use: {', '.join(sorted(uses[room])) or 'nothing'})"


def bodies(lines):
    """(first line, length) of brace-delimited function bodies at namespace or class depth; a heuristic."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', lambda m: '""' + "\n" * m[0].count("\n"), "\n".join(lines), flags=re.S)
    stack, head = [], ""
    for number, raw in enumerate(text.split("\n"), 1):
        if raw.lstrip().startswith("#"):
            continue
        for char in re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', '""', raw):
            if char == "{":
                scope = bool(re.search(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$", head)) or not head.strip()
                stack.append((scope, head.strip(), number))
                head = ""
            elif char == "}":
                if stack:
                    scope, name, start = stack.pop()
                    if not scope and all(s[0] for s in stack) and "(" in name:
                        yield start, number - start + 1
                head = ""
            elif char == ";":
                head = ""
            else:
                head += char
        head += " "


def breaches(root):
    uses = rooms_of(root)
    if len(uses) < 10:
        yield "CMakeLists.txt: no rooms found"
    for room, below in uses.items():
        if room in reachable(uses, room):
            yield f"CMakeLists.txt: room {room} depends on itself ({', '.join(sorted(below))})"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    for path in tracked:
        if not path.endswith((".cpp", ".h", ".py")) or not os.path.isfile(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), errors="replace") as file:
            lines = file.read().split("\n")
        yield from upward_includes(path, lines, uses)
        if len(lines) > FILE_LIMIT:
            yield f"{path}:1: {len(lines)} lines (limit {FILE_LIMIT})"
        if path.endswith((".cpp", ".h")):
            for start, length in bodies(lines):
                if length > FUNCTION_LIMIT:
                    yield f"{path}:{start}: a function of {length} lines (limit {FUNCTION_LIMIT})"
        if path != "tests/house/check.py":
            for number, line in enumerate(lines, 1):
                if PROMISES.search(line):
                    yield f"{path}:{number}: promises instead of doing: {line.strip()[:80]}"


def main():
    found = list(breaches(sys.argv[1] if len(sys.argv) > 1 else "."))
    for line in found:
        print(line)
    print(f"house: {len(found)} breaches")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
