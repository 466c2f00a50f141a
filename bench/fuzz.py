"""What fuzzing tried and found: ./dev bench fuzz. One program (weft_fuzz_bench) runs the suite's trials for a stated time;
WEFT_FUZZ_SECONDS (20) says how long each kind runs, WEFT_SEED where the seeds begin. What it says for people goes to stderr."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
# name, unit, goal, is larger better
FIGURES = [("programs_per_s", "1/s", 50, True), ("rewrites_checked", "", 1000, True), ("mutants", "", 2000, True),
           ("mutants_survived_unexplained", "", 0, False), ("planted_found_share", "", 1, True)]


def fuzz(figures):
    subprocess.run(["cmake", "--build", BUILD, "--target", "weft_fuzz_bench", "-j2"], check=True, stdout=subprocess.DEVNULL)
    command = [os.path.join(BUILD, "bench", "weft_fuzz_bench"), os.environ.get("WEFT_FUZZ_SECONDS", "20"), os.environ.get("WEFT_SEED", "20241")]
    values = {}
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.splitlines():
        if line.startswith("#"):
            print(line[2:], file=sys.stderr, flush=True)
        else:
            name, value = line.split()
            values[name] = float(value)
    for name, unit, goal, least in FIGURES:
        figures.add(name, [values[name]], unit, goal, least)
