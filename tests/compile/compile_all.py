"""Compiles kernels for GPUs that are not here, through `gnfuse compile`: none may fail, none may spill
but for a few words of the convolution's.

    compile_all.py shipped PROBLEMS...    every variant of the problems, for sm_90
    compile_all.py covering PROBLEMS...   a sample with each strategy, dtype, vector width, layout and product, for the others in turn

The PROBLEMS are files with a problem text a line. GNFUSE names the program.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

from generator.__main__ import read_problem_file
from generator.problem import parse
from generator.render import Renderer
from generator.variants import enumerate_variants, is_rows

GNFUSE = os.environ["GNFUSE"]
MOST_SPILLED = 96  # bytes
OTHERS = ("sm_80", "sm_86", "sm_89", "sm_100", "sm_120")


def compile_problem(problem, arch, variant=None):
    """(kernels compiled, complaints) of one call."""
    words = [GNFUSE, "compile", problem, "--arch", arch, "--json", "--quiet"] + (["--variant", variant] if variant else [])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return 0, [f"{problem} {variant or ''}: exit {done.returncode}: {done.stderr.strip()}"]
    rows = json.loads(done.stdout)["variants"]
    # The convolution's kernels fill the registers: a few words that wait in memory cost less than a smaller tile, as measured.
    spilled = [r for r in rows if r["spills"] > (MOST_SPILLED if r["name"].startswith("conv2d") else 0)]
    spilled = [f"{problem}: {r['name']} spills {r['spills']} bytes on {r['arch']}" for r in spilled]
    return sum(r["kernels"] for r in rows), spilled


def covering(files):
    """(problem, architectures, variant): the first met of each combination that the kernels differ by."""
    renderer, met, sample = Renderer(), set(), []
    for text in [t for f in files for t in read_problem_file(f)]:
        problem = parse(text)
        for generic in (False, True):
            for v in enumerate_variants(problem, renderer.strategies, generic):
                width = dict(v.parameters).get("vector", 1)
                kernels = tuple(rule["name"] for rule in v.kernels)
                traits = {(v.strategy.name, problem.dtype, width, is_rows(problem, generic), kernels)}
                traits.update((v.strategy.name, problem.dtype, word) for _, word in v.parameters if isinstance(word, str))
                if v.product:
                    traits.add((problem.dtype, v.product.sums, v.product.scaled))
                    traits.update((problem.dtype, kernel.name) for kernel in v.product.kernels)
                if not traits <= met:
                    met |= traits
                    least = renderer.capability(v)
                    archs = [a for a in OTHERS if int(a.removeprefix("sm_")) >= least]
                    # Two of them a variant, in turn: what differs between them shows in many kernels.
                    turn = len(sample) % len(archs) if archs else 0
                    archs = [f"sm_{least}"] if renderer.exact(v) else [archs[turn], archs[(turn + 2) % len(archs)]]
                    sample.append((text, ",".join(dict.fromkeys(archs)), v.name))
    return sample


def main(mode, files):
    if mode == "shipped":
        by_key = {parse(t).key: t for f in files for t in read_problem_file(f)}  # kernels do not depend on N
        work = [(t, "sm_90", None) for t in by_key.values()]
    else:
        work = covering(files)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda w: compile_problem(*w), work))
    complaints = [c for _, cs in results for c in cs]
    print(f"{sum(n for n, _ in results)} kernels compiled in {len(work)} calls, {len(complaints)} complaints", *complaints, sep="\n")
    return bool(complaints) or not results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], [Path(f) for f in sys.argv[2:]]))
