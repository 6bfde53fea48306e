"""Writes a pack and the C file that embeds it in the library: `python3 -m generator.embed -f PROBLEMS --pack F --source C`."""

import argparse
from pathlib import Path

from generator import pack
from generator.__main__ import make_pack, read_problem_file
from generator.render import Renderer

SOURCE = """/* Made by generator/embed.py: the pack of the shipped problems. */
#include "pack.h"

__asm__(".pushsection .rodata\\n"
        ".balign 16\\n"
        ".globl gnf_embedded_pack\\n"
        ".hidden gnf_embedded_pack\\n"
        "gnf_embedded_pack:\\n"
        ".incbin \\"{path}\\"\\n"
        ".popsection\\n");
const size_t gnf_embedded_pack_size = {size};
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    arguments = parser.parse_args()
    data = make_pack(read_problem_file(arguments.file), Renderer())
    pack.write(arguments.pack, data)
    arguments.source.write_text(SOURCE.format(path=arguments.pack.resolve(), size=len(data)), encoding="utf-8")


if __name__ == "__main__":
    main()
