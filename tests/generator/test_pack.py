"""The pack file: its bytes depend on nothing but the problems, and its frame is one that zstd reads."""

import ctypes
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from generator import VERSION, pack, shipped
from generator.__main__ import make_pack, read_problem_file
from generator.problem import ProblemError, parse
from generator.render import Renderer
from generator.xxh64 import xxh64

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = [
    "f32[*,64,126,126] | groupnorm(16) | tanh | hardswish | add(x) | logsumexp",
    "f16[2,24,5,7]:nhwc | silu | groupnorm(3, eps=0.5) | mul(w: channel) | clamp(-0.25, 1e-7)",
    "f32[*,200] | linear(96) | groupnorm(3) | silu",
    "bf16[*,200] | linear(96) | groupnorm(3) | sum",
    "f32[*,8,12,14] | y = conv2d(16, 3) | groupnorm(4) | tanh | hardswish | add(y) | logsumexp",
    "f16[2,6,8,9] | groupnorm(3) | maxpool2d(2) | relu",
    "f32[*,24] | linear(48) | groupnorm(4) | mean(all)",
]
zstd = pytest.mark.skipif(not shutil.which("zstd"), reason="no zstd program")


def unpack(data):
    """(manifest, parts) of a pack, whose frame is taken apart by hand."""
    assert data[:8] == b"gnfpack\n"
    assert struct.unpack_from("<II", data, 8) == (1, 0)
    magic, descriptor, size = struct.unpack_from("<IBQ", data, 16)
    assert (magic, descriptor) == (0xFD2FB528, 0b11100100)
    content, at, last = b"", 29, 0
    while not last:
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        assert kind == 0 and length <= 1 << 17
        content += data[at + 3 : at + 3 + length]
        at += 3 + length
    assert len(content) == size
    assert data[at:] == struct.pack("<I", xxh64(content) & 0xFFFFFFFF)
    length = struct.unpack_from("<Q", content)[0]
    manifest = json.loads(content[8 : 8 + length])
    blob = content[8 + length :]
    assert sum(size for _, size in manifest["parts"]) == len(blob)
    return manifest, [blob[at : at + size].decode("ascii") for at, size in manifest["parts"]]


@pytest.fixture(scope="module")
def data():
    return make_pack(PROBLEMS, Renderer())


def run_generator(output, folder, **variables):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    environment = inherited | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | variables
    command = [sys.executable, "-m", "generator", "-o", str(output), *PROBLEMS]
    subprocess.run(command, check=True, cwd=folder, env=environment)
    return output.read_bytes()


def test_same_bytes_from_any_process(data, tmp_path, comma_locale):
    assert run_generator(tmp_path / "a", ROOT, PYTHONHASHSEED="1", LC_ALL="C", TZ="UTC") == data
    assert run_generator(tmp_path / "b", tmp_path, PYTHONHASHSEED="2", TZ="Asia/Tokyo", **comma_locale) == data


def test_nothing_of_the_machine(data):
    for name in (str(ROOT), os.uname().nodename, str(Path.home()), sys.executable):
        assert len(name) < 5 or name.encode() not in data


