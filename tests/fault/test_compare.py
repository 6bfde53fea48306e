"""`gnfuse compare` and `gnfuse bench` on a simulated clock: every variant is a row, whatever becomes of it, and the page is
one that a browser takes as it is."""

import re
import shutil
from html.parser import HTMLParser

import pytest
from broken import replace_once
from tuning_bench import TEN, Bench, problem, rows_of, write_clock

# tuning.py has said where they are.
from generator import variants  # isort: skip
from generator.__main__ import manifest_row  # isort: skip
from generator.problem import parse  # isort: skip
from generator.render import Renderer  # isort: skip

WRONG, REFUSED, UNCOMPILED = 5, 6, 7
SPOILS_X, SPOILS_GUARD = 1, 3
WIDEST = 140
FIELDS = {"name", "strategy", "parameters", "generic", "plan", "default", "status", "ok"}
MEASURED = {"registers", "spills", "shared_bytes", "occupancy", "max_error"}
TIMED = {"time_us", "spread_us", "hot_us", "hot_spread_us", "timing_samples"}


def with_generic(writer):
    renderer, parsed = Renderer(), parse(problem())
    generic = variants.enumerate_variants(parsed, renderer.strategies, True)[:1]
    writer.add(parsed.chain, True, [manifest_row(renderer, writer, parsed, v) for v in generic])
    return rows_of(writer, renderer)


def with_wrong(writer):
    """One variant is another chain's, which forgets the last operation."""
    renderer, other = Renderer(), parse("f32[2,8,16] | groupnorm(2)")
    rows = rows_of(writer, renderer)
    named = {v.name: v for v in variants.enumerate_variants(parse(problem()), renderer.strategies)}
    rows[WRONG] = manifest_row(renderer, writer, other, named[rows[WRONG]["name"]])
    return rows


def with_bad(writer):
    """One asks for more shared memory than the device has, and one is no CUDA."""
    rows = with_wrong(writer)
    rows[REFUSED]["kernels"][0]["shared"] = 250 * 1024
    rows[UNCOMPILED]["kernels"][0] |= {"entry": "gnf_no_kernel", "parts": [writer.part("no kernel <at> all\n")]}
    return rows


def with_spoilers(folder):
    """One writes into x, and one just before it."""

    def make(writer):
        rows = rows_of(writer)
        for variant, place in {SPOILS_X: 0, SPOILS_GUARD: -1}.items():
            templates = folder / f"templates{place}"
            shutil.copytree(variants.TEMPLATES, templates)
            store = "gnf_store(y + place(k).at, v[k]);"
            spoil = f"if (unit + lane + k == 0) ((gnf_element *)a.x)[{place}] = 1000.0f;"
            replace_once(templates, "lib/registers.cuh.j2", store, f"{store}\n            {spoil}")
            rows[variant] = rows_of(writer, Renderer(templates))[variant]
        return rows

    return make


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    b = Bench(tmp_path_factory.mktemp("compare"))
    b.pack("ten", with_generic)
    b.pack("wrong", with_wrong)
    b.pack("spoilers", with_spoilers(b.folder))
    b.build()
    b.pack("bad", with_bad)
    return b


@pytest.fixture
def compare(bench, tmp_path):
    def run(*words, of=None, **settings):
        return bench.run(problem() if of is None else of, tmp_path / "tuned.jsonl", *words, command="compare", **settings)

    return run


def rows(result, name=None):
    found = result.json["variants"]
    return found if name is None else next(r for r in found if r["name"] == name)


# ---- what is in it


def test_without_a_clock_there_is_no_time(bench, compare):
    result = compare()
    assert result.status == 0, result
    lines = result.out.splitlines()
    assert lines[0] == f"problem  {problem()}", result
    assert re.fullmatch(r"device   Simulated sm_90 \(sim\), 132 multiprocessors, driver 13\.0, NVRTC \d+\.\d+", lines[1]), result
    assert "time     none: this was the simulator, whose times mean nothing" in lines, result
    head = next(line for line in lines if line.lstrip().startswith("variant "))
    assert head.split()[-11:] == ["regs", "spill", "shared", "occ", "compile", "error", "cold", "+-", "hot", "+-", "copy"], result
    for name in [*bench.names(), "generic.l1"]:
        (row,) = [line for line in lines if f" {name} " in line[:40]]
        assert row.split()[-5:] == ["-"] * 5 and re.search(r"\de-\d\d", row), row
    assert all(len(line) <= WIDEST for line in lines), result
    assert sum(line.startswith("*") for line in lines) == 2, "one row, and the line that says what * is"

    report = compare("--json").json
    assert report["simulated"] is True and report["device"] == "sim" and report["ok"] is True, report
    assert "copy_us" not in report and report["bytes"] == 4 * (2 * 2 * 8 * 16 + 8 + 8) and report["samples"] == 2, report
    assert len(report["variants"]) == TEN + 1, report
    assert all(FIELDS | MEASURED <= set(v) and not TIMED & set(v) for v in report["variants"]), report


