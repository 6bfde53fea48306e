"""How far gnfuse's products are from float64, beside its product sgemm (cuBLASLt in fp32) on the same data.

    python3 tests/peer/accuracy.py LIBGNFUSE.so [--pack F] [--rows N] [--inputs K] [--outputs C]

For each data set and each product that the library has for the problem: the relative error (Frobenius) of the product
itself and of the chain's output, and the largest absolute error of the output. The product is read off a chain that
adds linear's output to nothing: `y = linear | groupnorm(1) | scale(0) | add(y)`. SGEMM's rows use the library's own tail,
so that only the product differs. Exit status 1 where the plan that the library would take has an output (with `strict`: a
product) further from float64 than SGEMM's by more than a twentieth, where NaN and infinities differ from SGEMM's, or
where IN = 1 is not exact; none of it for tf32.
"""

import argparse
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gnfuse import Library  # noqa: E402

CHAIN = "groupnorm(16) | hardtanh(-2, 2)"
PRODUCT = "groupnorm(1) | scale(0) | add(y)"
SLACK = 1.05


def default_linear(outputs, inputs):
    layer = torch.nn.Linear(inputs, outputs, device="cuda")
    return layer.weight.detach(), layer.bias.detach()


def data_sets(rows, inputs, outputs):
    """(name, x, weight, bias): the bias small, so that it hides nothing."""
    normal = lambda *sizes: torch.randn(*sizes, device="cuda")  # noqa: E731
    weight, bias = default_linear(outputs, inputs)
    yield "uniform", torch.rand(rows, inputs, device="cuda"), weight, bias
    yield "normal", normal(rows, inputs), normal(outputs, inputs) / inputs**0.5, bias
    yield "mean 3", normal(rows, inputs) + 3, weight, bias
    yield "positive weight", torch.rand(rows, inputs, device="cuda"), weight.abs(), bias
    yield "outliers x100", normal(rows, inputs) * (1 + 99 * (torch.rand(rows, inputs, device="cuda") < 1e-3)), weight, bias
    yield "lognormal 2", normal(rows, inputs).mul(2).exp() * normal(rows, inputs).sign(), weight * normal(outputs, inputs).mul(
        2
    ).exp(), bias
    yield "rows x 10^+-15", torch.rand(rows, inputs, device="cuda") * 10 ** (30 * torch.rand(rows, 1, device="cuda") - 15), weight, bias * 0
    wide = 10 ** (40 * torch.rand(rows, inputs, device="cuda") - 20) * normal(rows, inputs).sign()
    yield "10^-28 to 10^12 in a row", (wide * 1e-8).to(torch.float32), weight, bias * 0
    half = inputs // 2
    x, w = normal(rows, inputs), normal(outputs, inputs) / inputs**0.5
    x[:, half : 2 * half] = -x[:, :half] * (1 + 1e-3 * normal(rows, half))
    w[:, half : 2 * half] = w[:, :half]
    yield "cancelling halves", x, w, bias * 0
    x, w = normal(rows, inputs), normal(outputs, inputs) / inputs**0.5
    x[:, 1 : 2 * half : 2] = -x[:, 0 : 2 * half : 2] * (1 + 1e-3 * normal(rows, half))
    w[:, 1 : 2 * half : 2] = w[:, 0 : 2 * half : 2]
    yield "cancelling pairs", x, w, bias * 0


class Runner:
    def __init__(self, library, rows, inputs, outputs):
        self.library, self.sizes = library, (rows, inputs, outputs)
        self.gamma = torch.rand(outputs, device="cuda") + 0.5
        self.beta = torch.randn(outputs, device="cuda")

    def text(self, chain, word):
        rows, inputs, outputs = self.sizes
        return f"f32[{rows},{inputs}] | y = linear({outputs}{', ' + word if word else ''}) | {chain}"

    def plan(self, chain, word, variant=None):
        return self.library.plan(self.text(chain, word), prepared=True, variant=variant)

    def variants(self, chain, word):
        """One of each product, by name, in the packs' order."""
        names, found = self.library.variants(self.text(chain, word)), {}
        for name in names:
            found.setdefault(re.split(r"\.(?:warp|block|shared|cluster|rows|split|generic)\b", name)[0], name)
        return found

    def __call__(self, plan, x, weight, bias, affine=True):
        stream = torch.cuda.current_stream()
        workspace = torch.empty(max(16, plan.workspace_size), dtype=torch.uint8, device="cuda").fill_(255)
        prepared = torch.empty(max(16, plan.prepared_size), dtype=torch.uint8, device="cuda").fill_(255)
        y = torch.full((self.sizes[0], self.sizes[2]), float("nan"), device="cuda")
        if plan.prepared_size:
            plan.prepare(weight, prepared, stream)
        gamma, beta = (self.gamma, self.beta) if affine else (None, None)
        plan(x, y, stream, workspace, gamma, beta, (), weight, bias, prepared)
        torch.cuda.synchronize()
        return y


