"""What the strategies' front matter allows: for any sizes there is a variant, and every variant fits its problem."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator import render, variants
from generator.problem import DTYPES, parse

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = variants.read_strategies()
SHARED_MOST = 227 * 1024  # bytes a block may ask for where there is most
MAX_KERNELS = 8  # GNF_MAX_KERNELS
REGISTER_FLOATS = 64  # a thread's share of the group
EDGES = [
    ("1,1", 1),
    ("1,2", 1),  # a group of 2
    ("2,8", 8),  # C/G = 1 and one spatial element: a group of 1
    ("1,7,1,1", 7),
    ("0,32,8,8", 8),
    ("3,6,7", 3),
    ("1,1,1048583", 1),
    ("2,32,31,33", 32),
    ("2,24,17,19", 1),
    ("2,24,17,19", 24),
    ("1,96,128,128", 3),  # groups of half a million
    ("1,64,256,256", 1),
    ("1,128,128,128", 1),  # a group of two million
    ("1,1,2097152", 1),
    ("5,1023,5", 341),
    ("*,320,64,64", 32),
    ("*,8192", 16),
    ("1,4,70000,70000", 2),  # a group beyond 32-bit offsets
    ("1,2147483648", 1),
    ("1,65536,4", 65536),
]
WINDOW_TAILS = [" | maxpool2d(1) | relu", " | tanh | maxpool2d(1, 2) | max", " | mean(all)", " | maxpool2d(1, 1) | mean(all) | scale(2)"]
TAILS = ["", " | silu", " | logsumexp", " | tanh | mean | relu"]


def check_variant(problem, variant, generic):
    rows = variants.is_rows(problem)
    assert generic or not problem.linear or rows
    assert variant.strategy.generic == generic
    check_launches(problem, variant)
    if variant.strategy.first:
        return
    values = {key: choices[0] for key, choices in variant.strategy.parameters.items()} | dict(variant.parameters)
    vector, threads, group = values["vector"], values["threads"], problem.group_size
    assert variant.alignment == vector * problem.element <= 16
    assert vector == 1 or not generic
    # A vector stays inside its group's run of memory (its pixel's, for rows), and inside its plane where pixels share one.
    stretch = problem.channels if variant.strategy.name == "rows" else problem.group_channels if rows else group
    assert stretch % vector == 0
    if problem.reduction is not None:
        assert variant.strategy.name in ("split", "generic")
        assert rows or problem.spatial % vector == 0 or problem.reduces_all or problem.pool
        assert threads % values["lanes"] == 0
    if problem.pool:
        assert variant.strategy.name in ("split", "generic")
    if variant.strategy.name == "warp":
        assert values["lanes"] <= 32 and group <= values["lanes"] * values["items"] * vector
    elif variant.strategy.name == "block":
        assert group <= threads * values["items"] * vector
    elif variant.strategy.name == "shared":
        assert variant.kernels[0]["shared"] >= 256 + group * problem.element
    elif variant.strategy.name == "cluster":
        assert variant.kernels[0]["cap"] == values["cluster"] <= group and variant.strategy.capability == 90
        assert (variant.kernels[0]["shared"] - 1024) * values["cluster"] >= group * problem.element
    elif variant.strategy.name == "rows":
        assert threads * vector % problem.channels == 0
    assert values["items"] * vector <= REGISTER_FLOATS
    assert re.fullmatch(r"[a-z_0-9]+(\.[a-z]+[0-9]+)*", variant.tail)


def check_launches(problem, variant):
    assert re.fullmatch(r"[a-z_0-9]+(\.[a-z]+[0-9]*)*", variant.name)
    for rule in variant.kernels:
        fields = {"name", "block", "shared", "unit", "units_per_block", "span", "tile", "cap"}
        assert set(rule) - ({"role", "exact", "cluster"} if variant.strategy.first else set()) == fields
        assert 32 <= rule["block"] <= 1024 and rule["block"] % 32 == 0
        assert 0 <= rule["shared"] <= SHARED_MOST
        assert rule["unit"] in render.UNITS and rule["span"] in render.SPANS
        assert min(rule["units_per_block"], rule["tile"], rule["cap"]) >= 1
    assert variant.workspace % 16 == 0
    if len(variant.kernels) == 1 and not variant.strategy.first:
        assert variant.workspace == 0
    assert (variant.product is not None) == (problem.inputs > 0)


def check_problem(text):
    problem = parse(text)
    for generic in (False, True):
        found = variants.enumerate_variants(problem, STRATEGIES, generic)
        names = [v.name for v in found]
        assert len(set(names)) == len(names)
        assert any(v.alignment == problem.element for v in found)
        assert len(names) <= variants.MOST_VARIANTS + 3
        for variant in found:
            check_variant(problem, variant, generic)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("layout", ["", ":nhwc"])
@pytest.mark.parametrize("sizes, groups", EDGES)
def test_edge_sizes(dtype, layout, sizes, groups):
    for tail in TAILS[1:3]:
        check_problem(f"{dtype}[{sizes}]{layout} | groupnorm({groups}){tail}")


@st.composite
def problems(draw):
    group_channels = draw(st.integers(1, 70) | st.sampled_from([64, 128, 512, 4096]))
    groups = draw(st.integers(1, 40) | st.sampled_from([1, 32, 64]))
    spatial = draw(st.integers(1, 300) | st.integers(1, 2**21) | st.sampled_from([1, 64, 4096, 65536]))
    sizes = f"{draw(st.sampled_from('*2'))},{group_channels * groups},{spatial}"
    layout, dtype = draw(st.sampled_from(["", ":nhwc"])), draw(st.sampled_from(list(DTYPES)))
    before = draw(st.sampled_from(["", "silu | "]))
    return f"{dtype}[{sizes}]{layout} | {before}groupnorm({groups}){draw(st.sampled_from(TAILS))}"


@st.composite
def linear_problems(draw):
    group_channels = draw(st.integers(1, 70) | st.sampled_from([64, 128, 512, 4096]) | st.integers(1, 2**17))
    groups = draw(st.integers(1, 40) | st.sampled_from([1, 32, 64]))
    dtype = draw(st.sampled_from(list(DTYPES)))
    word = draw(st.sampled_from(["", ", tf32", ", strict"])) if dtype == "f32" else ""
    inputs = draw(st.integers(1, 300) | st.integers(1, 2**17))
    return f"{dtype}[*,{inputs}] | linear({group_channels * groups}{word}) | groupnorm({groups}){draw(st.sampled_from(TAILS))}"


@settings(max_examples=60)
@given(linear_problems())
def test_any_linear(text):
    check_linear(text)


LINEAR = [
    ("f32[*,1] | linear(1) | groupnorm(1)", ["s1"]),
    ("f32[*,2048] | linear(8) | groupnorm(8)", ["s1"]),
    ("f32[*,2049] | linear(8) | groupnorm(1)", ["s2"]),
    ("f32[*,8192] | linear(8192) | groupnorm(16)", ["s4"]),
    ("f32[*,16384] | linear(30) | groupnorm(3)", ["s8"]),
    ("f32[*,32768] | linear(33) | groupnorm(3) | sum", ["s16"]),
    ("f32[*,32769] | linear(33) | groupnorm(3)", []),
    ("f32[*,512] | linear(33, strict) | groupnorm(3)", []),
]


@pytest.mark.parametrize("text, chunks", LINEAR)
def test_chunks_of_k(text, chunks):
    """A partial sum takes no more of K than its precision allows; more chunks than that cost time."""
    found = {v.product.name.split(".")[1] for v in check_linear(text) if v.product.method == "fp16x3"}
    assert found == set(chunks)


def test_products_by_precision():
    """Each of these in its order: the first that is legal and meant for N is the default rule's."""

    def names(x, word=""):
        return list(dict.fromkeys(v.product.name for v in check_linear(f"{x}[*,256] | linear(64{word}) | groupnorm(4)")))

    dots, splits = ["dot.n1", "dot.n4", "dot.n16"], ["wgmma.k128", "fp16x3.s1"]
    assert names("f32") == [*dots, *splits, *(f"{name}.each" for name in splits), "sgemm", "ffma"]
    assert names("f32", ", strict") == dots + ["sgemm", "ffma"]
    assert names("f32", ", tf32") == dots + ["fp16x1", "fp16x1.each", "tf32", "sgemm", "ffma"]
    assert names("f16") == names("bf16") == ["dot.n1", "gemm", "dot.n4", "dot.n16", "ffma"]


