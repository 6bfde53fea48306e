"""linear in front of a chain, on every variant of its product, against NumPy's float64."""

import re

import numpy as np
import pytest
from program import error, execute, gnfuse, groupnorm

SILU = "f32[5,96] | linear(64) | groupnorm(8) | silu"
CANCELLING = "f32[66,400] | linear(160) | groupnorm(8)"
LABELS = "f32[3,24] | l = linear(24) | scale(0.5) | groupnorm(4) | add(x) | mul(l)"


def variants(problem):
    """Those that can do the problem's N."""
    samples = int(problem[problem.index("[") + 1 : problem.index(",")])
    listed = gnfuse("kernels", problem)["variants"]
    return [v["name"] for v in listed if samples <= v.get("product", {}).get("samples_max", samples)]


def tails(problem):
    """Every tail of one product, the first of each other one."""
    first = products(problem)
    one = first[0].split(".")[0] + "."
    return [n for n in variants(problem) if n in first or n.startswith(one)]


def products(problem):
    """The first tail of each product, and of each that takes any sizes."""
    first = {}
    for name in variants(problem):
        product = name[: re.search(r"\.(warp|block|shared|cluster|split|generic)\.", name).start()]
        first.setdefault((product, "generic" in name), name)
    return list(first.values())


def run(problem, folder, variant, **tensors):
    """y, and what --json said."""
    return execute(problem, folder, "--variant", variant, "--check", **tensors)


def linear(x, weight, bias=None):
    y = x.astype(np.float64) @ weight.astype(np.float64).T
    return y if bias is None else y + bias.astype(np.float64)


def silu(v):
    return v / (1 + np.exp(-v))


def uniform(*shape, bound=1.0, seed=1):
    return (np.random.default_rng([seed, *shape]).uniform(-bound, bound, shape)).astype(np.float32)


def of_random_data():
    x, weight, bias = uniform(5, 96), uniform(64, 96, bound=96**-0.5), uniform(64, bound=96**-0.5)
    gamma, beta = uniform(64, seed=2), uniform(64, seed=3)
    want = silu(groupnorm(linear(x, weight, bias), 8, gamma, beta))
    return want, {"x": x, "weight": weight, "bias": bias, "gamma": gamma, "beta": beta}


def test_every_product_and_tail(tmp_path):
    want, tensors = of_random_data()
    names = variants(SILU)
    products = {n.split(".")[0] for n in names}
    assert {"sgemm", "fp16x3", "dot", "ffma"} <= products, names
    assert any(n.startswith("fp16x3") and ".each." in n for n in names), names
    for name in tails(SILU):
        y, report = run(SILU, tmp_path, name, **tensors)
        assert error(y, want) < 2e-6, (name, error(y, want))
        # The program's own reference is float64 too: it sees the same largest error, to a hair.
        assert abs(report["max_error"] - error(y, want)) < 1e-11, (name, report["max_error"], error(y, want))


def test_a_null_bias(tmp_path):
    _, tensors = of_random_data()
    want = silu(groupnorm(linear(tensors["x"], tensors["weight"]), 8))
    for name in products(SILU):
        y, _ = run(SILU, tmp_path, name, x=tensors["x"], weight=tensors["weight"])
        assert error(y, want) < 2e-6, name


def test_labels_of_x_and_of_the_product(tmp_path):
    x, weight, bias = uniform(3, 24), uniform(24, 24, bound=24**-0.5), uniform(24, bound=24**-0.5)
    product = linear(x, weight, bias)
    want = (groupnorm(0.5 * product, 4) + x) * product
    for name in products(LABELS):
        y, _ = run(LABELS, tmp_path, name, x=x, weight=weight, bias=bias)
        assert error(y, want) < 2e-6, name


@pytest.mark.parametrize("value", [1.0, -3.0, 2.0**-70, 2.0**50])
def test_one_input_and_weights_that_need_fourteen_bits(tmp_path, value):
    # 64 + k/128: TF32 and one fp16 keep 11 bits of it, and the norm takes away what they agree on.
    problem = "f32[3,1] | linear(1024) | groupnorm(2)"
    weight = (64 + np.arange(1024) / 128).astype(np.float32).reshape(1024, 1)
    x = np.array([[value], [1], [0]], np.float32)
    want = groupnorm(linear(x, weight), 2)
    for name in products(problem):
        y, _ = run(problem, tmp_path, name, x=x, weight=weight)
        assert error(y, want) < 2e-6, (name, error(y, want))


def test_rows_in_which_nearly_all_cancels(tmp_path):
    # Integers of 24 bits, one more than hi + lo hold, that fp32 adds without error: in some rows next to nothing is left of
    # them, in the others nothing cancels. 160 columns are two stretches of those that are repaired together.
    rng, cancelling = np.random.default_rng(1), [2, 63, 64, 65]
    x = rng.integers(2**23, 2**24 - 2**16, (66, 400)) * rng.choice([-1, 1], (66, 400))
    x[cancelling, 1::2] = -x[cancelling, ::2] + rng.integers(-400, 400, (4, 200))
    x, weight = x.astype(np.float32), np.repeat(rng.choice([-1, 1], (160, 200)), 2, axis=1).astype(np.float32)
    want = groupnorm(linear(x, weight), 8)
    names = [n for n in products(CANCELLING) if n.split(".")[0] in ("fp16x3", "wgmma") and "generic" not in n]
    assert names
    for name in names:
        y, _ = run(CANCELLING, tmp_path, name, x=x, weight=weight)
        assert error(y[cancelling], want[cancelling]) < 1e-6, (name, error(y[cancelling], want[cancelling]))
        assert error(y, want) < 1e-5, (name, error(y, want))
        # What was repaired has the bits of fp32's own kernel, and nothing else has.
        own, _ = run(CANCELLING, tmp_path, "ffma." + re.sub(r"^[^.]*\.[^.]*\.(each\.)?", "", name), x=x, weight=weight)
        assert np.flatnonzero((y == own).all(1)).tolist() == cancelling, name


def test_infinity_and_nan_stay_in_their_samples_and_groups(tmp_path):
    _, tensors = of_random_data()
    tensors["x"][1, 7] = np.inf
    tensors["weight"][20, 3] = np.nan
    with np.errstate(invalid="ignore"):
        want = groupnorm(linear(tensors["x"], tensors["weight"], tensors["bias"]), 8, tensors["gamma"], tensors["beta"])
        want = silu(want)
    assert np.isnan(want[1]).all() and np.isnan(want[:, 16:24]).all() and np.isfinite(want[0, :16]).all()
    for name in products(SILU):
        y, _ = run(SILU, tmp_path, name, **tensors)
        assert (np.isnan(y) == np.isnan(want)).all(), name
        assert error(y[~np.isnan(want)], want[~np.isnan(want)]) < 2e-6, name


def test_a_weight_that_is_not_prepared(tmp_path):
    want, tensors = of_random_data()
    y, report = execute(SILU, tmp_path, "--each-weight", "--check", **tensors)
    assert report["ok"] and report["prepared"] == 0 and report["flop"] == 2 * 5 * 96 * 64
    assert error(y, want) < 2e-6
    prepared = [n for n in variants(SILU) if n.startswith("fp16x3") and ".each." not in n]
    assert gnfuse("run", SILU, "--variant", prepared[0])["prepared"] > 0
    refused = gnfuse("run", SILU, "--variant", prepared[0], "--each-weight", status=2)
    assert "prepared" in refused["error"], refused