def test_manifest(data):
    manifest, parts = unpack(data)
    assert set(manifest) == {"format", "generator", "parts", "entries"}
    assert (manifest["format"], manifest["generator"]) == (1, VERSION)
    problems = [parse(text) for text in PROBLEMS]
    expected = [pair for p in problems for pair in ((p.key, False), (p.chain, True))]
    assert [(e["key"], e["generic"]) for e in manifest["entries"]] == expected
    assert len(set(parts)) == len(parts)
    used, sources = set(), {}
    for entry in manifest["entries"]:
        names = [v["name"] for v in entry["variants"]]
        assert names and len(set(names)) == len(names)
        assert min(v["alignment"] for v in entry["variants"]) == (4 if "f32" in entry["key"] else 2)
        for variant in entry["variants"]:
            fields = {"name", "strategy", "parameters", "alignment", "capability", "workspace", "group_max", "kernels"}
            exact = {"exact"} if "wgmma" in variant["name"] else set()
            assert set(variant) == fields | exact | ({"product"} if re.search("linear|conv2d", entry["key"]) else set())
            assert f".{variant['name']}".find(f".{variant['strategy']}.") >= 0
            assert all(isinstance(value, int | str) for value in variant["parameters"].values())
            for kernel in variant["kernels"]:
                fields = {"entry", "parts", "block", "shared", "unit", "units_per_block", "span", "tile", "cap"}
                assert fields <= set(kernel) <= fields | {"role", "exact", "cluster"}
                assert "exact" in variant or not {"exact", "cluster"} & set(kernel)
                used.update(kernel["parts"])
                source = "".join(parts[k] for k in kernel["parts"])
                assert f" {kernel['entry']}(" in source
                # One entry name, one source: cubins are found by it.
                assert sources.setdefault(kernel["entry"], source) == source
    assert used == set(range(len(parts)))


def test_products_in_the_manifest(data):
    """What runtime/pack.h reads: the product of each variant, and its kernels in the order of their launches."""
    manifest, _ = unpack(data)
    fields = {"method", "weights", "chunks", "sums", "least", "most", "samples_max", "inputs_max", "yields", "weight_bytes"}
    roles, entries = {}, {}
    for entry in [e for e in manifest["entries"] if "conv2d" not in e["key"]]:
        for variant in entry["variants"]:
            assert ("product" in variant) == ("linear" in entry["key"])
            product = variant.get("product")
            if not product:
                assert all("role" not in k for k in variant["kernels"])
                continue
            assert set(product) == fields and 1 <= product["chunks"] <= product["sums"] <= product["chunks"] + 1
            split = [k.get("role", "tail") for k in variant["kernels"]]
            first_of_tail = split.index("tail")
            assert set(split[first_of_tail:]) == {"tail"} and len(split) <= 8 and product["weight_bytes"] == 0
            name = variant["name"].removesuffix("." + variant["name"].partition(f".{variant['strategy']}.")[2])
            roles[name.rpartition(".")[0]] = (product["method"], product["weights"], *split[:first_of_tail])
            for kernel in variant["kernels"][:first_of_tail]:
                template = kernel["entry"].rpartition("_")[0]
                entries.setdefault((entry["key"].split("[")[0].split(" ")[0], template), set()).add(kernel["entry"])
    own, split = ("own", "given", "product"), ("weights", "inputs", "product")
    assert roles["wgmma.k256"] == ("wgmma", "prepared", *split, "product")
    assert {k: v for k, v in roles.items() if k.startswith("dot.") or k == "ffma"} == dict.fromkeys(
        ("dot.n1", "dot.n4", "dot.n16", "ffma"), own
    )
    assert roles["sgemm"] == roles["gemm"] == ("direct", "given")
    assert roles["fp16x3.s1"] == ("fp16x3", "prepared", *split)
    assert roles["fp16x3.s1.each"] == ("fp16x3", "each", *split)
    # Problems of a dtype share them, generic or not.
    assert all(len(names) == 1 for names in entries.values())
    assert {("f32", "gnf_fma"), ("bf16", "gnf_fma"), ("f32", "gnf_split_inputs_2"), ("bf16", "gnf_dot_16")} <= set(entries)


