"""Problem text -> Problem. The same grammar, messages and canonical forms as runtime/problem.c (tests/unit/problems.txt)."""

import math
import re
import struct
from dataclasses import dataclass, field

from generator import ops

DTYPES = {"f32": 4, "f16": 2, "bf16": 2}  # bytes
MAX_STAGES, MAX_OPERANDS, MAX_SCALARS, MAX_TEXT = 24, 6, 16, 640
LARGEST = 2**63 - 1
RESERVED = ("x", "y", "gamma", "beta", "weight", "bias")
BROADCASTS = ("full", "channel", "scalar")


class ProblemError(ValueError):
    """What is wrong, what is allowed, and the text with a caret under the character."""

    def __init__(self, message, text, column):
        self.column = column  # 1-based, in bytes
        begin = max(0, column - 41)
        super().__init__(f"{message}\n  {text[begin:begin + 60]}\n  {' ' * (column - 1 - begin)}^")


@dataclass
class Stage:
    op: ops.Op
    values: list  # in the order of op.params
    label: int = None  # binary: 0 for x, k for the output of stages[k - 1]
    operand: int = None  # binary: index into Problem.operands
    scalar_at: int = 0  # index of its first run-time scalar
    column: int = 1


@dataclass
class Problem:
    dtype: str
    channels_last: bool
    samples: int  # None for *
    channels: int
    sizes: list  # spatial
    stages: list = field(default_factory=list)
    operands: list = field(default_factory=list)  # (name, broadcast)
    scalars: int = 0
    text: str = ""
    key: str = ""
    chain: str = ""

    @property
    def spatial(self):
        return math.prod(self.sizes)

    @property
    def norm(self):
        """Index of the groupnorm stage."""
        return next(k for k, s in enumerate(self.stages) if s.op.kind == ops.GROUPNORM)

    @property
    def reduction(self):
        """Index of the reduction stage, or None."""
        return next((k for k, s in enumerate(self.stages) if s.op.kind == ops.REDUCTION), None)

    @property
    def groups(self):
        return self.stages[self.norm].values[0]

    @property
    def group_channels(self):
        return self.channels // self.groups

    @property
    def group_size(self):
        """Elements a group."""
        return self.group_channels * self.spatial

    @property
    def element(self):
        """Bytes an element."""
        return DTYPES[self.dtype]


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def number_text(value):
    """Shortest decimal that gives the same float32; an exponent only below 1e-4 and from 1e9."""
    value = float32(value)
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    digits = next(t for t in (f"{value:.{p}e}" for p in range(9)) if float32(float(t)) == value)
    mantissa, exponent = digits.split("e")
    exponent = int(exponent)
    if -4 <= exponent < 9:
        places = max(0, len(mantissa.lstrip("-").replace(".", "")) - 1 - exponent)
        return f"{float(digits):.{places}f}"
    return f"{mantissa}e{exponent}"


