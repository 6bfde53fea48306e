"""The problem text: against the golden table, under mutation, and against the C parser message by message."""

import ctypes
import math
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator import ops, parser, tables
from generator.problem import DTYPES, ProblemError, Window, parse

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "tests/unit/problems.txt").read_text(encoding="utf-8").split("\n")
ROWS = [line.split("\t") for line in LINES if line and not line.startswith("#")]
OK = [row[1] for row in ROWS if row[0] == "ok"]
PROBE = """
#include "problem.h"
static struct gnf_problem problem;
int probe_parse(const char *text) { return gnf_problem_parse(text, &problem); }
const char *probe_text(void) { return problem.text; }
const char *probe_key(void) { return problem.key; }
const char *probe_chain(void) { return problem.chain; }
const char *probe_message(void) { return gnf_error_message(); }
"""


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] == "ok"], ids=lambda row: row[1][:60])
def test_table_of_legal_texts(row):
    problem = parse(row[1])
    assert [problem.text, problem.key, problem.chain] == row[2:]


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] == "bad"], ids=lambda row: row[1][:60])
def test_table_of_illegal_texts(row):
    with pytest.raises(ProblemError) as raised:
        parse(row[1])
    assert raised.value.column == int(row[2])
    assert row[3] in str(raised.value).split("\n")[0]
    check_caret(row[1], raised.value)


def test_table_has_rows():
    assert {row[0] for row in ROWS} == {"ok", "bad"}
    assert len(OK) >= 40 and len(ROWS) - len(OK) >= 60


def check_caret(text, error):
    """Three lines; the caret stands inside the window, under the byte that the column names."""
    raw = text.encode("utf-8", "surrogateescape")
    _, window, caret = str(error).split("\n")
    assert 1 <= error.column <= len(raw) + 1
    assert len(window) <= 62 and window.isascii()
    assert caret.strip() == "^" and 2 <= caret.index("^") <= len(window)
    if len(raw) <= 60:
        assert caret.index("^") == error.column + 1
    elif error.column <= len(raw) and 32 < raw[error.column - 1] < 127:
        assert window[caret.index("^")] == chr(raw[error.column - 1])


def check_fixed_point(text):
    """The problem, or the error, of any text at all."""
    try:
        problem = parse(text)
    except ProblemError as error:
        check_caret(text, error)
        return error
    again = parse(problem.text)
    assert (again.text, again.key, again.chain) == (problem.text, problem.key, problem.chain)
    assert len(problem.text) <= 1000 and problem.text.isascii()
    for one, other in zip(again.stages, problem.stages, strict=True):
        assert (one.op, one.values, one.label, one.operand) == (other.op, other.values, other.label, other.operand)
    return problem


PIECES = st.one_of(
    st.sampled_from("x09.-+eE|()[]{},:;=*_ \t\n\"'%\\\x00\x01\x7f\xe9"),
    st.sampled_from([" | ", "add(x)", "mul(w: channel)", "h = ", "sum", "mean(all)", "clamp(0, 1)"]),
    st.sampled_from([" | ", "maxpool2d(2)", "linear(8)", "conv2d(4, 1)", "groupnorm(2)", ":nhwc"]),
    st.sampled_from(["eps=", "max=", "1e-3", "-0", "2147483647", "9223372036854775807", "1e39", "nan", "\N{SNOWMAN}"]),
    st.text(max_size=3),
)


@st.composite
def mutations(draw):
    """A legal text with a few spans replaced by pieces, or by spans of other legal texts."""
    text = draw(st.sampled_from(OK))
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(text)))
        end = draw(st.integers(begin, min(len(text), begin + 12)))
        other = draw(st.sampled_from(OK))
        span = draw(st.integers(0, len(other)))
        piece = draw(PIECES | st.just(other[span : span + 16]))
        text = text[:begin] + piece + text[end:]
    return text


@settings(max_examples=600)
@given(mutations())
def test_mutation(text):
    check_fixed_point(text)


@settings(max_examples=100)
@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_text(text):
    assert isinstance(check_fixed_point(text), ProblemError)


