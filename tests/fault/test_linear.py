"""linear without cuBLASLt, with one that fails, and with algorithms that differ in their speed."""

import json
import re
import sys

import pytest
from program import ROOT, SIM, refused, run
from tuning_bench import latest, records

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

import simkernels  # noqa: E402
from generator import pack as packs  # noqa: E402
from generator import variants  # noqa: E402
from generator.__main__ import manifest_row  # noqa: E402
from generator.problem import parse  # noqa: E402
from generator.render import Renderer  # noqa: E402

PROBLEM = "f32[20,96] | linear(64) | groupnorm(8)"
PRODUCTS = ["dot.n1", "fp16x3.s1", "fp16x3.s1.each", "sgemm", "ffma"]
CUBLAS = ["direct", "tf32", "fp16x1", "fp16x3"]  # methods
NOWHERE = "/nonexistent/libcublasLt.so.13"


def few_variants():
    """A pack with the first and the last tail of some products; the last is for pointers of any alignment."""
    writer, renderer, parsed = packs.PackWriter(), Renderer(), parse(PROBLEM)
    tails = {}
    for variant in variants.enumerate_variants(parsed, renderer.strategies):
        tails.setdefault(variant.name.partition(".warp.")[0], []).append(variant)
    chosen = [v for product in PRODUCTS for v in (tails[product][0], tails[product][-1])]
    writer.add(parsed.key, False, [manifest_row(renderer, writer, parsed, v) for v in chosen])
    return writer.bytes()


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """.run(command, *words, **settings) with the problem's pack and kernels at hand; .names: its variants."""
    folder = tmp_path_factory.mktemp("linear")
    pack, library = folder / "linear.gnfpack", folder / "linear.so"
    pack.write_bytes(few_variants())
    simkernels.build([pack], library, jobs=2)

    class Layer:
        def run(self, command, *words, **settings):
            known = {"CUDASIM_KERNELS": library, "GNFUSE_CACHE_DIR": folder / "cache", "timeout": 120}
            known["CUDASIM_DEVICES"] = "cc=10.0"  # where the best products are cuBLASLt's
            return run(command, PROBLEM, "--pack", pack, *words, **{**known, **settings})

    layer = Layer()
    layer.rows = layer.run("kernels", "--json").json["variants"]
    layer.names = [row["name"] for row in layer.rows]
    return layer


def named(layer, prefix, without="\0"):
    return next(n for n in layer.names if n.startswith(prefix) and without not in n)


def test_info_says_what_was_found():
    found = run("info", "--json").json["cublaslt"]
    assert found["ok"] and found["path"] == SIM and found["version"] > 0, found
    text = run("info")
    assert [line for line in text.out.splitlines() if line.startswith("cuBLASLt ")], text
    missing = run("info", "--json", GNFUSE_CUBLASLT=NOWHERE)
    assert missing.status == 0 and not missing.json["cublaslt"]["ok"], missing
    assert NOWHERE in missing.json["cublaslt"]["error"], missing
    assert missing.json["environment"]["GNFUSE_CUBLASLT"] == NOWHERE


def test_own_kernels_take_over_with_one_warning(layer):
    usual = layer.run("run", "--check", "--json")
    assert usual.status == 0 and usual.json["variant"].startswith("fp16x3") and not usual.warnings, usual
    result = layer.run("run", "--check", "--json", GNFUSE_CUBLASLT=NOWHERE)
    assert result.status == 0 and result.json["variant"].startswith("ffma."), result
    assert len(result.warnings) == 1 and NOWHERE in result.warnings[0], result


def test_a_variant_that_needs_it_is_refused_by_name(layer):
    name = named(layer, "sgemm.")
    refused(layer.run("run", "--variant", name, GNFUSE_CUBLASLT=NOWHERE), 3, "cuBLASLt", NOWHERE)
    report = layer.run("run", "--variant", name, "--json", GNFUSE_CUBLASLT=NOWHERE)
    assert report.status == 3 and report.json["status"] == "GNF_NO_CUBLAS", report


def test_a_library_that_is_none(layer, tmp_path):
    fake = tmp_path / "libcublasLt.so"
    fake.write_text("no library")
    result = layer.run("run", "--check", "--json", GNFUSE_CUBLASLT=fake)
    assert result.status == 0 and result.json["variant"].startswith("ffma."), result
    assert len(result.warnings) == 1 and str(fake) in result.warnings[0], result


def test_check_leaves_out_what_needs_it(layer):
    result = layer.run("check", "--json", GNFUSE_CUBLASLT=NOWHERE)
    assert result.status == 0, result
    skipped = {v["name"]: v["skipped"] for v in result.json["variants"] if "skipped" in v}
    own = {row["name"] for row in layer.rows if row["product"]["method"] == "own"}
    assert all("cuBLASLt" in why or "20" in why for why in skipped.values()), skipped
    assert not [n for n in layer.names if n not in own and n not in skipped]
    assert [n for n in own if n.startswith("ffma.") and n not in skipped]


