"""gnfuse beside PyTorch on the same GPU in the same run: the chains behind a GEMM or convolution, on stored inputs.

    python3 tests/peer/tails.py LIBGNFUSE.so [--rounds N] [--pack F]

Each contender is captured in a CUDA graph over inputs that together exceed the L2 cache, so it is read cold; the
graphs are replayed in an order that is shuffled every round. Prints the median time of one call, the ratio to
gnfuse, and the time of a plain copy of the same bytes. Exit status 1 if a result differs from PyTorch's in float64.
"""

import argparse
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gnfuse import Library  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-4, "f16": 2e-3, "bf16": 1.6e-2}
COLD_BYTES = 256 << 20  # four times the L2 of an H200


@dataclass
class Case:
    problem: str
    shape: tuple
    module: object  # (x, gamma, beta) -> y


def tail_a(x, gamma, beta):
    return torch.logsumexp(x + F.hardswish(torch.tanh(F.group_norm(x, 16, gamma, beta))), dim=1, keepdim=True)


def silu32(x, gamma, beta):
    return F.silu(F.group_norm(x, 32, gamma, beta))


CASES = [
    Case("f32[1024,8192] | groupnorm(16) | hardtanh(-2, 2)", (1024, 8192), lambda x, g, b: F.hardtanh(F.group_norm(x, 16, g, b), -2, 2)),
    Case("f32[128,64,126,126] | groupnorm(16) | tanh | hardswish | add(x) | logsumexp", (128, 64, 126, 126), tail_a),
    Case("f32[16,64,512,512] | groupnorm(8)", (16, 64, 512, 512), lambda x, g, b: F.group_norm(x, 8, g, b)),
    Case("f32[2,320,64,64] | groupnorm(32) | silu", (2, 320, 64, 64), silu32),
    Case("f32[16,320,64,64] | groupnorm(32) | silu", (16, 320, 64, 64), silu32),
    Case("f16[16,320,64,64] | groupnorm(32) | silu", (16, 320, 64, 64), silu32),
    Case("f16[2,1280,16,16] | groupnorm(32) | silu", (2, 1280, 16, 16), silu32),
    Case("bf16[16,320,64,64]:nhwc | groupnorm(32) | silu", (16, 320, 64, 64), silu32),
]


def graph_of(call, sets):
    """A graph that calls once for each set of buffers, after a warm-up outside."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in sets:
            call(s, stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for s in sets:
            call(s, torch.cuda.current_stream())
    return graph


def measure(graphs, rounds, calls):
    """Median microseconds of one call, for each graph; the order is shuffled every round."""
    times = {name: [] for name in graphs}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for turn in range(rounds + 3):
        for name in random.sample(list(graphs), len(graphs)):
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            if turn >= 3:
                times[name].append(start.elapsed_time(end) * 1e3 / calls)
    return {name: statistics.median(t) for name, t in times.items()}


def run(library, case, rounds):
    dtype = DTYPES[case.problem[: case.problem.index("[")]]
    layout = torch.channels_last if ":nhwc" in case.problem else torch.contiguous_format
    make = lambda: torch.randn(case.shape, device="cuda").to(dtype).contiguous(memory_format=layout)  # noqa: E731
    gamma = torch.rand(case.shape[1], device="cuda").to(dtype) + 0.5
    beta = torch.randn(case.shape[1], device="cuda").to(dtype)
    x = make()
    few = x[: max(1, min(len(x), (1 << 25) // x[0].numel()))]
    want = case.module(few.double(), gamma.double(), beta.double())
    plan = library.plan(case.problem)
    workspace = torch.empty(max(16, plan.workspace_size), dtype=torch.uint8, device="cuda")
    y = case.module(x, gamma, beta).contiguous(memory_format=layout)
    bytes_moved = x.numel() * x.element_size() + y.numel() * y.element_size()
    sets = []
    while len(sets) < 2 or len(sets) * bytes_moved < COLD_BYTES:
        sets.append((x if not sets else make(), torch.full_like(y, float("nan"), memory_format=torch.preserve_format)))

    stream = torch.cuda.current_stream()
    plan(x, sets[0][1], stream, workspace, gamma, beta)
    error = ((sets[0][1][: len(few)].double() - want).abs() / want.abs().clamp(min=1)).max().item()
    ok = error <= TOLERANCE[case.problem[: case.problem.index("[")]]

    compiled = torch.compile(case.module, dynamic=False)
    half = bytes_moved // 2 // 16 * 16
    copies = [(torch.randn(half // 4, device="cuda"), torch.empty(half // 4, device="cuda")) for _ in sets]
    graphs = {
        "gnfuse": graph_of(lambda s, q: plan(s[0], s[1], q, workspace, gamma, beta), sets),
        "eager": graph_of(lambda s, q: case.module(s[0], gamma, beta), sets),
        "compile": graph_of(lambda s, q: compiled(s[0], gamma, beta), sets),
        "copy": graph_of(lambda s, q: s[1].copy_(s[0]), copies),
    }
    times = measure(graphs, rounds, len(sets))
    us = times["gnfuse"]
    print(
        f"{case.problem:78s} {us:9.1f} {times['eager']:9.1f} {times['eager'] / us:6.2f}x {times['compile']:9.1f} {times['compile'] / us:6.2f}x"
        f" {times['copy']:9.1f} {error:9.1e} {'ok' if ok else 'WRONG'}",
        flush=True,
    )
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--pack", action="append", default=[])
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    library = Library(arguments.library)
    for pack in arguments.pack:
        library.load_pack(pack)
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}; microseconds, cold L2, medians of {arguments.rounds}"
    )
    print(f"{'problem':78s} {'gnfuse':>9s} {'eager':>9s} {'ratio':>7s} {'compile':>9s} {'ratio':>7s} {'copy':>9s} {'error':>9s}")
    return not all([run(library, case, arguments.rounds) for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
