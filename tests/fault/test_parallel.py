"""Sixteen processes at once on an empty cache (H12): equal results, each kernel made once, nothing left behind."""

import subprocess
import time
from collections import Counter

import numpy as np
import pytest
from program import GNFUSE, SIM, Result, environment, leftovers, run

PROBLEM = "f32[2,32,7,7] | groupnorm(8)"
PROCESSES = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel")
    np.save(folder / "x.npy", np.random.default_rng(12).standard_normal((2, 32, 7, 7), np.float32))
    return folder


def start(folder, number, cache, **settings):
    """Waits for the file `go`, so that all begin at the same moment."""
    words = [
        GNFUSE,
        "run",
        PROBLEM,
        "--device",
        "sim",
        "--check",
        "--json",
        "--in",
        f"x={folder / 'x.npy'}",
        "--out",
        folder / f"y{number}.npy",
    ]
    gate = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"', folder / "go"]
    env = environment(GNFUSE_CUDA_DRIVER=SIM, GNFUSE_CACHE_DIR=cache, **settings)
    return subprocess.Popen([*map(str, gate), *map(str, words)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def all_at_once(folder, cache, **settings):
    (folder / "go").unlink(missing_ok=True)
    running = [start(folder, i, cache, **settings) for i in range(PROCESSES)]
    time.sleep(0.2)
    (folder / "go").touch()
    results = []
    for process in running:
        out, err = process.communicate(timeout=120)
        results.append(Result(process.args[-11:], subprocess.CompletedProcess(process.args, process.returncode, out, err)))
    return results


def well_ended(folder, results):
    for result in results:
        assert result.status == 0 and result.json["ok"] and not result.warnings, result
    outputs = {(folder / f"y{i}.npy").read_bytes() for i in range(PROCESSES)}
    assert len(outputs) == 1
    assert len({r.json["variant"] for r in results}) == 1
    for i in range(PROCESSES):
        (folder / f"y{i}.npy").unlink()
    assert [p.name for p in folder.glob("y*")] == []


def all_whole(cache, entries):
    result = run("cache", "verify", "--json", "--cache-dir", cache, sim=False)
    assert result.status == 0 and result.json["damaged"] == 0 and result.json["entries"] == entries, result
    assert leftovers(cache) == []


def test_empty_cache(folder, tmp_path):
    """With nothing there: one process generates, one compiles for the simulator, and each cubin is made by one."""
    cache = tmp_path / "cache"
    results = all_at_once(folder, cache)
    well_ended(folder, results)
    made = Counter(entry for r in results for entry in r.compiled)
    assert set(made.values()) == {1}, made
    assert sum(r.json["compiled"] for r in results) == len(made)
    said = "".join(r.err for r in results)
    assert said.count("generating kernels for") == said.count(" for the simulator") == 1, said
    all_whole(cache, len(made) + 1)
    assert [p.suffix for p in sorted((cache / "packs").iterdir()) if p.suffix != ".lock"] in ([".so", ".gnfpack"], [".gnfpack", ".so"])
    again = run("run", PROBLEM, "--check", "--json", GNFUSE_CACHE_DIR=cache)
    assert again.status == 0 and again.json["compiled"] == 0 and again.err == "", again


@pytest.fixture(scope="module")
def made(folder):
    """(pack, kernels for the simulator), to empty the cache of cubins alone."""
    result = run("run", PROBLEM, GNFUSE_CACHE_DIR=folder / "made")
    assert result.status == 0, result
    return [next((folder / "made" / "packs").glob("*" + end)) for end in (".gnfpack", ".so")]


@pytest.mark.parametrize("turn", range(3))
def test_empty_cache_of_cubins(turn, folder, made, tmp_path):
    cache = tmp_path / "cache"
    results = all_at_once(folder, cache, GNFUSE_PACK_PATH=made[0], CUDASIM_KERNELS=made[1], CUDASIM_SEED=turn)
    well_ended(folder, results)
    compiled = Counter(entry for r in results for entry in r.compiled)
    assert compiled and set(compiled.values()) == {1}, compiled
    assert sum(r.json["compiled"] for r in results) == len(compiled)
    all_whole(cache, len(compiled) + 1)
    assert list(cache.glob("*.lock")) == []


def test_damaged_cache_met_by_all(folder, made, tmp_path):
    """H12 and H13 at once: the first to see the damage heals it, nobody loads it."""
    cache = tmp_path / "cache"
    settings = {"GNFUSE_PACK_PATH": made[0], "CUDASIM_KERNELS": made[1]}
    first = run("run", PROBLEM, "--json", GNFUSE_CACHE_DIR=cache, **settings)
    for path in cache.glob("*.cubin"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    results = all_at_once(folder, cache, **settings)
    for result in results:
        assert result.status == 0 and result.json["ok"] and len(result.warnings) <= 1, result
    compiled = Counter(entry for r in results for entry in r.compiled)
    assert set(compiled.values()) == {1} and len(compiled) == first.json["compiled"], compiled
    all_whole(cache, len(compiled) + 1)
