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
    "f32[2,24] | y = linear(24, tf32) | silu | groupnorm(3) | add(y) | mul(x)",
    "f32[2,40000] | linear(24, strict) | groupnorm(8) | logsumexp",
    "bf16[2,7] | linear(40960) | groupnorm(1) | add(r: full)",
    "f32[2,8,12,14] | y = conv2d(32, 3) | groupnorm(8) | tanh | hardswish | add(y) | logsumexp",
    "f32[2,3,9,9] | conv2d(8, 3, 2, 1, tf32) | relu | groupnorm(2) | mul(w: channel) | maxpool2d(2) | clamp(0, 1)",
    "f32[2,8,9,9]:nhwc | conv2d(8, 3, padding=1, strict) | groupnorm(2) | add(x) | mean(all) | tanh",
    "bf16[2,16,9,9]:nhwc | conv2d(24, 3) | groupnorm(3) | maxpool2d(3, 1) | p = silu | add(p) | sum",
    "f16[2,6,8,9] | h = silu | groupnorm(3) | add(h) | maxpool2d(3, 2) | gelu",
    "f32[2,6,8,9]:nhwc | groupnorm(3) | relu | mean(all) | scale(2)",
]


def sources_of(renderer, text):
    """(entry, source) of every kernel of a problem, of the shape-generic ones too."""
    problem = parse(text)
    for generic in (False, True):
        for variant in variants.enumerate_variants(problem, renderer.strategies, generic):
            for _, entry, parts in renderer.kernels(problem, variant):
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


def test_no_variant_is_another():
    """Two of the same kernels and launches would cost a place among the few, and the tuner the same time twice."""
    renderer = Renderer()
    narrow = ["f32[2,3,9,9] | conv2d(5, 3) | groupnorm(1)", "f16[2,64,9,9]:nhwc | conv2d(32, 5) | groupnorm(4) | max"]
    pooled = [
        "f32[2,3,9,9] | conv2d(40, 9) | groupnorm(2) | maxpool2d(1) | mean(all)",
        "bf16[2,8,9,9] | conv2d(40, 2) | groupnorm(2) | maxpool2d(2) | sum",
    ]
    for text in PROBLEMS + narrow + pooled:
        problem, met = parse(text), {}
        for variant in variants.enumerate_variants(problem, renderer.strategies):
            kernels = [(entry, sorted(rule.items())) for rule, entry, _ in renderer.kernels(problem, variant)]
            same = met.setdefault(repr((variant.product and variant.product.manifest, kernels)), variant.name)
            assert same == variant.name, text


def test_self_contained(rendered):
    for _, source in rendered:
        assert "#include" not in source and "__FILE__" not in source
        assert str(ROOT) not in source and not re.search(r"""["'\s(]/[A-Za-z_]+/""", source)
        assert source.isascii() and not re.search(r"[^\n\x20-\x7e]", source)
        assert not re.search(r"{{ | }}|{%|%}|{#", source), "Jinja2 left over"
        assert not re.search(r"\b(None|True|False|inf|nan)\b", re.sub(r"//.*", "", source)), "Python's spelling"
        assert source.endswith("}\n") and "\n\n\n" not in source


def test_rules_of_the_simulator(rendered):
    """The kernel subset: shared memory through gnf_shared() only, no bare PTX in what is rendered."""
    for _, source in rendered:
        assert source.count("__shared__") == 1
        last = source[max(source.rfind("// Strategy"), source.rfind("// Product kernel")) :]
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


def test_inputs_stay_out_of_products():
    """Problems of a dtype share the kernels of their products, whatever their sizes and chains."""
    renderer = Renderer()

    def kernels(text):
        """{name: entries}"""
        found = {}
        for entry, source in sources_of(renderer, text):
            if "// Product kernel" in source:
                found.setdefault(entry.rpartition("_")[0], set()).add(entry)
        return found

    one = kernels("f32[2,24] | linear(40) | groupnorm(4) | silu")
    other = kernels("f32[9,8192] | linear(8192) | groupnorm(16) | mul(w: channel) | sum")
    halves = kernels("f16[2,24] | linear(40) | groupnorm(4) | silu")
    assert {"gnf_dot_1", "gnf_dot_16", "gnf_fma", "gnf_split_inputs_2", "gnf_split_weights_2"} <= set(one) & set(other)
    assert all(len(entries) == 1 for entries in one.values())
    assert all(one[name] == other[name] for name in set(one) & set(other))
    assert {"gnf_dot_1", "gnf_dot_4", "gnf_dot_16", "gnf_fma"} == set(halves)
    assert all(one[name] != halves[name] for name in halves)


