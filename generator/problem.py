"""Problem text -> Problem. The rules are those of runtime/problem.h; tests/unit/problems.txt holds both parsers to them."""

import math
import re
from dataclasses import dataclass, field

from generator import ops
from generator.parser import LARGEST, NUMBER, WORD, Cursor, ProblemError, number_text, read_float, read_whole
from generator.spell import CHAIN, KEY, TEXT, default, signature, spell

__all__ = ["DTYPES", "Problem", "ProblemError", "Stage", "parse"]

DTYPES = {"f32": 4, "f16": 2, "bf16": 2}  # bytes
BROADCASTS = ("full", "channel", "scalar")
RESERVED = ("x", "y", "gamma", "beta", "weight", "bias")
MAX_STAGES, MAX_OPERANDS, MAX_SCALARS, MAX_TEXT = 24, 6, 16, 1000
LARGEST_WHOLE = 2**31 - 1
NAME_RULE = "a-z, 0-9 and _, at most 31, no digit first"


@dataclass
class Stage:
    op: ops.Op
    values: list  # in the order of op.params
    name: str = ""  # its label
    label: int = None  # binary: 0 for x, k for the output of stages[k - 1]
    operand: int = None  # binary: index into Problem.operands
    scalar_at: int = 0  # index of its first run-time scalar
    column: int = 1  # of its operation in Problem.source

    def value(self, parameter):
        """None where the operation has no such parameter."""
        return next((v for p, v in zip(self.op.params, self.values) if p.name == parameter), None)


@dataclass(frozen=True)
class Window:
    """conv2d or maxpool2d: a square that moves over the two spatial sizes of its input."""

    kernel: int
    stride: int
    padding: int
    input: tuple  # height, width
    output: tuple


@dataclass
class Problem:
    source: str  # the text that was parsed
    dtype: str
    channels_last: bool
    samples: int  # None for *
    channels: int  # C that groupnorm sees: of x, or OUT of linear or conv2d
    sizes: list  # spatial, of x
    stages: list = field(default_factory=list)
    operands: list = field(default_factory=list)  # (name, broadcast)
    inputs: int = 0  # IN: C of x where a linear or conv2d comes first
    conv: Window = None  # the first stage, where it is conv2d
    pool: Window = None  # of maxpool2d
    scalars: int = 0
    text: str = ""  # canonical
    key: str = ""  # what specialised kernels depend on
    chain: str = ""  # what the shape-generic kernel depends on: no sizes

    @property
    def spatial(self):
        """Elements of a channel as groupnorm sees it."""
        return math.prod(self.conv.output if self.conv else self.sizes)

    @property
    def linear(self):
        """The first stage is linear."""
        return self.inputs > 0 and self.conv is None

    @property
    def norm(self):
        """Index of the groupnorm stage, or None."""
        return next((k for k, s in enumerate(self.stages) if s.op.kind == ops.GROUPNORM), None)

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
    def pooling(self):
        """Index of the maxpool2d stage, or None."""
        return next((k for k, s in enumerate(self.stages) if s.op.kind == ops.MAXPOOL2D), None)

    @property
    def reduces_all(self):
        """The reduction is over everything but N."""
        return self.reduction is not None and bool(self.stages[self.reduction].value("all"))

    @property
    def tf32(self):
        """The product of linear or conv2d may be TF32's."""
        return bool(self.stages[0].value("tf32"))

    @property
    def strict(self):
        """That product, not the chain's output alone, is to be no further from float64 than one summed in fp32."""
        return bool(self.stages[0].value("strict"))

    @property
    def element(self):
        """Bytes an element."""
        return DTYPES[self.dtype]


def parse(text):
    """Parses one problem text. Raises ProblemError, whose message points at the character."""
    return _Parser(text).parse()


