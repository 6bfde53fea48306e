"""Rendered sources: self-contained, one entry each, the same wherever they are made; and what a bad template says."""

import locale
import re
import shutil
from pathlib import Path

import jinja2
import pytest

from generator import chain, variants
from generator.__main__ import read_problem_file
from generator.problem import parse
from generator.render import Renderer

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = {parse(t).key: t for t in read_problem_file(ROOT / "tuning/problems.txt")}  # kernels do not depend on N
PROBLEMS = list(SHIPPED.values()) + [
    "f32[8,6,7]:nhwc | silu | groupnorm(3, eps=1e-3) | mul(w: channel) | clamp(-1, 1)",
    "f16[2,24,5,7] | h = leaky_relu(0.25) | groupnorm(24) | add(h) | mul(r: full) | add(s: scalar) | softplus",
    "bf16[2,24,5,7]:nhwc | groupnorm(1) | gelu | max | hardtanh(-0.5, 0.5)",
    "f32[*,8] | relu | groupnorm(8) | elu | min",
    "f32[1,4,70000,70000] | groupnorm(2) | mish | add(x)",
]


def sources_of(renderer, text):
    """(entry, source) of every kernel of a problem, of the shape-generic ones too."""
    problem = parse(text)
    for generic in (False, True):
        for variant in variants.enumerate_variants(problem, renderer.strategies, generic):
            for rule in variant.kernels:
                entry, parts = renderer.kernel(problem, variant, rule["name"])
                yield entry, "".join(parts)


@pytest.fixture(scope="module")
def rendered():
    renderer = Renderer()
    return [pair for text in PROBLEMS for pair in sources_of(renderer, text)]


def test_one_entry_a_source(rendered):
    for entry, source in rendered:
        assert source.count('extern "C"') == source.count("__global__ ") == source.count(entry) == 1
        assert re.fullmatch(r"gnf_[a-z0-9_]+_[0-9a-f]{16}", entry)
        assert re.search(rf'extern "C" __global__ void [^\n]* {entry}\(const __grid_constant__ gnf_kernel_args a\)\n{{', source)
        assert "GNF_ENTRY" not in source


def test_same_entry_same_source(rendered):
    assert len({source for _, source in rendered}) == len({entry for entry, _ in rendered}) == len(set(rendered))


def test_self_contained(rendered):
    for _, source in rendered:
        assert "#include" not in source and "__FILE__" not in source
        assert str(ROOT) not in source and not re.search(r"""["'\s(]/[A-Za-z_]+/""", source)
        assert source.isascii() and not re.search(r"[^\n\x20-\x7e]", source)
        assert not re.search(r"{{|}}|{%|%}|{#", source.replace("{{0", "")), "Jinja2 left over"
        assert not re.search(r"\b(None|True|False|inf|nan)\b", re.sub(r"//.*", "", source)), "Python's spelling"
        assert source.endswith("}\n") and "\n\n\n" not in source


def test_rules_of_the_simulator(rendered):
    """The kernel subset: shared memory through gnf_shared() only, no bare PTX in what is rendered."""
    for _, source in rendered:
        assert source.count("__shared__") == 1
        last = source[source.rindex("// Strategy") :]
        assert "asm" not in last and "__shared__" not in last and "volatile" not in last


def test_passes_see_the_same_values():
    """A GPU's compiler fuses a product with the addition after it, unless the product is kept too: a pass that keeps a
    label would then see other values than the statistics, by 1e-2 after groupnorm of a constant group.
    """
    renderer, stages = Renderer(), "h = scale(1.5) | add(b: channel) | groupnorm(3) | mul(h) | add(x)"
    for x in ("f32[2,24,5,8]", "f32[2,24,5,8]:nhwc", "f32[2,12,160,96]"):
        source = "".join(source for _, source in sources_of(renderer, f"{x} | {stages}"))
        assert "gnf_stage_add_unfused(float v, float r) { return __fadd_rn(v, r); }" in source
        assert not re.search(r"\b[vt]\[j\] - |\[j\] -= ", source)


def test_run_time_numbers_stay_out(rendered):
    """A new bound needs no new kernel."""
    renderer = Renderer()
    one, other = (
        list(sources_of(renderer, f"f32[2,24,5,7] | groupnorm(3, eps={eps}) | hardtanh(-{bound}, {bound}) | sum"))
        for eps, bound in (("1e-5", "0.625"), ("0.0078125", "3.375"))
    )
    assert one == other
    assert all(number not in source for _, source in one for number in ("0.625", "0.0078125", "3.375"))


def test_batch_stays_out():
    renderer = Renderer()
    texts = [f"f32[{n},24,35] | groupnorm(3) | silu" for n in ("*", "7", "1000003")]
    one, *others = (list(sources_of(renderer, text)) for text in texts)
    assert all(one == other for other in others)


