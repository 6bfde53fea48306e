"""The strategies' front matter, and the variants of a problem that it allows.

A strategy is a template NAME.cu.j2 whose first comment, between {#--- and ---#}, is TOML:

    about       one line for people
    parts       files of templates/lib that it needs besides those of every kernel
    first       "conv2d": it begins with the convolution itself, where other strategies are the tail of a product
    base        a file of templates/lib with front matter of its own: parameters, derived and limits before these here
    capability  the least compute capability, 90 for 9.0; 80 if not given
    exact       true: it runs on that capability alone, and its kernels are compiled for sm_90a
    generic     true: the sizes are arguments, one set of variants a chain
    alignment   bytes that x and y have to be aligned to; if not given those of `vector` elements
    parameters  the tile parameters and the values to try, numbers or words
    derived     further names for expressions of the problem's sizes (names() below), the parameters and those before
    limits      what must hold, expressions in all of these
    prefer      cost: the order in which the default rule meets the variants, least first
    kernels     one launch each, in order: block, shared, unit, units_per_block, span, tile, cap (runtime/pack.h says
                what they mean), `when` it is needed, role ("weights", with `first`: it prepares those), exact if not as above, cluster
    product     with `first`: sums, 1 where the convolution's output is stored, and weight_bytes of what the kernel of
                role "weights" prepares
    workspace   chunk: bytes a statistics chunk
"""

import collections
import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

from generator import approximate, front, products

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
LETTERS = {
    "chunk": "c",
    "cluster": "k",
    "consumers": "g",
    "items": "i",
    "lanes": "l",
    "lines": "r",
    "mtiles": "m",
    "octets": "o",
    "pixels": "p",
    "reach": "n",
    "stages": "s",
    "threads": "t",
    "vector": "v",
    "warps": "w",
}
# A problem needs some 20 candidates; beyond that the cheapest by `prefer` are kept, unless the caller wants another number.
MOST_VARIANTS = 24
# With linear that many variants are divided among what a problem has of products, whose tails differ by a hundredth: two each.
PRODUCTS = 12
# With conv2d among the strategies that begin with the convolution: the best of each are within their first eight.
FIRST = 3
SHARED_ANYWHERE, SHARED_MOST = 99 * 1024, 227 * 1024  # bytes a block may ask for on devices with the least and the most


@dataclass(frozen=True)
class Strategy:
    name: str
    about: str
    parts: tuple
    first: str  # the operation that it does itself, or None
    generic: bool
    capability: int
    exact: bool
    alignment: str
    parameters: dict
    derived: dict
    limits: dict
    prefer: str
    kernels: tuple
    chunk_bytes: str
    product: dict  # sums and weight_bytes, where first


@dataclass(frozen=True)
class Variant:
    strategy: Strategy
    parameters: tuple  # of (name, value)
    kernels: tuple  # dicts of evaluated launch rules
    alignment: int  # bytes
    workspace: int  # bytes a chunk
    derived: dict  # names and their values
    product: products.Product = None  # of linear or conv2d, which all the rest is then the tail of

    @property
    def product_kernels(self):
        """Those that stand before the strategy's own."""
        return self.product.kernels if self.product else ()

    @property
    def tail(self):
        """The strategy and every tile parameter: block.t256.v4.i4."""
        words = (v if isinstance(v, str) else f"{LETTERS.get(n, n)}{v}" for n, v in self.parameters)
        return ".".join([self.strategy.name, *words])

    @property
    def name(self):
        """The same behind the product's name, where it has one: fp16x3.s4.block.t256.v4.i4."""
        return f"{self.product.name}.{self.tail}" if self.product and self.product.name else self.tail


