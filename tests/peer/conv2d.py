"""gnfuse beside PyTorch on whole models that start with a Conv2d, on the same GPU in the same run; a JSON line a case.

    python3 tests/peer/conv2d_cases.py [--full] > P.txt && generator/gnfuse-gen -f P.txt -o P.gnfpack
    python3 tests/peer/conv2d.py LIBGNFUSE.so --pack P.gnfpack [--full] [--only TEXT] [--torch NAMES] [--budget SECONDS]

Contenders in two regimes as models.py has them, cool and sustained, each in a CUDA graph: gnfuse; PyTorch eager,
torch.compile (compile) and its max-autotune (autotune), for f32 with TF32 allowed in convolutions (_tf32) and without; and the
convolution alone (conv, conv_tf32). PyTorch gets x channels-last where the problem is nhwc. Times are ms; *_times are multiples
of gnfuse's; errors the largest |err| / max(1, |ref|) against float64. Exit status 1 if a result of gnfuse is off.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # their keys do not know whether TF32 is allowed
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
import conv2d_cases  # noqa: E402
from gnfuse import Library  # noqa: E402
from models import DTYPES, TOLERANCE, cool, graph_of, sustained  # noqa: E402

SAMPLES_CHECKED = 4
MODES = {"eager": None, "compile": "default", "autotune": "max-autotune-no-cudagraphs"}


def seed_tail(y, groups, gamma, beta):
    return torch.logsumexp(y + F.hardswish(torch.tanh(F.group_norm(y, groups, gamma, beta))), dim=1, keepdim=True)


def chain21(y, groups, gamma, beta, b, s):
    shape = (1, -1, 1, 1)
    return F.group_norm(torch.sigmoid((y + b.view(shape)) * s.view(shape)), groups, gamma, beta)


def chain85(y, groups, gamma, beta, s):
    return torch.clamp(F.max_pool2d(F.group_norm(y, groups, gamma, beta) * s.view(1, -1, 1, 1), 4), 0, 1)


TAILS = {"norm": F.group_norm, "seed": seed_tail, "21": chain21, "85": chain85}


def make(case):
    """Tensors as the models have them: x in [0, 1), a fresh layer's weights."""
    dtype, layout = DTYPES[case.dtype], torch.channels_last if case.nhwc else torch.contiguous_format
    x = torch.rand(case.samples, case.inputs, case.size, case.size, device="cuda").to(dtype).contiguous(memory_format=layout)
    conv = torch.nn.Conv2d(case.inputs, case.outputs, 3, device="cuda").to(dtype)
    gamma, beta = torch.rand(case.outputs, device="cuda").to(dtype) + 0.5, torch.randn(case.outputs, device="cuda").to(dtype)
    operands = [torch.randn(case.outputs, device="cuda").to(dtype) for _ in range(case.operands)]
    return x, conv.weight.detach(), conv.bias.detach(), gamma, beta, operands


def model(case):
    """(x, weight, bias, gamma, beta, operands) -> y"""
    tail, groups = TAILS[case.chain], case.groups
    return lambda x, weight, bias, gamma, beta, operands: tail(F.conv2d(x, weight, bias), groups, gamma, beta, *operands)


