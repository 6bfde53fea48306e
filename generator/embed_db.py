"""Joins the shipped tuning database's files and writes the C file that embeds them in the library:
`python3 -m generator.embed_db FOLDER --database F --source C --depfile D`.

The files are FOLDER/*.jsonl in the order of their names; there may be none, and no folder.
"""

import argparse
from pathlib import Path

SOURCE = """/* Made by generator/embed_db.py: the shipped tuning database, {count} lines. */
#include "tuned.h"

__asm__(".pushsection .rodata\\n"
        ".balign 16\\n"
        ".globl gnf_embedded_db\\n"
        ".hidden gnf_embedded_db\\n"
        "gnf_embedded_db:\\n"
        ".incbin \\"{path}\\"\\n"
        ".popsection\\n");
const size_t gnf_embedded_db_size = {size};
"""


def join(files):
    """Their lines, each with its end: a file's last line must not run into the next file's first."""
    lines = [line for file in files for line in file.read_bytes().splitlines() if line.strip()]
    return b"".join(line + b"\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--depfile", type=Path, required=True)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*.jsonl"))
    data = join(files)
    arguments.database.write_bytes(data)
    text = SOURCE.format(count=data.count(b"\n"), path=arguments.database.resolve(), size=len(data))
    arguments.source.write_text(text, encoding="utf-8")
    # The folder's time changes with the names in it; where there is none yet, its parent's does.
    watched = [arguments.folder if arguments.folder.is_dir() else arguments.folder.parent, *files]
    names = " ".join(str(path).replace(" ", "\\ ") for path in watched)
    arguments.depfile.write_text(f"{arguments.database}: {names}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