def test_times_are_the_clocks(bench, compare, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {3: 7, 0: 20, 4: 12}, "noise 0.01")
    result = compare("--json", clock=clock)
    assert result.status == 0, result
    found = rows(result)
    assert all(FIELDS | MEASURED | TIMED <= set(v) for v in found), result
    assert [v["time_us"] for v in found] == sorted(v["time_us"] for v in found), "the fastest comes first"
    assert found[0]["name"] == bench.names()[3], result
    for place, us in ((0, 20), (3, 7), (4, 12), (1, 10)):
        row = rows(result, bench.names()[place])
        assert row["time_us"] == pytest.approx(us, rel=0.02) and row["hot_us"] == pytest.approx(us, rel=0.02), row
        assert 0 < row["spread_us"] < 0.05 * us and row["timing_samples"] == 20, row
    assert [v["name"] for v in found if v["generic"]] == ["generic.l1"], result
    text = compare(clock=clock).out
    assert "time     simulated, no GPU's;" in text and "none: this was" not in text, text
    first = next(line for line in text.splitlines() if bench.names()[3] in line)
    assert re.search(r" 7\.0\d +0\.\d\d +[67]\.\d\d +0\.\d\d +-$", first) or re.search(r" 6\.9\d ", first), first
    assert all(len(line) <= WIDEST for line in text.splitlines()), text


def test_marks_what_a_plan_takes(bench, compare, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {3: 7})
    before = compare("--json", clock=clock)
    assert before.json["match"] == "default", before
    (default,) = [v["name"] for v in rows(before) if v["plan"]]
    assert [v["name"] for v in rows(before) if v["default"]] == [default], before
    bench.run(problem(), tmp_path / "tuned.jsonl", clock=clock)
    after = compare("--json", clock=clock)
    assert after.json["match"] == "exact", after
    assert [v["name"] for v in rows(after) if v["plan"]] == [bench.names()[3]], after
    assert [v["name"] for v in rows(after) if v["default"]] == [default], after
    marks = {line[3:].split()[0]: line[:2] for line in compare(clock=clock).out.splitlines() if line[3:4].isalpha() and "." in line}
    assert (marks[bench.names()[3]], marks[default]) == ("* ", " d"), marks


def test_one_variant(bench, compare):
    result = compare("--variant", bench.names()[2], "--json")
    assert [v["name"] for v in rows(result)] == [bench.names()[2]], result
    result = compare("--variant", "nonsense")
    assert result.status == 2 and "nonsense" in result.err and bench.names()[2] in result.err, result


@pytest.mark.parametrize("command", ["compare", "bench"])
def test_times_need_an_n(bench, tmp_path, command):
    for text, word in (("f32[*,8,16] | groupnorm(2) | mish", r"N, so it has to be a number"), (problem(0), "nothing to measure")):
        result = bench.run(text, tmp_path / "tuned.jsonl", command=command)
        assert result.status == 2 and re.search(word, result.err) and result.out == "", result


# ---- failures are rows


def test_a_failure_is_a_row(bench, compare, tmp_path):
    fault, crash, hang = 1, 2, 4
    clock = write_clock(
        tmp_path / "clock",
        bench,
        {},
        *(f"fault {e} 719" for e in bench.entries(fault)),
        *(f"crash {e}" for e in bench.entries(crash)),
        *(f"hang {e}" for e in bench.entries(hang)),
    )
    result = compare("--json", "--hang", "1", name="bad", clock=clock)
    assert result.status == 1 and result.json["ok"] is False and result.json["complete"] is True, result
    wanted = {
        fault: ("failed", r"\(719\)"),
        crash: ("failed", "signal 11"),
        hang: ("hung", "1 s"),
        WRONG: ("wrong", "max error"),
        REFUSED: ("refused", "256000 bytes of shared memory"),
        UNCOMPILED: ("not compiled", "error"),
    }
    found = rows(result)
    for place, (status, why) in wanted.items():
        row = rows(result, bench.names()[place])
        assert row["status"] == status and row["ok"] is False and re.search(why, row["error"]), row
        assert "\n" not in row["error"] and not (TIMED | MEASURED) & set(row), row
    good = len(found) - len(wanted)
    assert [v["ok"] for v in found] == [True] * good + [False] * len(wanted), "failed ones come last"
    assert all(v["time_us"] == pytest.approx(10, rel=0.02) for v in found[:good]), result
    text = compare("--hang", "1", name="bad", clock=clock).out.splitlines()
    lines = [line for line in text if " refused: " in line or " wrong: " in line or " not compiled: " in line]
    assert len(lines) == 3 and all(len(line) <= WIDEST for line in text), text


