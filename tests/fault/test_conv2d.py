"""conv2d where things go wrong: its weight, its workspace, its kernels, a device that has not all of them."""

import sys

import numpy as np
import pytest
from program import ROOT, refused, run

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

import simkernels  # noqa: E402
from generator import pack as packs  # noqa: E402
from generator import variants  # noqa: E402
from generator.__main__ import manifest_row  # noqa: E402
from generator.problem import parse  # noqa: E402
from generator.render import Renderer  # noqa: E402

PROBLEM = "f32[2,8,10,9] | y = conv2d(16, 3) | groupnorm(4) | add(y) | sum"


def few_variants():
    """A pack with the first variant of each strategy, and one that asks for a device that there is not."""
    writer, renderer, parsed, first = packs.PackWriter(), Renderer(), parse(PROBLEM), {}
    for variant in variants.enumerate_variants(parsed, renderer.strategies):
        first.setdefault(variant.strategy.name, variant)
    rows = [manifest_row(renderer, writer, parsed, v) for v in first.values()]
    newest = rows[0] | {"name": rows[0]["name"] + ".newest", "capability": 199}
    writer.add(parsed.key, False, [newest, *rows])
    return writer.bytes()


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """.run(command, *words, **settings) with the problem's pack and kernels at hand; .rows: its variants, but for .newest."""
    folder = tmp_path_factory.mktemp("conv2d")
    pack, library = folder / "conv2d.gnfpack", folder / "conv2d.so"
    pack.write_bytes(few_variants())
    simkernels.build([pack], library, jobs=2)

    class Layer:
        def run(self, command, *words, **settings):
            known = {"CUDASIM_KERNELS": library, "GNFUSE_CACHE_DIR": folder / "cache", "timeout": 120}
            return run(command, PROBLEM, "--pack", pack, *words, **{**known, **settings})

    layer = Layer()
    layer.newest, *layer.rows = layer.run("kernels", "--json").json["variants"]
    return layer


def named(layer, prefix):
    return next(row["name"] for row in layer.rows if row["name"].startswith(prefix))


def saved(folder, **tensors):
    words = []
    for name, shape in tensors.items():
        np.save(folder / f"{name}.npy", np.ones(shape, np.float32))
        words += ["--in", f"{name}={folder / name}.npy"]
    return words


def test_a_weight_that_is_missing_or_of_another_shape(layer, tmp_path):
    refused(layer.run("run", *saved(tmp_path, x=(2, 8, 10, 9))), 2, "weight is missing")
    wrong = saved(tmp_path, x=(2, 8, 10, 9), weight=(16, 8, 9))
    refused(layer.run("run", *wrong), 2, r"\(16, 8, 9\), wanted '<f4' \(16, 8, 3, 3\)")
    right = saved(tmp_path, x=(2, 8, 10, 9), weight=(16, 8, 3, 3))
    assert layer.run("run", "--check", *right, "--out", tmp_path / "y.npy").status == 0
    assert np.load(tmp_path / "y.npy").shape == (2, 1, 8, 7)


def test_the_list_of_variants_stands_in_columns(layer):
    head, *lines = layer.run("kernels").out.split("\n\n")[1].splitlines()
    assert len(lines) == len(layer.rows) + 1
    for row, line in zip([layer.newest, *layer.rows], lines):
        assert line.index(row["parameters"]) == head.index("parameters")
        assert line[: head.index("kernels") + len("kernels")].endswith(f" {row['kernels']}"), line


def test_no_memory_for_the_workspace(layer):
    # x, weight, bias, gamma and beta stand before it, and y; what is freed in between does not count.
    for kind in "conv2d_fused", "conv2d_stored", "ffma.split":
        name = named(layer, kind)
        assert layer.run("run", "--variant", name, "--json").json["workspace"] > 0
        refused(layer.run("run", "--variant", name, "--json", CUDASIM_FAIL="cuMemAlloc:7=2"), 4, "memory")


def test_each_kernel_that_fails_ends_the_run(layer, tmp_path):
    out = tmp_path / "y.npy"
    for kind in "conv2d_fused", "conv2d_stored", "ffma.split":
        row = next(row for row in layer.rows if row["name"].startswith(kind))
        for k in range(1, row["kernels"] + 1):
            result = layer.run("run", "--variant", row["name"], "--out", out, "--json", CUDASIM_FAIL=f"kernel:{k}=700*")
            assert result.status == 4 and "(700)" in result.json["error"] and not out.exists(), result


def test_a_variant_that_the_device_has_not(layer):
    name = layer.newest["name"]
    refused(layer.run("run", "--variant", name, "--json"), 2, "needs capability 199")
    report = layer.run("check", "--json").json
    skipped = {v["name"] for v in report["variants"] if "skipped" in v}
    assert report["ok"] and skipped == {name}, report
    assert layer.run("run", "--check", "--json").json["variant"] != name
