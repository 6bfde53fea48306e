"""conv2d in front of a chain, on every way to compute it, against NumPy's float64 or values worked out by hand."""

import numpy as np
from program import error, groupnorm, run, ways

SEED = "f32[3,8,14,32] | y = conv2d(64, 3) | groupnorm(16) | tanh | hardswish | add(y) | logsumexp"
BORDERS = "f32[1,1,14,14] | y = conv2d(3, 3, stride=2, padding=1) | groupnorm(1) | scale(0) | add(y)"
ALONE = "f32[4,3,5,13] | conv2d(8, 3) | groupnorm(8)"
APART = "f32[1,8,6,9] | conv2d(16, 1, 2) | groupnorm(4)"
EQUAL = "f32[4,8,14,32] | conv2d(64, 3) | groupnorm(16)"
HUGE = "f32[1,24,4,5] | y = conv2d(16, 3) | tanh | groupnorm(4) | scale(0) | add(y)"
LAST = "f32[1,1,34,36] | conv2d(64, 2) | groupnorm(1)"
VISIBLE = "f32[4,4,8,9] | y = conv2d(16, 3, stride=2) | groupnorm(4) | scale(0) | add(y)"


def conv2d(x, weight, bias=None, stride=1, padding=0):
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    kernel = weight.shape[-1]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    patches = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    y = np.einsum("ncyxij,ocij->noyx", patches, weight)
    return y if bias is None else y + bias.astype(np.float64).reshape(1, -1, 1, 1)


def seed_chain(x, weight, bias, gamma, beta):
    y = conv2d(x, weight, bias)
    t = np.tanh(groupnorm(y, 16, gamma, beta))
    r = y + t * (t + 3) / 6
    return np.log(np.exp(r - r.max(1, keepdims=True)).sum(1, keepdims=True)) + r.max(1, keepdims=True)


def layer(out, inputs, kernel, seed=1):
    rng, bound = np.random.default_rng([seed, out, inputs, kernel]), (inputs * kernel**2) ** -0.5
    draw = lambda *shape: rng.uniform(-bound, bound, shape).astype(np.float32)  # noqa: E731
    return {"weight": draw(out, inputs, kernel, kernel), "bias": draw(out)}


def test_the_promise(tmp_path):
    rng = np.random.default_rng(5)
    x = np.stack([rng.random((8, 14, 32)), rng.standard_normal((8, 14, 32)) + 3, rng.standard_normal((8, 14, 32)) + 100])
    tensors = layer(64, 8, 3) | {"x": x.astype(np.float32)}
    tensors |= {"gamma": rng.uniform(0.5, 1.5, 64).astype(np.float32), "beta": rng.standard_normal(64).astype(np.float32)}
    want = seed_chain(**tensors)
    names = ways(SEED)
    assert {"conv2d_fused", "conv2d_stored"} <= {n.split(".")[0] for n in names} and any("generic" in n for n in names), names
    for name in names:
        y = run(SEED, tmp_path, name, **tensors)
        for sample, data in enumerate(("uniform", "mean 3", "mean 100")):
            assert error(y[sample], want[sample]) < 1e-5, (name, data, error(y[sample], want[sample]))
        assert (run(SEED, tmp_path, name, **tensors) == y).all(), name  # bit for bit, in another process


def test_corner_edge_and_inside(tmp_path):
    # A convolution is visible behind `scale(0) | add(y)`. Ones everywhere: what is summed is how many taps lie inside.
    taps = np.array([2] + [3] * 6)
    want = np.broadcast_to(np.outer(taps, taps) * np.array([1, -2, 0.5]).reshape(1, 3, 1, 1), (1, 3, 7, 7))
    weight = np.ones((3, 1, 3, 3), np.float32) * np.array([1, -2, 0.5], np.float32).reshape(3, 1, 1, 1)
    for name in ways(BORDERS):
        assert (run(BORDERS, tmp_path, name, x=np.ones((1, 1, 14, 14), np.float32), weight=weight) == want).all(), name


def test_each_tap_channel_and_place(tmp_path):
    # Integers whose sums are exact in every scheme; each product counts for a place of its own.
    rng = np.random.default_rng(2)
    x, weight = rng.integers(-30, 30, (4, 4, 8, 9)).astype(np.float32), rng.integers(-30, 30, (16, 4, 3, 3)).astype(np.float32)
    want = conv2d(x, weight, stride=2)
    for name in ways(VISIBLE):
        assert (run(VISIBLE, tmp_path, name, x=x, weight=weight) == want).all(), name


def test_constant_images_give_beta(tmp_path):
    # One channel a group and no border: all of a group is one value, whatever it is.
    x = np.broadcast_to(np.array([-513.3, 1e4, 1e-20, 0], np.float32).reshape(4, 1, 1, 1), (4, 3, 5, 13))
    beta = np.linspace(-1, 1, 8, dtype=np.float32)
    want = np.broadcast_to(beta.reshape(1, 8, 1, 1), (4, 8, 3, 11))
    for name in ways(ALONE):
        y = run(ALONE, tmp_path, name, x=x, beta=beta, **layer(8, 3, 3))
        assert error(y, want) < 1e-4, (name, error(y, want))


