"""A pack of the variants that a list names, a problem, a tab and a variant a line, however far down the default rule's order
they are.

    chosen_pack.py LIST OUTPUT
"""

import sys
from pathlib import Path

from generator import pack, variants
from generator.__main__ import manifest_row
from generator.problem import parse
from generator.render import Renderer

ALL = 1 << 20  # more variants than any problem has


def read(path):
    """{problem text: names of its variants}"""
    chosen = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            text, name = line.split("\t")
            chosen.setdefault(text, []).append(name)
    return chosen


def choose(problem, strategies, names):
    """The variants of these names."""
    found = {v.name: v for v in variants.enumerate_variants(problem, strategies, most=ALL)}
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"'{problem.text}' has no variant {missing[0]}: allowed are {', '.join(found)}")
    return [found[name] for name in names]


def main(path, output):
    renderer, writer = Renderer(), pack.PackWriter()
    for text, names in read(Path(path)).items():
        problem = parse(text)
        rows = [manifest_row(renderer, writer, problem, v) for v in choose(problem, renderer.strategies, names)]
        writer.add(problem.key, False, rows)
    pack.write(output, writer.bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
