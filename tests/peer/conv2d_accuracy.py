"""How far conv2d in front of the seed chain is from float64, beside PyTorch's on the same data.

    python3 tests/peer/conv2d_accuracy.py LIBGNFUSE.so [--pack F] [--samples N]

For each data set and each strategy that the library has for the problem, in every precision: the largest |err| / max(1, |ref|)
of the output and its relative error (Frobenius), the strategy that a plan takes marked. Exit status 1 where that one, without
tf32, is off by more than 1e-5 on what it is promised for (uniform, mean 3, mean 100), where a constant image does not give beta,
or where NaN and infinities differ from PyTorch's.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from conv2d import Gnfuse, make, model  # noqa: E402
from conv2d_cases import CONSTANT, SEED, Case  # noqa: E402
from gnfuse import Library  # noqa: E402

PROMISED, PROMISE = ("uniform", "mean 3", "mean 100"), 1e-5


def data_sets(shape):
    normal = torch.randn(shape, device="cuda")
    yield "uniform", torch.rand(shape, device="cuda")
    for mean in 3, 100, 10000:
        yield f"mean {mean}", normal + mean
    yield "outliers x1000", normal * (1 + 999 * (torch.rand(shape, device="cuda") < 1e-4))
    yield "lognormal 2", normal.sign() * (2 * torch.randn(shape, device="cuda")).exp()
    yield "1e-6", normal * 1e-6
    yield "1e6", normal * 1e6
    yield "samples x 10^+-6", normal * 10 ** (12 * torch.rand(shape[0], 1, 1, 1, device="cuda") - 6)


def variants(library, case):
    """The one that a plan takes, and the first of each strategy besides."""
    taken, first = library.plan(case.problem).variant, {}
    for name in [taken, *library.variants(case.problem)]:
        first.setdefault(name.split(".")[0] + (".generic" if "generic" in name else ""), name)
    return taken, list(first.values())


def outputs(library, case, tensors):
    """(variant, y, whether a plan takes it) of each."""
    taken, names = variants(library, case)
    for name in names:
        try:
            ours = Gnfuse(library, case, tensors, name)
            ours(torch.cuda.current_stream())
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"      {name:40s} {str(error)[:90]}")
            continue
        yield name, ours.y, name == taken


def worst(got, want):
    return ((got.double() - want).abs() / want.abs().clamp(min=1)).max().item()


def relative(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def of_pytorch(case, tensors, tf32):
    torch.backends.cudnn.allow_tf32 = tf32
    return model(case)(*tensors)


def check_errors(library, case, data, tensors):
    want = model(case)(*(t.double() if torch.is_tensor(t) else t for t in tensors))
    ok = True
    for tf32 in False, True:
        y = of_pytorch(case, tensors, tf32)
        print(f"   {data}: {'PyTorch with TF32' if tf32 else 'PyTorch':30s} max {worst(y, want):9.2e} relative {relative(y, want):9.2e}")
    for word in "", "strict", "tf32":
        case.word = word
        for name, y, taken in outputs(library, case, tensors):
            error = worst(y, want)
            good = word == "tf32" or not taken or data not in PROMISED or error <= PROMISE
            ok = ok and good
            print(
                f"      {word:6s} {name:40s} max {error:9.2e} relative {relative(y, want):9.2e}"
                f"{' <- taken' if taken else ''}{'' if good else ' FURTHER'}",
                flush=True,
            )
    case.word = ""
    return ok


def check_constant(library, case, tensors):
    """Behind a norm over one channel at a time, a constant image is beta."""
    x, weight, bias, gamma, beta, _ = tensors
    alone, ok = replace(CONSTANT, samples=case.samples), True
    for value in -513.3, 1e4, 0.0:
        constant = torch.full_like(x, value)
        for name, y, _ in outputs(library, alone, (constant, weight, bias, gamma, beta, [])):
            error = (y - beta.view(1, -1, 1, 1)).abs().max().item()
            ok = ok and error <= 1e-4
            print(f"   all {value:8.1f} {name:40s} {'beta' if error <= 1e-4 else 'NOT BETA'}, off by {error:.1e}", flush=True)
    return ok


def check_special(library, case, tensors):
    """NaN and infinity in some samples, in a weight: the same pattern as PyTorch's, and near values elsewhere."""
    x, weight, *rest = tensors
    x, ok = x.clone(), True
    x[0, 1, 5, 7], x[1, 0, 0, 0], x[2, 3, -1, -1] = float("nan"), float("inf"), -float("inf")
    want = of_pytorch(case, (x, weight, *rest), False)
    for name, y, _ in outputs(library, case, (x, weight, *rest)):
        same = bool((y.isnan() == want.isnan()).all()) and (y - want).nan_to_num().abs().max().item() < 1e-4
        ok = ok and same
        print(f"   special values, {name:40s} {'as PyTorch' if same else 'DIFFERENT'}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--pack", action="append", default=[], help="kernels that are not shipped")
    arguments = parser.parse_args()
    torch.manual_seed(5)
    torch.zeros(1, device="cuda")
    library = Library(arguments.library)
    for pack in arguments.pack:
        library.load_pack(pack)
    case = Case(max(4, arguments.samples), *SEED[1:])
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; {case.problem}")
    with torch.no_grad():
        tensors = make(case)
        ok = check_constant(library, case, tensors)
        for data, x in data_sets(tensors[0].shape):
            ok = check_errors(library, case, data, (x, *tensors[1:])) and ok
        ok = check_special(library, case, tensors) and ok
    return not ok


if __name__ == "__main__":
    sys.exit(main())