def test_who_spoils_the_inputs_is_blamed_alone(bench, compare):
    result = compare("--json", name="spoilers")
    wrong = {row["name"]: row["error"] for row in rows(result) if not row["ok"]}
    spoilers = {bench.names()[SPOILS_X]: "changed x, an input", bench.names()[SPOILS_GUARD]: "wrote outside x: byte 1 before its start"}
    assert result.status == 1 and wrong == spoilers, result


def test_a_failure_in_the_midst_of_timing_costs_one_row(bench, compare, tmp_path):
    """What was sampled before it stays; a new process, which counts its kernels anew, samples the rest."""
    clock = write_clock(tmp_path / "clock", bench, {})
    result = compare("--json", clock=clock, CUDASIM_FAIL="kernel:6000=719*")
    lost = [v for v in rows(result) if not v["ok"]]
    assert result.status == 1 and 1 <= len(lost) <= 3, "about 9000 kernels are a whole run"
    assert all(v["status"] == "failed" and "719" in v["error"] and not TIMED & set(v) for v in lost), result
    assert all(v["timing_samples"] == 20 and "hot_us" in v for v in rows(result) if v["ok"]), result


def test_a_device_that_cannot_hold_a_variant_is_no_failure(bench, compare):
    result = compare("--json", "--variant", bench.names()[REFUSED], name="bad")
    assert result.status == 0 and result.json["ok"] is True and rows(result)[0]["status"] == "refused", result


def test_a_clock_that_gives_no_times(bench, compare, tmp_path):
    result = compare("--json", clock=write_clock(tmp_path / "clock", bench, {}, "elapsed * nan"))
    assert result.status == 1 and all(v["status"] == "failed" and "clock" in v["error"] for v in rows(result)), result
    some = compare("--json", clock=write_clock(tmp_path / "some", bench, {}, "elapsed 40 nan", "elapsed 41 0", "elapsed 42 -1"))
    assert some.status == 0 and all(v["time_us"] == pytest.approx(30 if v["generic"] else 10, rel=0.01) for v in rows(some)), some
    assert min(v["timing_samples"] for v in rows(some)) == 19, some


def test_the_budget_ends_it(bench, compare, tmp_path):
    result = compare("--json", "--budget", "0.001", clock=write_clock(tmp_path / "clock", bench, {}))
    assert result.status == 0 and result.json["complete"] is False, result
    assert all(v["status"] == "not measured" and v["ok"] is False for v in rows(result)), result
    assert "not complete: the budget ended it" in compare("--budget", "0.001").out


# ---- the page