class _Parser:
    def __init__(self, text):
        self.text, self.at = text, 0
        self.labels = {"x": 0}
        self.used = set()

    def fail(self, message, at=None):
        raise ProblemError(message, self.text, (self.at if at is None else at) + 1)

    def space(self):
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def take(self, mark):
        self.space()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def need(self, mark, where):
        if not self.take(mark):
            self.fail(f"expected '{mark}' {where}")

    def word(self):
        self.space()
        found = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").match(self.text, self.at)
        if not found:
            return ""
        self.at = found.end()
        return found.group()

    def number(self, what):
        """(value, is_whole) of a decimal number; infinities and NaN have no spelling."""
        self.space()
        found = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?").match(self.text, self.at)
        if not found:
            self.fail(f"{what}: expected a number")
        start, text = self.at, found.group()
        self.at = found.end()
        whole = re.fullmatch(r"[+-]?\d+", text) is not None
        if whole and abs(int(text)) > LARGEST:
            self.fail(f"{what}: {text} does not fit 63 bits", start)
        return (int(text) if whole else float(text)), whole

    def size(self, what, lowest):
        start = self.at
        self.space()
        start = self.at
        value, whole = self.number(what)
        if not whole or value < lowest:
            self.fail(f"{what} is {self.text[start:self.at]}: allowed are whole numbers from {lowest}", start)
        return value

    def input(self):
        self.space()
        start = self.at
        dtype = self.word()
        if dtype not in DTYPES:
            self.fail(f"unknown dtype '{dtype}': allowed are f32, f16, bf16", start)
        self.need("[", "after the dtype")
        self.space()
        samples = None if self.take("*") else self.size("N", 0)
        sizes = []
        while self.take(","):
            self.space()
            start = self.at
            if len(sizes) == 4:
                self.fail("too many sizes: allowed are [N, C] and up to 3 spatial sizes", start)
            if self.text[self.at : self.at + 1] == "*":
                self.fail("* is allowed only for N", start)
            sizes.append(self.size("C" if not sizes else "a spatial size", 1 if not sizes else 0))
        if not sizes:
            self.fail("too few sizes: allowed are [N, C] and up to 3 spatial sizes")
        self.need("]", "after the sizes")
        channels_last = False
        if self.take(":"):
            start = self.at
            layout = self.word()
            if layout not in ("nhwc", "nchw"):
                self.fail(f"unknown layout '{layout}': allowed are nchw, nhwc", start)
            channels_last = layout == "nhwc"
        problem = Problem(dtype, channels_last, samples, sizes[0], sizes[1:])
        if math.prod([samples or 1] + sizes) * DTYPES[dtype] > LARGEST:
            self.fail("the tensor is too large: its bytes do not fit 63 bits", 0)
        return problem

    def stage(self, problem):
        self.space()
        start = self.at
        name = self.word()
        label = None
        if self.take("="):
            label = name
            if not re.fullmatch(r"[a-z_][a-z0-9_]*", label):
                self.fail(f"label '{label}': allowed are names of a-z, 0-9 and _", start)
            if label in self.labels or label in ops.BY_NAME:
                self.fail(f"label '{label}' is taken", start)
            self.space()
            start = self.at
            name = self.word()
        if name not in ops.BY_NAME:
            self.at = start
            self.fail(f"unknown stage '{name}': allowed are {', '.join(ops.BY_NAME)}")
        op = ops.BY_NAME[name]
        stage = Stage(op, [p.default for p in op.params], scalar_at=problem.scalars, column=start + 1)
        if len(problem.stages) == MAX_STAGES:
            self.fail(f"too many stages: at most {MAX_STAGES} are allowed", start)
        if op.kind == ops.BINARY:
            self.binary(problem, stage)
        else:
            self.parameters(stage)
        problem.scalars += sum(p.type == "f" for p in op.params)
        if problem.scalars > MAX_SCALARS:
            self.fail(f"too many run-time scalars: at most {MAX_SCALARS} are allowed", start)
        problem.stages.append(stage)
        self.check(problem, stage)
        if label:
            self.labels[label] = len(problem.stages)

    def binary(self, problem, stage):
        op = stage.op.name
        self.need("(", f"after {op}")
        self.space()
        start = self.at
        name = self.word()
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            self.fail(f"{op}: expected a label or NAME: full, channel or scalar", start)
        if self.take(":"):
            self.space()
            kind_at = self.at
            kind = self.word()
            if kind not in BROADCASTS:
                self.fail(f"{op}: {name} is '{kind}': allowed are full, channel, scalar", kind_at)
            if name in self.labels or name in RESERVED or name in ops.BY_NAME:
                self.fail(f"{op}: the name '{name}' is taken", start)
            known = dict(problem.operands)
            if known.get(name, kind) != kind:
                self.fail(f"{op}: {name} is {kind} here and {known[name]} before", kind_at)
            if name not in known:
                if len(problem.operands) == MAX_OPERANDS:
                    self.fail(f"too many tensor arguments: at most {MAX_OPERANDS} are allowed", start)
                problem.operands.append((name, kind))
            stage.operand = [n for n, _ in problem.operands].index(name)
        else:
            if name not in self.labels:
                self.fail(f"{op}: unknown label '{name}': allowed are {', '.join(self.labels)}, or a tensor as in {op}({name}: full)", start)
            stage.label = self.labels[name]
            self.used.add(stage.label)
        self.need(")", f"after the argument of {op}")

    def parameters(self, stage):
        op, given = stage.op, set()
        if self.take("("):
            position = 0
            while not self.take(")"):
                if given:
                    self.need(",", f"or ')' in {op.name}")
                self.space()
                start = self.at
                name = self.word()
                param = next((p for p in op.params if p.name == name), None)
                if name and param and param.type == "w":
                    value = 1
                elif name:
                    if not param:
                        allowed = ", ".join(p.name for p in op.params) or "none"
                        self.fail(f"{op.name} has no parameter '{name}': allowed are {allowed}", start)
                    self.need("=", f"after {name}")
                else:
                    plain = [p for p in op.params if p.type != "w"]
                    if position >= len(plain):
                        self.fail(f"{op.name}: too many parameters: at most {len(plain)} are allowed", start)
                    param = plain[position]
                if param.name in given:
                    self.fail(f"{op.name}: {param.name} is given twice", start)
                if param.type != "w":
                    value = self.value(op, param)
                position += 1
                given.add(param.name)
                stage.values[op.params.index(param)] = value
        for p in op.params:
            if p.default is None and p.name not in given:
                self.fail(f"{op.name}: {p.name} is missing", stage.column - 1)

    def value(self, op, param):
        self.space()
        start = self.at
        value, whole = self.number(f"{op.name}: {param.name}")
        if param.type == "i":
            lowest = 0 if param.name == "padding" else 1
            if not whole or value < lowest:
                self.fail(f"{op.name}: {param.name} is {self.text[start:self.at]}: allowed are whole numbers from {lowest}", start)
            return value
        try:
            return float32(float(value))
        except OverflowError:
            self.fail(f"{op.name}: {param.name} is {self.text[start:self.at]}: allowed are finite numbers of f32", start)

    def check(self, problem, stage):
        """What a stage must satisfy given those before it."""
        op, at = stage.op, stage.column - 1
        before = problem.stages[:-1]
        if op.kind == ops.GROUPNORM:
            if any(s.op.kind == ops.GROUPNORM for s in before):
                self.fail("groupnorm: only one is allowed", at)
            groups, eps = stage.values
            channels = next((s.values[0] for s in reversed(before) if s.op.kind in (ops.LINEAR, ops.CONV2D)), problem.channels)
            if channels % groups or groups > channels:
                self.fail(f"groupnorm: groups is {groups}: allowed are divisors of C = {channels}", at)
            if not eps > 0:
                self.fail(f"groupnorm: eps is {number_text(eps)}: allowed are numbers above 0", at)
        if op.name in ("hardtanh", "clamp") and stage.values[0] > stage.values[1]:
            low, high = map(number_text, stage.values)
            self.fail(f"{op.name}: min is {low} and max is {high}: allowed is min <= max", at)
        if any(s.op.kind == ops.REDUCTION for s in before) and op.kind != ops.ELEMENTWISE:
            self.fail(f"{op.name} after a reduction: allowed are elementwise stages without a tensor", at)
        if op.kind == ops.REDUCTION and not any(s.op.kind == ops.GROUPNORM for s in before):
            self.fail(f"{op.name} before groupnorm: allowed are reductions after it", at)
        if op.kind in (ops.LINEAR, ops.CONV2D) and before:
            self.fail(f"{op.name}: allowed only as the first stage", at)

    def parse(self):
        if len(self.text) > MAX_TEXT:
            self.fail(f"the problem text is too long: at most {MAX_TEXT} characters are allowed", MAX_TEXT)
        problem = self.input()
        self.need("|", "and a stage after the input")
        self.stage(problem)
        while self.take("|"):
            self.stage(problem)
        self.space()
        if self.at != len(self.text):
            self.fail("expected '|' and a stage, or the end")
        if not any(s.op.kind == ops.GROUPNORM for s in problem.stages):
            self.fail("no groupnorm: exactly one is needed")
        self.spell(problem)
        return problem

    def spell(self, problem):
        names = {index: name for name, index in self.labels.items()}
        layout = ":nhwc" if problem.channels_last else ""
        matters = layout if problem.spatial > 1 and problem.channels > 1 else ""
        samples = "*" if problem.samples is None else str(problem.samples)
        sizes = ",".join(map(str, [samples, problem.channels] + problem.sizes))
        texts, keys, chains = [f"{problem.dtype}[{sizes}]{layout}"], [], []
        for index, s in enumerate(problem.stages, 1):
            label = f"{names[index]} = " if index in self.used else ""
            texts.append(label + _stage_text(s, _argument(s, names, problem)))
            keys.append(_stage_key(s, _position(s, problem)))
            chains.append(s.op.name if s.op.kind == ops.GROUPNORM else keys[-1])
        problem.text = " | ".join(texts)
        problem.key = " | ".join([f"{problem.dtype}[*,{problem.channels},{problem.spatial}]{matters}"] + keys)
        problem.chain = " | ".join([problem.dtype + matters] + chains)


