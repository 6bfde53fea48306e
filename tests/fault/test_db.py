"""`gnfuse db`: what is known, why a plan takes what it takes, and files put together."""

import json
import os
import re
import shutil

import pytest
import program
from tuning_bench import TEN, Bench, latest, problem, records, rows_of, write_clock

FASTEST, OTHER_SMS = 3, "cc=9.0,sms=16,name=Small"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    b = Bench(tmp_path_factory.mktemp("db"))
    b.pack("ten", rows_of)
    b.build()
    b.db = b.folder / "tuned.jsonl"
    b.clock = write_clock(b.folder / "clock", b, {FASTEST: 7, 5: 500})
    result = b.run(problem(), b.db, clock=b.clock)
    assert result.status == 0, result
    return b


@pytest.fixture
def db(bench, tmp_path):
    """A copy of what one run of `tune` left, to be harmed."""
    return shutil.copy(bench.db, tmp_path / "tuned.jsonl")


def run(*words, **settings):
    """With the tests' cache of kernels: the one of whoever runs them is not ours to fill."""
    return program.run(*words, **{"GNFUSE_CACHE_DIR": os.environ.get("GNFUSE_CACHE_DIR")} | settings)


def write(path, lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def edited(path, **changes):
    """The file with fields of every record changed."""
    return write(path, [r | changes for r in records(path)])


def show(path, *words):
    return run("db", "show", *words, "--db", path, sim=False)


def merge(*words):
    return run("db", "merge", *words, sim=False)


# ---- show


def users(result, db):
    """The entries of the user's own file: the shipped database has some too."""
    return [e for e in result.json["entries"] if e["file"] == str(db)]


def test_show(bench, db):
    (entry,) = users(show(db, "--json"), db)
    name, default = bench.names()[FASTEST], bench.names()[0]
    known = latest(db)
    assert (entry["problem"], entry["samples"], entry["gpu"]) == (problem(), 2, "Simulated sm_90"), entry
    assert (entry["variant"], entry["default"], entry["records"], entry["simulated"]) == (name, default, TEN, True), entry
    assert entry["time_us"] == pytest.approx(7) and entry["default_us"] == pytest.approx(10), entry
    assert entry["file"] == str(db) and entry["date"] == max(r["date"] for r in known.values()), entry
    lines = show(db).out.splitlines()
    assert lines[0] == f"the user's database is {db}" and problem() in lines, lines
    line = lines[lines.index(problem()) + 1]
    wanted = rf"  {re.escape(name)} +7\.00 us +default +10\.00 us +{TEN} records to 20\d\d-\d\d-\d\d +Simulated sm_90 \(9\.0, 132 multip"
    assert re.match(wanted, line) and line.endswith("the user's"), line


def test_show_keeps_devices_and_sizes_apart(bench, db):
    base = [r for r in records(db) if r["variant"] in (bench.names()[0], bench.names()[FASTEST])]
    wider = [r | {"samples": 16, "problem": problem(16), "time_us": 9 * r["time_us"]} for r in base]
    other = [r | {"multiprocessors": 78, "gpu": "Half <one>"} for r in base]
    write(db, base + wider + other)
    entries = users(show(db, "--json"), db)
    assert sorted((e["samples"], e["multiprocessors"]) for e in entries) == [(2, 78), (2, 132), (16, 132)], entries
    assert {round(e["time_us"]) for e in entries} == {7, 63}, entries


def test_show_breaks_ties_as_plans_do(tmp_path):
    """All but the default are equally fast, and the order that decides is that of a pack in the cache."""
    text, db, clock = "f32[2,4,5] | groupnorm(2) | relu", tmp_path / "tuned.jsonl", tmp_path / "clock"
    settings = {"GNFUSE_CACHE_DIR": tmp_path / "cache", "CUDASIM_CLOCK": clock}
    clock.write_text("skip\n")
    default = next(v["name"] for v in run("kernels", text, "--json", "--db", db, **settings).json["variants"] if v["default"])
    clock.write_text(f"time * 500\ntime gnf_{default.replace('.', '_')}_* 900\nskip\n")
    assert run("tune", text, "--db", db, **settings).status == 0
    planned = run("db", "explain", text, "--json", "--db", db, **settings).json["variant"]
    shown = run("db", "show", "--json", "--db", db, sim=False, **settings)
    assert planned != default and [e["variant"] for e in users(shown, db)] == [planned], (planned, shown)


def test_show_of_nothing(tmp_path):
    result = show(tmp_path / "none.jsonl", "--json")
    assert result.status == 0 and all(e["file"] == "shipped" for e in result.json["entries"]), result


def test_damaged_lines_are_named_and_passed_over(bench, db):
    good = db.read_text()
    newer = '{"format":99,"key":"?"}\n'
    db.write_text(newer + good + good.splitlines()[0].replace('"time_us":', '"time_ns":') + "\n" + good[: len(good) // 2].splitlines()[-1])
    result = show(db, "--json")
    count = len(good.splitlines())
    assert result.status == 0 and len(users(result, db)) == 1, result
    assert len(result.warnings) == 3, result
    for number, what in ((1, "format = 99"), (count + 2, "time_us is missing"), (count + 3, "no end")):
        assert any(f"line {number}" in w and what in w for w in result.warnings), (number, what, result)


# ---- explain


def explain(bench, path, samples=2, **settings):
    result = run("db", "explain", problem(samples), "--json", "--db", path, "--pack", bench.packs["ten"], **settings)
    assert result.status == 0, result
    return result.json


def why(report, name):
    """The clause of the last record of a variant."""
    return [r for r in report["records"] if r["variant"] == name][-1]["why"]


def test_explain_an_exact_match(bench, db):
    report = explain(bench, db)
    fastest, default = bench.names()[FASTEST], bench.names()[0]
    assert (report["variant"], report["match"], report["default"]) == (fastest, "exact", default), report
    assert report["recorded_us"] == pytest.approx(7) and report["device"] == "sim", report
    assert [r["variant"] for r in report["records"] if r["taken"]] == [fastest], report
    assert [r["line"] for r in report["records"]] == list(range(1, 1 + len(records(db)))), "every record has its line"
    assert re.match("taken: exact", why(report, fastest)) and re.match(r"slower by 42\.9 %", why(report, default)), report
    assert re.match("left early", why(report, bench.names()[5])), report
    first = next(i for i, r in enumerate(records(db), 1) if r["variant"] == default)
    assert re.match("replaced by line", report["records"][first - 1]["why"]), report

    text = run("db", "explain", problem(), "--db", db, "--pack", bench.packs["ten"]).out.splitlines()
    assert text[:3] == [
        f"problem  {problem()}",
        "device   Simulated sm_90 (sim)",
        f"plan     {fastest} (exact), recorded with 7.00 us",
    ], text
    (taken,) = [line for line in text if line.startswith("*")]
    assert re.fullmatch(rf"\* line \d+ +{re.escape(fastest)} +7\.00 us  taken: exact", taken), taken
    assert str(db) in text and re.match(r"\d+ lines that later ones replace are not shown", text[-1]), text
    every = run("db", "explain", problem(), "-v", "--db", db, "--pack", bench.packs["ten"]).out.splitlines()
    assert sum(" line " in line[:8] for line in every) == len(records(db)), every


def test_explain_an_older_source(bench, db):
    report = explain(bench, edited(db, source="0" * 32))
    assert (report["variant"], report["match"]) == (bench.names()[FASTEST], "older source"), report
    report = explain(bench, edited(db, nvrtc=11000))
    assert (report["variant"], report["match"]) == (bench.names()[FASTEST], "older source"), report


def test_explain_another_batch(bench, db):
    report = explain(bench, db, samples=8)
    assert (report["variant"], report["match"]) == (bench.names()[FASTEST], "other batch"), report
    report = explain(bench, db, samples=17)
    assert (report["variant"], report["match"]) == (report["default"], "default"), report
    assert "recorded_us" not in report and not any(r["taken"] for r in report["records"]), report
    assert re.match("N = 2 is more than 8 times as small as 17", report["records"][-1]["why"]), report
    text = run("db", "explain", problem(8), "--db", db, "--pack", bench.packs["ten"]).out
    assert re.search(r"^\* line \d+ .* N = 2, taken: other batch$", text, re.M), text


def test_explain_another_gpu(bench, db):
    report = explain(bench, db, CUDASIM_DEVICES=OTHER_SMS)
    assert (report["variant"], report["match"]) == (bench.names()[FASTEST], "other gpu"), report
    report = explain(bench, db, CUDASIM_DEVICES="cc=8.0")
    assert report["match"] == "default" and re.match("measured on capability 90, here it is 80", report["records"][-1]["why"]), report
    text = run("db", "explain", problem(), "--db", db, "--pack", bench.packs["ten"], CUDASIM_DEVICES=OTHER_SMS).out
    assert re.search(r"^\* line \d+ .* Simulated sm_90 \(9\.0, 132 multiprocessors, simulated\), taken: other gpu$", text, re.M), text


def test_explain_without_records(bench, tmp_path):
    report = explain(bench, tmp_path / "none.jsonl")
    assert report["match"] == "default" and report["records"] == [] and report["variant"] == report["default"], report
    text = run("db", "explain", problem(), "--db", tmp_path / "none.jsonl", "--pack", bench.packs["ten"]).out
    assert "no record is about this problem" in text, text


def test_explain_what_is_of_no_use(bench, db):
    (record, *_) = records(db)
    simulated = {k: v for k, v in record.items() if k != "simulated"}
    lines = [simulated, record | {"variant": "block.t7"}, record | {"status": "hung", "error": "no answer within 30 s", "time_us": 0}]
    report = explain(bench, write(db, lines))
    assert report["match"] == "default", report
    assert [r["why"] for r in report["records"]] == [
        "measured on a GPU",
        "no loaded pack has this variant",
        "hung: no answer within 30 s",
    ], report


def test_explain_wants_a_device(bench, db):
    words = ("db", "explain", problem(), "--db", db, "--pack", bench.packs["ten"])
    result = run(*words, sim=False, GNFUSE_CUDA_DRIVER="/nonexistent/libcuda.so.1")
    assert result.status == 3 and result.out == "", result
    assert re.search(r"depends on its device: .*/nonexistent/.*Simulated sm_90 \(9\.0, 132 multiprocessors", result.err), result


# ---- merge


def dated(record, date, **changes):
    return record | {"date": f"2026-01-{date:02}T00:00:00Z"} | changes


@pytest.fixture
def two(bench, db, tmp_path):
    """Two files with one record in common, and what a merge of them should have."""
    a, b, c = list(latest(db).values())[:3]
    new = dated(a, 9, time_us=3)
    write(tmp_path / "a.jsonl", [dated(a, 2, time_us=8), dated(b, 3)])
    write(tmp_path / "b.jsonl", [new, dated(c, 1)])
    return tmp_path / "a.jsonl", tmp_path / "b.jsonl", [new, dated(b, 3), dated(c, 1)]


def by_variant(found):
    return sorted(found, key=lambda r: r["variant"])


def test_merge_takes_the_later_one(two):
    a, b, wanted = two
    one, other = merge(a, b), merge(b, a)
    assert one.status == 0 and one.out == other.out, "the order of the files does not matter"
    found = [json.loads(line) for line in one.out.splitlines()]
    assert found == by_variant(wanted), one


def test_merge_writes_a_file(two, tmp_path):
    a, b, wanted = two
    out = tmp_path / "out.jsonl"
    assert "3 records" in merge(a, b, "--output", out).out
    again = merge(out, "--output", a, "--json")
    assert again.json["records"] == 3 and again.json["replaced"] == 0 and a.read_bytes() == out.read_bytes(), "its own result stays"
    assert merge(out, b, "--output", out).status == 0 and records(out) == by_variant(wanted), "an input may be the output"
    assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.jsonl"], "nothing is left beside it"


def test_merge_leaves_damaged_lines_out(two, tmp_path):
    a, b, wanted = two
    newer = '{"format": 7,   "what": [1, 2]}'
    lines = b.read_text().splitlines()
    bad = re.sub('"status":"[a-z]+"', '"status":"good"', lines[1])
    b.write_text("\n".join([newer, lines[0], "", bad, newer, "nonsense", lines[1][:-9]]))
    result = merge(a, b)
    assert result.status == 0 and len(result.warnings) == 3, result
    for number, what in ((4, "status = 'good': allowed are ok"), (6, "no JSON"), (7, "has no end")):
        assert any(
            w.startswith(f"gnfuse: warning: {b}: line {number}: ") and what in w and w.endswith("left out") for w in result.warnings
        ), result
    found = result.out.splitlines()
    assert found[-1] == newer and found.count(newer) == 1, "byte for byte, once, behind what is understood"
    assert [json.loads(line) for line in found[:-1]] == by_variant(wanted[:2]), result
    report = merge(a, b, "--json", "--output", tmp_path / "o.jsonl").json
    assert (report["records"], report["newer"], [e["line"] for e in report["left_out"]]) == (2, 1, [4, 6, 7]), report


def test_merge_fails_whole(two, tmp_path, file_limit):
    a, b, _ = two
    before = a.read_bytes()
    result = merge(b, tmp_path / "missing.jsonl", "--output", a)
    assert result.status == 2 and "missing.jsonl" in result.err and a.read_bytes() == before, result
    result = run("db", "merge", a, b, "--output", a, sim=False, preexec_fn=file_limit(100))
    assert result.status == 2 and a.read_bytes() == before, result
    result = merge(a, "--output", tmp_path / "missing" / "o.jsonl")
    assert result.status == 2 and "--output" in result.err, result
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".jsonl") == [], "nothing half-written stays"


# ---- export


def test_export(bench, db):
    elsewhere = records(db)[0] | {"multiprocessors": 78, "gpu": "Half"}
    gpus = {k: v for k, v in records(db)[0].items() if k != "simulated"}
    with db.open("a") as file:
        file.write("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in (elsewhere, gpus, records(db)[-1] | {"format": 2})))
    result = run("db", "export", "--db", db)
    found = [json.loads(line) for line in result.out.splitlines()]
    assert result.status == 0 and len(found) == TEN, "one record a variant, of the device at hand"
    assert found == sorted(found, key=lambda r: r["variant"]) and {r["multiprocessors"] for r in found} == {132}, result
    assert {r["variant"]: r for r in found} == {k: v for k, v in latest(bench.db).items()}, "the later line of a record counts"
    without = run("db", "export", "--db", db, sim=False, GNFUSE_CUDA_DRIVER="/nonexistent/libcuda.so.1")
    assert [json.loads(line) for line in without.out.splitlines()] == [gpus], "without a device all GPUs', and no simulator's"


def test_export_is_what_a_database_is(bench, db, tmp_path):
    out = tmp_path / "gpu.jsonl"
    assert run("db", "export", "--db", db, "--output", out, "--json").json["records"] == TEN
    assert merge(out).out == out.read_text(), "sorted as a merge would"
    assert explain(bench, out)["variant"] == bench.names()[FASTEST]


def test_export_of_nothing(db, tmp_path):
    result = run("db", "export", "--db", tmp_path / "none.jsonl")
    assert result.status == 2 and "none.jsonl" in result.err, result
    result = run("db", "export", "--db", db, CUDASIM_DEVICES=OTHER_SMS)
    assert result.status == 0 and result.out == "" and "has no record of Small" in result.err, result


# ---- usage


@pytest.mark.parametrize(
    "words, said",
    [
        (["forget"], r"'forget' is not an action \(allowed: show, explain PROBLEM, merge A B\.\.\., export\)"),
        (["explain"], "explain: nothing is named .*PROBLEM"),
        (["explain", "f32[2,8] | groupnorm(2)", "more"], "'more' is too much"),
        (["explain", "f32[*,8] | groupnorm(2)"], r"not \*"),
        (["merge"], "merge: nothing is named"),
        (["merge", "a", "--json"], "--json: .*--output"),
        (["show", "--output", "f"], "--output: is for merge and export"),
        (["export", "more"], "'more' is too much"),
    ],
)
def test_usage(words, said):
    result = run("db", *words, sim=False)
    assert result.status == 2 and re.search(said, result.err), result
