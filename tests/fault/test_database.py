"""The tuning database as plans and listings see it: what they take, and that no file of whatever content costs more than a
warning."""

import json
import os

import pytest
from program import refused, run

ZEROS = "0" * 32


@pytest.fixture(scope="module")
def line(known):
    """line(variant, time_us, ...): a record of the known problem on the simulated device, of an older source."""
    (device,) = run("info", "--json").json["devices"]
    key = known.run("kernels", "--json").json["key"]
    fields = {"format": 1, "key": key, "problem": known.problem, "samples": 2, "source": ZEROS}
    fields |= {name: device[name] for name in ("gpu", "capability", "multiprocessors", "memory", "l2_bytes")}
    fields |= {"simulated": True, "nvrtc": 13000, "status": "ok", "complete": True, "default": False, "spread_us": 0.125}
    fields |= {"timings": 9, "max_error": None, "clock_mhz": 0, "date": "2026-11-29T18:03:11Z"}

    def make(variant, time_us, **others):
        return json.dumps(fields | {"variant": variant, "time_us": time_us} | others) + "\n"

    return make


@pytest.fixture
def database(tmp_path):
    return tmp_path / "tuned.jsonl"


def listed(known, database):
    result = known.run("kernels", "--json", GNFUSE_DB=database)
    assert result.status == 0, result
    taken = [v["name"] for v in result.json["variants"] if v["taken"]]
    default = [v["name"] for v in result.json["variants"] if v["default"]]
    assert len(taken) == len(default) == 1 and default == [known.variant], result
    return taken[0], result.json["match"]


def test_a_plan_takes_what_was_measured(known, line, database):
    assert listed(known, database) == (known.variant, "default")
    names = [v["name"] for v in known.run("kernels", "--json").json["variants"]]
    other = next(n for n in names if n not in (known.variant, known.fallback))
    database.write_text(line(known.variant, 9.5) + line(other, 7.25))
    assert listed(known, database) == (other, "older source")
    result = known.run("kernels", GNFUSE_DB=database)
    (star,) = [row for row in result.out.splitlines() if row.startswith("* " + other)]
    said = f"* taken on this device, by a tuning record (older source); the default rule would take {known.variant}"
    assert said in result.out, (star, result)
    # A plan does, and --db wins over the variable.
    result = known.run("run", "--check", "--json", "--db", database, "--cache-dir", known.warm, GNFUSE_DB="/nonexistent")
    assert (result.status, result.json["variant"], result.json["match"]) == (0, other, "older source"), result
    # One half as fast is passed over, and one that names a GPU is not for the simulator.
    database.write_text(line(known.variant, 7.25) + line(other, 14.5))
    assert listed(known, database) == (known.variant, "older source")
    database.write_text(line(other, 7.25, simulated=False))
    assert listed(known, database) == (known.variant, "default")


def test_entries_of_kernels(known):
    for variant in known.run("kernels", "--json").json["variants"]:
        assert len(variant["entries"]) == variant["kernels"], variant
        assert all(entry.startswith("gnf_") for entry in variant["entries"]), variant


def test_info(line, database):
    def info():
        report = run("info", "--json", GNFUSE_DB=database)
        lines = [row for row in run("info", GNFUSE_DB=database).out.splitlines() if row.startswith("database ")]
        assert lines[0] == f"database shipped: {report.json['database']['shipped']} records", report
        return report, lines[1]

    report, said = info()
    assert report.json["database"] | {"shipped": 0} == {"shipped": 0, "path": str(database), "exists": False, "records": 0}
    assert said == f"database {database}: none" and report.warnings == [], report
    database.write_text(line("a", 1) + line("b", 2))
    report, said = info()
    assert report.json["database"]["records"] == 2 and said == f"database {database}: 2 records", report
    report = run("info", "--json", GNFUSE_DB=None, HOME="/nonexistent", XDG_CONFIG_HOME=None)
    assert report.json["database"]["path"] is None, report
    report = run("info", "--json", GNFUSE_DB=None, XDG_CONFIG_HOME="/somewhere")
    assert report.json["database"]["path"] == "/somewhere/gnfuse/tuned.jsonl", report


@pytest.mark.parametrize(
    ("harm", "warning"),
    [
        (lambda good: good.replace('"time_us": 9.5', '"time_us": "9.5"'), "line 1: time_us is of another type"),
        (lambda good: good.replace('"format": 1', '"format": 2'), "line 1: format = 2 is newer than this library, which reads 1"),
        (lambda good: good[:-40], "line 1 has no end (a write was cut short)"),
        (lambda good: "<html>\n<body>\n" * 99, "none of its 198 lines can be read, all are passed over; line 1: "),
        (lambda good: "\0\1\2\xff\n" * 9, "none of its 9 lines can be read"),
        (lambda good: "x" * 10**6 + "\n" + good, "line 1: the line has more than 16384 bytes"),
    ],
)
def test_damage(known, line, database, harm, warning):
    database.write_bytes(harm(line(known.variant, 9.5)).encode("latin-1"))
    before = database.read_bytes()
    result = known.run("run", "--check", "--json", "--cache-dir", known.warm, GNFUSE_DB=database)
    assert result.status == 0 and result.json["variant"] == known.variant, result
    (said,) = result.warnings
    assert said.startswith(f"gnfuse: warning: tuning database {database}: {warning}"), result
    assert database.read_bytes() == before, "an unknown file is left as it is"


def test_no_file_at_all(known, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, why in (tmp_path, "it is a folder"), (pipe, "it is not a regular file"):
        result = known.run("run", "--check", "--json", "--cache-dir", known.warm, GNFUSE_DB=path)
        assert result.status == 0, result
        assert result.warnings == [f"gnfuse: warning: tuning database {path}: cannot be read: {why}"], result


def test_a_variant_by_name_wins(known, line, database):
    database.write_text(line(known.fallback, 1))
    result = known.run("run", "--check", "--json", "--variant", known.variant, "--cache-dir", known.warm, GNFUSE_DB=database)
    assert (result.json["variant"], result.json["match"]) == (known.variant, "named"), result
    refused(known.run("run", "--variant", "none.such", GNFUSE_DB=database), 2, "none.such")
