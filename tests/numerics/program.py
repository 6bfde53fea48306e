"""The command line that GNFUSE names on the device that GNFUSE_TEST_DEVICE names (default: sim), and float64's groupnorm."""

import json
import os
import subprocess

import numpy as np

GNFUSE = os.environ.get("GNFUSE", "gnfuse")
DEVICE = os.environ.get("GNFUSE_TEST_DEVICE", "sim")


def gnfuse(*words, status=0):
    """What --json says."""
    done = subprocess.run([GNFUSE, *map(str, words), "--device", DEVICE, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def ways(problem):
    """The first and the last variant of each strategy that the device has: `gnfuse check` runs all of them (problems.txt)."""
    by_strategy = {}
    for v in gnfuse("kernels", problem)["variants"]:
        by_strategy.setdefault(v["strategy"], []).append(v["name"])
    return [name for names in by_strategy.values() for name in dict.fromkeys((names[0], names[-1]))]


def execute(problem, folder, *words, **tensors):
    """y in float64 and what --json says, of `gnfuse run` with further words."""
    words = ["run", problem, "--out", folder / "y.npy", *words]
    for name, value in tensors.items():
        np.save(folder / f"{name}.npy", value)
        words += ["--in", f"{name}={folder / name}.npy"]
    report = gnfuse(*words)
    return np.load(folder / "y.npy").astype(np.float64), report


def run(problem, folder, variant, **tensors):
    """y of a variant."""
    return execute(problem, folder, "--variant", variant, **tensors)[0]


def groupnorm(x, groups, gamma=None, beta=None, eps=float(np.float32(1e-5))):
    g = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    y = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + eps)).reshape(x.shape)
    column = lambda v: np.asarray(v, np.float64).reshape(1, -1, *[1] * (x.ndim - 2))  # noqa: E731
    return y * (1 if gamma is None else column(gamma)) + (0 if beta is None else column(beta))


def error(got, want):
    assert got.shape == want.shape, (got.shape, want.shape)
    return np.max(np.abs(got - want) / np.maximum(1, np.abs(want)))
