"""Public bug reports as small inputs with right values (rows H01, H02, H04 to H06, H08 to H10), on every strategy.

The reference is NumPy's float64 or a value worked out by hand, never gnfuse's own.
"""

import numpy as np
import pytest
from program import groupnorm, run, ways


def on_every_strategy(problem, folder, want, tolerance, **tensors):
    names = ways(problem)
    assert any(n.startswith("generic") for n in names) and len(names) > 1, names
    for name in names:
        got = run(problem, folder, name, **tensors)
        with np.errstate(invalid="ignore"):
            error = np.abs(got - want) / np.maximum(1, np.abs(want))
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        assert got.shape == want.shape, (problem, name)
        assert np.all(same | (error <= tolerance)), (problem, name, got.ravel()[:16], want.ravel()[:16])


def test_h01_flat_input_gives_beta(tmp_path):
    x = np.full((1, 6, 49), -513.3, np.float32)
    on_every_strategy("f32[1,6,49] | groupnorm(2)", tmp_path, np.full(x.shape, 0.25), 1e-4, x=x, beta=np.full(6, 0.25, np.float32))


def test_h02_large_mean_small_spread(tmp_path):
    i = np.arange(4 * 64) % 4
    x = np.tile((10000 + 0.25 * i).astype(np.float32), 4).reshape(2, 8, 64)
    want = np.tile(np.array([-1.341555, -0.447185, 0.447185, 1.341555])[i], 4).reshape(x.shape)
    on_every_strategy("f32[2,8,64] | groupnorm(2)", tmp_path, want, 1e-5, x=x)


def test_outlier_as_first_value_and_squares_that_overflow(tmp_path):
    # What the sums are taken about must not be spoilt by one value: the others lose their digits against it. And where
    # the variance is infinite the output is beta, as PyTorch's, not NaN.
    x = np.full((2, 2, 160, 161), 5.3, np.float32)
    x[0, 0, 0, 0] = 1e6
    want = groupnorm(x, 1)
    x[1] = np.random.default_rng(1).standard_normal(x.shape[1:], np.float32) * np.float32(1e20)
    on_every_strategy("f32[2,2,160,161] | groupnorm(1)", tmp_path, want, 5e-5, x=x)


def test_sum_of_many_channels(tmp_path):
    # One addition a channel into one float would be wrong by 1.1e-4 here.
    x, beta = np.full((1, 8192, 2), 7, np.float32), np.full(8192, 0.967536, np.float32)
    on_every_strategy("f32[1,8192,2] | groupnorm(1) | sum", tmp_path, np.full((1, 1, 2), 8192 * 0.967536), 5e-5, x=x, beta=beta)


@pytest.mark.parametrize("samples", [70000, 65535, 65536, 65537])
def test_h04_many_samples(tmp_path, samples):
    x = np.tile(np.arange(8, dtype=np.float32), samples * 2).reshape(samples, 4, 4)
    steps = [-1.527524, -1.091088, -0.654653, -0.218218, 0.218218, 0.654653, 1.091088, 1.527524]
    want = np.tile(steps, samples * 2).reshape(x.shape)
    names = ways("f32[*,4,4] | groupnorm(2)")
    for name in names if samples == 70000 else [names[0], names[-1]]:
        got = run("f32[*,4,4] | groupnorm(2)", tmp_path, name, x=x)
        assert np.abs(got - want).max() < 1e-5, name


@pytest.mark.parametrize("shape", [(0, 32, 64), (4, 32, 0)])
@pytest.mark.parametrize("tail", ["", " | logsumexp"])
def test_h05_empty_tensors(tmp_path, shape, tail):
    x = np.zeros(shape, np.float32)
    sizes = ",".join(map(str, shape))
    problem = f"f32[{sizes}] | groupnorm(8){tail}"
    for name in ways(problem):
        y = run(problem, tmp_path, name, x=x)
        assert y.size == 0 and y.shape == (shape[0], 1 if tail else 32, shape[2]), name


def test_h06_groups_that_are_no_power_of_two(tmp_path):
    x = np.repeat(np.arange(1, 7, dtype=np.float32), 5).reshape(1, 6, 5)
    want = np.tile(np.repeat([-1.224736, 0, 1.224736], 5), 2).reshape(x.shape)
    on_every_strategy("f32[1,6,5] | groupnorm(2)", tmp_path, want, 1e-5, x=x)
    x = np.random.default_rng(6).standard_normal((1, 48, 1024), np.float32)
    on_every_strategy("f32[1,48,1024] | groupnorm(16)", tmp_path, groupnorm(x, 16), 1e-5, x=x)


def test_h08_squares_beyond_half_precision(tmp_path):
    x = np.tile(np.array([600, -600], np.float16), 64).reshape(2, 4, 16)
    on_every_strategy("f16[2,4,16] | groupnorm(2)", tmp_path, np.sign(x).astype(np.float64), 2e-3, x=x)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_h09_nan_outlives_the_clamp(tmp_path, odd):
    x = np.tile(np.arange(8, dtype=np.float32), 2).reshape(1, 4, 4)
    x[0, 0, 1] = odd
    group = [-1, -1, -0.654653, -0.218218, 0.218218, 0.654653, 1, 1]
    want = np.concatenate([np.full(8, np.nan), group]).reshape(x.shape)
    on_every_strategy("f32[1,4,4] | groupnorm(2) | hardtanh(-1, 1)", tmp_path, want, 1e-5, x=x)


INF = np.inf


@pytest.mark.parametrize(
    "values, want",
    [
        ([-INF] * 5, -INF),
        ([INF, 0, 0, 0, 0], INF),
        ([INF, -INF, 0, 0, 0], INF),
        ([np.nan, 0, 0, 0, 0], np.nan),
        ([1000, 1000, -INF, -INF, -INF], 1000.693147),
        ([100.1] * 16, 102.8726),
    ],
)
@pytest.mark.parametrize("layout", ["f32[1,{c}]", "f32[1,{c},3]:nhwc"])
def test_h10_logsumexp_of_infinities(tmp_path, values, want, layout):
    # One channel a group: groupnorm gives beta, which is a way to feed any value into what follows.
    c = len(values)
    shape = (1, c) if layout.endswith("}]") else (1, c, 3)
    x = np.broadcast_to(np.full(c, 7, np.float32).reshape((1, c) + (1,) * (len(shape) - 2)), shape).copy()
    on_every_strategy(
        layout.format(c=c) + f" | groupnorm({c}) | logsumexp",
        tmp_path,
        np.full((1, 1) + shape[2:], want),
        2e-5,
        x=x,
        beta=np.array(values, np.float32),
    )


@pytest.mark.parametrize("layout", ["", ":nhwc"])
def test_full_tensor_behind_maxpool2d(tmp_path, layout):
    rng = np.random.default_rng(11)
    x, r = rng.standard_normal((2, 6, 7, 5), np.float32), rng.standard_normal((2, 6, 3, 2), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(groupnorm(x, 3), (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    problem = f"f32[2,6,7,5]{layout} | groupnorm(3) | maxpool2d(3, 2) | mul(r: full)"
    on_every_strategy(problem, tmp_path, windows.max((4, 5)) * r, 1e-5, x=x, r=r)
