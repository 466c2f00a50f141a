"""The simulator's figures against their goals: ./dev bench sim. One program measures them all (weft_sim_bench), in processor
time of its one thread; this runs it several times and takes the best, since what disturbs a machine only slows it."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
# name, unit, goal, is larger better
FIGURES = [("events_per_s_1024x8", "1/s", 15e6, True), ("fold_mismatches", "", 0, False), ("all_reduce_16384x16_s", "s", 10, False),
           ("all_reduce_16384x16_gb", "GB", 4, False), ("all_reduce_131072_s", "s", 60, False), ("whatif_1000_at_1024_s", "s", 60, False),
           ("goal_text_mb_per_s", "MB/s", 300, True), ("goal_mismatches", "", 0, False), ("maxmin_completions_per_s", "1/s", 100e3, True),
           ("accuracy_spec_median", "%", 32, False), ("accuracy_calibrated_median", "%", 6, False), ("accuracy_calibrated_p95", "%", 59, False),
           ("accuracy_known_median", "%", 3, False), ("accuracy_known_p95", "%", 16, False), ("accuracy_tree_p95", "%", 30, False),
           ("choice_within_2pct_share", "", 0.95, True), ("coconet_curve_worst_pct", "%", 15, False),
           ("coconet_curve_large_worst_pct", "%", 3, False), ("coconet_dip_found", "", 1, True)]


def take(groups, rounds):
    best = {}
    larger = {name: up for name, _, _, up in FIGURES}
    for _ in range(rounds):
        for line in subprocess.run([os.path.join(BUILD, "bench", "weft_sim_bench"), *groups], check=True, capture_output=True,
                                   text=True, cwd=ROOT).stdout.splitlines():
            if line.startswith("#"):
                continue
            name, value = line.split()
            value = float(value)
            best[name] = value if name not in best else (max if larger.get(name) else min)(best[name], value)
    return best


def sim(figures):
    subprocess.run(["cmake", "--build", BUILD, "--target", "weft_sim_bench", "-j2"], check=True, stdout=subprocess.DEVNULL)
    best = take(["events", "goal", "maxmin"], 3) | take(["scale", "whatif", "accuracy", "coconet"], 1)
    for name, unit, goal, up in FIGURES:
        if name in best:
            figures.measure([(name, unit, goal, up)], lambda value=best[name]: [value], rounds=1)


def accuracy(figures):
    """Every table with its errors, then the figures."""
    subprocess.run(["cmake", "--build", BUILD, "--target", "weft_sim_bench", "-j2"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(BUILD, "bench", "weft_sim_bench"), "accuracy"], check=True, cwd=ROOT)
    best = take(["accuracy"], 1)
    for name, unit, goal, up in FIGURES:
        if name in best:
            figures.measure([(name, unit, goal, up)], lambda value=best[name]: [value], rounds=1)