def tails_of(renderer, text):
    """{product's name: sources} of a problem's tails, the shape-generic ones left out."""
    problem, found = parse(text), {}
    for variant in variants.enumerate_variants(problem, renderer.strategies):
        sources = ["".join(renderer.kernel(problem, variant, rule["name"])[1]) for rule in variant.kernels]
        found.setdefault(variant.product.name, []).extend(sources)
    return found


def test_tails_are_shared_between_products():
    """A tail depends on the partial sums that it finds, not on who left them there."""
    tails = tails_of(Renderer(), "f32[2,8192] | linear(8192) | groupnorm(16) | silu")
    assert tails["sgemm"] == tails["ffma"] == tails["dot.n1"] == tails["dot.n16"]
    assert tails["fp16x3.s4"] == tails["fp16x3.s4.each"] != tails["wgmma.k256"] == tails["wgmma.k256.each"] != tails["sgemm"]
    tails = tails_of(Renderer(), "f32[2,8192] | linear(8192, tf32) | groupnorm(16) | silu")
    assert tails["fp16x1"] == tails["fp16x1.each"] != tails["tf32"] == tails["sgemm"]


def test_tails_read_the_product():
    """Every kernel of a tail waits first, and takes what linear gives where others read x, which only a label reads."""
    renderer = Renderer()
    for text in (
        "f32[2,96] | linear(64) | groupnorm(4) | silu",
        "f32[2,8] | linear(4096) | groupnorm(1)",
        "f16[2,8] | linear(40960) | groupnorm(1)",
        "f32[2,8] | linear(64) | groupnorm(4) | sum",
    ):
        for sources in tails_of(renderer, text).values():
            for source in sources:
                body = source[source.rindex('extern "C"') :]
                assert "{\n    gnf_wait_for_previous();\n" in body and body.count("gnf_wait_for_previous") == 1
                assert "a.x" not in source and "gnf_input" in source
    sources = tails_of(renderer, "f32[2,64] | y = linear(64) | silu | groupnorm(4) | add(x) | mul(y)")["sgemm"]
    for source in sources:
        assert source.count("(const gnf_element *)a.x + p.at") == 1 and "float label1[V]" in source


def test_sources_without_linear_do_not_know_it():
    """Tuning records are about sources: those of plain problems are the same as before there was a linear."""
    for text in [t for t in PROBLEMS if not re.search("linear|2d", t)][::6]:
        for _, source in sources_of(Renderer(), text):
            assert not re.search(r"gnf_input|gnf_wait|split_weight|column_scale|[Ll]inear", source)
            assert "    float scalar[GNF_KERNEL_SCALARS];\n};\n" in source


def test_sources_without_windows_do_not_know_them():
    """The same of linear and conv2d. Where there is a conv2d or a maxpool2d, the arguments are those of the runtime."""
    renderer, whole = Renderer(), (ROOT / "templates/lib/args.h").read_text(encoding="ascii")
    for _, source in sources_of(renderer, "f32[2,24] | linear(24) | groupnorm(3) | mean(all)"):
        assert "    long long padded;    /* IN rounded up, zeros behind */\n};\n" in source
        assert not re.search(r"a\.(out_)?(height|width|kernel|stride)|conv2d|maxpool2d", source)
    for text in ("f32[2,6,8,9] | groupnorm(3) | maxpool2d(2)", "f32[2,8,9,9] | conv2d(4, 3) | groupnorm(1)"):
        assert all(source.startswith(whole) for _, source in sources_of(renderer, text))


def test_kernels_behind_conv2d():
    """Each waits for the kernel before it. Sizes stay out of the convolution of ffma, but not the layout."""
    renderer = Renderer()

    def kernels(text):
        for entry, source in sources_of(renderer, text):
            body = source[source.rindex('extern "C"') :]
            assert body.count("gnf_wait_for_previous();") == 1, entry
            yield entry, source

    def product(text):
        return {entry for entry, source in kernels(text) if "// Product kernel conv" in source}

    one = product("f32[2,8,12,14] | conv2d(32, 3) | groupnorm(8) | logsumexp")
    assert len(one) == 1 and one == product("f32[*,3,99,7] | conv2d(8, 5, 2, 1, strict) | groupnorm(2) | mul(w: channel)")
    assert one.isdisjoint(product("f32[2,8,12,14]:nhwc | conv2d(32, 3) | groupnorm(8)"))
    assert one.isdisjoint(product("f16[2,8,12,14] | conv2d(32, 3) | groupnorm(8)"))