def reference(case, tensors):
    x, weight, bias, gamma, beta, operands = tensors
    few = x[:: max(1, case.samples // SAMPLES_CHECKED)].double()
    return model(case)(few, weight.double(), bias.double(), gamma.double(), beta.double(), [o.double() for o in operands])


def error_of(case, y, want):
    few = y[:: max(1, case.samples // SAMPLES_CHECKED)].double()
    return ((few - want).abs() / want.abs().clamp(min=1)).max().item()


class Gnfuse:
    """A plan and its memory; a call enqueues it."""

    def __init__(self, library, case, tensors, variant=None):
        self.plan, self.tensors = library.plan(case.problem, variant=variant), tensors
        like = model(case)(tensors[0][:1], *tensors[1:])  # for the sizes of y
        self.y = torch.full((case.samples, *like.shape[1:]), float("nan"), dtype=like.dtype, device="cuda")
        if case.nhwc:
            self.y = self.y.contiguous(memory_format=torch.channels_last)
        self.workspace = torch.empty(max(16, self.plan.workspace_size), dtype=torch.uint8, device="cuda")

    def __call__(self, stream):
        x, weight, bias, gamma, beta, operands = self.tensors
        self.plan(x, self.y, stream, self.workspace, gamma, beta, operands, weight, bias)


def torch_graphs(case, tensors, chosen, want, errors):
    """A graph of each contender of PyTorch, by name. One that cannot be had is told on stderr and left out."""
    graphs, precisions = {}, {"": False, "_tf32": True} if case.dtype == "f32" else {"": False}
    layout = torch.channels_last if case.nhwc else torch.contiguous_format
    tensors = (tensors[0], tensors[1].contiguous(memory_format=layout), *tensors[2:])
    for kind in chosen:
        for suffix, allowed in precisions.items():
            torch.backends.cudnn.allow_tf32 = allowed
            torch._dynamo.reset()  # or the call compiled before is taken
            call = (lambda *t: F.conv2d(*t[:3])) if kind == "conv" else model(case)
            if MODES.get(kind):
                call = torch.compile(call, mode=MODES[kind], dynamic=False)
            name = kind + suffix
            try:
                got = call(*tensors)
                if kind != "conv":
                    errors[name] = error_of(case, got, want)
                graphs[name] = graph_of(lambda stream, call=call: call(*tensors))
            except Exception as error:  # a compiler's, of whatever kind
                print(f"{case.problem}: {name}: {(str(error).splitlines() or [repr(error)])[0][:200]}", file=sys.stderr, flush=True)
    return graphs


def run(library, case, arguments):
    """Prints a line; True if gnfuse's result is right."""
    torch.manual_seed(3)
    with torch.no_grad():
        tensors = make(case)
        want, errors = reference(case, tensors), {}
        ours = Gnfuse(library, case, tensors)
        ours(torch.cuda.current_stream())
        errors["gnfuse"] = error_of(case, ours.y, want)
        graphs = {"gnfuse": graph_of(ours)} | torch_graphs(case, tensors, arguments.torch, want, errors)
        cool_ms, lasting = cool(graphs, arguments.rounds), {}
        for name in random.sample(list(graphs), len(graphs)):
            time.sleep(0.2)
            lasting[name] = sustained(graphs[name], arguments.seconds)
    ok = errors["gnfuse"] <= TOLERANCE[case.word if case.word == "tf32" else case.dtype]
    row = {"problem": case.problem, "gpu": torch.cuda.get_device_name(), "pytorch": torch.__version__}
    row |= {"variant": ours.plan.variant, "match": ours.plan.match, "workspace": ours.plan.workspace_size, "ok": ok}
    row["errors"] = {name: float(f"{error:.2e}") for name, error in errors.items()}
    for regime, ms in (("cool", cool_ms), ("sustained", lasting)):
        row[f"{regime}_ms"] = {name: round(value, 4) for name, value in ms.items()}
        row[f"{regime}_times"] = {
            name: round(value / ms["gnfuse"], 2) for name, value in ms.items() if name.split("_")[0] in MODES  # of gnfuse's time
        }
    print(json.dumps(row), flush=True)
    return ok


def names(text):
    chosen = text.split(",")
    unknown = set(chosen) - {*MODES, "conv"}
    if unknown:
        raise argparse.ArgumentTypeError(f"{sorted(unknown)}: allowed are conv, {', '.join(MODES)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    conv2d_cases.add_options(parser)
    parser.add_argument("--pack", action="append", default=[], help="kernels that are not shipped")
    parser.add_argument("--torch", type=names, default=["conv", *MODES], help="what of PyTorch, by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each sustained measurement")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no further case is begun")
    arguments = parser.parse_args()
    begin, ok = time.monotonic(), True
    cases = conv2d_cases.chosen(arguments)
    torch.zeros(1, device="cuda")
    library = Library(arguments.library)
    for pack in arguments.pack:
        library.load_pack(pack)
    for k, case in enumerate(cases):
        if time.monotonic() - begin > arguments.budget:
            print(f"{len(cases) - k} cases left for want of time, from {case.problem} on", file=sys.stderr)
            break
        ok = run(library, case, arguments) and ok
        torch.cuda.empty_cache()
    return not ok


if __name__ == "__main__":
    sys.exit(main())
