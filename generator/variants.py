"""The strategies' front matter, and the variants of a problem that it allows.

A strategy is a template NAME.cu.j2 whose first comment, between {#--- and ---#}, is TOML:

    about       one line for people
    parts       files of templates/lib that it needs besides those of every kernel
    capability  the least compute capability, 90 for 9.0; 80 if not given
    generic     true: the sizes are arguments, one set of variants a chain
    parameters  the tile parameters and the values to try
    limits      what must hold, expressions in the problem's sizes (NAMES below) and the parameters
    prefer      cost: the order in which the default rule meets the variants, least first
    kernels     one launch each, in order: block, shared, unit, units_per_block, span, tile, cap (runtime/pack.h says
                what they mean), and `when` it is needed
    workspace   chunk: bytes a statistics chunk
"""

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

from generator import front, products

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
LETTERS = {"cluster": "k", "threads": "t", "lanes": "l", "vector": "v", "items": "i", "chunk": "c", "pixels": "p"}
# A problem needs some 20 candidates; beyond that the cheapest by `prefer` are kept, unless the caller wants another number.
MOST_VARIANTS = 24
# With linear that many variants are divided among what a problem has of products, whose tails differ by a hundredth: two each.
PRODUCTS = 12


@dataclass(frozen=True)
class Strategy:
    name: str
    about: str
    parts: tuple
    generic: bool
    capability: int
    parameters: dict
    limits: dict
    prefer: str
    kernels: tuple
    chunk_bytes: str


@dataclass(frozen=True)
class Variant:
    strategy: Strategy
    parameters: tuple  # of (name, value)
    kernels: tuple  # dicts of evaluated launch rules
    alignment: int  # bytes
    workspace: int  # bytes a chunk
    product: products.Product = None  # of linear, which all the rest is then the tail of

    @property
    def tail(self):
        """The strategy and every tile parameter: block.t256.v4.i4."""
        return ".".join([self.strategy.name] + [f"{LETTERS.get(n, n)}{v}" for n, v in self.parameters])

    @property
    def name(self):
        """The same behind the product's name: fp16x3.s4.block.t256.v4.i4."""
        return f"{self.product.name}.{self.tail}" if self.product else self.tail


def read_strategies(folder=TEMPLATES):
    """Every strategy of the template folder, in the order of their names."""

    def strategy(path, t):
        return Strategy(
            path.name.removesuffix(".cu.j2"),
            t["about"],
            tuple(t.get("parts", ())),
            t.get("generic", False),
            t.get("capability", front.SIMPLEST_CAPABILITY),
            t["parameters"],
            t["limits"],
            t["prefer"]["cost"],
            tuple(front.KERNEL_DEFAULTS | k for k in t["kernels"]),
            t.get("workspace", {}).get("chunk", "0"),
        )

    return [front.read(path, lambda t, path=path: strategy(path, t)) for path in sorted(folder.glob("*.cu.j2"))]


def is_rows(problem, generic=False):
    """True where neighbours in memory are neighbouring channels: channels-last, or one spatial element, as behind linear.

    A generic kernel knows what the chain's text says, nothing of the sizes.
    """
    if generic and not problem.inputs:
        return ":nhwc" in problem.chain
    return problem.spatial == 1 or (problem.channels_last and problem.channels > 1)


def names(problem, generic=False):
    """What expressions of the front matter may use."""
    rows = is_rows(problem, generic)
    element = problem.element
    stretch = problem.group_channels if rows else problem.group_size
    return {
        "group_size": problem.group_size,
        "group_channels": problem.group_channels,
        "groups": problem.groups,
        "channels": problem.channels,
        "spatial": problem.spatial,
        "element": element,  # bytes
        "rows": rows,
        "reduction": problem.reduction is not None,
        "linear": problem.inputs > 0,  # what is read is linear's output
        # What a group that lies in short pieces all over the sample costs: channels-last, few bytes a pixel.
        "scattered": 15 if rows and problem.spatial > 1 and problem.group_channels * element < 64 else 0,
        "widest": max(v for v in (1, 2, 4, 8) if v * element <= 16 and stretch % v == 0),
        "vector_divides": lambda vector: stretch % vector == 0,
        "log2": math.log2,
        "max": max,
        "min": min,
        "abs": abs,
        "round_up": lambda n, d: -(-n // d) * d,
    }


def _of_strategy(strategy, scope):
    """Pairs (cost, Variant) of what the strategy's limits allow."""
    keys = list(strategy.parameters)
    for values in itertools.product(*strategy.parameters.values()):
        local = scope | dict(zip(keys, values))
        if not all(front.evaluate(strategy.name, limit, local) for limit in strategy.limits.values()):
            continue
        rows = [row for row in strategy.kernels if front.evaluate(strategy.name, row["when"], local)]
        kernels = [front.launch(strategy.name, row, local) for row in rows]
        # A parameter that no choice is left of stays out of the name: lanes without a reduction.
        shown = tuple((k, v) for k, v in zip(keys, values) if len(strategy.parameters[k]) > 1 or not strategy.generic)
        alignment = local["vector"] * local["element"]
        workspace = int(front.evaluate(strategy.name, strategy.chunk_bytes, local))
        cost = front.evaluate(strategy.name, strategy.prefer, local)
        yield cost, Variant(strategy, shown, tuple(kernels), alignment, workspace)


def _tails(problem, variants, most):
    """The first `most` that differ in more than the threads of a block, and one at element alignment."""
    kept = {}
    for v in variants:
        kept.setdefault((v.strategy.name, *((k, n) for k, n in v.parameters if k != "threads")), v)
    kept = list(kept.values())
    narrow = next(v for v in kept if v.alignment == problem.element)
    return kept[:most] + ([] if narrow in kept[:most] else [narrow])


def enumerate_variants(problem, strategies, generic=False, most=MOST_VARIANTS):
    """The variants of a problem, the default rule's order: the `most` cheapest, and up to three more without which some
    device or pointer would be left with none. One at element alignment is always among them.

    With linear: product after product, each with a share of `most` tails and up to one more at element alignment."""
    if problem.spatial == 0 and not generic:
        return []
    scope = names(problem, generic)
    costed = [p for s in strategies if s.generic == generic for p in _of_strategy(s, scope)]
    costed.sort(key=lambda p: (p[0], p[1].name))
    if problem.inputs:
        tails = _tails(problem, [v for _, v in costed], max(1, most // PRODUCTS))
        return [replace(v, product=product) for product in products.of(problem, generic) for v in tails]
    kept = costed[:most]
    # The cut may have left out all that is legal at element alignment, with few groups, or with little shared memory.
    narrow = [p for p in costed if p[1].alignment == problem.element]
    for wanted in (narrow, [p for p in costed if p[1].strategy.name == "split"], [p for p in narrow if p[1].strategy.name != "shared"]):
        if wanted and wanted[0] not in kept:
            kept.append(wanted[0])
    return [v for _, v in kept]
