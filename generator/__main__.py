"""gnfuse-gen: problem texts in, one kernel pack out."""

import argparse
import sys
from pathlib import Path

from generator import VERSION, pack, variants
from generator.problem import ProblemError, parse
from generator.render import Renderer


def manifest_row(renderer, writer, problem, variant):
    kernels = []
    for rule, entry, parts in renderer.kernels(problem, variant):
        row = {k: v for k, v in rule.items() if k != "name"}
        kernels.append(row | {"entry": entry, "parts": writer.source("".join(parts))})
    row = {
        "name": variant.name,
        "strategy": variant.strategy.name,
        "parameters": dict(variant.parameters),
        "alignment": variant.alignment,
        "capability": renderer.capability(variant),
        "workspace": variant.workspace,
        "group_max": 0,
        "kernels": kernels,
    }
    if renderer.exact(variant):
        row["exact"] = True
    return row | {"product": variant.product.manifest} if variant.product else row


def make_pack(texts, renderer, most=variants.MOST_VARIANTS):
    """The bytes of a pack with the variants of the problems, `most` each, and the shape-generic kernels of their chains."""
    writer = pack.PackWriter()
    for text in texts:
        problem = parse(text)
        for key, generic in ((problem.key, False), (problem.chain, True)):
            chosen = variants.enumerate_variants(problem, renderer.strategies, generic, most)
            if chosen:
                writer.add(key, generic, [manifest_row(renderer, writer, problem, v) for v in chosen])
    return writer.bytes()


def write_sources(folder, texts, renderer, most):
    """One .cu a kernel, for reading; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for text in texts:
        problem = parse(text)
        for generic in (False, True):
            for variant in variants.enumerate_variants(problem, renderer.strategies, generic, most):
                for _, entry, parts in renderer.kernels(problem, variant):
                    pack.write(folder / f"{entry}.cu", "".join(parts).encode("ascii"))
                    count += 1
    return count


def read_problem_file(path):
    """Problem texts, one a line up to a tab; empty lines and those that start with # are passed over."""
    lines = (line.split("\t")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def variant_count(text):
    """A whole number of at least 1, as argparse wants it told."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of variants (allowed: 1 and more)")
    return int(text)


def main():
    parser = argparse.ArgumentParser(prog="gnfuse-gen", description=__doc__)
    parser.add_argument(
        "problems", nargs="*", metavar="PROBLEM", help="problem text, for instance 'f32[*,64,32,32] | groupnorm(16) | silu'"
    )
    parser.add_argument("-f", "--file", type=Path, action="append", default=[], help="problem texts, one a line")
    parser.add_argument("-o", "--output", type=Path, help="the pack to write")
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="also write each kernel as FOLDER/ENTRY.cu")
    parser.add_argument("--list", action="store_true", help="print each problem's variants")
    parser.add_argument(
        "--variants",
        type=variant_count,
        default=variants.MOST_VARIANTS,
        metavar="N",
        help="candidates a problem gets, cheapest first (default %(default)s); up to three that every device and pointer needs are kept besides",
    )
    parser.add_argument("--version", action="version", version=f"gnfuse-gen {VERSION}")
    arguments = parser.parse_args()
    try:
        texts = arguments.problems + [t for path in arguments.file for t in read_problem_file(path)]
        if not texts:
            parser.error("no PROBLEM given: expected a problem text or --file")
        if not (arguments.output or arguments.sources or arguments.list):
            parser.error("nothing to do: expected --output, --sources or --list")
        renderer, most = Renderer(), arguments.variants
        if arguments.output:
            pack.write(arguments.output, make_pack(texts, renderer, most))
        if arguments.sources:
            write_sources(arguments.sources, texts, renderer, most)
        if arguments.list:
            for text in texts:
                problem = parse(text)
                for generic in (False, True):
                    for variant in variants.enumerate_variants(problem, renderer.strategies, generic, most):
                        print(f"{problem.chain if generic else problem.key}\t{variant.name}\t{variant.strategy.about}")
    except ProblemError as error:
        print(f"gnfuse-gen: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gnfuse-gen: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
