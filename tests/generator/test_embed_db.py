"""The shipped tuning database as it goes into the library: the files of a folder, one after another."""

import subprocess
import sys

import pytest
from conftest import ROOT

HOLDER = """#include <stddef.h>
extern const char gnf_embedded_db[];
extern const size_t gnf_embedded_db_size;
"""


@pytest.fixture
def embed(tmp_path):
    """embed(folder): the database, the lines of the depfile's inputs, and the C file."""

    def run(folder):
        names = {name: tmp_path / name for name in ("database", "source", "depfile")}
        words = [word for name, path in names.items() for word in ("--" + name, path)]
        subprocess.run([sys.executable, "-m", "generator.embed_db", folder, *words], cwd=ROOT, check=True)
        target, inputs = names["depfile"].read_text().rstrip("\n").split(": ")
        assert target == str(names["database"]), "Ninja wants the name that it knows the output by"
        return names["database"].read_bytes(), inputs.split(" "), names["source"].read_text()

    return run


def test_no_folder_and_no_file(embed, tmp_path):
    data, inputs, source = embed(tmp_path / "db")
    assert (data, inputs) == (b"", [str(tmp_path)]), "the folder may come later"
    assert "gnf_embedded_db_size = 0;" in source
    (tmp_path / "db").mkdir()
    data, inputs, source = embed(tmp_path / "db")
    assert (data, inputs) == (b"", [str(tmp_path / "db")])


def test_files_in_the_order_of_their_names(embed, tmp_path):
    folder = tmp_path / "db"
    folder.mkdir()
    (folder / "b.jsonl").write_bytes(b'{"b":1}\n\n{"b":2}')
    (folder / "a.jsonl").write_bytes(b'{"a":1}\r\n')
    (folder / "c.jsonl").write_bytes(b"")
    (folder / "a.txt").write_bytes(b"no\n")
    data, inputs, source = embed(folder)
    assert data == b'{"a":1}\n{"b":1}\n{"b":2}\n'
    assert inputs == [str(folder)] + [str(folder / name) for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    assert f"gnf_embedded_db_size = {len(data)};" in source and "3 lines" in source


def test_what_the_library_reads(embed, build, tmp_path):
    import ctypes

    folder = tmp_path / "a db"
    folder.mkdir()
    (folder / "x.jsonl").write_bytes(b'{"x":1}\n')
    source = embed(folder)[2]
    # The symbol is hidden, as in the library: a function gives it out.
    reader = HOLDER + "const char *data(void) { return gnf_embedded_db; } size_t size(void) { return gnf_embedded_db_size; }"
    library = build("db", source.replace('#include "tuned.h"', reader))
    library.data.restype, library.size.restype = ctypes.c_void_p, ctypes.c_size_t
    assert ctypes.string_at(library.data(), library.size()) == b'{"x":1}\n'