def _argument(stage, names, problem):
    if stage.op.kind != ops.BINARY:
        return None
    if stage.operand is None:
        return names[stage.label]
    return "{}: {}".format(*problem.operands[stage.operand])


def _position(stage, problem):
    if stage.op.kind != ops.BINARY:
        return None
    if stage.operand is None:
        return f"@{stage.label}"
    return f"${stage.operand}:{problem.operands[stage.operand][1]}"


def _stage_text(stage, argument):
    if argument:
        return f"{stage.op.name}({argument})"
    parts, positional = [], True
    for param, value in zip(stage.op.params, stage.values):
        default = None if param.default is None else (float32(param.default) if param.type == "f" else param.default)
        if value == default:
            positional = False
        elif param.type == "w":
            parts.append(param.name)
        else:
            parts.append(number_text(value) if positional else f"{param.name}={number_text(value)}")
    return stage.op.name + (f"({', '.join(parts)})" if parts else "")


def _stage_key(stage, position):
    if position:
        return f"{stage.op.name}({position})"
    parts = []
    for param, value in zip(stage.op.params, stage.values):
        if param.type == "i":
            parts.append(str(value))
        elif param.type == "w" and value:
            parts.append(param.name)
    return stage.op.name + (f"({', '.join(parts)})" if parts else "")


def parse(text):
    """Parses one problem text. Raises ProblemError, whose message points at the character."""
    return _Parser(text).parse()
