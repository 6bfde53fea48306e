"""`gnfuse tune` where kernels, compilers, processes and files fail (H22 to H25): what fails is a record, the rest goes on."""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter

import pytest
from broken import replace_once
from generator import variants
from generator.render import Renderer
from test_compiler_failures import nvrtc, wrapper  # noqa: F401 (fixtures)
from tuning_bench import PATIENCE, TEN, Bench, group_is_gone, latest, problem, records, rows_of, write_clock


def with_giants(writer):
    """The second asks for more shared memory than any GPU has (and a pack may not say more), the third for blocks four times as
    large as its registers allow."""
    rows = rows_of(writer)
    rows[1]["kernels"][0]["shared"] = 256 << 10
    rows[2]["kernels"][0]["block"] = 1024
    return rows


def with_large(writer):
    """The second asks for what an H100 has and an L40 has not."""
    rows = rows_of(writer)
    rows[1]["kernels"][0]["shared"] = 120 << 10
    return rows


def only_giants(writer):
    """Nothing that the tuner could take; the last is for pointers of any alignment, and too large as well."""
    rows = rows_of(writer, count=4)
    for row in rows:
        row["kernels"][0]["block"] = 1024 if row["kernels"][0]["block"] < 1024 else row["kernels"][0]["block"]
    return rows


def four_hundred(writer):
    return [dict(row, name=f"{row['name']}.n{k}") for k in range(40) for row in rows_of(writer)]


def with_wrong(folder):
    """The fifth forgets eps, which only some data show; it says so by no error."""

    def make(writer):
        templates = folder / "templates"
        subprocess.run(["cp", "-r", variants.TEMPLATES, templates], check=True)
        replace_once(
            templates,
            "lib/registers.cuh.j2",
            "gnf_store(y + place(k).at, v[k]);",
            "if (unit + lane + k > 0) gnf_store(y + place(k).at, v[k]);",
        )
        rows = rows_of(writer)
        rows[4] = rows_of(writer, Renderer(templates))[4]
        return rows

    return make


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    b = Bench(tmp_path_factory.mktemp("tune"))
    b.pack("ten", rows_of)
    b.pack("giants", with_giants)
    b.pack("large", with_large)
    b.pack("only_giants", only_giants)
    b.pack("four_hundred", four_hundred)
    b.pack("wrong", with_wrong(b.folder))
    b.build()
    return b


@pytest.fixture
def db(tmp_path):
    return tmp_path / "tuned.jsonl"


def report(result):
    return result.json["problems"][0]


# ---- H22: what the device cannot hold


def test_variants_too_large(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {1: 1, 2: 1, 5: 8})
    result = bench.run(problem(), db, "--json", name="giants", clock=clock)
    names, known, one = bench.names(), latest(db), report(result)
    assert result.status == 0 and one["variant"] == names[5] and one["failed"] == 2 and one["complete"], result
    assert known[names[1]]["status"] == known[names[2]]["status"] == "refused", known
    assert "262144 bytes of shared memory" in known[names[1]]["error"] and "1024 threads" in known[names[2]]["error"], known
    assert {known[n]["status"] for n in names} - {"ok", "slow"} == {"refused"} and len(known) == TEN
    again = bench.run(problem(), db, name="giants", clock=clock)
    assert "0 measured, 10 known, 2 failed" in again.out and again.out.count(" refused ") == 2, again
    assert bench.taken(2, db, name="giants", clock=clock) == (names[5], "exact")


def test_no_variant_fits(bench, db, tmp_path):
    """The default rule stays, and a reason is given for each."""
    clock = write_clock(tmp_path / "clock", bench, {})
    result = bench.run(problem(), db, name="only_giants", clock=clock)
    assert result.status == 4 and "no variant can be measured" in result.out and "and 1 more" in result.out, result
    assert len(latest(db)) == 4 and {r["status"] for r in records(db)} == {"refused"}


def test_records_of_another_device(bench, db, tmp_path):
    """What was tuned where there is room is checked before it is launched where there is none."""
    clock = write_clock(tmp_path / "clock", bench, {1: 7.8, 5: 8})
    bench.run(problem(), db, name="large", clock=clock)
    assert bench.taken(2, db, name="large", clock=clock) == (bench.names()[1], "exact")
    variant, match = bench.taken(2, db, name="large", clock=clock, CUDASIM_DEVICES="cc=9.0,sms=132,shared=101376")
    assert (variant, match) == (bench.names()[5], "exact")


