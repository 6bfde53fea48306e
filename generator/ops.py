"""The operations of the problem text, one row each: the single source for the generator, the C parser and the reference.

Adding an activation is adding a row. In `device` (CUDA C, float) and `reference` (C, double) the value is `v` and the
scalars are `s0`, `s1`, ... in the order of the parameters. `range` maps the interval of the input to that of the
output; an unbounded guess is always right. `simpler` lists (low, high, device): where the input is known to lie in
[low, high] the generator takes that form instead. `unfused` is the form before groupnorm of what the compiler might
fuse with a product before it: a value that one pass keeps for later stages and another does not has to be the same.
"""

import math
from dataclasses import dataclass

INF = math.inf
ELEMENTWISE, BINARY, GROUPNORM, REDUCTION, LINEAR, CONV2D, MAXPOOL2D = (
    "ELEMENTWISE",
    "BINARY",
    "GROUPNORM",
    "REDUCTION",
    "LINEAR",
    "CONV2D",
    "MAXPOOL2D",
)


@dataclass(frozen=True)
class Param:
    """A parameter: type 'i' is baked into kernels, 'f' is a run-time scalar, 'w' is a word. No default: required."""

    name: str
    type: str
    default: float = None


@dataclass(frozen=True)
class Op:
    name: str
    kind: str
    params: tuple = ()
    device: str = None
    reference: str = None
    range: object = None
    simpler: tuple = ()
    unfused: str = None


def _anywhere(low, high):
    return (-INF, INF)


def _from(lowest):
    """A function that follows its input upwards and never goes below `lowest`."""
    return lambda low, high: (lowest, max(high, 0.0))


def _sigmoid(v):
    return 1.0 / (1.0 + math.exp(-v)) if v > -700 else 0.0


def i(name, default=None):
    return Param(name, "i", default)


def f(name, default=None):
    return Param(name, "f", default)


def w(name):
    return Param(name, "w", 0)


# fmt: off
# Comparisons, never fminf or fmaxf: these return the operand that is not NaN, and a NaN has to travel.
OPS = (
    Op("linear", LINEAR, (i("out"), w("tf32"), w("strict"))),
    Op("conv2d", CONV2D, (i("out"), i("kernel"), i("stride", 1), i("padding", 0), w("tf32"), w("strict"))),
    Op("groupnorm", GROUPNORM, (i("groups"), f("eps", 1e-5))),
    Op("maxpool2d", MAXPOOL2D, (i("kernel"), i("stride", 0))),
    Op("relu", ELEMENTWISE, (), "v < 0.0f ? 0.0f : v", "v < 0 ? 0 : v", lambda a, b: (max(a, 0.0), max(b, 0.0)), ((0.0, INF, "v"),)),
    Op("leaky_relu", ELEMENTWISE, (f("slope", 0.01),), "v < 0.0f ? v * s0 : v", "v < 0 ? v * s0 : v", _anywhere, ((0.0, INF, "v"),)),
    Op("silu", ELEMENTWISE, (), "v * gnf_rcp(1.0f + gnf_exp(-v))", "v / (1 + exp(-v))", _from(-0.2785)),
    Op("gelu", ELEMENTWISE, (), "0.5f * v * (1.0f + erff(v * 0.70710678f))", "0.5 * v * (1 + erf(v / sqrt(2.0)))", _from(-0.17)),
    Op("gelu_tanh", ELEMENTWISE, (), "0.5f * v * (1.0f + gnf_tanh(0.79788456f * (v + 0.044715f * v * v * v)))",
       "0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))", _from(-0.171)),
    Op("mish", ELEMENTWISE, (), "v > 20.0f ? v : v * gnf_mish_factor(v)", "v * tanh(v > 40 ? v : log1p(exp(v)))", _from(-0.309)),
    Op("sigmoid", ELEMENTWISE, (), "gnf_rcp(1.0f + gnf_exp(-v))", "1 / (1 + exp(-v))", lambda a, b: (_sigmoid(a), _sigmoid(b))),
    Op("tanh", ELEMENTWISE, (), "gnf_tanh(v)", "tanh(v)", lambda a, b: (math.tanh(a), math.tanh(b))),
    Op("hardtanh", ELEMENTWISE, (f("min", -1.0), f("max", 1.0)), "v < s0 ? s0 : v > s1 ? s1 : v", "v < s0 ? s0 : v > s1 ? s1 : v", _anywhere),
    Op("clamp", ELEMENTWISE, (f("min"), f("max")), "v < s0 ? s0 : v > s1 ? s1 : v", "v < s0 ? s0 : v > s1 ? s1 : v", _anywhere),
    Op("hardswish", ELEMENTWISE, (), "v * (v < -3.0f ? 0.0f : v > 3.0f ? 1.0f : (v + 3.0f) * 0.16666667f)",
       "v * (v + 3 < 0 ? 0 : v + 3 > 6 ? 6 : v + 3) / 6", _from(-0.375),
       ((-3.0, 3.0, "v * (v + 3.0f) * 0.16666667f"), (3.0, INF, "v"))),
    Op("elu", ELEMENTWISE, (f("alpha", 1.0),), "v > 0.0f ? v : s0 * (gnf_exp(v) - 1.0f)", "v > 0 ? v : s0 * expm1(v)", _anywhere, ((0.0, INF, "v"),)),
    Op("softplus", ELEMENTWISE, (f("beta", 1.0), f("threshold", 20.0)), "v * s0 > s1 ? v : log1pf(expf(v * s0)) / s0",
       "v * s0 > s1 ? v : log1p(exp(v * s0)) / s0", _anywhere),
    Op("scale", ELEMENTWISE, (f("factor"),), "v * s0", "v * s0", _anywhere),
    Op("add", BINARY, (), "v + r", unfused="__fadd_rn(v, r)"),
    Op("mul", BINARY, (), "v * r"),
    Op("logsumexp", REDUCTION),
    Op("sum", REDUCTION),
    Op("mean", REDUCTION, (w("all"),)),
    Op("max", REDUCTION),
    Op("min", REDUCTION),
)
# fmt: on
BY_NAME = {op.name: op for op in OPS}
