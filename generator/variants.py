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

import functools
import itertools
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
LETTERS = {"cluster": "k", "threads": "t", "lanes": "l", "vector": "v", "items": "i", "chunk": "c", "pixels": "p"}
KERNEL_DEFAULTS = {"name": "", "units_per_block": "1", "span": "none", "tile": "1", "cap": "1", "when": "True"}
SIMPLEST_CAPABILITY = 80  # cvt of two halves at once
# A problem needs some 20 candidates; beyond that the cheapest by `prefer` are kept, unless the caller wants another number.
MOST_VARIANTS = 24


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

    @property
    def name(self):
        """The strategy and every tile parameter: block.t256.v4.i4."""
        return ".".join([self.strategy.name] + [f"{LETTERS.get(n, n)}{v}" for n, v in self.parameters])


def read_strategies(folder=TEMPLATES):
    """Every strategy of the template folder, in the order of their names."""
    found = []
    for path in sorted(folder.glob("*.cu.j2")):
        text = path.read_text(encoding="utf-8")
        front = re.match(r"\{#---\n(.*?)---#\}\n", text, re.DOTALL)
        if not front:
            raise ValueError(f"{path.name}: no front matter between {{#--- and ---#}}")
        try:
            t = tomllib.loads(front.group(1))
            found.append(
                Strategy(
                    path.name.removesuffix(".cu.j2"),
                    t["about"],
                    tuple(t.get("parts", ())),
                    t.get("generic", False),
                    t.get("capability", SIMPLEST_CAPABILITY),
                    t["parameters"],
                    t["limits"],
                    t["prefer"]["cost"],
                    tuple(KERNEL_DEFAULTS | k for k in t["kernels"]),
                    t.get("workspace", {}).get("chunk", "0"),
                )
            )
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise ValueError(f"{path.name}: front matter: {error}") from error
    return found


def is_rows(problem, generic=False):
    """True where neighbours in memory are neighbouring channels: channels-last, or one spatial element.

    A generic kernel knows what the chain's text says, nothing of the sizes.
    """
    if generic:
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


@functools.cache
def _compiled(expression):
    return compile(expression, "front matter", "eval")


def _evaluate(strategy, expression, scope):
    try:
        return eval(_compiled(expression), {"__builtins__": {}}, scope)
    except Exception as error:
        raise ValueError(f"{strategy.name}.cu.j2: front matter: '{expression}': {error}") from error


def _of_strategy(strategy, scope):
    """Pairs (cost, Variant) of what the strategy's limits allow."""
    keys = list(strategy.parameters)
    for values in itertools.product(*strategy.parameters.values()):
        local = scope | dict(zip(keys, values))
        if not all(_evaluate(strategy, limit, local) for limit in strategy.limits.values()):
            continue
        kernels = []
        for row in strategy.kernels:
            if _evaluate(strategy, row["when"], local):
                rule = {"name": row["name"], "unit": row["unit"], "span": row["span"]}
                for field in ("block", "shared", "units_per_block", "tile", "cap"):
                    rule[field] = int(_evaluate(strategy, row[field], local))
                kernels.append(rule)
        # A parameter that no choice is left of stays out of the name: lanes without a reduction.
        shown = tuple((k, v) for k, v in zip(keys, values) if len(strategy.parameters[k]) > 1 or not strategy.generic)
        alignment = local["vector"] * local["element"]
        workspace = int(_evaluate(strategy, strategy.chunk_bytes, local))
        yield _evaluate(strategy, strategy.prefer, local), Variant(strategy, shown, tuple(kernels), alignment, workspace)


def enumerate_variants(problem, strategies, generic=False, most=MOST_VARIANTS):
    """The variants of a problem, the default rule's order: the `most` cheapest, and up to three more without which some
    device or pointer would be left with none. One at element alignment is always among them."""
    if problem.spatial == 0 and not generic:
        return []
    scope = names(problem, generic)
    costed = [p for s in strategies if s.generic == generic for p in _of_strategy(s, scope)]
    costed.sort(key=lambda p: (p[0], p[1].name))
    kept = costed[:most]
    # The cut may have left out all that is legal at element alignment, with few groups, or with little shared memory.
    narrow = [p for p in costed if p[1].alignment == problem.element]
    for wanted in (narrow, [p for p in costed if p[1].strategy.name == "split"], [p for p in narrow if p[1].strategy.name != "shared"]):
        if wanted and wanted[0] not in kept:
            kept.append(wanted[0])
    return [v for _, v in kept]