def read_strategies(folder=TEMPLATES):
    """Every strategy of the template folder, in the order of their names."""

    def strategy(path, t):
        t = _with_base(folder, t)
        exact, first = t.get("exact", False), t.get("first")
        kernels = tuple(front.KERNEL_DEFAULTS | {"exact": exact} | k for k in t["kernels"])
        if first not in (None, "conv2d"):
            raise ValueError(f"first = '{first}': allowed is conv2d")
        if "product" in t and not first:
            raise ValueError("a table [product]: allowed is that with first = 'conv2d'")
        allowed = ("tail", "weights") if first else ("tail",)
        if wrong := [k["role"] for k in kernels if k["role"] not in allowed]:
            raise ValueError(f"role = '{wrong[0]}': allowed is {' or '.join(allowed)}")
        return Strategy(
            path.name.removesuffix(".cu.j2"),
            t["about"],
            tuple(t.get("parts", ())),
            first,
            t.get("generic", False),
            t.get("capability", front.SIMPLEST_CAPABILITY),
            exact or any(k["exact"] for k in kernels),
            t.get("alignment", "vector * element" if "vector" in t["parameters"] else "element"),
            t["parameters"],
            t.get("derived", {}),
            t["limits"],
            t["prefer"]["cost"],
            kernels,
            t.get("workspace", {}).get("chunk", "0"),
            {field: str(t["product"][field]) for field in ("sums", "weight_bytes")} if first else {},
        )

    return [front.read(path, lambda t, path=path: strategy(path, t)) for path in sorted(folder.glob("*.cu.j2"))]


def _with_base(folder, t):
    """Front matter, in which each table that it shares with its base begins with the base's."""
    if "base" not in t:
        return t
    base = front.read(folder / "lib" / t["base"], dict)
    return t | {table: base.get(table, {}) | t.get(table, {}) for table in ("parameters", "derived", "limits")}


def is_rows(problem, generic=False):
    """True where neighbours in memory are neighbouring channels: channels-last, or one spatial element, as behind linear.

    A generic kernel knows what the chain's text says, nothing of the sizes.
    """
    if generic and not problem.linear:
        return ":nhwc" in problem.chain
    return problem.spatial == 1 or (problem.channels_last and problem.channels > 1)