def test_tails_of_a_product():
    """A few that differ in more than their threads; --variants asks for more."""
    problem = parse("f32[*,8192] | linear(8192) | groupnorm(512)")

    def tails(most):
        return [v.tail for v in variants.enumerate_variants(problem, STRATEGIES, most=most) if v.product.name == "sgemm"]

    assert len(tails(24)) <= 5 < len(tails(100)) and tails(1)[0] == tails(100)[0]
    assert len({re.sub(r"\.t[0-9]+", "", tail) for tail in tails(100)}) == len(tails(100))
    assert tails(24)[:2] == ["warp.t256.l2.v4.i2", "warp.t256.l4.v4.i1"], "lanes without work cost"


def check_linear(text):
    problem, all_found = parse(text), []
    for generic in (False, True):
        found = variants.enumerate_variants(problem, STRATEGIES, generic)
        all_found += [] if generic else found
        assert len({v.name for v in found}) == len(found)
        by_product = {}
        for v in found:
            by_product.setdefault(v.product, []).append(v)
            check_variant(problem, v, generic)
            assert v.name == f"{v.product.name}.{v.tail}" and v.strategy.name in ("warp", "block", "split", "generic")
            assert len(v.product.kernels) + len(v.kernels) <= MAX_KERNELS
        for product, rest in by_product.items():
            assert any(v.alignment == problem.element for v in rest), "the pointers of the day may be worse than planned for"
            assert len(rest) <= variants.MOST_VARIANTS // variants.PRODUCTS + 1
            assert product.most == 0 or product.least <= product.most == product.samples_max
            assert (product.weights == "given") == (not product.scaled) and product.chunks <= 16
            if product.method == "fp16x3":
                assert not problem.strict and (product.inputs_max or -(-problem.inputs // 128) * 128) <= product.chunks * 2048
        # Without cuBLASLt and a prepared weight there is one for every N.
        own = [p for p in by_product if p.method == "own"]
        assert all(any(p.least <= n and (p.most == 0 or n <= p.most) for p in own) for n in range(1, 40))
        assert found[-1].product.name == "ffma" and (found[-1].product.least, found[-1].product.samples_max) == (1, 0)
    return all_found


@settings(max_examples=60)
@given(problems())
def test_any_sizes(text):
    check_problem(text)


def check_conv2d(text):
    """Those that begin with the convolution, then the tails of ffma, which serve whatever the others leave out."""
    problem, all_found = parse(text), []
    for generic in (False, True):
        found = variants.enumerate_variants(problem, STRATEGIES, generic)
        all_found += [] if generic else found
        assert len({v.name for v in found}) == len(found)
        first = [v for v in found if v.strategy.first]
        tails = found[len(first) :]
        for v in found:
            check_variant(problem, v, generic)
            assert v.name == (v.tail if v in first else f"ffma.{v.tail}") and len(v.product_kernels) + len(v.kernels) <= MAX_KERNELS
        assert tails and all(v.product.name == "ffma" and not v.strategy.first for v in tails)
        assert any(v.alignment == problem.element for v in tails) and len(tails) <= 3
        assert all(v.product.manifest["weights"] == "given" and v.product.sums == 1 for v in tails)
        assert len(first) <= variants.MOST_VARIANTS + 2 * variants.FIRST and not (first and (generic or problem.strict))
        assert generic or problem.strict or any(v.strategy.name == "conv2d_stored" for v in first)
        for v in first:
            roles = [k.get("role", "tail") for k in v.kernels]
            assert roles == sorted(roles, reverse=True) and roles[-1] == "tail" and roles.count("inputs") == 0
            assert ("weights" in roles) == (v.product.weight_bytes > 0)
            assert v.alignment in (problem.element, 4, 8, 16) and v.strategy.exact == any("exact" in k for k in v.kernels)
            assert v.product.method == "own" and v.product.weights == "each"
            if shares := v.derived.get("shares"):  # each has channels
                width = v.derived["teams"] * v.derived["wide"]
                assert (shares - 1) * width < problem.channels <= shares * width and width <= 256
            names = {k["name"] for k in v.kernels if k["span"] != "none"}
            assert names and (v.product.sums == 1) == (v.strategy.name == "conv2d_stored")
    return all_found


@st.composite
def conv2d_problems(draw):
    group_channels = draw(st.integers(1, 20) | st.sampled_from([4, 8, 32, 100]))
    groups = draw(st.integers(1, 16) | st.sampled_from([1, 4, 16]))
    dtype = draw(st.sampled_from(list(DTYPES)))
    word = draw(st.sampled_from(["", ", tf32", ", strict"])) if dtype == "f32" else ""
    kernel, stride, padding = draw(st.integers(1, 7)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    inputs = draw(st.integers(1, 40) | st.sampled_from([3, 8, 16, 64, 512]))
    sizes = [draw(st.integers(kernel, 40) | st.integers(kernel, 1000) | st.sampled_from([32, 128])) for _ in range(2)]
    layout, tail = draw(st.sampled_from(["", ":nhwc"])), draw(st.sampled_from([*TAILS, *WINDOW_TAILS]))
    head = f"conv2d({group_channels * groups}, {kernel}, {stride}, {padding}{word})"
    return f"{dtype}[*,{inputs},{sizes[0]},{sizes[1]}]{layout} | {head} | groupnorm({groups}){tail}"


@settings(max_examples=40)
@given(conv2d_problems())
def test_any_conv2d(text):
    check_conv2d(text)


@pytest.mark.parametrize("layout", ["", ":nhwc"])
@pytest.mark.parametrize("tail", [" | sum", " | maxpool2d(2) | max"])
@pytest.mark.parametrize("out", [1, 3])
def test_fewer_channels_than_a_vector(out, tail, layout):
    for dtype in ("f32", "f16"):
        check_conv2d(f"{dtype}[2,4,9,8]{layout} | conv2d({out}, 3) | groupnorm(1){tail}")


@pytest.mark.parametrize("layout", ["", ":nhwc"])
@pytest.mark.parametrize("tail", WINDOW_TAILS)
@pytest.mark.parametrize("sizes, groups", [("2,6,1,1", 3), ("2,64,5,7", 4), ("1,2,600,900", 1), ("*,320,64,64", 32), ("0,1,3,1", 1)])
def test_windows_without_conv2d(sizes, groups, layout, tail):
    for dtype in ("f32", "bf16"):
        check_problem(f"{dtype}[{sizes}]{layout} | groupnorm({groups}){tail}")


@pytest.mark.parametrize("tail", [" | mean(all)", " | gelu"])
@pytest.mark.parametrize("out", [48, 6150])
def test_tails_of_linear(out, tail):
    """Registers hold a group of 6150 by two elements a read, but not by one: that one the strategy split has to do."""
    check_linear(f"f32[*,24] | linear({out}) | groupnorm(1){tail}")


def test_conv2d_by_words():
    """tf32 and halves have what the default has, strict sums in fp32 alone."""

    def strategies(x, word=""):
        return {v.strategy.name for v in check_conv2d(f"{x} | conv2d(64, 3{word}) | groupnorm(16) | tanh | logsumexp") if v.strategy.first}

    x = "f32[128,8,128,128]"
    assert "conv2d_fused" in strategies(x) and strategies(x, ", strict") == set()
    for other in (strategies(x, ", tf32"), strategies("f16[128,8,128,128]"), strategies("bf16[2,8,128,128]:nhwc")):
        assert "conv2d_fused" in other


@pytest.mark.parametrize(
    "text, shares",
    [
        ("f32[8,64,32,32] | conv2d(256, 3)", 1),
        ("f32[8,64,32,32] | conv2d(300, 3)", 2),
        ("f32[8,64,32,32] | conv2d(96, 7)", 1),  # beyond what every device has, but not beyond the most
        ("f32[8,64,32,32] | conv2d(256, 5)", 4),
        ("f32[8,64,32,32] | conv2d(512, 5)", 8),
        ("f16[8,64,32,32] | conv2d(256, 7)", 4),
        ("f32[8,3,224,224] | conv2d(64, 11, 4, 2)", 4),
    ],
)
def test_weights_that_shared_memory_does_not_hold(text, shares):
    """They come in shares of the output channels, more than every 256 would need."""
    stored = [v for v in check_conv2d(f"{text} | groupnorm(2)") if v.strategy.name == "conv2d_stored"]
    assert len(stored) >= variants.MOST_VARIANTS // variants.FIRST and {v.derived["shares"] for v in stored} == {shares}


def test_each_value_of_each_parameter_is_checked():
    """By tests/numerics: some that are the default rule's for real problems are so for none of its small ones."""
    lines = (ROOT / "tests/numerics/conv2d_each.txt").read_text(encoding="ascii").splitlines()
    lines = [line.split("\t") for line in lines if not line.startswith("#")]
    checked = set()
    for text in dict.fromkeys(text for text, _ in lines):
        found = {v.name: v for v in variants.enumerate_variants(parse(text), STRATEGIES, most=1 << 20)}
        for variant in [found[name] for other, name in lines if other == text]:
            checked.update((variant.strategy.name, *parameter) for parameter in variant.parameters)
    first = [s for s in STRATEGIES if s.first]
    assert checked >= {(s.name, name, value) for s in first for name, values in s.parameters.items() for value in values}


def test_strategies_that_begin_with_conv2d_share_the_places():
    """The cheapest come first; each strategy, any device, any pointer and any choice of words keep some."""
    split = next(s for s in STRATEGIES if s.name == "split")
    kernel = split.kernels[0] | dict.fromkeys(("block", "units_per_block", "tile"), "32")
    made = {"first": "conv2d", "product": {"sums": "0", "weight_bytes": "4"}, "limits": {}, "derived": {}}

    def strategy(name, cost, shared, alignment, exact=False):
        fields = {"parameters": {"number": list(range(40))}, "prefer": f"{cost} + number / 100", "alignment": alignment}
        return dataclasses.replace(split, name=name, exact=exact, kernels=(kernel | {"shared": shared},), **made | fields)

    mine = [
        strategy("a", 5, "0", "16", exact=True),
        strategy("b", 10, "200 * 1024 if number < 10 else 1024", "16 if number < 20 else element"),
        strategy("c", 20, "1024", "element"),
        split,
    ]
    problem = parse("f32[2,3,9,9] | conv2d(8, 3) | groupnorm(2) | max")
    found = variants.enumerate_variants(problem, mine)
    numbers = [(v.strategy.name, dict(v.parameters).get("number")) for v in found]
    kept = [*range(8), 10, 20]  # the cheapest of the strategy, for any device, for any pointer
    assert numbers[:26] == [("a", n) for n in range(8)] + [("b", n) for n in kept] + [("c", n) for n in range(8)]
    assert {name for name, _ in numbers[26:]} == {"split"}
    few = [(v.strategy.name, dict(v.parameters).get("number")) for v in variants.enumerate_variants(problem, mine, most=1)]
    assert few == [("a", 0), ("b", 0), ("b", 10), ("b", 20), ("c", 0), ("split", None)]
    word = {"how": ["one", "other"], "number": list(range(4))}
    mine[0] = dataclasses.replace(mine[0], parameters=word, prefer="number / 100 + (0 if how == 'one' else 1)")
    few = variants.enumerate_variants(problem, mine, most=3)
    assert [v.name for v in few if v.strategy.name == "a"] == ["a.one.number0", "a.other.number0"]


def test_where_exponentials_are_mixed():
    """Behind a tanh that may be fast, into a logsumexp."""

    def mixed(stages):
        found = variants.enumerate_variants(parse(f"f32[2,8,64,64] | y = conv2d(64, 3) | groupnorm(16) | {stages}"), STRATEGIES)
        return {dict(v.parameters)["functions"] for v in found if v.strategy.name == "conv2d_wgmma"}

    assert mixed("tanh | hardswish | add(y) | logsumexp") == {"fast", "exact", "mixed"}
    assert mixed("tanh | max") == {"fast", "exact"} and mixed("silu | logsumexp") == mixed("tanh | scale(2) | logsumexp") == {"exact"}


def test_rows_of_conv2d():
    """Specialised kernels know that a sole pixel's channels are neighbours; generic ones go by the text."""
    one = parse("f32[2,3,4,4] | conv2d(8, 4) | groupnorm(2)")
    assert variants.is_rows(one) and not variants.is_rows(one, True)
    last = parse("f32[2,3,4,4]:nhwc | conv2d(1, 3) | groupnorm(1)")
    assert not variants.is_rows(last) and variants.is_rows(last, True)


def test_letters_of_parameters():
    """Numbers have one in a variant's name, and in one name no two have the same; words stand for themselves."""
    for strategy in STRATEGIES:
        numbers = [name for name, values in strategy.parameters.items() if not isinstance(values[0], str)]
        letters = [variants.LETTERS[name] for name in numbers]
        words = [v for values in strategy.parameters.values() for v in values if isinstance(v, str)]
        assert len(set(letters)) == len(letters) and len(set(words)) == len(words)
        assert all(len(letter) == 1 for letter in letters) and all(re.fullmatch("[a-z]+[0-9]*", word) for word in words)


def test_same_order_every_time():
    problem = parse("f16[2,320,64,64] | groupnorm(32) | silu")
    first = [v.name for v in variants.enumerate_variants(problem, STRATEGIES)]
    again = [v.name for v in variants.enumerate_variants(problem, list(reversed(STRATEGIES)))]
    assert first == again


def test_order_of_preference():
    """The first variant reads wide where it can, and holds a small group in registers."""
    widest = variants.enumerate_variants(parse("f32[2,320,16,16] | groupnorm(32)"), STRATEGIES)[0]
    assert widest.alignment == 16 and widest.strategy.name in ("warp", "block")
    large = variants.enumerate_variants(parse("f32[2,64,512,512] | groupnorm(8)"), STRATEGIES)[0]
    assert large.strategy.name == "split"


def test_nothing_to_launch():
    assert variants.enumerate_variants(parse("f32[2,4,0] | groupnorm(2)"), STRATEGIES) == []


def test_scope_of_expressions():
    scope = variants.names(parse("f16[2,24,5,7]:nhwc | groupnorm(3)"))
    assert (scope["group_size"], scope["group_channels"], scope["rows"], scope["widest"]) == (280, 8, True, 8)
    scope = variants.names(parse("f32[2,24,5,7] | groupnorm(3)"))
    assert (scope["rows"], scope["widest"], scope["vector_divides"](8)) == (False, 4, True)
    assert variants.names(parse("f16[2,6,7]:nhwc | groupnorm(1)"))["widest"] == 2
    assert scope["round_up"](5, 4) == 8 and scope["divide_up"](5, 4) == 2 and math.isclose(scope["log2"](8), 3)
    assert (scope["shared_anywhere"], scope["shared_most"]) == (99 * 1024, SHARED_MOST)
    bits = re.search(r"GNF_CONV_SLAB = (\d+) << (\d+)", (ROOT / "runtime/linear.h").read_text(encoding="ascii"))
    assert scope["conv_slab"] == int(bits[1]) << int(bits[2])
    assert not (scope["conv"] or scope["pool"] or scope["made"] or scope["linear"] or scope["mean_all"])
    assert (scope["height"], scope["width"], scope["out_height"], scope["kernel"], scope["inputs"]) == (5, 7, 5, 0, 0)
    scope = variants.names(parse("f32[2,3,9,10] | conv2d(8, 3, 2, 1, tf32) | groupnorm(4) | maxpool2d(2, 1) | mean(all)"))
    assert (scope["inputs"], scope["channels"], scope["kernel"], scope["stride"], scope["padding"]) == (3, 8, 3, 2, 1)
    assert (scope["height"], scope["width"], scope["out_height"], scope["out_width"]) == (9, 10, 5, 5)
    assert (scope["pool_kernel"], scope["pool_stride"], scope["pooled_height"], scope["pooled_width"]) == (2, 1, 4, 4)
    assert scope["made"] and scope["conv"] and scope["pool"] and scope["mean_all"] and scope["tf32"] and not scope["linear"]
    assert (scope["group_size"], scope["spatial"], scope["strict"], scope["dtype"]) == (50, 25, False, "f32")
    scope = variants.names(parse("f32[2,3] | linear(8, strict) | groupnorm(4)"))
    assert scope["made"] and scope["linear"] and scope["strict"] and not scope["conv"] and scope["height"] == 0


def test_number_of_variants():
    """More and fewer than the default, cheapest first, what every device and pointer needs always among them."""
    problem = parse("f16[2,64,1024]:nhwc | groupnorm(8)")
    names = {n: [v.name for v in variants.enumerate_variants(problem, STRATEGIES, most=n)] for n in (1, 24, 400)}
    assert len(names[1]) <= 4 and len(names[24]) <= 27 < len(names[400])
    assert names[24][:24] == names[400][:24] and names[1][0] == names[24][0]
    assert names[24] == [v.name for v in variants.enumerate_variants(problem, STRATEGIES)]
    for most in (1, 400):
        found = variants.enumerate_variants(problem, STRATEGIES, most=most)
        assert any(v.alignment == problem.element for v in found)
