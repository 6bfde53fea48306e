"""The problems of conv2d.py and conv2d_accuracy.py; needs neither PyTorch nor a GPU.

    python3 tests/peer/conv2d_cases.py [--full] [--only TEXT] > P.txt

The seed chain in every dtype, layout and precision, KernelBench's 21 and 85, and the seed chain on a grid of channels and image
sizes whose convolution's output has some 130 to 520 MB: a diagonal of the grid, or with --full all of it.
"""

import argparse
import sys
from dataclasses import dataclass

OUTPUT_BYTES = 260e6  # of the convolution, about
CHAINS = {
    "norm": "groupnorm({groups})",
    "seed": "groupnorm({groups}) | tanh | hardswish | add(y) | logsumexp",
    "21": "add(b: channel) | mul(s: channel) | sigmoid | groupnorm({groups})",
    "85": "groupnorm({groups}) | mul(s: channel) | maxpool2d(4) | clamp(0, 1)",
}


@dataclass
class Case:
    samples: int
    inputs: int
    size: int  # of the square image
    outputs: int
    groups: int
    chain: str = "seed"  # of CHAINS
    dtype: str = "f32"
    word: str = ""  # of conv2d: tf32 or strict
    nhwc: bool = False

    @property
    def problem(self):
        head = f"{self.dtype}[{self.samples},{self.inputs},{self.size},{self.size}]{':nhwc' if self.nhwc else ''}"
        label, word = "y = " if self.chain == "seed" else "", f", {self.word}" if self.word else ""
        return f"{head} | {label}conv2d({self.outputs}, 3{word}) | {CHAINS[self.chain].format(groups=self.groups)}"

    @property
    def operands(self):
        """How many [OUT] tensors the chain takes."""
        return CHAINS[self.chain].count(": channel")


SEED = (128, 8, 128, 64, 16)
MODELS = [
    Case(*SEED),
    Case(*SEED, word="tf32"),
    Case(*SEED, word="strict"),
    Case(*SEED, nhwc=True),
    Case(*SEED, dtype="f16"),
    Case(*SEED, dtype="f16", nhwc=True),
    Case(*SEED, dtype="bf16"),
    Case(*SEED, "85"),
    Case(128, 8, 256, 32, 8, "21"),
]


CONSTANT = Case(*SEED[:4], 64, "norm")  # a channel a group, for conv2d_accuracy.py


def grid(full):
    """The seed chain on other sizes; every OUT of each, or one in turn."""
    cases, outputs = [], (32, 64, 128)
    for i, inputs in enumerate((3, 8, 16, 32, 64)):
        for j, size in enumerate((32, 64, 256)):
            for out in outputs if full else (outputs[(i + j) % 3],):
                samples = 1 << max(0, round(OUTPUT_BYTES / (4 * out * (size - 2) ** 2)).bit_length() - 1)
                cases.append(Case(samples, inputs, size, out, out // 4))
    return cases


def add_options(parser):
    parser.add_argument("--full", action="store_true", help="the whole grid")
    parser.add_argument("--only", default="", help="cases whose problem text holds this")


def chosen(arguments):
    return [case for case in [*MODELS, *grid(arguments.full)] if arguments.only in case.problem]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    print(*(case.problem for case in [*chosen(parser.parse_args()), CONSTANT]), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
