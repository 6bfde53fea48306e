"""A problem's stages as what the templates render: functions, labels to keep, and forms simplified by value range."""

import math
from dataclasses import dataclass, field

from generator import ops

# Exponentials of values below this add up without overflow for any number of channels below 2^40.
SAFE_EXPONENT = 60.0


@dataclass
class Function:
    name: str
    scalars: int
    device: str
    binary: bool = False


@dataclass
class Step:
    index: int  # of its output: 1 for the first stage
    comment: str
    function: str
    scalars: tuple = ()  # indices into gnf_kernel_args.scalar
    binary: bool = False
    label: int = None
    tensor: str = None  # the field of gnf_kernel_args
    broadcast: str = None
    keep: bool = False  # a later stage refers to its output


@dataclass
class Chain:
    before: list = field(default_factory=list)
    after: list = field(default_factory=list)  # up to maxpool2d or the reduction
    pooled: list = field(default_factory=list)  # after maxpool2d, up to the reduction
    tail: list = field(default_factory=list)  # after the reduction
    functions: list = field(default_factory=list)
    pool_index: int = None
    keep_pool: bool = False
    pooled_full: bool = False  # one of these has a full tensor
    reduction: str = None
    mean_all: bool = False  # the reduction is over everything but N
    tames: bool = False  # a stage before groupnorm may make a number of an infinity
    bounded: bool = False  # the reduced values cannot make an exponential overflow
    norm_index: int = 0
    keep_norm: bool = False
    loaded: int = 0  # the label of what strategies load: x, or the output of linear or conv2d
    keep_loaded: bool = False
    hold_loaded: bool = False  # strategies keep that rather than the value before groupnorm


def _simplest(op, interval):
    for low, high, device in op.simpler:
        if low <= interval[0] and interval[1] <= high:
            return device
    return op.device


def _function(chain, op, device):
    """The name of the device function for a form of an operation; added once."""
    known = next(
        (f for f in chain.functions if f.device == device and f.scalars == len(op.params) and f.binary == (op.kind == ops.BINARY)), None
    )
    if not known:
        form = sum(f.name.startswith(f"gnf_stage_{op.name}_in_range") for f in chain.functions)
        name = f"gnf_stage_{op.name}" + ("" if device == op.device else "_unfused" if device == op.unfused else f"_in_range{form + 1}")
        known = Function(name, len(op.params), device, op.kind == ops.BINARY)
        chain.functions.append(known)
    return known.name


def _combine(op, a, b):
    """Interval of a sum or product."""
    if op.name == "add":
        low, high = a[0] + b[0], a[1] + b[1]
    else:
        corners = [x * y for x in a for y in b]
        low, high = (-math.inf, math.inf) if any(map(math.isnan, corners)) else (min(corners), max(corners))
    return (low, high)


def build(problem):
    """The Chain of a parsed problem."""
    chain = Chain()
    everything = (-math.inf, math.inf)
    intervals = [everything]  # of x, then of each stage's output
    used = {s.label for s in problem.stages if s.label is not None}
    norm = problem.norm
    chain.norm_index = norm + 1
    chain.keep_norm = norm + 1 in used
    chain.loaded = int(problem.inputs > 0)
    chain.keep_loaded = chain.loaded in used
    section = chain.before
    for index, stage in enumerate(problem.stages, 1):
        op, interval = stage.op, intervals[-1]
        if op.kind in (ops.LINEAR, ops.CONV2D):
            intervals.append(everything)
        elif op.kind == ops.GROUPNORM:
            section = chain.after
            intervals.append(everything)
        elif op.kind == ops.MAXPOOL2D:
            chain.pool_index, chain.keep_pool = index, index in used
            section = chain.pooled
            intervals.append(interval)
        elif op.kind == ops.REDUCTION:
            chain.reduction, chain.mean_all = op.name, problem.reduces_all
            chain.bounded = max(map(abs, interval)) <= SAFE_EXPONENT
            section = chain.tail
            intervals.append(everything)
        elif op.kind == ops.BINARY:
            other = everything if stage.label is None else intervals[stage.label]
            tensor = None if stage.operand is None else f"operand[{stage.operand}]"
            broadcast = None if stage.operand is None else problem.operands[stage.operand][1]
            source = f"the output of stage {stage.label}" if stage.label else "x" if stage.label == 0 else f"a {broadcast} tensor"
            name = _function(chain, op, (op.unfused if section is chain.before else None) or op.device)
            label = stage.label
            if label is not None and label < chain.loaded:  # x, which is not what was loaded
                label, tensor, broadcast = None, "x", "full"
            section.append(Step(index, f"{op.name}: {source}", name, (), True, label, tensor, broadcast, index in used))
            intervals.append(_combine(op, interval, other))
        else:
            name = _function(chain, op, _simplest(op, interval))
            scalars = tuple(range(stage.scalar_at, stage.scalar_at + len(op.params)))
            section.append(Step(index, op.name, name, scalars, keep=index in used))
            intervals.append(op.range(*interval))
            chain.tames |= section is chain.before
    chain.pooled_full = any(s.broadcast == "full" for s in chain.pooled)
    late = {s.label for s in problem.stages[norm + 1 :] if s.label is not None}
    chain.hold_loaded = bool(chain.before) and any(chain.loaded <= label <= norm for label in late)
    return chain
