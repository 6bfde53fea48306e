"""gnfuse beside PyTorch on whole models that start with a Linear, on the same GPU in the same run.

    python3 tests/peer/models.py LIBGNFUSE.so [--pack F] [--only TEXT] [--rounds N] [--seconds S]

Every contender is captured in a CUDA graph. Two regimes, because tensor work runs into the card's power limit: cool (1.5 ms
idle before each run, order shuffled every round, median) and sustained (back to back, the last 60 % of the time,
contenders in a shuffled order with a rest between). Beside them the bare matrix product and a device copy of
y. The weight is prepared once unless the row says "each". Exit status 1 if a result is off in float64.
"""

import argparse
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gnfuse import Library  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-4, "tf32": 1e-2, "f16": 2e-3, "bf16": 1.6e-2}
IDLE_S, CALLS = 1.5e-3, 20


@dataclass
class Case:
    chain: str  # the stages after linear
    rows: int
    inputs: int
    outputs: int
    module: object  # (linear's output, gamma, beta, *operands) -> y
    dtype: str = "f32"
    word: str = ""  # of linear: tf32
    prepared: bool = True
    uniform: bool = True  # x in [0, 1), as the models' own inputs; else normal
    operands: int = 0  # [OUT] tensors of the chain

    @property
    def problem(self):
        word = f", {self.word}" if self.word else ""
        return f"{self.dtype}[{self.rows},{self.inputs}] | linear({self.outputs}{word}) | {self.chain}"


def gemm30(y, gamma, beta):
    return F.hardtanh(F.group_norm(y, 16, gamma, beta), -2, 2)


def swish_sum37(y, gamma, beta, b):
    return F.group_norm(F.silu(y) + b, 64, gamma, beta)


def leaky62(y, gamma, beta):
    z = F.leaky_relu(F.group_norm(y, 512, gamma, beta), 0.01)
    return z + z


def swish88(y, gamma, beta, w):
    return F.silu(F.silu(F.group_norm(y, 256, gamma, beta)) * w)


def mish94(y, gamma, beta, b):
    return F.group_norm(F.mish(F.hardtanh(y + b)), 256, gamma, beta)


CHAIN30 = "groupnorm(16) | hardtanh(-2, 2)"
CHAIN37 = "silu | add(b: channel) | groupnorm(64)"
CASES = [
    Case(CHAIN30, 1024, 8192, 8192, gemm30),
    Case(CHAIN30, 1024, 8192, 8192, gemm30, prepared=False),
    Case(CHAIN30, 1024, 8192, 8192, gemm30, word="tf32"),
    Case(CHAIN30, 1, 8192, 8192, gemm30),
    Case(CHAIN30, 8, 8192, 8192, gemm30),
    Case(CHAIN30, 64, 8192, 8192, gemm30),
    Case(CHAIN30, 4096, 8192, 8192, gemm30),
    Case(CHAIN37, 32768, 1024, 4096, swish_sum37, operands=1),
    Case(CHAIN37, 32768, 1024, 4096, swish_sum37, operands=1, word="tf32"),
    Case("groupnorm(512) | leaky_relu(0.01) | scale(2)", 1024, 8192, 8192, leaky62),
    Case("groupnorm(256) | silu | mul(w: channel) | silu", 1024, 8192, 8192, swish88, operands=1),
    Case("add(b: channel) | hardtanh | mish | groupnorm(256)", 1024, 8192, 8192, mish94, operands=1),
    Case(CHAIN30, 1, 8192, 8192, gemm30, word="tf32"),
    Case(CHAIN30, 64, 8192, 8192, gemm30, word="tf32"),
    Case(CHAIN30, 4096, 8192, 8192, gemm30, word="tf32"),
    Case(CHAIN30, 1024, 8192, 8192, gemm30, dtype="f16", uniform=False),
    Case(CHAIN30, 8, 8192, 8192, gemm30, dtype="f16", uniform=False),
    Case(CHAIN30, 1024, 8192, 8192, gemm30, dtype="bf16", uniform=False),
]