def test_a_product_that_fails_is_told_with_its_name(layer):
    result = layer.run("run", "--json", CUDASIM_FAIL="cublasLtMatmul:1=14")
    assert result.status == 4 and "cublasLtMatmul" in result.json["error"], result


# ---- algorithms

CLOCK = "skip\ntime cublasLtMatmul 40\n"


def clock_of(tmp_path, *rules):
    path = tmp_path / "clock"
    path.write_text(CLOCK + "\n".join(rules) + "\n")
    return path


def algorithms(record):
    """(version, one hexadecimal word a product)."""
    version, words = record["gemm"].split(":")
    return int(version), words.split(",")


def test_tune_takes_the_fastest_algorithm_and_plans_follow(layer, tmp_path):
    found = {}
    for algorithm in 1, 2:
        db = tmp_path / f"{algorithm}.jsonl"
        clock = clock_of(tmp_path, f"time cublasLtMatmul.{algorithm} 4")
        result = layer.run("tune", "--db", db, "--json", CUDASIM_CLOCK=clock)
        assert result.status == 0, result
        known = latest(db)
        gemms = {row["name"]: row["product"]["method"] for row in layer.rows}
        for name, record in known.items():
            assert ("gemm" in record) == (gemms[name] in CUBLAS), record
        for name in (n for n in known if gemms[n] in CUBLAS):
            version, words = algorithms(known[name])
            assert version > 0 and len(words) == (2 if gemms[name] == "fp16x3" else 1), known[name]
            assert all(len(word) == 128 for word in words)
        assert not [n for n in known if gemms[n] == "own" and n.startswith("dot.n1.")], "none for N of 20"
        name = named(layer, "fp16x3.", "each")
        found[algorithm] = algorithms(known[name])[1]
        taken = layer.run("run", "--db", db, "--check", "--json")
        assert taken.status == 0 and taken.json["match"] == "exact", taken
        text = run("db", "explain", PROBLEM, "-v", "--db", db)
        assert "algorithms of cuBLASLt" in text.out, text
        rows = run("db", "explain", PROBLEM, "--json", "--db", db).json["records"]
        assert [row for row in rows if row["variant"] == name and row["gemm"] == known[name]["gemm"]]
    assert found[1] != found[2]


def test_an_algorithm_of_another_version_is_left_alone(layer, tmp_path):
    db = tmp_path / "tuned.jsonl"
    assert layer.run("tune", "--db", db, CUDASIM_CLOCK=clock_of(tmp_path, "time cublasLtMatmul.2 4")).status == 0
    lines = records(db)
    for damage in "99:" + "ab" * 64, "nonsense", "130101:zz", "":
        for record in lines:
            if "gemm" in record:
                record["gemm"] = damage
        db.write_text("".join(json.dumps(record) + "\n" for record in lines))
        result = layer.run("run", "--db", db, "--check", "--json")
        assert result.status == 0, result


def test_compare_and_bench_tell_the_rate(layer, tmp_path):
    clock = clock_of(tmp_path, "time cublasLtMatmul.2 4")
    result = layer.run("compare", "--json", CUDASIM_CLOCK=clock)
    assert result.status == 0, result
    flop = 2 * 20 * 96 * 64
    assert result.json["flop"] == flop
    for row in result.json["variants"]:
        if row["status"] == "refused":
            assert "20" in row["error"], row
            continue
        assert row["tflops"] == pytest.approx(flop / row["time_us"] * 1e-6), row
        assert ("gemm" in row) == (not row["name"].startswith(("ffma.", "dot."))), row
    page = tmp_path / "page.html"
    assert "TFLOP/s" in layer.run("compare", "--html", page, CUDASIM_CLOCK=clock).out
    rows = [re.findall("<t[dh]", row) for row in page.read_text().partition("All numbers")[2].split("<tr")[1:]]
    assert "TFLOP/s" in page.read_text() and {len(cells) for cells in rows} == {14, 3}, rows
    bench = layer.run("bench", "--json", CUDASIM_CLOCK=clock).json["problems"][0]
    assert bench["flop"] == flop and bench["tflops"] == pytest.approx(flop / bench["time_us"] * 1e-6)
    each = layer.run("bench", "--json", "--each-weight", CUDASIM_CLOCK=clock).json["problems"][0]
    assert each["variant"] != bench["variant"] and not each["variant"].startswith("fp16x3.s1.warp")


def test_a_hanging_product_costs_its_variants(layer, tmp_path):
    db = tmp_path / "tuned.jsonl"
    clock = clock_of(tmp_path, "hang cublasLtMatmul.1")
    result = layer.run("tune", "--db", db, "--json", "--hang", "2", CUDASIM_CLOCK=clock)
    known = latest(db)
    assert result.json["problems"][0]["variant"].startswith("ffma.") or known, result
    assert [r for r in known.values() if r["status"] == "hung"] and [r for r in known.values() if r["status"] == "ok"]