def names(problem, generic=False):
    """What expressions of the front matter may use."""
    rows = is_rows(problem, generic)
    element = problem.element
    stretch = problem.group_channels if rows else problem.group_size
    conv, pool = problem.conv, problem.pool
    height, width = problem.sizes if len(problem.sizes) == 2 else (0, 0)
    out_height, out_width = conv.output if conv else (height, width)
    pooled_height, pooled_width = pool.output if pool else (0, 0)
    return {
        "group_size": problem.group_size,
        "group_channels": problem.group_channels,
        "groups": problem.groups,
        "channels": problem.channels,
        "spatial": problem.spatial,
        "element": element,  # bytes
        "rows": rows,
        "dtype": problem.dtype,
        "reduction": problem.reduction is not None,
        "logsumexp": problem.reduction is not None and problem.stages[problem.reduction].op.name == "logsumexp",
        "mean_all": problem.reduces_all,
        "made": problem.inputs > 0,  # what is read is the output of linear or conv2d
        "linear": problem.linear,
        "before": problem.norm - (problem.inputs > 0),  # stages before groupnorm, linear or conv2d not counted
        "fast_tanh": approximate.fast_tanh(problem),
        "conv": conv is not None,
        "pool": pool is not None,
        "tf32": problem.tf32,
        "strict": problem.strict,
        "inputs": problem.inputs,
        "height": height,
        "width": width,
        "out_height": out_height,
        "out_width": out_width,
        "kernel": conv.kernel if conv else 0,
        "stride": conv.stride if conv else 0,
        "padding": conv.padding if conv else 0,
        "pool_kernel": pool.kernel if pool else 0,
        "pool_stride": pool.stride if pool else 0,
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
        # What a group that lies in short pieces all over the sample costs: channels-last, few bytes a pixel.
        "scattered": 15 if rows and problem.spatial > 1 and problem.group_channels * element < 64 else 0,
        "shared_anywhere": SHARED_ANYWHERE,
        "shared_most": SHARED_MOST,
        "conv_slab": products.CONV_SLAB,
        "widest": max(v for v in (1, 2, 4, 8) if v * element <= 16 and stretch % v == 0),
        "vector_divides": lambda vector: stretch % vector == 0,
        "log2": math.log2,
        "max": max,
        "min": min,
        "abs": abs,
        "round_up": lambda n, d: -(-n // d) * d,
        "divide_up": lambda n, d: -(-n // d),
    }


def _of_strategy(strategy, scope):
    """Pairs (cost, Variant) of what the strategy's limits allow."""
    keys = list(strategy.parameters)
    if taken := [k for k in (*keys, *strategy.derived) if k in scope]:
        raise ValueError(f"{strategy.name}.cu.j2: front matter: '{taken[0]}': allowed are names other than the problem's")
    for values in itertools.product(*strategy.parameters.values()):
        local = scope | dict(zip(keys, values))
        for name, expression in strategy.derived.items():
            local[name] = front.evaluate(strategy.name, expression, local)
        if not all(front.evaluate(strategy.name, limit, local) for limit in strategy.limits.values()):
            continue
        rows = [row for row in strategy.kernels if front.evaluate(strategy.name, row["when"], local)]
        kernels = [front.launch(strategy.name, row, local) for row in rows]
        # A parameter that no choice is left of stays out of the name: lanes without a reduction.
        shown = tuple((k, v) for k, v in zip(keys, values) if len(strategy.parameters[k]) > 1 or not strategy.generic)
        alignment, workspace, cost = (
            front.evaluate(strategy.name, expression, local) for expression in (strategy.alignment, strategy.chunk_bytes, strategy.prefer)
        )
        fields = {field: int(front.evaluate(strategy.name, expression, local)) for field, expression in strategy.product.items()}
        product = products.first(**fields) if strategy.first else None
        derived = {name: local[name] for name in strategy.derived}
        yield cost, Variant(strategy, shown, tuple(kernels), int(alignment), int(workspace), derived, product)


def _tails(problem, variants, most):
    """The first `most` that differ in more than the threads of a block, and one at element alignment."""
    kept = {}
    for v in variants:
        kept.setdefault((v.strategy.name, *((k, n) for k, n in v.parameters if k != "threads")), v)
    kept = list(kept.values())
    narrow = next(v for v in kept if v.alignment == problem.element)
    return kept[:most] + ([] if narrow in kept[:most] else [narrow])


def _first(problem, costed, most):
    """Of those that begin with the convolution, cheapest first: a share of `most` of each strategy, and of it one for any device,
    one at element alignment, and one of each choice of words."""
    kept, counts = [], collections.Counter()
    for _, variant in costed:
        name = variant.strategy.name
        words = tuple(value for _, value in variant.parameters if isinstance(value, str))
        anywhere = not variant.strategy.exact and max(k["shared"] for k in variant.kernels) <= SHARED_ANYWHERE
        narrow = variant.alignment == problem.element
        wanted = (anywhere and not counts[name, "anywhere"]) or (narrow and not counts[name, "narrow"]) or not counts[name, words]
        if counts[name] < max(1, most // FIRST) or wanted:
            kept.append(variant)
            counts.update([name, (name, words)] + [(name, "anywhere")] * anywhere + [(name, "narrow")] * narrow)
    return kept


def enumerate_variants(problem, strategies, generic=False, most=MOST_VARIANTS):
    """The variants of a problem, the default rule's order: the `most` cheapest, and up to three more without which some
    device or pointer would be left with none. One at element alignment is always among them.

    With linear or conv2d: product after product, each with a share of `most` tails and up to one more at element
    alignment; before them, those that begin with the convolution themselves."""
    if problem.spatial == 0 and not generic:
        return []
    scope = names(problem, generic)
    allowed = (None, "conv2d") if problem.conv else (None,)
    costed = [p for s in strategies if s.generic == generic and s.first in allowed for p in _of_strategy(s, scope)]
    costed.sort(key=lambda p: (p[0], p[1].name))
    if problem.inputs:
        first = _first(problem, [p for p in costed if p[1].strategy.first], most)
        tails = _tails(problem, [v for _, v in costed if not v.strategy.first], max(1, most // PRODUCTS))
        return first + [replace(v, product=product) for product in products.of(problem, generic) for v in tails]
    kept = costed[:most]
    # The cut may have left out all that is legal at element alignment, with few groups, or with little shared memory.
    narrow = [p for p in costed if p[1].alignment == problem.element]
    for wanted in (narrow, [p for p in costed if p[1].strategy.name == "split"], [p for p in narrow if p[1].strategy.name != "shared"]):
        if wanted and wanted[0] not in kept:
            kept.append(wanted[0])
    return [v for _, v in kept]
