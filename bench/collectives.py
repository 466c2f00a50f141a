"""Collectives against every CPU peer: figures of `./dev bench collectives`.

`weft bench` measures each operation with its peers beside it in alternating rounds; this file only chooses the cells and
takes geometric means of their ratios (best peer over Weft). Inputs are rewritten and results read in every call.
"""
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.path.join(ROOT, "build", "release", "tools", "weft")
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
PEERS = {2: "openmpi,openmpi-ucx,intelmpi,mpich,gloo", 4: "openmpi,openmpi-ucx,intelmpi,gloo"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def table(operation, ranks, memory, least="8", most="256M", factor="2", peers=None, rounds=5, more=()):
    """Rows of one `weft bench`; none where the operation is refused."""
    words = [WEFT, "bench", operation, "-r", str(ranks), "-b", least, "-e", most, "-f", factor, "--touch-read", "--memory", memory,
             "--rounds", str(rounds), "--json", *more]
    if peers:
        words += ["--vs", peers]
    done = subprocess.run(words, capture_output=True, text=True)
    for line in done.stderr.splitlines():
        say(f"  {line}")
    if done.returncode:
        return []
    rows = [row for row in json.loads(done.stdout)["results"] if row["size"] > 0]
    for row in rows:
        say(f"  {operation} n={ranks} {memory} {row['size']:>10} B: {row['out_of_place']['time']:10.2f} us, "
            f"{row.get('ratio', 0):5.2f} of the best peer, {row['runs']}")
    return rows


def ratios(rows):
    return [row["ratio"] for row in rows if row.get("ratio", 0) > 0]


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def best_time(row):
    return min(side["time"] for side in (row["out_of_place"], row["in_place"]) if side)


def against_peers(figures, memory, name, goals, options):
    by_operation, all_ratios = {}, []
    for ranks in options["ranks"]:
        for operation in OPERATIONS:
            rows = table(operation, ranks, memory, most=options["most"], factor=options["factor"], peers=PEERS[ranks], rounds=options["rounds"])
            by_operation.setdefault(operation, []).extend(rows)
            all_ratios += ratios(rows)
    add(figures, f"geomean_{name}_vs_best_peer", geomean(all_ratios), "ratio", goals[0], True)
    add(figures, f"worst_{name}_cell", min(all_ratios, default=None), "ratio", goals[1], True)
    return by_operation


def add(figures, name, value, unit, goal, least):
    if value is None:
        say(f"  {name}: nothing to compare with")
        return
    figures.add(name, [value], unit, goal, least)


def collectives(figures, ranks=(2, 4), most="256M", factor="2"):
    options = {"ranks": ranks, "most": most, "factor": factor, "rounds": min(figures.rounds, 5)}
    if figures.wanted("geomean_symmetric_vs_best_peer", "geomean_all_reduce_symmetric", "worst_symmetric_cell", "all_reduce_8B_vs_best_peer"):
        rows = against_peers(figures, "mapped", "symmetric", (1.7, 0.95), options)["all_reduce"]
        add(figures, "geomean_all_reduce_symmetric", geomean(ratios(rows)), "ratio", 2.0, True)
        add(figures, "all_reduce_8B_vs_best_peer", min((r for row in rows if row["size"] == 8 for r in ratios([row])), default=None), "ratio", 1.4, True)
    if figures.wanted("geomean_private_vs_best_peer", "worst_private_cell"):
        against_peers(figures, "private", "private", (1.05, 0.85), options)
    if figures.wanted("bf16_vs_f32_16Mi"):
        narrow_against_wide(figures)
    if figures.wanted("all_reduce_8B_us"):
        rows = table("all_reduce", 2, "mapped", most="8", rounds=9)
        add(figures, "all_reduce_8B_us", min(map(best_time, rows), default=None), "us", 0.4, False)


def narrow_against_wide(figures):
    """all_reduce of 16 Mi elements, the slower of the two 16-bit types against float32."""
    wide = table("all_reduce", 2, "mapped", "64M", "64M", more=["-d", "float"])
    narrow = [table("all_reduce", 2, "mapped", "32M", "32M", more=["-d", dtype]) for dtype in ("bfloat16", "half")]
    if wide and all(narrow):
        add(figures, "bf16_vs_f32_16Mi", max(best_time(rows[0]) for rows in narrow) / best_time(wide[0]), "ratio", 0.6, False)
