"""`gnfuse tune` on a simulated clock: it takes the fastest variant, resumes, shares devices and says what it does."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from program import GNFUSE, environment, listing
from tuning_bench import TEN, Bench, latest, problem, records, rows_of, write_clock


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    b = Bench(tmp_path_factory.mktemp("tune"))
    b.pack("ten", rows_of)
    b.pack("seven", lambda writer: rows_of(writer, count=7))
    b.build()
    return b


@pytest.fixture
def db(tmp_path):
    return tmp_path / "tuned.jsonl"


def report(result):
    assert len(result.json["problems"]) == 1, result
    return result.json["problems"][0]


# ---- the right one

DISTURBED = {
    "still": [],
    "noise": ["noise 0.02"],
    "drift": ["drift 0.5", "noise 0.005"],
    "busy": ["busy 0.15 4", "noise 0.01"],
    "no_time": ["elapsed 3 0", "elapsed 7 -1", "elapsed 20 nan", "elapsed 41 inf", "elapsed 60 nan"],
}


@pytest.mark.parametrize("name", DISTURBED)
def test_takes_the_fastest(bench, db, tmp_path, name):
    clock = write_clock(tmp_path / "clock", bench, {0: 10, 5: 8, 2: 9, 8: 40}, *DISTURBED[name])
    result = bench.run(problem(), db, "--json", clock=clock)
    fastest, default = bench.names()[5], bench.names()[0]
    assert result.status == 0 and result.json["ok"], result
    one = report(result)
    assert (one["variant"], one["default"]) == (fastest, default), result
    assert one["measured"] == TEN and one["known"] == 0 and one["failed"] == 0 and one["complete"] is True, result
    if name in ("still", "noise"):
        assert one["time_us"] == pytest.approx(8, rel=0.02) and one["default_us"] == pytest.approx(10, rel=0.02), result
    known = latest(db)
    assert len(known) == TEN and all(r["simulated"] and r["complete"] for r in known.values())
    assert [r["variant"] for r in known.values() if r["default"]] == [default]
    assert known[bench.names()[8]]["status"] == "slow" and known[fastest]["status"] == "ok", known
    assert all(0 <= r["max_error"] < 1e-4 and re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", r["date"]) for r in known.values())
    assert bench.taken(2, db, clock=clock) == (fastest, "exact")


def test_a_tie_goes_to_the_default(bench, db, tmp_path):
    """What cannot be told from the default by the noise does not replace it."""
    clock = write_clock(tmp_path / "clock", bench, {5: 9.99}, "noise 0.01")
    result = bench.run(problem(), db, "--json", clock=clock)
    assert result.status == 0 and report(result)["variant"] == bench.names()[0], result


def test_a_clock_that_never_runs(bench, db, tmp_path):
    """Nothing is stored that is no time, and the default rule stays."""
    clock = write_clock(tmp_path / "clock", bench, {}, "elapsed * nan")
    result = bench.run(problem(), db, "--json", clock=clock)
    one = report(result)
    assert result.status == 4 and one["variant"] == "" and one["failed"] == TEN and one["time_us"] is None, result
    assert {r["status"] for r in records(db)} == {"failed"} and "nan" in one["failures"][0]["error"], result
    assert bench.taken(2, db, clock=clock) == (bench.names()[0], "default")


# ---- resuming


def test_known_is_not_measured_again(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    first = bench.run(problem(), db, "--json", clock=clock)
    before = db.read_bytes()
    again = bench.run(problem(), db, "--json", clock=write_clock(tmp_path / "clock", bench, {3: 1}))
    one = report(again)
    assert again.status == 0 and one["measured"] == 0 and one["known"] == TEN, again
    assert one["variant"] == report(first)["variant"] == bench.names()[5] and one["time_us"] == pytest.approx(8), again
    assert db.read_bytes() == before
    # Another N and another seed of the schedule: the first is another problem, the second is not.
    assert report(bench.run(problem(3), db, "--json", clock=clock))["measured"] == TEN
    anew = bench.run(problem(), db, "--json", "--again", clock=write_clock(tmp_path / "clock", bench, {3: 1}))
    assert report(anew)["measured"] == TEN and report(anew)["variant"] == bench.names()[3], anew
    assert bench.taken(2, db, clock=clock) == (bench.names()[3], "exact")


def test_only_new_variants_are_measured(bench, db, tmp_path):
    """The best of what is known run beside them; what was slow is left alone."""
    times = {0: 10, 1: 9, 2: 60, 3: 70, 8: 8}
    clock = write_clock(tmp_path / "clock", bench, times)
    first = report(bench.run(problem(), db, "--json", name="seven", clock=clock))
    assert first["measured"] == 7 and first["variant"] == bench.names()[1]
    kept = len(records(db))
    second = report(bench.run(problem(), db, "--json", clock=clock))
    added = {r["variant"] for r in records(db)[kept:]}
    assert second["variant"] == bench.names()[8] and second["time_us"] == pytest.approx(8), second
    assert added >= {*set(bench.names()) - set(bench.names("seven")), bench.names()[0], bench.names()[1]} and not added & {
        bench.names()[2],
        bench.names()[3],
    }, added
    assert second["measured"] == len(added) and second["known"] == TEN - len(added), second
    assert bench.taken(2, db, clock=clock) == (bench.names()[8], "exact")


def test_other_sources_count_as_new(bench, db, tmp_path):
    """What was measured with another kernel, compiler or device is not taken for known."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    bench.run(problem(), db, clock=clock)
    lines = records(db)
    for field, value in (("source", "0" * 32), ("nvrtc", 12000), ("multiprocessors", 16)):
        db.write_text("".join(json.dumps(line | {field: value}) + "\n" for line in lines))
        assert report(bench.run(problem(), db, "--json", clock=clock))["measured"] == TEN, field
    db.write_text("".join(json.dumps(line | {"gpu": "renamed", "date": "2020-01-01T00:00:00Z"}) + "\n" for line in lines))
    assert report(bench.run(problem(), db, "--json", clock=clock))["measured"] == 0