def convolved(draw, dtype, channels, stages):
    """A text with the stages behind conv2d, and a maxpool2d behind those but a reduction; between these a full tensor of its own."""
    kernel, stride, padding = (draw(st.integers(least, 4)) for least in (1, 1, 0))
    same = any("(x)" in s for s in stages)  # the output has x's sizes
    kernel, stride, padding = (2 * padding + 1, 1, padding) if same else (kernel, stride, padding)
    sizes = [draw(st.integers(max(1, kernel - 2 * padding), 12)) for _ in range(2)]
    pooled = [(size + 2 * padding - kernel) // stride + 1 for size in sizes]
    named = draw(st.permutations([f"out={channels}", f"kernel={kernel}", f"stride={stride}", f"padding={padding}"]))
    arguments = draw(st.sampled_from([named, [f"{channels}, {kernel}, {stride}, {padding}"]]))
    if dtype == "f32":
        arguments = arguments + draw(st.sampled_from([[], ["tf32"], ["strict"]]))
    stages = [f"conv2d({', '.join(arguments)})", *stages]
    reduces = stages[-1].split("(")[0] in ops.BY_NAME and ops.BY_NAME[stages[-1].split("(")[0]].kind == ops.REDUCTION
    if draw(st.booleans()):
        pool = f"maxpool2d({draw(st.integers(1, min(pooled)))}, {draw(st.integers(0, 3))})"
        stages[len(stages) - reduces : len(stages) - reduces] = [pool] + draw(st.sampled_from([[], ["mul(behind: full)"]]))
    inputs = channels if same else draw(st.integers(1, 40))
    shape = ",".join(map(str, [draw(st.sampled_from(["*", "0", "3"])), inputs, *sizes]))
    return f"{dtype}[{shape}]{draw(st.sampled_from(['', ':nhwc']))} | {' | '.join(stages)}"


@st.composite
def legal_texts(draw):
    """Texts made from the table of operations, so that each row and each spelling of its arguments comes up."""
    names = ["x"]
    stages = []
    elementwise = [op for op in ops.OPS if op.kind in (ops.ELEMENTWISE, ops.BINARY)]
    for index in range(draw(st.integers(0, 6))):
        op = draw(st.sampled_from(elementwise))
        if op.kind == ops.BINARY:
            kind = draw(st.sampled_from(["full", "channel", "scalar"]))
            argument = draw(st.sampled_from(names + [f"{kind[0]}{draw(st.integers(0, 1))}: {kind}"]))
            stage = f"{op.name}({argument})"
        else:
            count = len(op.params)
            numbers = sorted(draw(st.lists(st.floats(-9, 9, width=32), min_size=count, max_size=count)))
            spelled = [f"{p.name}={v!r}" if draw(st.booleans()) else repr(v) for p, v in zip(op.params, numbers)]
            first = next((k for k, s in enumerate(spelled) if "=" in s), len(spelled))
            spelled[first:] = [f"{p.name}={v!r}" for p, v in list(zip(op.params, numbers))[first:]]
            stage = f"{op.name}({', '.join(spelled)})" if spelled else op.name
        if draw(st.booleans()):
            names.append(f"label_{index}")
            stage = f"{names[-1]} = {stage}"
        stages.append(stage)
    channels = inputs = draw(st.integers(1, 40))
    dtype, spatial = draw(st.sampled_from(list(DTYPES))), draw(st.lists(st.sampled_from("0127"), max_size=3))
    groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    at = draw(st.integers(0, len(stages)))
    stages.insert(at, f"groupnorm({groups}, {draw(st.floats(2**-20, 4, width=32))!r})")
    pools = draw(st.booleans()) and not spatial
    if draw(st.booleans()):
        stages.append(draw(st.sampled_from([op.name for op in ops.OPS if op.kind == ops.REDUCTION] + ["mean(all)"] * ("0" not in spatial))))
    if pools:
        return convolved(draw, dtype, channels, stages)
    if draw(st.booleans()):
        inputs, spatial = (channels if any("(x)" in s for s in stages) else draw(st.integers(1, 40))), []
        arguments = [draw(st.sampled_from(["", "out="])) + str(channels)]
        if dtype == "f32" and draw(st.booleans()):
            arguments.append(draw(st.sampled_from(["tf32", "strict"])))
        stages.insert(0, draw(st.sampled_from(["", "label_l = "])) + f"linear({', '.join(arguments)})")
    sizes = [draw(st.sampled_from(["*", "0", "3"])), str(inputs), *spatial]
    layout = draw(st.sampled_from(["", ":nhwc"]))
    return f"{dtype}[{','.join(sizes)}]{layout} | {' | '.join(stages)}"


@settings(max_examples=300)
@given(legal_texts())
def test_legal_text(text):
    problem = check_fixed_point(text)
    assert not isinstance(problem, ProblemError), problem
    assert problem.scalars == sum(p.type == "f" for s in problem.stages for p in s.op.params)
    assert [s.scalar_at for s in problem.stages] == sorted(s.scalar_at for s in problem.stages)
    for stage in problem.stages:
        assert text.encode()[stage.column - 1 :].decode().startswith(stage.op.name)


def test_fields():
    stages = "h = leaky_relu(0.25) | groupnorm(3, 0.5) | add(h) | mul(w: channel) | add(x) | clamp(-1, 2) | max"
    problem = parse(f"f16[*,6,7,2]:nhwc | {stages}")
    assert (problem.dtype, problem.element, problem.channels_last, problem.samples) == ("f16", 2, True, None)
    assert (problem.channels, problem.sizes, problem.spatial) == (6, [7, 2], 14)
    assert (problem.groups, problem.group_channels, problem.group_size) == (3, 2, 28)
    assert (problem.norm, problem.reduction, problem.scalars) == (1, 6, 4)
    assert problem.operands == [("w", "channel")]
    assert [s.label for s in problem.stages] == [None, None, 1, None, 0, None, None]
    assert [s.operand for s in problem.stages] == [None, None, None, 0, None, None, None]
    assert [s.scalar_at for s in problem.stages] == [0, 1, 2, 2, 2, 2, 4]
    assert problem.stages[1].values == [3, 0.5] and problem.stages[5].values == [-1.0, 2.0]
    assert problem.stages[0].name == "h" and problem.stages[1].name == ""
    assert parse("f32[2,4] | groupnorm(2)").reduction is None


def test_fields_of_linear():
    problem = parse("f32[3,10] | y = linear(24) | groupnorm(4) | add(y)")
    assert (problem.inputs, problem.channels, problem.spatial, problem.group_channels) == (10, 24, 1, 6)
    assert (problem.norm, problem.tf32, problem.strict) == (1, False, False)
    assert parse("f32[3,10] | linear(24, tf32) | groupnorm(4)").tf32
    assert parse("f32[3,10] | linear(24, strict) | groupnorm(4)").strict
    plain = parse("f32[3,10] | groupnorm(2)")
    assert (plain.inputs, plain.tf32, plain.strict) == (0, False, False)


def test_fields_of_windows():
    problem = parse("f32[*,4,6,9]:nhwc | conv2d(8, 3, 2, 1, tf32) | groupnorm(2) | maxpool2d(2) | sum")
    assert (problem.inputs, problem.channels, problem.sizes, problem.spatial) == (4, 8, [6, 9], 15)
    assert problem.conv == Window(3, 2, 1, (6, 9), (3, 5)) and problem.pool == Window(2, 2, 0, (3, 5), (1, 2))
    assert (problem.tf32, problem.channels_last, problem.linear, problem.pooling) == (True, True, False, 2)
    assert not problem.reduces_all and parse("f32[2,4] | groupnorm(2) | mean(all)").reduces_all
    plain = parse("f32[2,4,6,6] | groupnorm(2) | max")
    assert (plain.conv, plain.pool, plain.pooling, plain.reduces_all) == (None, None, None, False)


def test_columns_count_bytes():
    text = "f32[4,4] | groupnorm(2) | \N{SNOWMAN}"
    with pytest.raises(ProblemError) as raised:
        parse(text + "add")
    assert raised.value.column == 27
    assert str(raised.value).split("\n")[1] == "  f32[4,4] | groupnorm(2) | ???add"


def test_long_text_is_refused():
    with pytest.raises(ProblemError, match="1 MiB"):
        parse(" " * (1 << 20) + "f32[2,4] | groupnorm(2)")
    assert parse(" " * 5000 + "f32[2,4] | groupnorm(2)").key == "f32[*,4,1] | groupnorm(2)"


# ---- numbers


def strtof():
    function = ctypes.CDLL(None).strtof
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_char_p, ctypes.c_void_p]
    return function