class Page(HTMLParser):
    """What a page holds; elements that are not closed in turn fail."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), tuple(self.open)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (self.open, tag, self.getpos())
        self.open.pop()

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def having(self, tag, name=None):
        return [a for t, a, _ in self.tags if t == tag and (name is None or name in a.get("class", "").split())]

    def said(self, tag):
        return "\n".join(self.texts.get(tag, []))


def page_of(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>"), text[:40]
    assert not page.having("script") and not page.having("link") and not page.having("img"), "it asks for nothing"
    for tag, attributes, _ in page.tags:
        assert not {"src", "href", "xlink:href", "action", "srcset"} & set(attributes), (tag, attributes)
        assert not any(k.startswith("on") or "//" in (v or "") for k, v in attributes.items()), (tag, attributes)
    assert not re.search(r"url\(|@import|https?:", page.said("style")), "nor does its style"
    assert "prefers-color-scheme:dark" in page.said("style")
    return page


def test_page(bench, compare, tmp_path):
    clock = write_clock(tmp_path / "clock", bench, {3: 7, 0: 2000}, "time gnf_generic* 4", "noise 0.01")
    path = tmp_path / 'it\'s <b>&"bold".html'
    result = compare("--json", "--html", path, clock=clock)
    assert result.status == 0, result
    page = page_of(path)
    assert len(page.having("svg", "plot")) == 1 and len(page.having("svg", "bar")) == TEN + 1
    assert all(a.get("role") == "img" for a in page.having("svg", "bar") + page.having("svg", "plot"))
    titles = page.said("title")
    assert titles.startswith(f"{problem()} on Simulated sm_90"), titles
    for row in rows(result):
        digits = 2 if row["time_us"] < 100 else 1 if row["time_us"] < 1000 else 0
        assert titles.count(f"{row['name']}: {row['time_us']:.{digits}f} us cold") == 2, "a point and a bar each"
        assert row["name"] in page.said("td"), row
    assert len([t for t, _, inside in page.tags if t == "tr" and "tbody" in inside]) == TEN + 1
    assert page.said("code").split("\n")[0] == problem()
    assert "These times are simulated" in page.said("b")
    # As a shell takes it, and with everything escaped that the file's name has.
    assert page.said("pre").startswith(f"gnfuse compare '{problem()}' --device sim --seed 1"), page.said("pre")
    assert page.said("pre").endswith("/it'\\''s <b>&\"bold\".html'"), page.said("pre")
    assert len(page.having("text", "cut")) == 1, "the bar of the slow one is cut, and says so"


def test_page_of_failures(bench, compare, tmp_path):
    path = tmp_path / "page.html"
    result = compare("--html", path, name="bad", clock=write_clock(tmp_path / "clock", bench, {}))
    assert result.status == 1, result
    page = page_of(path)
    assert len(page.having("svg", "bar")) == TEN - 3 and len(page.having("span", "none")) == 3
    assert len([a for a in page.having("td", "why")]) == 3
    assert "no kernel <at> all" in page.said("td") + page.said("span") or "not compiled" in page.said("td")


def test_page_without_times(bench, compare, tmp_path):
    path = tmp_path / "page.html"
    assert compare("--html", path).status == 0
    page = page_of(path)
    assert not page.having("svg") and "whose times mean nothing" in page.said("p")
    assert all(name in page.said("td") for name in bench.names())


def test_a_page_that_cannot_be_written_costs_no_measuring(compare, tmp_path):
    result = compare("--html", tmp_path / "missing" / "page.html", "--json")
    assert result.status == 2 and result.json["status"] == "GNF_IO", result
    assert "--html" in result.err and "[1/" not in result.err, result


# ---- bench


def test_bench(bench, tmp_path):
    db, clock = tmp_path / "tuned.jsonl", write_clock(tmp_path / "clock", bench, {3: 7}, "noise 0.01")
    bench.run(problem(), db, clock=clock)
    result = bench.run([problem(), problem(4), problem(64)], db, "--json", command="bench", clock=clock)
    assert result.status == 0 and result.json["ok"] is True and result.json["simulated"] is True, result
    found = result.json["problems"]
    assert [p["problem"] for p in found] == [problem(), problem(4), problem(64)], result
    assert [p["match"] for p in found] == ["exact", "other batch", "default"], result
    assert [p["variant"] for p in found[:2]] == [bench.names()[3]] * 2, result
    assert found[0]["bytes"] == 4 * (2 * 2 * 8 * 16 + 8 + 8), result
    assert found[0]["time_us"] == pytest.approx(7, rel=0.02) and 0 < found[0]["spread_us"] < 0.3, result
    assert "copy_us" not in found[0], "a simulated copy is no roofline"
    text = bench.run(problem(), db, command="bench", clock=clock).out
    assert "time     simulated, no GPU's" in text and re.search(
        rf"{re.escape(bench.names()[3])} +exact +{re.escape(problem())}", text
    ), text


def test_bench_without_a_clock_runs_once(bench, tmp_path):
    db = tmp_path / "tuned.jsonl"
    result = bench.run(problem(), db, "--variant", bench.names()[1], "--json", command="bench")
    (one,) = result.json["problems"]
    assert result.status == 0 and one["variant"] == bench.names()[1] and one["match"] == "named", result
    assert not {"time_us", "spread_us", "copy_us"} & set(one), result
    text = bench.run(problem(), db, command="bench").out
    assert "whose times mean nothing; each problem ran once" in text, text
    broken = bench.run(problem(), db, command="bench", CUDASIM_FAIL="kernel:1=719")
    assert broken.status == 4 and "719" in broken.err, broken


def test_bench_says_which_problem_failed(bench, tmp_path):
    result = bench.run([problem(), "f32[2,8] | nonsense"], tmp_path / "tuned.jsonl", command="bench")
    assert result.status == 2 and "nonsense" in result.err and "[1/2]" not in result.err, "wrong texts are told before any work"