# ---- several devices


def test_two_devices_share_the_work(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    problems = [problem(n) for n in (1, 2, 3, 4)]
    devices = "cc=9.0,sms=132|cc=9.0,sms=132"
    for listed, count in (("0,1", 2), ("all", 2), ("1", 1)):
        result = bench.run(problems, db, "--json", "--again", "--devices", listed, clock=clock, CUDASIM_DEVICES=devices)
        assert result.status == 0 and len(result.json["problems"]) == 4, result
        assert {p["variant"] for p in result.json["problems"]} == {bench.names()[5]}, result
        assert {p["measured"] for p in result.json["problems"]} == {TEN}, result
    # Devices that differ each get all of the problems.
    result = bench.run(
        problems[:1], db, "--json", "--again", "--devices", "all", clock=clock, CUDASIM_DEVICES="cc=9.0,sms=132|cc=9.0,sms=16"
    )
    assert result.status == 0 and len(result.json["problems"]) == 2, result
    assert {r["multiprocessors"] for r in records(db)} == {132, 16}
    refused = bench.run(problems[:1], db, "--devices", "0,5", clock=clock, CUDASIM_DEVICES=devices)
    assert refused.status == 3 and "device is 5" in refused.err, refused


# ---- what it says


def test_words(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8, 8: 50})
    result = bench.run(problem(), db, clock=clock)
    fastest, default = bench.names()[5], bench.names()[0]
    said = f"{problem()}: {fastest} 8.00 us simulated, default {default} 10.00 us simulated, 1.25 times as fast; 10 measured, 0 known, 0 failed\n"
    assert result.out == said, result
    assert re.fullmatch(r"(\[\d+/10\] (compiling|checking|timing) .* \d+ s\n)+", result.err), result
    assert len(result.err.splitlines()) <= 3, result
    quiet = bench.run(problem(), db, "--again", "-q", clock=clock)
    assert quiet.status == 0 and quiet.err == "" and quiet.out == said, quiet
    wordy = bench.run(problem(), db, "--again", "-v", clock=clock)
    lines = wordy.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == bench.names() and " slow " in lines[9], wordy
    # Without a clock that somebody set, the simulator's times mean nothing and are not told.
    timeless = bench.run(problem(), db, "--again", "--json", "-v", name="seven")
    assert timeless.status == 0 and " us" not in timeless.err and report(timeless)["time_us"] is None, timeless