def test_convolutions_in_the_manifest(data):
    """Strategies that begin with conv2d: a kernel for the weight, the rest is tail. Behind them ffma's, for any size."""
    manifest, _ = unpack(data)
    specialised, generic = [e["variants"] for e in manifest["entries"] if "conv2d" in e["key"]]
    for variant in specialised + generic:
        roles, product = [k.get("role", "tail") for k in variant["kernels"]], variant["product"]
        assert product["method"] == "own" and product["chunks"] == product["least"] == 1
        assert (product["most"], product["samples_max"], product["inputs_max"], product["yields"]) == (0, 0, 0, False)
        if variant["name"].startswith("ffma."):
            assert roles[0] == "product" and set(roles[1:]) == {"tail"}
            assert (product["weights"], product["sums"], product["weight_bytes"]) == ("given", 1, 0)
        else:
            assert variant["strategy"].startswith("conv2d_") and variant["name"].startswith(variant["strategy"] + ".")
            assert product["weights"] == "each" and product["sums"] in (0, 1)
            assert set(roles[1:]) == {"tail"} and (roles[0] == "weights") == (product["weight_bytes"] > 0)
    assert all(v["name"].startswith("ffma.generic") for v in generic)
    names = [v["name"] for v in specialised]
    assert names[-1].startswith("ffma.split.") and any(n.startswith("conv2d_") for n in names)
    conv = {v["kernels"][0]["entry"] for v in specialised + generic if v["name"].startswith("ffma.")}
    assert len(conv) == 1, "the sizes are arguments"


def test_problems_given_twice_are_packed_once(data):
    assert make_pack(PROBLEMS + [PROBLEMS[0].replace("*", "7").replace("126,126", "15876")], Renderer()) == data


def test_errors_point_at_the_character():
    with pytest.raises(ProblemError, match="conv2d after another stage") as raised:
        make_pack(["f32[2,8,9,9] | relu | conv2d(8, 3) | groupnorm(2)"], Renderer())
    assert raised.value.column == 23


def test_problem_file(tmp_path):
    (tmp_path / "problems").write_text("# comment\n\n  f32[2,4] | groupnorm(2)  \n#\n", encoding="utf-8")
    assert read_problem_file(tmp_path / "problems") == ["f32[2,4] | groupnorm(2)"]


def test_shipped_problems_as_c():
    """Every text once, spelled canonically, as a C string."""
    text = shipped.source(["f32[8,4]|groupnorm( 2 )", "f32[*,4] | groupnorm(2)", "f32[8,4] | groupnorm(2)"])
    assert re.findall(r"^    (.*),$", text, re.M) == ['"f32[8,4] | groupnorm(2)"', '"f32[*,4] | groupnorm(2)"', "NULL"]


# ---- the frame


CONTENTS = [b"", b"a", bytes(range(256)) * 3, *(b"x" * n for n in ((1 << 17) - 1, 1 << 17, (1 << 17) + 1)), bytes(300_000)]


@zstd
@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_zstd_reads_the_frame(content, tmp_path):
    (tmp_path / "frame.zst").write_bytes(pack.zstd_frame(content))
    subprocess.run(["zstd", "-tq", tmp_path / "frame.zst"], check=True)
    subprocess.run(["zstd", "-dq", tmp_path / "frame.zst", "-o", tmp_path / "content"], check=True)
    assert (tmp_path / "content").read_bytes() == content


@zstd
def test_zstd_reads_the_pack(data, tmp_path):
    (tmp_path / "pack.zst").write_bytes(data[16:])
    subprocess.run(["zstd", "-tq", tmp_path / "pack.zst"], check=True)
    damaged = bytearray(data[16:])
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.zst").write_bytes(damaged)
    assert subprocess.run(["zstd", "-tq", tmp_path / "damaged.zst"], capture_output=True).returncode != 0


@pytest.mark.parametrize(
    "content, value",
    [(b"", 0xEF46DB3751D8E999), (b"abc", 0x44BC2CF5AD770999), (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1)],
)
def test_xxh64(content, value):
    assert xxh64(content) == value


def test_xxh64_of_every_length():
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        pytest.skip("no libxxhash")
    library.XXH64.restype, library.XXH64.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    content = random.Random(1).randbytes(200)
    for length in range(len(content) + 1):
        assert xxh64(content[:length]) == library.XXH64(content, length, 0)


# ---- writing


def test_write_replaces_whole_files(tmp_path, monkeypatch):
    path = tmp_path / "pack"
    pack.write(path, b"first")
    pack.write(path, b"second")
    assert path.read_bytes() == b"second" and path.stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError):
        pack.write(path, b"third")
    assert path.read_bytes() == b"second" and os.listdir(tmp_path) == ["pack"]
