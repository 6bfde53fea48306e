"""Compiles kernels for GPUs that are not here, through `gnfuse compile`: none may fail, none may spill.

    compile_all.py shipped PROBLEMS...    every variant of the problems, for sm_90
    compile_all.py covering PROBLEMS...   a sample with each strategy, dtype, vector width, layout and product, for the others

The PROBLEMS are files with a problem text a line. GNFUSE names the program.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

from generator.__main__ import parse_supported, read_problem_file
from generator.render import Renderer
from generator.variants import enumerate_variants, is_rows

GNFUSE = os.environ["GNFUSE"]
OTHERS = ("sm_80", "sm_86", "sm_89", "sm_100", "sm_120")


def compile_problem(problem, arch, variant=None):
    """(kernels compiled, complaints) of one call."""
    words = [GNFUSE, "compile", problem, "--arch", arch, "--json", "--quiet"] + (["--variant", variant] if variant else [])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return 0, [f"{problem} {variant or ''}: exit {done.returncode}: {done.stderr.strip()}"]
    rows = json.loads(done.stdout)["variants"]
    spilled = [f"{problem}: {r['name']} spills {r['spills']} bytes on {r['arch']}" for r in rows if r["spills"]]
    return sum(r["kernels"] for r in rows), spilled


def covering(files):
    """(problem, architectures, variant): the first met of each combination that the kernels differ by."""
    renderer, met, sample = Renderer(), set(), []
    for text in [t for f in files for t in read_problem_file(f)]:
        problem = parse_supported(text)
        for generic in (False, True):
            for v in enumerate_variants(problem, renderer.strategies, generic):
                width = dict(v.parameters).get("vector", 1)
                traits = {(v.strategy.name, problem.dtype, width, is_rows(problem, generic), problem.reduction is not None)}
                if v.product:
                    traits.add((problem.dtype, v.product.sums, v.product.scaled))
                    traits.update((problem.dtype, kernel.name) for kernel in v.product.kernels)
                if not traits <= met:
                    met |= traits
                    least = renderer.capability(v)
                    archs = [f"sm_{least}"] if renderer.exact(v) else [a for a in OTHERS if int(a.removeprefix("sm_")) >= least]
                    sample.append((text, ",".join(archs), v.name))
    return sample


def main(mode, files):
    if mode == "shipped":
        by_key = {parse_supported(t).key: t for f in files for t in read_problem_file(f)}  # kernels do not depend on N
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