def relative(got, want):
    good = want.isfinite() & (want.abs() < 1e30)
    return ((got.double() - want)[good].norm() / want[good].norm()).item()


def reference(runner, x, weight, bias):
    product = F.linear(x.double(), weight.double(), bias.double())
    return product, F.hardtanh(F.group_norm(product, 16, runner.gamma.double(), runner.beta.double()), -2, 2)


def measure(runner, chain, word, x, weight, bias, want, sgemm, affine):
    """Prints a line a product; True if the one that plans take is within the promise."""
    chosen, ok = runner.plan(chain, word).variant, True
    for product, name in runner.variants(chain, word).items():
        try:
            plan = runner.plan(chain, word, chosen if chosen.startswith(product + ".") else name)
        except RuntimeError as error:
            print(f"      {product:14s} {str(error)[:100]}")
            continue
        got = runner(plan, x, weight, bias, affine)
        error, taken = relative(got, want), chosen.startswith(product + ".")
        good = error <= SLACK * sgemm or not taken or word == "tf32"
        ok = ok and good
        worst = (got.double() - want).abs()[want.isfinite()].max().item()
        mark = "<- taken" if taken else ""
        print(
            f"      {product:14s} {error:9.2e} {error / sgemm if sgemm else 0:7.2f}x  max {worst:9.2e} {mark}{'' if good else ' FURTHER'}",
            flush=True,
        )
    return ok


def run(runner, name, x, weight, bias):
    product, output = reference(runner, x, weight, bias)
    ok = True
    for chain, want, affine, word in ((CHAIN, output, True, ""), (PRODUCT, product, False, "strict"), (CHAIN, output, True, "tf32")):
        plain = runner(runner.plan(chain, "", runner.variants(chain, "")["sgemm"]), x, weight, bias, affine)
        sgemm = relative(plain, want)
        print(f"   {name}: {'output' if affine else 'product'}, linear{f'({word})' if word else ''}; SGEMM {sgemm:.2e}", flush=True)
        ok = measure(runner, chain, word, x, weight, bias, want, sgemm, affine) and ok
    return ok


def check_special(runner, weight, bias):
    """Rows with NaN or infinity, zero rows, tiny and huge rows: the same pattern as SGEMM's, and equal values elsewhere."""
    rows, inputs, outputs = runner.sizes
    x = torch.randn(rows, inputs, device="cuda")
    weight = weight.clone()
    x[0, 3], x[1, 5], x[2, 7], x[3] = float("nan"), float("inf"), -float("inf"), 0
    x[4 % rows] *= 1e-38
    x[5 % rows] *= 1e30
    weight[1, 2], weight[2, 3], weight[3] = float("inf"), float("nan"), 0
    found = runner.variants(CHAIN, "")
    sgemm = runner(runner.plan(CHAIN, "", found["sgemm"]), x, weight, bias)
    ok = True
    for product, name in found.items():
        try:
            got = runner(runner.plan(CHAIN, "", name), x, weight, bias)
        except RuntimeError:
            continue
        same = bool((got.isnan() == sgemm.isnan()).all()) and (got - sgemm).nan_to_num().abs().max().item() < 1e-4
        ok = ok and same
        print(f"   special values, {product:14s} {'as SGEMM' if same else 'DIFFERENT'}")
    return ok


def check_exact(library):
    """IN = 1 with weights 64 + k/128: what exact arithmetic gives, which TF32 cannot."""
    outputs, ok = 64, True
    runner = Runner(library, 8, 1, outputs)
    x = torch.arange(1.0, 9.0, device="cuda").reshape(8, 1)
    weight = (64 + torch.arange(outputs, device="cuda").float() / 128).reshape(outputs, 1)
    for product, name in runner.variants(PRODUCT, "").items():
        try:
            plan = runner.plan(PRODUCT, "", name)
        except RuntimeError:
            continue
        exact = bool((runner(plan, x, weight, torch.zeros(outputs, device="cuda"), False) == x * weight.t()).all())
        ok = ok and exact
        print(f"   exact at IN = 1, {product:14s} {'yes' if exact else 'NO'}")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--inputs", type=int, default=8192)
    parser.add_argument("--outputs", type=int, default=8192)
    parser.add_argument("--pack", action="append", default=[], help="kernels that are not shipped: README.md, Figures, says how to make it")
    arguments = parser.parse_args()
    torch.manual_seed(5)
    torch.zeros(1, device="cuda")
    library = Library(arguments.library)
    for pack in arguments.pack:
        library.load_pack(pack)
    runner = Runner(library, arguments.rows, arguments.inputs, arguments.outputs)
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; [{arguments.rows},{arguments.inputs}] x [{arguments.outputs},{arguments.inputs}]"
    )
    ok = check_exact(library)
    for name, x, weight, bias in data_sets(*runner.sizes):
        ok = run(runner, name, x, weight, bias) and ok
    return not (check_special(runner, weight, bias) and ok)


if __name__ == "__main__":
    sys.exit(main())
