"""Writes the C array of the shipped problems' texts: `python3 -m generator.shipped -f PROBLEMS -o FILE`."""

import argparse
import json
from pathlib import Path

from generator.__main__ import read_problem_file
from generator.problem import parse


def source(texts):
    """C source of gnf_shipped_problems[]; texts that only differ in spelling are there once."""
    canonical = dict.fromkeys(parse(text).text for text in texts)
    rows = "".join(f"    {json.dumps(text)},\n" for text in canonical)
    about = "/* Made by generator/shipped.py from tuning/problems.txt: change that. */\n"
    return f'{about}#include "../tuning/shipped.h"\n#include <stddef.h>\n\nconst char *const gnf_shipped_problems[] = {{\n{rows}    NULL,\n}};\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.write_text(source(read_problem_file(arguments.file)), encoding="ascii")


if __name__ == "__main__":
    main()
