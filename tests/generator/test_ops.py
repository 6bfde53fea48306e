"""The table of operations: device and reference forms as compiled C, value ranges, and the forms simplified by them."""

import ctypes
import math
from pathlib import Path

import numpy as np
import pytest

from generator import approximate, chain, ops
from generator.problem import parse

ROOT = Path(__file__).resolve().parents[2]
ROWS = [op for op in ops.OPS if op.kind == ops.ELEMENTWISE]
INF = math.inf


def sigmoid(v):
    return 1 / (1 + math.exp(-v)) if v > -700 else 0.0


# What each row is to compute, by the names of its parameters: checks the order of the scalars as well.
ORACLES = {
    "relu": lambda v: max(v, 0.0),
    "leaky_relu": lambda v, slope: v if v >= 0 else slope * v,
    "silu": lambda v: v * sigmoid(v),
    "gelu": lambda v: v * math.erfc(-v / math.sqrt(2)) / 2,
    "gelu_tanh": lambda v: v * sigmoid(2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)),
    "mish": lambda v: v * math.tanh(math.log1p(math.exp(v)) if v < 40 else v),
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "hardtanh": lambda v, min, max: sorted((min, v, max))[1],
    "clamp": lambda v, min, max: sorted((min, v, max))[1],
    "hardswish": lambda v: v * sorted((0, v + 3, 6))[1] / 6,
    "elu": lambda v, alpha: v if v > 0 else alpha * math.expm1(v),
    "softplus": lambda v, beta, threshold: v if v * beta > threshold else math.log1p(math.exp(v * beta)) / beta,
    "scale": lambda v, factor: v * factor,
}
# Settings of the parameters, besides the defaults; each in the order of the row, none symmetric.
SETTINGS = {
    "leaky_relu": [(0.25,), (-1.5,)],
    "hardtanh": [(-2.0, 0.5), (1.0, 3.0)],
    "clamp": [(-2.0, 0.5), (1.0, 3.0), (0.0, 0.0)],
    "elu": [(0.25,), (-1.5,)],
    "softplus": [(2.0, 5.0), (0.5, 20.0)],
    "scale": [(3.0,), (-0.125,)],
}
POINTS = [*np.linspace(-30, 30, 2401), *np.linspace(-0.01, 0.01, 41), -0.0, 1e-30, -1e-30, 0.5**0.5]
SHIM = """
#include <cmath>
#include <math.h>
#define GNF_SIM 1
#define GNF_DEV static inline
#define EXPORT extern "C"
#include "templates/lib/math.cuh"
"""


def settings_of(op):
    defaults = [tuple(p.default for p in op.params)]
    return [s for s in defaults + SETTINGS.get(op.name, []) if None not in s]


def floats(values):
    return np.ascontiguousarray(values, dtype=np.float32)


@pytest.fixture(scope="session")
def forms(build):
    """forms(op, form, points, scalars): float64 results; a form is "reference", "device" or the index of a simpler one."""

    def functions(real, name_of, rows):
        for op, form, expression in rows:
            scalars = "".join(f" const {real} s{k} = s[{k}];" for k in range(len(op.params)))
            yield (
                f"static {real} one_{name_of(op, form)}({real} v, const {real} *s) {{{scalars} (void)s; return {expression}; }}\n"
                f"EXPORT void {name_of(op, form)}(long n, const {real} *v, const {real} *s, {real} *out)\n"
                f"{{ for (long i = 0; i < n; i++) out[i] = one_{name_of(op, form)}(v[i], s); }}\n"
            )

    def name_of(op, form):
        return f"form_{op.name}_{form}"

    device = [(op, "device", op.device) for op in ROWS]
    device += [(op, k, simpler[2]) for op in ROWS for k, simpler in enumerate(op.simpler)]
    plain = [(op, "reference", op.reference) for op in ROWS]
    plain = "".join(functions("double", name_of, plain))
    device = "".join(functions("float", name_of, device))
    reference = build("reference_forms", "#include <math.h>\n#define EXPORT\n" + plain, "-D_GNU_SOURCE")
    device = build("device_forms", SHIM + device, f"-I{ROOT}", compiler="g++")

    def call(op, form, points, scalars):
        real = np.float64 if form == "reference" else np.float32
        points, scalars = (np.ascontiguousarray(a, dtype=np.float32).astype(real) for a in (points, scalars))
        out = np.empty_like(points)
        function = getattr(reference if form == "reference" else device, name_of(op, form))
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (points, scalars, out)]
        function(ctypes.c_long(len(points)), *pointers)
        return out.astype(np.float64)

    return call