def test_live_line(bench, db, tmp_path):
    """On a terminal: one line, never wider than it, gone when the work is done."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    words = bench.words("tune", problem(), db, "ten", [])
    done = subprocess.run(
        [GNFUSE, *words], env=environment(**bench.settings(clock)), stdout=subprocess.PIPE, stderr=end, text=True, check=False
    )
    os.close(end)
    said = b""
    try:
        while more := os.read(terminal, 65536):
            said += more
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.close(terminal)
    lines = said.decode().split("\r\033[K")
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done
    assert lines[0] == lines[-1] == "" and "\n" not in said.decode() and max(map(len, lines)) < 50, lines
    assert {step for line in lines[1:-1] for step in ("checking", "timing", "best") if step in line} == {
        "checking",
        "timing",
        "best",
    }, lines


def test_nothing_else_is_touched(bench, tmp_path):
    """Only the database appears, its folder for nobody else."""
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    words = ["tune", problem(), "--pack", str(bench.packs["ten"]), "-q"]
    env = environment(**bench.settings(clock, HOME=home, GNFUSE_DB=None, TMPDIR=here))
    done = subprocess.run([GNFUSE, *words], env=env, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done
    assert [p for p, _ in listing(home)] == [".config", ".config/gnfuse", ".config/gnfuse/tuned.jsonl"] and listing(here) == []
    assert (home / ".config" / "gnfuse").stat().st_mode & 0o777 == 0o700
    assert latest(home / ".config" / "gnfuse" / "tuned.jsonl").keys() == set(bench.names())


def test_events(bench, db, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    result = bench.run([problem(), problem(3)], db, "--events", "-q", clock=clock)
    events = [json.loads(line) for line in result.out.splitlines()]
    assert result.status == 0 and result.err == "" and {e["event"] for e in events} == {"progress", "report"}, result
    reports = [e for e in events if e["event"] == "report"]
    assert [r["samples"] for r in reports] == [2, 3] and reports[0]["variant"] == bench.names()[5], result
    assert {"problem", "key", "default", "time_us", "default_us", "measured", "known", "failed", "complete", "device"} <= set(reports[0])
    steps = [e for e in events if e["event"] == "progress" and e["problem"] == problem()]
    assert steps and all(0 <= e["done"] <= e["total"] == TEN and e["elapsed_s"] >= 0 for e in steps), result
    assert steps[-1]["done"] == TEN and steps[-1]["best"] in bench.names() and steps[-1]["best_us"] > 0, result
    failed = bench.run("f32[2,8,16] | nonsense", db, "--events")
    error = json.loads(failed.out)
    assert failed.status == 2 and error["event"] == "error" and error["status"] == "GNF_INVALID_PROBLEM", failed
    assert "nonsense" in error["error"], failed


def test_the_same_problem_twice(bench, db, tmp_path):
    result = bench.run(
        [problem(), "f32[2,8,16]|groupnorm( 2 )|mish", problem()], db, "--json", clock=write_clock(tmp_path / "clock", bench, {})
    )
    assert result.status == 0 and len(result.json["problems"]) == 1, result


def test_dry_run_touches_nothing(bench, tmp_path):
    folder, cache = tmp_path / "config", tmp_path / "cache"
    clock = write_clock(tmp_path / "clock", bench, {5: 8})
    result = bench.run(problem(), folder / "tuned.jsonl", "--dry-run", clock=clock)
    assert (
        result.status == 0 and ": 0 to compile, 10 to measure, 0 known, 0 refused\n" in result.out or "10 to compile" in result.out
    ), result
    assert not folder.exists()
    cold = bench.run(problem(), folder / "tuned.jsonl", "--dry-run", "--json", clock=clock, GNFUSE_CACHE_DIR=cache)
    (one,) = cold.json["problems"]
    assert one["compile"] == bench.names() and one["measure"] == one["known"] == [], cold
    assert not folder.exists() and len(list(cache.glob("*.cubin"))) <= 1, "one entry says which NVRTC there is"
    bench.run(problem(), folder / "tuned.jsonl", name="seven", clock=clock)
    before = listing(tmp_path), listing(bench.cache)
    (one,) = bench.run(problem(), folder / "tuned.jsonl", "--dry-run", "--json", clock=clock).json["problems"]
    new = set(bench.names()) - set(bench.names("seven"))
    assert new <= {*one["measure"], *one["compile"]} and set(one["known"]) <= set(bench.names("seven")), one
    assert (listing(tmp_path), listing(bench.cache)) == before


# ---- what cannot be done


@pytest.mark.parametrize(
    "words, says",
    [
        (["f32[*,8,16] | groupnorm(2) | mish"], r"N.*number, not \*"),
        ([], r"PROBLEM is missing, or --all"),
        (["--all", problem()], r"--all: .*one of the two"),
        ([problem(), "f32[0,8,16] | groupnorm(2) | mish"], r"nothing to measure"),
        ([problem(), "f32[2,8,16] | groupnorm(3) | mish"], r"groupnorm|divide"),
        ([problem(), "--budget", "0"], r"--budget: '0'"),
        ([problem(), "--devices", "0,,x"], r"--devices: '0,,x'"),
        ([problem(), "--devices", "0", "--device", "1"], r"one of the two"),
        ([problem(), "--json", "--events"], r"one of the two"),
    ],
)
def test_refused_before_any_work(bench, db, words, says):
    result = bench.run([], db, *words)
    assert result.status == 2 and re.search(says, result.err), result
    assert not db.exists() and "[0/" not in result.err, result


def test_database_that_cannot_be_written(bench, public, tmp_path):
    """Told before any measuring begins, and where it can be seen before any work."""
    folder = tmp_path / "folder"
    folder.mkdir()
    clock = write_clock(tmp_path / "clock", bench, {})
    nowhere = "No such file" if os.geteuid() == 0 else "Permission denied"
    for db, says in ((folder, "Is a directory"), (clock / "new" / "x.jsonl", "Not a directory"), ("/proc/none/x.jsonl", nowhere)):
        result = bench.run(problem(), db, clock=clock)
        assert result.status == 2 and re.search(f"{re.escape(str(db))}|/proc/none", result.err), result
        assert re.search(says, result.err), result
        assert "timing" not in result.err and result.out == "", result
    # An ordinary user, to whom mode bits mean something.
    (public.work / "db.jsonl").write_text("")
    (public.work / "db.jsonl").chmod(0o444)
    public.work.chmod(0o555)
    for name in ("db.jsonl", "new.jsonl", "new/folder/db.jsonl"):
        result = public.run("--db", public.work / name, command="tune")
        assert result.status == 2 and re.search(rf"{name}: cannot be written: Permission denied", result.err), result.err


def test_no_device(bench, db):
    result = bench.run(problem(), db, GNFUSE_CUDA_DRIVER="/nonexistent")
    assert result.status == 3 and "/nonexistent" in result.err and "without a GPU: --device sim" in result.err, result
    assert not db.exists() and len(result.err.splitlines()) == 1, result


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_streams_that_are_not_there(bench, db, tmp_path, closed):
    """What would be printed to them does not land in a file that was opened in their place."""
    process = subprocess.run(
        [GNFUSE, *bench.words("tune", problem(), db, "ten", ())],
        env=environment(**bench.settings(clock=write_clock(tmp_path / "clock", bench, {}))),
        preexec_fn=lambda: [os.close(i) for i in closed],
        timeout=60,
    )
    assert process.returncode == (2 if 1 in closed else 0) and len(latest(db)) == TEN, process


def test_full_disk(bench, small_disk, tmp_path):
    """Told before any measuring; where it fills up in the middle, whole lines stay and the next run goes on."""
    clock = write_clock(tmp_path / "clock", bench, {})
    db, ballast = small_disk / "tuned.jsonl", small_disk / "ballast"
    for room, least, most in ((0, 0, 0), (4096, 3, 8)):
        ballast.write_bytes(b"x" * (65536 - room))
        result = bench.run(problem(), db, clock=clock)
        assert result.status == 2 and "No space left on device" in result.err and result.out == "", result
        assert ("[0/10]" in result.err) == (room > 0) and least <= len(records(db)) <= most, result
        ballast.unlink()
    result = bench.run(problem(), db, "--json", clock=clock)
    assert result.status == 0 and report(result)["known"] + report(result)["measured"] == TEN, result