def graph_of(call):
    """A graph of one call, after a warm-up outside."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(torch.cuda.current_stream())
    return graph


def cool(graphs, rounds):
    """Median ms of one run after a rest, for each graph; the order is shuffled every round."""
    times = {name: [] for name in graphs}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for turn in range(rounds + 1):
        for name in random.sample(list(graphs), len(graphs)):
            time.sleep(IDLE_S)
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            if turn:
                times[name].append(start.elapsed_time(end))
    return {name: statistics.median(t) for name, t in times.items()}


def sustained(graph, seconds):
    """Mean ms of a run over the last 60 % of `seconds` of back-to-back runs."""
    marks, begin = [], time.monotonic()
    while True:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        marks.append((time.monotonic() - begin, event))
        if marks[-1][0] > seconds:
            break
        for _ in range(CALLS):
            graph.replay()
        if len(marks) > 2:
            marks[-2][1].synchronize()  # so that the queue stays short
    torch.cuda.synchronize()
    late = [event for at, event in marks if at > 0.4 * seconds]
    return late[0].elapsed_time(late[-1]) / (CALLS * (len(late) - 1)) if len(late) > 1 else float("nan")


def allclose_share(y, want):
    """The share of elements that torch.allclose at 1e-4 would reject."""
    return ((y.double() - want).abs() > 1e-4 + 1e-4 * want.abs()).double().mean().item()


def run(library, case, arguments):
    dtype = DTYPES[case.dtype]
    torch._dynamo.reset()  # else the ninth compile reaches its limit, and what is compiled is eager from then on
    torch.backends.cuda.matmul.allow_tf32 = case.word == "tf32"
    torch.manual_seed(3)
    draw = torch.rand if case.uniform else torch.randn
    x = draw(case.rows, case.inputs, device="cuda").to(dtype)
    linear = torch.nn.Linear(case.inputs, case.outputs, device="cuda").to(dtype)
    weight, bias = linear.weight.detach(), linear.bias.detach()
    gamma = torch.rand(case.outputs, device="cuda").to(dtype) + 0.5
    beta = torch.randn(case.outputs, device="cuda").to(dtype)
    operands = [torch.randn(case.outputs, device="cuda").to(dtype) for _ in range(case.operands)]
    few = x[:: max(1, case.rows // 128)]
    want = case.module(
        F.linear(few.double(), weight.double(), bias.double()), gamma.double(), beta.double(), *[o.double() for o in operands]
    )

    plan = library.plan(case.problem, prepared=case.prepared)
    workspace = torch.empty(max(16, plan.workspace_size), dtype=torch.uint8, device="cuda")
    prepared = torch.empty(max(16, plan.prepared_size), dtype=torch.uint8, device="cuda")
    y = torch.full((case.rows, case.outputs), float("nan"), dtype=dtype, device="cuda")
    stream = torch.cuda.current_stream()
    if plan.prepared_size:
        plan.prepare(weight, prepared, stream)

    def gnfuse(stream):
        plan(x, y, stream, workspace, gamma, beta, operands, weight, bias, prepared)

    def eager(stream):
        return case.module(F.linear(x, weight, bias), gamma, beta, *operands)

    @torch.compile(dynamic=False)
    def compiled(x, weight, bias, gamma, beta, *operands):
        return case.module(F.linear(x, weight, bias), gamma, beta, *operands)

    gnfuse(stream)
    error = lambda got: ((got[:: max(1, case.rows // 128)].double() - want).abs() / want.abs().clamp(min=1)).max().item()  # noqa: E731
    ours, theirs = error(y), error(eager(stream))
    rejected = allclose_share(y[:: max(1, case.rows // 128)], want)
    tail_bytes = y.numel() * y.element_size() * 2
    source = torch.randn(tail_bytes // 8, device="cuda")
    target = torch.empty_like(source)
    product = torch.empty(case.rows, case.outputs, dtype=dtype, device="cuda")
    graphs = {
        "gnfuse": graph_of(gnfuse),
        "eager": graph_of(eager),
        "compile": graph_of(lambda stream: compiled(x, weight, bias, gamma, beta, *operands)),
        "product": graph_of(lambda stream: torch.mm(x, weight.t(), out=product)),
        "copy": graph_of(lambda stream: target.copy_(source)),
    }
    cool_ms = cool(graphs, arguments.rounds)
    lasting = {}
    for name in random.sample(list(graphs), len(graphs)):
        time.sleep(0.2)
        lasting[name] = sustained(graphs[name], arguments.seconds)
    ok = ours <= TOLERANCE[case.word or case.dtype]
    for regime, ms in (("cool", cool_ms), ("sustained", lasting)):
        best = min(ms["eager"], ms["compile"])
        print(
            f"{case.problem + ('' if case.prepared else '  (each)'):72s} {regime:9s} {ms['gnfuse']:8.4f} {ms['eager']:8.4f} {ms['eager'] / ms['gnfuse']:6.2f}x"
            f" {ms['compile']:8.4f} {ms['compile'] / ms['gnfuse']:6.2f}x {ms['product']:8.4f} {ms['copy']:8.4f} {ours:8.1e} {theirs:8.1e} {rejected:7.1e}"
            f" {'ok' if ok else 'WRONG'}{'' if best >= ms['gnfuse'] else ' SLOWER'}",
            flush=True,
        )
    print(
        f"    {plan.variant} ({plan.match}), workspace {plan.workspace_size / 2**20:.0f} MiB, prepared {plan.prepared_size / 2**20:.0f} MiB",
        flush=True,
    )
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each sustained measurement")
    parser.add_argument("--pack", action="append", default=[], help="kernels that are not shipped: README.md, Figures, says how to make it")
    parser.add_argument("--only", default="", help="cases whose problem text holds this")
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    library = Library(arguments.library)
    for pack in arguments.pack:
        library.load_pack(pack)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}; ms a call, CUDA graphs, hot L2")
    heads = ("gnfuse", "eager", "", "compile", "", "product", "copy", "error", "PyTorch", ">1e-4")
    print(
        f"{'problem':72s} {'regime':9s} {heads[0]:>8s} {heads[1]:>8s} {'':7s} {heads[3]:>8s} {'':7s} "
        + " ".join(f"{h:>8s}" for h in heads[5:])
    )
    chosen = [case for case in CASES if arguments.only in case.problem]
    return not all([run(library, case, arguments) for case in chosen])


if __name__ == "__main__":
    sys.exit(main())