def test_problem_too_large(bench, db, tmp_path):
    """One whose tensors do not fit is said so; the others go on."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    settings = {"clock": clock, "CUDASIM_DEVICES": "cc=9.0,sms=132,memory=4m"}
    result = bench.run([problem(40000), problem(2)], db, "--json", **settings)
    large, small = result.json["problems"]
    assert result.status == 4 and result.json["ok"] is False and "OUT_OF_MEMORY" in large["error"] and large["variant"] == "", result
    assert small["variant"] == bench.names()[5] and {r["samples"] for r in records(db)} == {2}, result
    text = bench.run([problem(40000), problem(2)], db, **settings)
    assert text.status == 4 and f"{problem(40000)}: cannot be measured: cuMemAlloc" in text.out and "10 known" in text.out, text


def test_problem_too_large_to_time(bench, db, tmp_path):
    """It can be compared with the reference; the tensors once more, to time with, are too many."""
    settings = {"CUDASIM_DEVICES": "cc=9.0,sms=132,name=small,memory=9000", "clock": write_clock(tmp_path / "clock", bench, {5: 8})}
    result = bench.run([problem(4), problem(2)], db, "--json", **settings)
    large, small = result.json["problems"]
    assert result.status == 4 and re.search(r"OUT_OF_MEMORY.*\(to time with: 1 times 4096 bytes\)", large["error"]), result
    assert small["variant"] == bench.names()[5] and small["complete"], result


# ---- H23: kernels that fault, hang and crash


@pytest.mark.parametrize("rule, status, says", [("fault {} 700", "failed", r"\(700\)"), ("crash {}", "failed", r"signal 11")])
def test_the_rest_is_measured(bench, db, tmp_path, rule, status, says):
    """Number 3 of 10 takes its context with it, number 6 never ends."""
    names = bench.names()
    rules = [rule.format(bench.entries(2)[0]), f"hang {bench.entries(5)[0]}"]
    clock = write_clock(tmp_path / "clock", bench, {2: 1, 5: 1, 7: 8}, *rules)
    result = bench.run(problem(), db, "--json", "--hang", "1", clock=clock)
    known, one = latest(db), report(result)
    assert result.status == 0 and one["variant"] == names[7] and one["failed"] == 2 and one["complete"], result
    assert known[names[2]]["status"] == status and re.search(says, known[names[2]]["error"]), known[names[2]]
    assert known[names[5]]["status"] == "hung" and "1 s" in known[names[5]]["error"], known[names[5]]
    others = [n for i, n in enumerate(names) if i not in (2, 5)]
    assert all(known[n]["status"] in ("ok", "slow") and known[n]["time_us"] > 0 for n in others), known
    first = list(dict.fromkeys(r["variant"] for r in records(db)))
    assert first == names, "each was looked at in its turn"
    assert known[names[2]]["time_us"] == 0 and [r["status"] for r in records(db) if r["variant"] == names[2]] == [status]
    again = bench.run(problem(), db, "--json", "--hang", "1", clock=clock)
    assert report(again)["measured"] == 0 and report(again)["failed"] == 2, again


# ---- wrong results


def test_wrong_kernel_never_wins(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    lines = clock.read_text() + "".join(f"time {e} 1\n" for e in bench.entries(4, "wrong"))
    clock.write_text(lines)
    for measured in (TEN, 0):
        result = bench.run(problem(), db, name="wrong", clock=clock, timeout=60)
        assert result.status == 1 and f"{problem()}: {bench.names()[5]} 8.00 us" in result.out, result
        assert f"{measured} measured" in result.out and "1 failed" in result.out, result
        assert re.search(rf"{re.escape(bench.names()[4])} +wrong .*not written", result.out), result
        command = rf"again: gnfuse check '{re.escape(problem())}' --variant {re.escape(bench.names()[4])} --seed 1 --device 0 .*--pack \S*wrong.gnfpack"
        assert re.search(command.replace("--device 0", r"--device \w+"), result.out), result
    assert latest(db)[bench.names()[4]]["status"] == "wrong"
    assert bench.taken(2, db, name="wrong", clock=clock) == (bench.names()[5], "exact")


# ---- H24: processes that die, files that are torn


def follow(process, until, seconds=20):
    """Reads lines of its standard output until one holds `until`."""
    end = time.monotonic() + seconds
    for line in process.stdout:
        if until in line:
            return
        assert time.monotonic() < end
    pytest.fail(f"ended with {process.wait()} before it said '{until}': {process.stderr.read()}")


def test_killed_after_the_third(bench, db, tmp_path):
    """Six problems, SIGKILL after three: those are whole and skipped by the next run."""
    problems = [problem(n) for n in range(1, 7)]
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    process = bench.start(problems, db, clock=clock)
    follow(process, problem(3))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert group_is_gone(process), "its children ended with it"
    before = records(db)
    assert all(latest(db, n).keys() == set(bench.names()) for n in (1, 2, 3))
    result = bench.run(problems, db, "--json", clock=clock)
    assert result.status == 0 and [p["measured"] for p in result.json["problems"]][:3] == [0, 0, 0], result
    assert {p["variant"] for p in result.json["problems"]} == {bench.names()[5]} and records(db)[: len(before)] == before
    assert all(latest(db, n).keys() == set(bench.names()) for n in range(1, 7))


def test_two_tuners_on_one_file(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    running = [bench.start([problem(n) for n in part], db, clock=clock) for part in ((1, 2, 3), (4, 5, 6))]
    for process in running:
        while process.poll() is None:
            assert db.exists() is False or all(json.loads(line) for line in db.read_text().splitlines(keepends=True) if line.endswith("\n"))
            time.sleep(0.01)
        assert process.returncode == 0, process.communicate()
        process.communicate()
    assert all(latest(db, n).keys() == set(bench.names()) for n in range(1, 7))
    once = Counter((r["samples"], r["variant"]) for r in records(db))
    assert set(once.values()) <= {1, 2}, "nothing was measured twice"


def test_torn_and_newer_lines(bench, db, tmp_path):
    """A line cut by a crash spoils nothing but itself, and what a newer version wrote stays byte for byte."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    bench.run(problem(), db, clock=clock)
    whole = db.read_bytes().splitlines(keepends=True)
    newer = b'{"format": 99, "what": "is this",  "spaces": true }\n'
    torn = whole[-1][: len(whole[-1]) // 2]
    db.write_bytes(newer + b"".join(whole[:-1]) + torn)
    result = bench.run(problem(), db, "--json", clock=clock)
    assert result.status == 0 and report(result)["measured"] >= 1 and report(result)["variant"] == bench.names()[5], result
    assert len([w for w in result.warnings if "tuned.jsonl" in w and "1" in w]) >= 1 and len(result.warnings) == 2, result
    lines = db.read_bytes().splitlines(keepends=True)
    assert lines[: len(whole) + 1] == [newer, *whole[:-1], torn + b"\n"], "what was there is left as it was"
    assert all(json.loads(line) for line in lines[len(whole) + 1 :]) and lines[-1].endswith(b"\n")
    assert latest_whole(lines).keys() == set(bench.names())
    again = bench.run(problem(), db, "--json", clock=clock)
    assert report(again)["measured"] == 0 and report(again)["known"] == TEN, again


def latest_whole(lines):
    """{variant: record} of the lines that are records of this version."""
    found = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("format") == 1:
            found[record["variant"]] = record
    return found


# ---- H25: budgets, slow kernels, slow compilers, Ctrl-C


def test_budget(bench, db, tmp_path):
    """Too little for 400 candidates: what was measured counts, the default among it, and the next run goes on."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    clock.write_text(clock.read_text().replace("skip\n", ""))
    budget = 1 + 3 * bench.opening(problem(), db, "four_hundred")
    start = time.monotonic()
    result = bench.run(problem(), db, "--json", "--budget", f"{budget:.3f}", name="four_hundred", clock=clock)
    seconds, one = time.monotonic() - start, report(result)
    assert result.status == 0 and seconds < 3.5 / 1.5 * budget * PATIENCE, (seconds, budget, result)
    assert one["complete"] is False and 0 < one["measured"] <= 400 and one["variant"] != "", result
    assert one["time_us"] <= one["default_us"], result
    known = latest(db)
    assert len(known) == one["measured"] and bench.names("four_hundred")[0] in known
    assert any(not r["complete"] for r in known.values())
    text = bench.run(problem(), db, "--budget", f"{budget / 2:.3f}", name="four_hundred", clock=clock)
    assert text.status == 0 and "cut short, the same command goes on" in text.out, text
    assert len(latest(db)) >= len(known)


def test_budget_is_shared(bench, db, tmp_path):
    """Each problem gets its part, so that none is left out by those before it."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    clock.write_text(clock.read_text().replace("skip\n", ""))
    problems = [problem(n) for n in (1, 2, 3)]
    budget = 3 + 6 * bench.opening(problems, db, "four_hundred")
    result = bench.run(problems, db, "--json", "--budget", f"{budget:.3f}", name="four_hundred", clock=clock)
    assert result.status == 0 and all(p["measured"] > 0 for p in result.json["problems"]), result
    assert all(not p["complete"] for p in result.json["problems"]), result


def test_slow_kernel_is_measured_once(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {6: 10000, 5: 8})
    result = bench.run(problem(), db, "--json", clock=clock)
    lines = [r for r in records(db) if r["variant"] == bench.names()[6]]
    assert result.status == 0 and [(r["status"], r["timings"]) for r in lines] == [("slow", 1)], lines


def test_slow_compiler(bench, db, tmp_path, wrapper):  # noqa: F811
    """One variant takes a minute to compile: the others do not wait for it, and neither does the budget."""
    clock = write_clock(tmp_path / "clock", bench, {8: 8})
    settings = wrapper | {"WRAP_NVRTC_SLOW": bench.entries(4)[0], "GNFUSE_CACHE_DIR": tmp_path / "cache"}
    start = time.monotonic()
    result = bench.run(problem(), db, "--json", "--budget", str(3 + 3 * PATIENCE), clock=clock, **settings)
    seconds, one = time.monotonic() - start, report(result)
    assert result.status == 0 and seconds < 8 * PATIENCE, (seconds, result)
    assert one["variant"] == bench.names()[8] and one["complete"] is False and one["measured"] == TEN - 1, result
    assert set(bench.names()) - latest(db).keys() == {bench.names()[4]} and latest(db)[bench.names()[8]]["timings"] > 10


@pytest.mark.parametrize("whole_group", [True, False])
def test_interrupted(bench, db, tmp_path, whole_group):
    """Ctrl-C: within a second, with no process left, and what was measured is there for the next run."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8}, f"hang {bench.entries(6)[0]}")
    process = bench.start(problem(), db, "--events", clock=clock)
    follow(process, f'"variant":"{bench.names()[6]}"')
    time.sleep(0.2)
    start = time.monotonic()
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT and time.monotonic() - start < PATIENCE, (process.returncode, err)
    assert group_is_gone(process)
    kept = latest(db)
    assert kept.keys() == set(bench.names()[:6]) and all(r["status"] in ("ok", "slow") for r in kept.values()), kept
    assert re.search(r"interrupted; 6 variants measured are kept in \S*tuned.jsonl, and the same command goes on", err), err
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    result = bench.run(problem(), db, "--json", clock=clock)
    assert result.status == 0 and report(result)["variant"] == bench.names()[5] and report(result)["complete"], result
    looked_at = [r["variant"] for r in records(db)]
    assert set(looked_at) == set(bench.names())


def test_interrupted_while_compiling(bench, db, tmp_path, wrapper):  # noqa: F811
    settings = wrapper | {"WRAP_NVRTC_SLOW": bench.entries(0)[0], "GNFUSE_CACHE_DIR": tmp_path / "cache"}
    process = bench.start(problem(), db, "--events", clock=write_clock(tmp_path / "clock", bench, {}), **settings)
    follow(process, '"step":"compiling"')
    time.sleep(0.5)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT and time.monotonic() - start < PATIENCE and "0 variants measured" in err, (
        process.returncode,
        err,
    )
    assert group_is_gone(process) and records(db) == []