def test_numbers_round_once():
    """glibc's strtof is exact. A double between the text and the float would round near halfway points twice."""
    nearest = strtof()
    draw = random.Random(7)
    for turn in range(1500):
        bits = draw.getrandbits(32)
        value, after = (struct.unpack("f", struct.pack("I", b & 0xFFFFFFFF))[0] for b in (bits, bits + 1))
        if not (math.isfinite(value) and math.isfinite(after)):
            continue
        halfway = (value + after) / 2
        for text in (f"{halfway:.150e}", f"{halfway:.150e}".replace("e", "1e"), f"{halfway:.{turn % 20}e}"):
            expected = nearest(text.encode(), None)
            assert parser.read_float(text) == (expected if math.isfinite(expected) else None), text
        assert parser.read_float(parser.number_text(value)) == value
        assert len(parser.number_text(value)) < 18


@pytest.mark.parametrize(
    "text, value",
    [
        ("16777217", 16777216.0),
        ("16777217." + "0" * 200 + "1", 16777218.0),
        ("1e-45", 2.0**-149),
        ("7.006492321624085e-46", 0.0),
        ("7.0064923216240862e-46", 2.0**-149),
        ("340282356779733661637539395458142568447", 3.4028234663852886e38),
        ("340282356779733661637539395458142568448", None),
        ("0" * 9000 + "1", 1.0),
        ("1" + "0" * 5000 + "e-5000", 1.0),
        ("0e99999999999999999999", 0.0),
        ("1e-99999999999999999999", 0.0),
        ("1e99999999999999999999", None),
        ("1_0", None),
        ("\u0661", None),
        ("", None),
        (".e1", None),
        ("1e+", None),
    ],
)
def test_number(text, value):
    assert parser.read_float(text) == value