def test_equal_filters_of_constant_images_give_beta(tmp_path):
    # Where a group's mean and its values are found in two ways, what they differ by is multiplied by 316.
    x = np.broadcast_to(np.array([1, 0.3, 100, -1e4], np.float32).reshape(4, 1, 1, 1), (4, 8, 14, 32))
    weight = np.repeat(np.random.default_rng(7).standard_normal((16, 8, 3, 3), np.float32), 4, axis=0)
    for filters in (np.full((64, 8, 3, 3), 0.1, np.float32), weight):
        for name in ways(EQUAL):
            y = run(EQUAL, tmp_path, name, x=x, weight=filters)
            assert np.abs(y).max() < 1e-5, (name, np.abs(y).max())


def test_huge_weights_of_a_tiny_image(tmp_path):
    rng = np.random.default_rng(8)
    x, weight = rng.standard_normal((4, 8, 14, 32), np.float32), rng.uniform(-1, 1, (64, 8, 3, 3)).astype(np.float32)
    tensors = {"x": x * np.float32(1e-32), "weight": weight * np.float32(2e32)}
    want = groupnorm(conv2d(**tensors), 16)
    for name in ways(EQUAL):
        y = run(EQUAL, tmp_path, name, **tensors)
        assert error(y, want) < 1e-5, (name, error(y, want))


def test_sums_near_the_end_of_the_range(tmp_path):
    # Of more input channels than one stage has; what the sums are scaled by must not take them out of fp32 on the way.
    rng = np.random.default_rng(9)
    tensors = {"x": rng.standard_normal((1, 24, 4, 5), np.float32) * np.float32(1e36), "weight": 0.1 * rng.choice([-1, 1], (16, 24, 3, 3))}
    tensors["weight"] = tensors["weight"].astype(np.float32)
    want = conv2d(**tensors)
    for name in ways(HUGE):
        y = run(HUGE, tmp_path, name, **tensors)
        assert np.abs(y / want - 1).max() < 1e-4, (name, np.abs(y / want - 1).max())


def test_all_there_is_in_the_last_column(tmp_path):
    # The taps before the last do not see it; rounded to fp16 it would be off by a thousandth.
    x = np.zeros((1, 1, 34, 36), np.float32)
    x[0, 0, 13, 35] = 1 + 2**-11 + 2**-20
    weight = np.full((64, 1, 2, 2), 0.25, np.float32)
    want = groupnorm(conv2d(x, weight), 1)
    for name in ways(LAST):
        y = run(LAST, tmp_path, name, x=x, weight=weight)
        assert error(y, want) < 1e-5, (name, error(y, want))


def test_a_mean_of_10000(tmp_path):
    # A quarter's steps beside 1e4 and whole weights: what is summed is exact in fp32, and so are fp16 hi + lo of it, but
    # not hi alone. Half of the weights take the mean away; behind the others it stays, hundreds of times the spread.
    rng = np.random.default_rng(3)
    x = (1e4 + rng.integers(-8, 9, (4, 3, 5, 13)) / 4).astype(np.float32)
    weight = rng.integers(-4, 5, (8, 3, 3, 3)).astype(np.float32)
    weight[:, 2, 2, 2] -= weight.sum((1, 2, 3))
    weight[4:, 0, 0, 0] += 1
    want = groupnorm(conv2d(x, weight), 8)
    for name in ways(ALONE):
        y = run(ALONE, tmp_path, name, x=x, weight=weight)
        assert error(y, want) < 1e-4, (name, error(y, want))


def test_images_of_any_size(tmp_path):
    sizes = np.array([1e-6, 1, 1e6, 1]).reshape(4, 1, 1, 1)
    tensors = {"x": (sizes * np.random.default_rng(4).standard_normal((4, 3, 5, 13))).astype(np.float32)}
    tensors["weight"] = layer(8, 3, 3)["weight"]
    want = groupnorm(conv2d(**tensors), 8)
    for name in ways(ALONE):
        y = run(ALONE, tmp_path, name, **tensors)
        assert error(y, want) < 1e-5, (name, error(y, want))


def test_what_no_window_covers_does_not_count(tmp_path):
    # Stride 2 and three taps over 8 rows: the last row is in no window; what stands in the row before is in the whole sample.
    tensors = layer(16, 4, 3) | {"x": np.random.default_rng(6).standard_normal((4, 4, 8, 9)).astype(np.float32)}
    want = conv2d(tensors["x"], tensors["weight"], tensors["bias"], stride=2)
    for sample, odd in enumerate((np.nan, np.inf, np.nan, np.inf)):
        tensors["x"][sample, 1, 7 if sample < 2 else 6, 4] = odd
    for name in ways(VISIBLE):
        y = run(VISIBLE, tmp_path, name, **tensors)
        assert error(y[:2], want[:2]) < 1e-5 and np.isnan(y[2:]).all(), name


def test_what_lies_between_windows_decides_nothing(tmp_path):
    # Every other column: parts of x are scaled by their largest value, and this one would leave nothing of the others.
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((1, 8, 6, 9), np.float32), rng.standard_normal((16, 8, 1, 1), np.float32)
    want = groupnorm(conv2d(x, weight, stride=2), 4)
    x[..., 1::2] = 1e30
    for name in ways(APART):
        y = run(APART, tmp_path, name, x=x, weight=weight)
        assert np.abs(y - want).max() < 1e-5, name
