"""What the tests of `gnfuse tune` work with: packs of a tiny problem's variants, their kernels compiled for the simulator,
and clocks that say what each variant takes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from program import GNFUSE, ROOT, SIM, Result, environment

sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

import simkernels  # noqa: E402
from generator import pack as packs  # noqa: E402
from generator import variants  # noqa: E402
from generator.__main__ import manifest_row  # noqa: E402
from generator.problem import parse  # noqa: E402
from generator.render import Renderer  # noqa: E402

# How much longer than usual everything takes.
PATIENCE = 5 if any(name in Path(GNFUSE).read_bytes() for name in (b"__asan_init", b"__tsan_init")) else 1
CHAIN = "groupnorm(2) | mish"  # not among the shipped problems: a pack of a test has all its variants
TEN = 10


def problem(samples=2):
    return f"f32[{samples},8,16] | {CHAIN}"


def rows_of(writer, renderer=None, count=TEN):
    """Manifest rows of the problem's cheapest variants, in a writer of packs; the last one is for pointers of any alignment,
    as every plan wants one."""
    renderer = renderer or Renderer()
    parsed = parse(problem())
    chosen = variants.enumerate_variants(parsed, renderer.strategies, most=TEN - 1)
    assert [v.alignment for v in chosen] == [16] * (TEN - 1) + [4]
    return [manifest_row(renderer, writer, parsed, v) for v in chosen[: count - 1] + chosen[-1:]]


class Bench:
    """Packs by name, one library of their kernels, one cache of their cubins."""

    def __init__(self, folder):
        self.folder, self.packs, self.rows = Path(folder), {}, {}
        self.cache, self.library = self.folder / "cache", self.folder / "kernels.so"

    def pack(self, name, make):
        """make(writer) gives the rows."""
        writer = packs.PackWriter()
        rows = make(writer)
        writer.add(parse(problem()).key, False, rows)
        self.packs[name] = self.folder / f"{name}.gnfpack"
        self.packs[name].write_bytes(writer.bytes())
        self.rows[name] = rows

    def build(self):
        simkernels.build(list(self.packs.values()), self.library, jobs=2)

    def names(self, name="ten"):
        return [row["name"] for row in self.rows[name]]

    def entries(self, variant, name="ten"):
        """Kernels of a variant, by its name or place."""
        rows = self.rows[name]
        row = rows[variant] if isinstance(variant, int) else next(r for r in rows if r["name"] == variant)
        return [kernel["entry"] for kernel in row["kernels"]]

    def settings(self, clock=None, **settings):
        known = {"GNFUSE_CUDA_DRIVER": SIM, "CUDASIM_KERNELS": self.library, "GNFUSE_CACHE_DIR": self.cache}
        return known | {"CUDASIM_CLOCK": clock} | settings

    def words(self, command, problems, db, name, words):
        problems = [problems] if isinstance(problems, str) else list(problems)
        return [str(w) for w in (command, *problems, "--pack", self.packs[name], "--db", db, *words)]

    def start(self, problems, db, *words, name="ten", command="tune", **settings):
        """The process, a leader of its group as a terminal's job is."""
        return subprocess.Popen(
            [GNFUSE, *self.words(command, problems, db, name, words)],
            env=environment(**self.settings(**settings)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, problems, db, *words, timeout=60, **settings):
        process = self.start(problems, db, *words, **settings)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return Result(process.args[1:], subprocess.CompletedProcess(process.args, process.returncode, out, err))

    def opening(self, problems, db, name):
        """Seconds that come before the first measurement, on a machine as busy as this one is."""
        start = time.monotonic()
        result = self.run(problems, db, "--dry-run", name=name)
        assert result.status == 0, result
        return time.monotonic() - start

    def taken(self, samples, db, **settings):
        """(variant, match) of the plan that `gnfuse run` makes."""
        result = self.run(problem(samples), db, "--json", command="run", **settings)
        assert result.status == 0, result
        return result.json["variant"], result.json["match"]


def write_clock(path, bench, times, *rules, name="ten"):
    """`times` gives microseconds of variants, by name or place; 10 for the others. Rules follow."""
    lines = ["skip"]
    for variant, microseconds in times.items():
        lines += [f"time {entry} {microseconds}" for entry in bench.entries(variant, name)]
    path.write_text("\n".join([*lines, *rules]) + "\n")
    return path


def records(path):
    """Every line as an object; a line that is none is an error."""
    text = Path(path).read_text()
    assert text == "" or text.endswith("\n"), text[-200:]
    return [json.loads(line) for line in text.splitlines()]


def latest(path, samples=None):
    """{variant: its last record}, of all N or of one."""
    return {r["variant"]: r for r in records(path) if samples in (None, r["samples"])}


def group_is_gone(process, seconds=10.0):
    """No process of its group is left within so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    return False