def test_negative_zero_keeps_its_sign():
    assert math.copysign(1, parser.read_float("-1e-60")) == -1
    assert parser.number_text(-0.0) == "-0"


def test_whole_numbers():
    assert parser.read_whole("-9223372036854775808") == -(2**63)
    assert parser.read_whole("+" + "0" * 9000 + "12") == 12
    assert [parser.read_whole(t) for t in ("9223372036854775808", "9" * 5000, "", "-", "1 ", "1\n", "\u0661")] == [None] * 7


# ---- the C parser


@pytest.fixture(scope="session")
def c_parser(build):
    sources = [ROOT / "runtime" / f"{stem}.c" for stem in ("problem", "arguments", "shapes", "parser", "spell", "number", "status")]
    include = [f"-I{ROOT / 'runtime'}", f"-I{ROOT / 'runtime/include'}"]
    library = build("problem_probe", PROBE + tables.parser_table(), "-D_GNU_SOURCE", *include, *sources)
    for name in ("text", "key", "chain", "message"):
        getattr(library, f"probe_{name}").restype = ctypes.c_char_p
    return library


def check_parity(c_parser, text):
    raw = text.encode("utf-8", "surrogateescape")
    status = c_parser.probe_parse(ctypes.c_char_p(raw))
    try:
        problem = parse(text)
        mine = [0, problem.text, problem.key, problem.chain]
    except ProblemError as error:
        mine = [1, str(error)]
    if status:
        theirs = [1, c_parser.probe_message().decode("ascii")]
    else:
        theirs = [0] + [getattr(c_parser, f"probe_{name}")().decode("ascii") for name in ("text", "key", "chain")]
    assert mine == theirs


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:60])
def test_same_as_c_on_the_table(c_parser, row):
    check_parity(c_parser, row[1])


def test_same_as_c_on_prefixes(c_parser):
    for text in OK:
        for end in range(len(text)):
            check_parity(c_parser, text[:end])


@settings(max_examples=1500)
@given(mutations().filter(lambda text: "\x00" not in text))
def test_same_as_c_on_mutations(c_parser, text):
    check_parity(c_parser, text)


@settings(max_examples=300)
@given(legal_texts())
def test_same_as_c_on_legal_texts(c_parser, text):
    check_parity(c_parser, text)