class _Parser(Cursor):
    def parse(self):
        if len(self.text) >= 1 << 20:
            raise ProblemError(f"problem text of 1 MiB or more: allowed are {MAX_TEXT} bytes", self.source, 1)
        problem = self.problem = self.input()
        self.labels = {"x": 0}
        self.full = {}  # spatial sizes of the full tensors
        self.shapes = [(problem.channels, *problem.sizes)]  # of x and of each stage's output
        while self.peek():
            if not self.skip("|"):
                self.unexpected("allowed is '|'")
            self.stage()
        if problem.norm is None:
            self.where = "end of the text"
            self.bad(self.at, "no groupnorm", "allowed is exactly one")
        problem.text, problem.key, problem.chain = (spell(problem, types) for types in (TEXT, KEY, CHAIN))
        if len(problem.text) > MAX_TEXT:
            self.where = "canonical text"
            self.bad(0, f"problem of {len(problem.text)} bytes", f"allowed are {MAX_TEXT}")
        return problem

    # ---- the input

    def input(self):
        dtype = self.take(WORD)
        if dtype.text not in DTYPES:
            self.bad(dtype.at, f"unknown dtype '{dtype.quoted}'", "allowed are f32, f16, bf16")
        if not self.skip("["):
            name = dtype.text
            self.bad(self.at, "expected '['", f"allowed is {name}[N,C,...], {name}[2,64,32,32] for instance")
        samples, channels, *sizes = self.sizes(DTYPES[dtype.text])
        self.asked_channels_last = channels_last = False
        if self.skip(":"):
            layout = self.take(WORD)
            if layout.text != "nhwc":
                self.bad(layout.at, f"unknown layout '{layout.quoted}'", "allowed is nhwc")
            self.asked_channels_last = True
            channels_last = math.prod(sizes) > 1 and channels > 1
        return Problem(self.source, dtype.text, channels_last, samples, channels, sizes)

    def sizes(self, element):
        sizes, total, allowed = [], element, "allowed are 2 to 5: N, C and up to 3 spatial ones"
        while not sizes or self.skip(","):
            self.peek()
            at = self.at
            if len(sizes) == 5:
                self.bad(at, "6 sizes", allowed)
            sizes.append(self.size(len(sizes)))
            total *= sizes[-1] or 1
            if total > LARGEST:
                product = LARGEST // element
                self.bad(at, "the tensor's bytes do not fit 63 bits", f"allowed are sizes of a product up to {product}")
        at = self.at
        if not self.skip("]"):
            self.unexpected("allowed are ',' and ']'")
        if len(sizes) < 2:
            self.bad(at, "1 size", allowed)
        return sizes

    def size(self, index):
        name, least = ("N", "C", "size 3", "size 4", "size 5")[index], int(index == 1)
        allowed = f"allowed are whole numbers from {least}"
        if self.skip("*"):
            return None if index == 0 else self.bad(self.at - 1, f"{name} = *", allowed)
        token = self.take(NUMBER)
        size = read_whole(token.text)
        if size is None or size < least:
            self.bad(token.at, f"{name} = {token.or_empty}", allowed + (", and * for any" if index == 0 else ""))
        return size

    # ---- stages

    def stage(self):
        problem = self.problem
        self.where = f"stage {len(problem.stages) + 1}"
        stage = self.operation()
        if len(problem.stages) == MAX_STAGES:
            self.bad(stage.column - 1, f"{MAX_STAGES + 1} stages", f"allowed are {MAX_STAGES}")
        self.check_place(stage)
        at = {}
        if stage.op.kind == ops.BINARY:
            self.binary(stage)
        else:
            self.arguments(stage, at)
            self.check_bounds(stage, at)
            self.check_precision(stage, at)
        self.shapes.append(self.shape_after(stage, at))
        problem.scalars += sum(p.type == "f" for p in stage.op.params)
        if problem.scalars > MAX_SCALARS:
            self.bad(stage.column - 1, f"{MAX_SCALARS + 1} run-time numbers", f"allowed are {MAX_SCALARS}")
        problem.stages.append(stage)
        if stage.name:
            self.labels[stage.name] = len(problem.stages)

    def operation(self):
        token, label = self.take(WORD), ""
        if self.skip("="):
            label = token.text
            if not _is_name(label) or label in self.labels or label in dict(self.problem.operands):
                allowed = f"allowed are names not taken by x, a label, a tensor or an operation: {NAME_RULE}"
                self.bad(token.at, f"label '{token.quoted}'", allowed)
            token = self.take(WORD)
        if token.text not in ops.BY_NAME:
            self.bad(token.at, f"unknown operation '{token.quoted}'", f"allowed are {', '.join(ops.BY_NAME)}")
        op = ops.BY_NAME[token.text]
        self.where = f"stage '{op.name}'"
        values = [default(p) for p in op.params]
        return Stage(op, values, label, scalar_at=self.problem.scalars, column=token.at + 1)

    def check_place(self, stage):
        """Where in the chain the operation may stand."""
        problem, op, at = self.problem, stage.op, stage.column - 1
        if problem.reduction is not None and op.kind != ops.ELEMENTWISE:
            self.bad(at, f"{op.name} after a reduction", "allowed are elementwise operations of numbers only")
        if op.kind == ops.GROUPNORM and problem.norm is not None:
            self.bad(at, "a second groupnorm", "allowed is exactly one")
        if op.kind == ops.MAXPOOL2D and problem.norm is None:
            self.bad(at, f"{op.name} before groupnorm", "allowed is after it")
        if op.kind == ops.MAXPOOL2D and problem.pool:
            self.bad(at, f"a second {op.name}", "allowed is one")
        if op.kind in (ops.LINEAR, ops.CONV2D) and problem.stages:
            self.bad(at, f"{op.name} after another stage", "allowed is the first place")
        rank = {ops.LINEAR: 0, ops.CONV2D: 2, ops.MAXPOOL2D: 2}.get(op.kind)
        if rank not in (None, len(problem.sizes)):
            self.bad(at, f"x has {len(problem.sizes)} spatial sizes", f"allowed are {rank}")

    def shape_after(self, stage, at):
        """Sizes of the stage's output, where the operation checks its parameters against those of its input."""
        channels, *sizes = self.shapes[-1]
        out, groups = stage.value("out"), stage.value("groups")
        if groups and channels % groups:
            self.bad(at["groups"], f"groups = {groups}", f"allowed are divisors of C = {channels}")
        if stage.op.kind == ops.LINEAR:
            most = LARGEST // (channels * DTYPES[self.problem.dtype])
            if out > most:
                self.bad(at["out"], f"out = {out}", f"allowed are 1 to {most}: the weight's bytes must fit 63 bits")
            self.problem.inputs, self.problem.channels = channels, out
        if stage.op.kind == ops.CONV2D:
            window = self.moved_window(stage, sizes, at)
            self.convolve(window, channels, out, at)
            sizes = window.output
        if stage.op.kind == ops.MAXPOOL2D:
            self.problem.pool = self.moved_window(stage, sizes, at)
            sizes = self.problem.pool.output
        if stage.value("all") and not math.prod(sizes):
            self.bad(at["all"], "x has no spatial element", "allowed are sizes from 1")
        if stage.op.kind == ops.REDUCTION:
            return (1, *((1 for _ in sizes) if stage.value("all") else sizes))
        return (out or channels, *sizes)

    def moved_window(self, stage, sizes, at):
        kernel, padding = stage.value("kernel"), stage.value("padding") or 0
        stride = stage.value("stride") or kernel
        if not math.prod(sizes):
            self.bad(at["kernel"], "x has no spatial element", "allowed are sizes from 1")
        for padded in (size + 2 * padding for size in sizes):
            if kernel > padded:
                self.bad(at["kernel"], f"kernel = {kernel}", f"allowed are 1 to {padded}, the padded size")
        output = tuple((size + 2 * padding - kernel) // stride + 1 for size in sizes)
        return Window(kernel, stride, padding, tuple(sizes), output)

    def convolve(self, window, channels, out, at):
        """The rest of the chain sees conv2d's output as its input."""
        problem, element = self.problem, DTYPES[self.problem.dtype]
        most = LARGEST // element // max(channels * window.kernel**2, math.prod(window.output))
        if not most:
            self.bad(at["out"], "the bytes of one output channel's weight or plane do not fit 63 bits", "allowed are smaller sizes")
        if out > most:
            self.bad(at["out"], f"out = {out}", f"allowed are 1 to {most}: the bytes of weight and output must fit 63 bits")
        problem.inputs, problem.channels, problem.conv = channels, out, window
        trivial = (math.prod(window.input) == 1 or channels == 1) and (math.prod(window.output) == 1 or out == 1)
        problem.channels_last = self.asked_channels_last and not trivial

    # ---- arguments

    def arguments(self, stage, at):
        """Fills in stage.values, and `at`: where the value, or the word, of each parameter that is given stands."""
        if self.skip("(") and not self.skip(")"):
            named = self.argument(stage, at, False)
            while self.skip(","):
                named = self.argument(stage, at, named)
            if not self.skip(")"):
                self.unexpected("allowed are ',' and ')'")
        for param in stage.op.params:
            if param.default is None and param.name not in at:
                self.bad(stage.column - 1, f"{param.name} is missing", f"allowed is {signature(stage.op)}")

    def argument(self, stage, at, named):
        """Parses one; True if it, or one before it, is named."""
        op, start = stage.op, self.at
        token, allowed = self.take(WORD), f"allowed is {signature(stage.op)}"
        is_name = re.match("[a-z_]", token.text) is not None
        equals = is_name and self.peek() == "="
        param = next((p for p in op.params if p.name == token.text), None) if is_name else None
        if equals or param:
            if not param:
                self.bad(token.at, f"unknown parameter '{token.quoted}'", allowed)
            if equals == (param.type == "w"):
                self.bad(token.at, f"{token.quoted} takes {'no' if equals else 'a'} value", allowed)
            if param.name in at:
                self.bad(token.at, f"{token.quoted} is given twice", allowed)
            self.at += equals
        else:
            if named:
                self.bad(token.at, "an unnamed argument after a named one", allowed)
            self.at = start
            param = next((p for p in op.params if p.type != "w" and p.name not in at), None)
            if not param and is_name and op.params:
                self.bad(token.at, f"unknown parameter '{token.quoted}'", allowed)
            if not param:
                self.bad(token.at, "too many arguments", allowed)
            is_name = False
        self.peek()
        at[param.name] = token.at if param.type == "w" else self.at
        stage.values[op.params.index(param)] = 1 if param.type == "w" else self.value(param)
        return named or is_name

    def value(self, param):
        token = self.take(NUMBER)
        if param.type == "i":
            value, least = read_whole(token.text), 1 if param.default is None else param.default
            legal = value is not None and least <= value <= LARGEST_WHOLE
            allowed = f"whole numbers from {least} to {LARGEST_WHOLE}"
        else:
            value, positive = read_float(token.text), param.name == "eps"
            legal = value is not None and (value > 0 or not positive)
            allowed = "finite numbers" + (" above 0" if positive else "")
        return value if legal else self.bad(token.at, f"{param.name} = {token.or_empty}", f"allowed are {allowed}")

    def check_bounds(self, stage, at):
        low, high = stage.value("min"), stage.value("max")
        if low is None or high is None or low <= high:
            return
        least, most = number_text(low), number_text(high)
        if at.get("max", -1) > at.get("min", -1):
            self.bad(at["max"], f"max = {most}", f"allowed are numbers from min = {least}")
        self.bad(at["min"], f"min = {least}", f"allowed are numbers up to max = {most}")

    def check_precision(self, stage, at):
        words = [word for word in ("tf32", "strict") if stage.value(word)]
        if len(words) == 2:
            self.bad(max(at[word] for word in words), "tf32 and strict", "allowed is one of them")
        if words and self.problem.dtype != "f32":
            self.bad(at[words[0]], f"{words[0]} for {self.problem.dtype}", "allowed is f32")

    # ---- labels and tensors

    def binary(self, stage):
        op = stage.op.name
        name = self.take(WORD) if self.skip("(") else None
        if not name or not name.text:
            allowed = f"allowed are {op}(label) and {op}(name: full|channel|scalar)"
            self.bad(name.at if name else stage.column - 1, "a label or tensor is missing", allowed)
        if self.skip(":"):
            stage.operand = self.tensor(name)
        else:
            stage.label = self.label_use(name, op)
        if not self.skip(")"):
            self.unexpected("allowed is ')'")

    def tensor(self, name):
        operands = self.problem.operands
        if not _is_name(name.text) or name.text in self.labels or name.text in RESERVED:
            others = "labels, operations, x, y, gamma, beta, weight and bias"
            self.bad(name.at, f"tensor name '{name.quoted}'", f"allowed are names other than {others}: {NAME_RULE}")
        word = self.take(WORD)
        if word.text not in BROADCASTS:
            self.bad(word.at, f"unknown kind '{word.quoted}'", f"allowed are {', '.join(BROADCASTS)}")
        before = dict(operands).get(name.text)
        if not before and len(operands) == MAX_OPERANDS:
            self.bad(name.at, f"{MAX_OPERANDS + 1} tensors", f"allowed are {MAX_OPERANDS}")
        if not before:
            operands.append((name.text, word.text))
        elif before != word.text:
            self.bad(word.at, f"tensor '{name.quoted}' is {word.text}", f"allowed is {before}, as before")
        if word.text == "full":
            self.full_sizes(name)
        return [n for n, _ in operands].index(name.text)

    def full_sizes(self, name):
        """A full tensor has the sizes of the value that it meets first."""
        sizes = self.shapes[-1][1:]
        known = self.full.setdefault(name.text, sizes)
        if known != sizes:  # only a maxpool2d in between changes them
            here, before = (", ".join(map(str, s)) for s in (sizes, known))
            allowed = f"allowed are {before}, as before maxpool2d, or another name"
            self.bad(name.at, f"tensor '{name.quoted}' with the spatial sizes {here}", allowed)

    def label_use(self, name, op):
        if name.text not in self.labels:
            allowed = f"allowed are {', '.join(self.labels)}, or a tensor: {op}(name: full|channel|scalar)"
            self.bad(name.at, f"unknown label '{name.quoted}'", allowed)
        label = self.labels[name.text]
        # Even one of the same sizes, as a window of 1 leaves them: strategies keep no values beyond the pool.
        if self.problem.pool and label <= self.problem.pooling:
            self.bad(name.at, f"label '{name.quoted}' is of before maxpool2d", "allowed are labels made after it")
        if self.shapes[label] != self.shapes[-1]:
            allowed = "allowed are labels of the sizes at this stage"
            self.bad(name.at, f"label '{name.quoted}' has other sizes", allowed)
        return label


def _is_name(text):
    return re.fullmatch("[a-z_][a-z0-9_]{0,30}", text) is not None and text not in ops.BY_NAME