def test_same_text_in_any_locale(comma_locale, monkeypatch):
    text = PROBLEMS[-4]
    plain = list(sources_of(Renderer(), text))
    before = locale.setlocale(locale.LC_ALL)
    for name, value in comma_locale.items():
        monkeypatch.setenv(name, value)
    try:
        locale.setlocale(locale.LC_ALL, comma_locale["LC_ALL"])
        assert comma_locale["LC_ALL"] == "C" or locale.str(0.5) == "0,5"
        assert list(sources_of(Renderer(), text)) == plain
        assert parse("f32[2,4] | groupnorm(2, 0.25)").text == "f32[2,4] | groupnorm(2, eps=0.25)"
    finally:
        locale.setlocale(locale.LC_ALL, before)


def test_index_width():
    renderer = Renderer()
    assert all("typedef int gnf_index;" in s for e, s in sources_of(renderer, "f32[2,24,35] | groupnorm(3)") if "generic" not in e)
    assert all("typedef long long gnf_index;" in s for _, s in sources_of(renderer, "f32[1,4,70000,70000] | groupnorm(2)"))


# ---- templates of one's own


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    for template in (tmp_path / "templates").glob("*.cu.j2"):
        template.unlink()
    return tmp_path / "templates"


FRONT = """{#---
about = "one"
[parameters]
threads = [32, 64]
vector = [1]
[limits]
fits = "group_size <= threads"
[prefer]
cost = "threads"
[[kernels]]
block = "threads"
shared = "0"
unit = "group"
---#}
"""


def test_new_strategy_is_one_file(folder):
    (folder / "mine.cu.j2").write_text(FRONT + 'extern "C" __global__ void {{ entry }}() {}\n', encoding="ascii")
    renderer, problem = Renderer(folder), parse("f32[2,4,9] | groupnorm(2)")
    found = variants.enumerate_variants(problem, renderer.strategies)
    assert [v.name for v in found] == ["mine.t32.v1", "mine.t64.v1"]
    entry, parts = renderer.kernel(problem, found[0], "")
    assert entry.startswith("gnf_mine_t32_v1_") and parts[-1] == f'extern "C" __global__ void {entry}() {{}}\n'


def test_undefined_names_are_errors(folder):
    (folder / "mine.cu.j2").write_text(FRONT + "{{ nonsense }}\n", encoding="ascii")
    renderer, problem = Renderer(folder), parse("f32[2,4,9] | groupnorm(2)")
    variant = variants.enumerate_variants(problem, renderer.strategies)[0]
    with pytest.raises(jinja2.UndefinedError, match="nonsense"):
        renderer.kernel(problem, variant, "")


@pytest.mark.parametrize(
    "text, what",
    [
        ("// no front matter\n", "front matter"),
        (FRONT.replace('about = "one"', 'about = "one'), "front matter"),
        (FRONT.replace('about = "one"', ""), "about"),
        (FRONT.replace("[limits]", "[bounds]"), "limits"),
        (FRONT.replace('cost = "threads"', ""), "cost"),
        (FRONT.replace("---#}", "#}"), "front matter"),
    ],
)
def test_front_matter_error_names_the_file(folder, text, what):
    (folder / "mine.cu.j2").write_text(text, encoding="ascii")
    with pytest.raises(ValueError, match=r"mine\.cu\.j2.*" + what):
        Renderer(folder)


# ---- stages


def test_labels_are_kept_only_where_used():
    built = chain.build(parse("f32[2,4] | a = tanh | b = relu | c = groupnorm(2) | d = silu | add(a) | mul(c)"))
    assert [s.keep for s in built.before + built.after] == [True, False, False, False, False]
    assert (built.keep_x, built.keep_norm, built.hold_x) == (False, True, True)
    built = chain.build(parse("f32[2,4] | tanh | add(x) | groupnorm(2) | silu"))
    assert (built.keep_x, built.keep_norm, built.hold_x) == (True, False, False)


def test_templates_are_listed_for_the_build():
    """Meson renders again when a template changes only if it knows of it."""
    listed = re.findall(r"'([^']+\.(?:j2|cuh|h))'", (ROOT / "templates/meson.build").read_text(encoding="ascii"))
    present = [str(p.relative_to(ROOT / "templates")) for p in (ROOT / "templates").rglob("*") if p.is_file()]
    assert sorted(listed) == sorted(p for p in present if p != "meson.build")
    modules = re.findall(r"'([^']+\.py)'", (ROOT / "generator/meson.build").read_text(encoding="ascii"))
    assert sorted(modules) == sorted(p.name for p in (ROOT / "generator").glob("*.py"))


def test_indices_near_two_to_the_31():
    """Rounding a group's size up must not overflow: bf16[1,1,2147483647] left y unwritten with 32-bit indices."""
    renderer = Renderer()
    sizes = [(f"1,{size}", 1, wide) for size, wide in (((1 << 30) - 1, False), (1 << 30, True), ((1 << 31) - 1, True))]
    for size, groups, wide in sizes + [(str(1 << 29), 1 << 27, False), (str(1 << 32), 1 << 30, True)]:  # C counts as well
        problem = parse(f"bf16[1,{size}] | groupnorm({groups})")
        for variant in variants.enumerate_variants(problem, renderer.strategies):
            _, parts = renderer.kernel(problem, variant, variant.kernels[0]["name"])
            assert f"typedef {'long long' if wide else 'int'} gnf_index;" in "".join(parts)