def test_every_row_has_an_oracle():
    assert {op.name for op in ROWS} == set(ORACLES)
    assert all(settings_of(op) for op in ROWS)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_reference_form(op, forms):
    points = floats(POINTS).astype(float)
    for scalars in settings_of(op):
        values = dict(zip((p.name for p in op.params), floats(scalars).astype(float)))
        expected = np.array([ORACLES[op.name](v, **values) for v in points])
        np.testing.assert_allclose(forms(op, "reference", points, scalars), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_device_form(op, forms):
    for scalars in settings_of(op):
        expected = forms(op, "reference", POINTS, scalars)
        error = np.abs(forms(op, "device", POINTS, scalars) - expected) / np.maximum(1, np.abs(expected))
        assert error.max() <= 1e-5, f"at {POINTS[error.argmax()]}"


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_nan_and_infinity_travel(op, forms):
    for scalars in settings_of(op):
        for form in ("reference", "device", *range(len(op.simpler))):
            assert np.isnan(forms(op, form, [math.nan], scalars)).all(), form
        high, low = forms(op, "reference", [INF, -INF], scalars)
        device_high, device_low = forms(op, "device", [INF, -INF], scalars)
        np.testing.assert_allclose(device_high, high, rtol=5e-7)
        # -inf * (1 + tanh) is NaN where the factor is 0; the twin's is 2e-7, and so -inf.
        if math.isfinite(low):
            np.testing.assert_allclose(device_low, low, rtol=5e-7)
        else:
            assert not math.isfinite(device_low)


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_large_values_do_not_overflow(op, forms):
    """Where the function is finite, so is its device form: an exponential may overflow on the way."""
    points = floats([-1e4, -500, -100, -89, 89, 100, 500, 1e4])
    for scalars in settings_of(op):
        expected = forms(op, "reference", points, scalars)
        np.testing.assert_allclose(forms(op, "device", points, scalars), expected, rtol=1e-5, atol=3e-3)


def samples(low, high):
    """Points of an interval, its ends among them."""
    inner = [v for v in POINTS if low <= v <= high]
    ends = [v for v in (low, high) if math.isfinite(v)]
    return floats(inner + ends + [v for v in (-1e4, 1e4, -3.0, 3.0) if low <= v <= high])


ENDS = [-INF, -1e4, -30.0, -3.0, -1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 3.0, 30.0, 1e4, INF]
INTERVALS = [(a, b) for a in ENDS for b in ENDS if a <= b and not (a == b and math.isinf(a))]


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_range_is_sound(op, forms):
    for low, high in INTERVALS:
        least, most = op.range(low, high)
        assert least <= most
        for scalars in settings_of(op):
            values = forms(op, "reference", samples(low, high), scalars)
            slack = 1e-12 * np.maximum(1, np.abs(values))
            assert (least <= values + slack).all() and (values - slack <= most).all(), (low, high, scalars)


@pytest.mark.parametrize("op", [op for op in ROWS if op.simpler], ids=lambda op: op.name)
def test_simpler_forms_equal_the_full_one(op, forms):
    for index, (low, high, _) in enumerate(op.simpler):
        points = samples(low, high)
        assert len(points) > 100
        for scalars in settings_of(op):
            expected = forms(op, "device", points, scalars)
            np.testing.assert_allclose(forms(op, index, points, scalars), expected, rtol=2e-7, atol=2e-7)


def test_simpler_form_is_taken_where_the_range_allows():
    def devices(text):
        built = chain.build(parse(text))
        by_name = {f.name: f.device for f in built.functions}
        return [by_name[s.function] for s in built.before + built.after + built.pooled + built.tail]

    hardswish = ops.BY_NAME["hardswish"]
    assert devices("f32[2,4] | groupnorm(2) | tanh | hardswish")[1] == hardswish.simpler[0][2]
    assert devices("f32[2,4] | groupnorm(2) | hardswish")[0] == hardswish.device
    assert devices("f32[2,4] | tanh | groupnorm(2) | hardswish")[1] == hardswish.device
    assert devices("f32[2,4] | groupnorm(2) | sigmoid | relu | elu")[1:] == ["v", "v"]
    assert devices("f32[2,4] | groupnorm(2) | tanh | scale(5) | hardswish")[2] == hardswish.device
    assert devices("f32[2,4,6,6] | groupnorm(2) | tanh | maxpool2d(2) | hardswish")[1] == hardswish.simpler[0][2]
    assert devices("f32[2,4,6,6] | conv2d(4, 3) | hardswish | groupnorm(2)")[0] == hardswish.device


def test_sums_without_a_peak_only_where_exponentials_are_bounded():
    def bounded(stages):
        return chain.build(parse(f"f32[2,4] | groupnorm(2) | {stages} | logsumexp")).bounded

    assert bounded("tanh") and bounded("sigmoid | silu") and bounded("h = tanh | mul(h) | add(h)")
    assert chain.build(parse("f32[2,4,6,6] | groupnorm(2) | tanh | maxpool2d(2) | logsumexp")).bounded
    for stages in ("relu", "silu", "tanh | add(x)", "tanh | scale(1)", "tanh | mul(t: scalar)"):
        assert not bounded(stages)


def test_sections_of_a_chain():
    """What stands before groupnorm, up to maxpool2d, up to the reduction and behind it; the labels that each keeps."""
    text = "y = conv2d(4, 3) | silu | n = groupnorm(2) | add(y) | mul(n) | p = maxpool2d(2) | gelu | add(p) | mean(all) | relu"
    built = chain.build(parse(f"f32[2,4,6,6] | {text}"))
    sections = (built.before, built.after, built.pooled, built.tail)
    assert [[s.comment.split(":")[0] for s in section] for section in sections] == [["silu"], ["add", "mul"], ["gelu", "add"], ["relu"]]
    assert (built.loaded, built.keep_loaded, built.hold_loaded, built.keep_norm) == (1, True, True, True)
    assert (built.pool_index, built.keep_pool, built.reduction, built.mean_all, built.tames) == (6, True, "mean", True, True)
    built = chain.build(parse("f32[2,4,6,6] | conv2d(4, 3, padding=1) | groupnorm(2) | add(x) | maxpool2d(2) | sum"))
    assert (built.after[0].label, built.after[0].tensor, built.after[0].broadcast) == (None, "x", "full")
    assert (built.keep_pool, built.pooled, built.mean_all, built.keep_loaded, built.tames) == (False, [], False, False, False)
    assert not chain.build(parse("f32[2,4,6,6] | conv2d(4, 3) | add(b: channel) | groupnorm(2) | relu")).tames


def test_fast_tanh():
    """Only right behind groupnorm, and where what follows makes its error no larger."""

    def fast(stages):
        return approximate.fast_tanh(parse(f"f32[2,4,6,6] | y = conv2d(4, 3, padding=1) | n = groupnorm(2) | {stages}"))

    assert all(map(fast, ("tanh", "tanh | hardswish | add(y) | logsumexp", "tanh | add(n) | mean(all)", "tanh | add(w: channel) | max")))
    for stages in ("relu", "relu | tanh", "tanh | scale(2)", "tanh | mul(y)", "t = tanh | add(t)", "tanh | sum", "gelu", "tanh | elu"):
        assert not fast(stages), stages
    assert not approximate.fast_tanh(parse("f32[2,4] | groupnorm(2)"))


def test_exp2_without_special_functions(build):
    words = """
    #include <cstring>
    typedef unsigned uint32_t;
    static uint32_t __float_as_uint(float v) { uint32_t w; memcpy(&w, &v, 4); return w; }
    static float __uint_as_float(uint32_t w) { float v; memcpy(&v, &w, 4); return v; }
    """
    call = "EXPORT void run(long n, const float *v, float *out) { for (long i = 0; i < n; i++) out[i] = gnf_exp2_fma(v[i]); }\n"
    library = build("exp2_fma", SHIM + words + '#include "templates/lib/exp2_fma.cuh"\n' + call, f"-I{ROOT}", compiler="g++")
    points = floats([*np.linspace(-126, 127.4, 100001), *POINTS, -126.6, -1e4, -INF, 127.6, 1e4, INF, math.nan])
    out = np.empty_like(points)
    library.run(ctypes.c_long(len(points)), *(a.ctypes.data_as(ctypes.c_void_p) for a in (points, out)))
    np.testing.assert_allclose(out[:-7], 2.0 ** points[:-7].astype(float), rtol=2.5e-7)
    np.testing.assert_array_equal(out[-7:], [0, 0, 0, INF, INF, INF, math.nan])


def test_scalars_follow_the_text():
    """The index of each run-time number among the kernel's arguments: in the order of the text, eps in its place."""
    text = "f32[2,4] | leaky_relu(0.5) | groupnorm(2) | hardtanh(-1, 2) | softplus(1, 2) | sum | scale(3)"
    problem = parse(text)
    built = chain.build(problem)
    assert [s.scalars for s in built.before + built.after + built.tail] == [(0,), (2, 3), (4, 5), (6,)]
    assert problem.stages[problem.norm].scalar_at == 1
    assert [f.scalars for f in built.functions] == [1, 2, 2, 1]