def test_tails_read_what_conv2d_left():
    renderer = Renderer()
    for text, labels in (("conv2d(8, 3, padding=1) | groupnorm(4) | add(x)", 1), ("y = conv2d(8, 5) | groupnorm(4) | mul(y)", 0)):
        problem = parse(f"f16[2,8,9,9] | {text}")
        for variant in variants.enumerate_variants(problem, renderer.strategies):
            if variant.name.startswith("ffma."):
                for rule in variant.kernels:
                    source = "".join(renderer.kernel(problem, variant, rule["name"])[1])
                    assert "gnf_input" in source and source.count("a.x") == labels


def test_same_text_in_any_locale(comma_locale, monkeypatch):
    text = next(t for t in PROBLEMS if "70000" in t)
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


FIRST = """{#---
about = "one"
first = "conv2d"
capability = 90
[parameters]
lines = [1, 2]
tanh = ["exact", "fast"]
[derived]
bands = "divide_up(out_height, lines)"
most = "max(bands, 3)"
[limits]
word = "tanh == 'exact' or fast_tanh"
[prefer]
cost = "lines"
[product]
sums = "0"
weight_bytes = "channels * inputs * kernel ** 2 * 4"
[[kernels]]
name = "weights"
role = "weights"
block = 64
shared = "0"
unit = "channel"
[[kernels]]
name = "final"
exact = true
cluster = "lines"
block = 128
shared = "most * width"
unit = "sample"
span = "sample"
cap = "bands"
[workspace]
chunk = "32"
---#}
// {{ kernel }}: {{ conv.kernel }} {{ lines }} {{ tanh }} {{ bands }} {{ most }} {{ made }} {{ linear }} {{ out_width }}
"""


def test_new_strategy_that_begins_with_conv2d(folder):
    shutil.copy(ROOT / "templates/split.cu.j2", folder)
    (folder / "mine.cu.j2").write_text(FIRST, encoding="ascii")
    renderer = Renderer(folder)
    problem = parse("f32[2,4,9,10] | conv2d(6, 5, padding=1) | groupnorm(2) | tanh | max")
    found = variants.enumerate_variants(problem, renderer.strategies)
    assert [v.name for v in found][:4] == ["mine.r1.exact", "mine.r1.fast", "mine.r2.exact", "mine.r2.fast"]
    assert len(found) in (6, 7) and all(v.name.startswith("ffma.split.") for v in found[4:])
    assert (found[0].alignment, found[0].workspace, found[0].derived) == (4, 32, {"bands": 7, "most": 7})
    assert (found[0].product.manifest["sums"], found[0].product.manifest["weight_bytes"]) == (0, 6 * 4 * 25 * 4)
    assert (renderer.capability(found[0]), renderer.exact(found[0]), renderer.exact(found[4])) == (90, True, False)
    (weights, _, _), (final, _, parts) = renderer.kernels(problem, found[3])
    plain = {"units_per_block": 1, "tile": 1}
    assert weights == {"name": "weights", "role": "weights", "block": 64, "shared": 0, "unit": "channel", "span": "none", "cap": 1} | plain
    size = {"block": 128, "shared": 40, "unit": "sample", "span": "sample", "cap": 4}
    assert final == {"name": "final", "exact": True, "cluster": 2} | size | plain
    assert parts[-1] == "// final: 5 2 fast 4 4 True False 8\n"
    for text in (problem.text.replace("conv2d(6, 5, padding=1) | ", ""), "f32[2,4] | linear(4) | groupnorm(2) | max"):
        assert all("mine" not in v.name for v in variants.enumerate_variants(parse(text), renderer.strategies))
    assert all("mine" not in v.name for v in variants.enumerate_variants(problem, Renderer().strategies, True))


