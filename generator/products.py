"""How linear's product x * weight^T is computed, and conv2d's output: the products of a problem, and the kernels that each
needs.

A product leaves partial sums in fp32, which the tail adds; of conv2d one, without the bias. Its kernels are the templates
product/NAME.cu.j2. They take all sizes as arguments, so that problems of one dtype share them. Their front matter is TOML:

    about       one line for people
    parts       files of templates/lib that it needs besides those of every kernel
    capability  the least compute capability, 90 for 9.0; 80 if not given
    exact       true: it runs on that capability alone, and is compiled for sm_90a
    cluster     blocks of a cluster, of which it wants whole ones, and no more than there are multiprocessors
    launch      block, shared, unit, units_per_block, span, tile, cap, as a strategy's kernels have them
"""

from dataclasses import dataclass

from generator import front

SPLIT_COUNTS = (1, 2, 4, 8, 16)
# Of runtime/linear.h: what K is rounded up to, and bytes of conv2d's output at once.
PADDING, CONV_SLAB = 128, 32 << 20
# The tensor cores cut what they add, so a partial sum's error grows with its share of K. Up to this much the output of
# the chain is no further from float64 than with SGEMM, though the product itself may be: README.md.
LONGEST = 2048
SHORT = 1024  # the IN below which wgmma adds up its accumulator twice as often
SMALL, EACH = 17, 128  # the N from which tensor cores pay, and from which splitting the weight each time does


@dataclass(frozen=True)
class ProductKernel:
    role: str  # "weights", "inputs" or "product"
    template: str
    parameters: tuple = ()  # of (name, value): the template's context

    @property
    def name(self):
        """split_inputs_2, fma_repair, dot_4"""
        values = (k if v is True else str(v) for k, v in self.parameters if v is not False)
        return "_".join([self.template, *values])


@dataclass(frozen=True)
class Product:
    name: str
    method: str  # runtime/pack.h says what these mean
    kernels: tuple = ()
    weights: str = "given"
    chunks: int = 1
    cross: bool = False  # one more partial sum, of the cross terms
    least: int = SMALL
    most: int = 0
    samples_max: int = 0
    inputs_max: int = 0
    yields: bool = False  # where wgmma's kernels run, a prepared weight has their form, and this takes another
    stored: bool = True  # False: the strategy that begins with conv2d computes its output wherever it reads it
    weight_bytes: int = 0  # of what that strategy prepares of the weight

    @property
    def sums(self):
        return self.chunks + self.cross if self.stored else 0

    @property
    def scaled(self):
        """Rows of x and of weight are scaled by powers of two."""
        return self.weights != "given"

    @property
    def manifest(self):
        fields = ("method", "weights", "chunks", "sums", "least", "most", "samples_max", "inputs_max", "yields", "weight_bytes")
        return {field: getattr(self, field) for field in fields}


@dataclass(frozen=True)
class Template:
    name: str
    parts: tuple
    capability: int
    launch: dict  # with exact and cluster
    exact: bool


def read_templates(folder):
    """By name, every product kernel's template of the folder."""

    def template(path, t):
        exact = t.get("exact", False)
        special = {"exact": exact, "cluster": t.get("cluster", 0)}
        return Template(
            path.name.removesuffix(".cu.j2"),
            tuple(t.get("parts", ())),
            t.get("capability", front.SIMPLEST_CAPABILITY),
            front.KERNEL_DEFAULTS | special | t["launch"],
            exact,
        )

    found = [front.read(path, lambda t, path=path: template(path, t)) for path in sorted((folder / "product").glob("*.cu.j2"))]
    return {t.name: t for t in found}


def _dots():
    for rows, least in ((1, 1), (4, 2), (16, 5)):
        kernel = ProductKernel("product", "dot", (("rows", rows),))
        yield Product(f"dot.n{rows}", "own", (kernel,), least=least, most=rows, samples_max=rows)


def _splits(name, parts, chunks, inputs_max=0):
    """The product of split operands with the weight prepared, and with it split each time."""
    repair = {"repair": True, "cancel": parts == 2}
    if parts == 2:  # what cancels needs the digits that one fp16 never had
        repair |= {"chunks": chunks, "cross": True}
    kernels = (
        ProductKernel("weights", "split", (("role", "weights"), ("parts", parts))),
        ProductKernel("inputs", "split", (("role", "inputs"), ("parts", parts))),
        ProductKernel("product", "fma", tuple(repair.items())),
    )
    for suffix, weights, least in (("", "prepared", SMALL), (".each", "each", EACH)):
        yields = parts == 2 and weights == "prepared"
        yield Product(
            name + suffix, f"fp16x{2 * parts - 1}", kernels, weights, chunks, parts == 2, least, inputs_max=inputs_max, yields=yields
        )


def _wgmma(depth):
    """The same products added up in fp32 by a kernel of our own, each `depth` of K: with the weight prepared, and each time."""
    repair = (("repair", True), ("cancel", True), ("chunks", 1), ("cross", False))
    kernels = (
        ProductKernel("weights", "tile", (("role", "weights"),)),
        ProductKernel("inputs", "tile", (("role", "inputs"),)),
        ProductKernel("product", "wgmma", (("depth", depth),)),
        ProductKernel("product", "fma", repair),
    )
    for suffix, weights, least in (("", "prepared", SMALL), (".each", "each", EACH)):
        yield Product(f"wgmma.k{depth}{suffix}", "wgmma", kernels, weights, least=least)


def _fp16x3(problem, generic):
    if generic:
        count = 4
    else:
        padded = -(-problem.inputs // PADDING) * PADDING
        count = next((s for s in SPLIT_COUNTS if padded <= s * LONGEST), None)
    if count:
        yield from _splits(f"fp16x3.s{count}", 2, count, count * LONGEST if generic else 0)


def first(sums, weight_bytes):
    """Of a strategy that begins with conv2d, whose kernels are its own: its variants are named without it."""
    return Product("", "own", weights="each", least=1, stored=sums > 0, weight_bytes=weight_bytes)


def of(problem, generic=False):
    """The products of a problem with linear or conv2d, in the order in which the default rule meets them."""
    if problem.conv:
        conv = ProductKernel("product", "conv", (("channels_last", problem.channels_last),))
        return [Product("ffma", "own", (conv,), least=1)]
    found = list(_dots())
    if problem.dtype != "f32":
        # Tensor cores read halves of a few rows at once as fast as fp32 sums read those of one: measured on an H200, N = 8.
        found.insert(1, Product("gemm", "direct", least=2))
    elif problem.tf32:
        found += _splits("fp16x1", 1, 1)
        found += [Product("tf32", "tf32"), Product("sgemm", "direct")]
    else:
        # SGEMM's error falls with IN, the split's with the K of one accumulation.
        split = []
        if not problem.strict:
            split = [*_wgmma(128 if problem.inputs < SHORT and not generic else 256), *_fp16x3(problem, generic)]
        # Prepared ones first: they are never slower than the same with the weight split each time.
        found += sorted(split, key=lambda p: p.weights == "each")
        found.append(Product("sgemm", "direct"))
    fma = ProductKernel("product", "fma", (("repair", False),))
    return [*found, Product("ffma", "own", (fma,), least=1)]