def test_exact_strategy(folder):
    """All its kernels are exact but those that say otherwise."""
    text = FIRST.replace('first = "conv2d"', 'first = "conv2d"\nexact = true').replace("exact = true\ncluster", "cluster")
    (folder / "mine.cu.j2").write_text(text.replace('role = "weights"', 'role = "weights"\nexact = false'), encoding="ascii")
    strategy = Renderer(folder).strategies[0]
    assert strategy.exact and [row["exact"] for row in strategy.kernels] == [False, True]


BASE = """{#---
[parameters]
lines = [1, 2]
threads = [32]
[derived]
half = "threads // 2"
[limits]
tall = "lines == 1 or half > 16"
---#}
"""


def test_base_of_a_strategy(folder):
    """Its parameters, derived names and limits come before the strategy's own, which may put others in their place."""
    (folder / "lib/mine.cuh.j2").write_text(BASE + "// base {{ half }}\n", encoding="ascii")
    text = FRONT.replace('about = "one"', 'about = "one"\nbase = "mine.cuh.j2"').replace("<= threads", "<= quarter * 4")
    text = text.replace("[limits]", '[derived]\nquarter = "half // 2"\n[limits]')
    (folder / "mine.cu.j2").write_text(text + '{% include "mine.cuh.j2" %}\n', encoding="ascii")
    renderer, problem = Renderer(folder), parse("f32[2,4,9] | groupnorm(2)")
    found = variants.enumerate_variants(problem, renderer.strategies)
    assert [v.name for v in found] == ["mine.r1.t32.v1", "mine.r1.t64.v1", "mine.r2.t64.v1"]
    assert found[2].derived == {"half": 32, "quarter": 16} and list(renderer.strategies[0].limits) == ["tall", "fits"]
    assert renderer.kernel(problem, found[2], "")[1][-1] == "// base 32\n"
    (folder / "lib/mine.cuh.j2").write_text("// nothing\n", encoding="ascii")
    with pytest.raises(ValueError, match=r"mine\.cu\.j2.*mine\.cuh\.j2: no front matter"):
        Renderer(folder)


@pytest.mark.parametrize("name", ["rows", "kernel", "channels"])
def test_parameters_have_names_of_their_own(folder, name):
    """One called like a size of the problem would be taken for it by the parts that a source shares."""
    (folder / "mine.cu.j2").write_text(FRONT.replace("threads = [", f"{name} = [1]\nthreads = ["), encoding="ascii")
    with pytest.raises(ValueError, match=f"mine.cu.j2.*'{name}'"):
        variants.enumerate_variants(parse("f32[2,4,9] | groupnorm(2)"), Renderer(folder).strategies)


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
        (FRONT.replace('unit = "group"', 'unit = "group"\nrole = "weights"'), "role = 'weights': allowed is tail$"),
        (FIRST.replace('first = "conv2d"', 'first = "conv2D"'), "first = 'conv2D': allowed is conv2d"),
        (FIRST.replace('first = "conv2d"', ""), r"\[product\]"),
        (FIRST.replace("[product]", "[produce]"), "product"),
        (FIRST.replace("weight_bytes", "weight_byte"), "weight_bytes"),
        (FIRST.replace('role = "weights"', 'role = "weight"'), "role = 'weight': allowed is tail or weights$"),
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
    assert (built.keep_loaded, built.keep_norm, built.hold_loaded) == (False, True, True)
    built = chain.build(parse("f32[2,4] | tanh | add(x) | groupnorm(2) | silu"))
    assert (built.keep_loaded, built.keep_norm, built.hold_loaded) == (True, False, False)


def test_labels_behind_linear():
    """What is loaded is linear's output, label 1; x is read where a stage wants it, and nothing is held for it."""
    built = chain.build(parse("f32[2,4] | y = linear(4) | relu | groupnorm(2) | add(x)"))
    assert [s.comment for s in built.before + built.after] == ["relu", "add: x"]
    assert (built.loaded, built.keep_loaded, built.hold_loaded) == (1, False, False)
    assert (built.after[0].label, built.after[0].tensor, built.after[0].broadcast) == (None, "x", "full")
    built = chain.build(parse("f32[2,4] | y = linear(4) | relu | groupnorm(2) | add(y)"))
    assert (built.loaded, built.keep_loaded, built.hold_loaded, built.after[0].label) == (1, True, True, 1)
    built = chain.build(parse("f32[2,4] | relu | groupnorm(2) | add(x)"))
    assert (built.loaded, built.keep_loaded, built.hold_loaded, built.after[0].label) == (0, True, True, 0)


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
