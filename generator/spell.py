"""Canonical text, key and chain of a parsed problem; runtime/spell.c in Python."""

from generator import ops
from generator.parser import float32, number_text

TEXT, KEY, CHAIN = "ifw", "iw", "w"  # the types of the parameters that show


def default(param):
    """None where the parameter is required."""
    return float32(param.default) if param.type == "f" and param.default is not None else param.default


def signature(op):
    """groupnorm(groups, eps=1e-5); mean or mean(all); linear(out) or linear(out, tf32) or linear(out, strict)"""
    plain = [p for p in op.params if p.type != "w"]
    plain = [p.name if p.default is None else f"{p.name}={number_text(default(p))}" for p in plain]
    words = [f" or {op.name}({', '.join([*plain, p.name])})" for p in op.params if p.type == "w"]
    return op.name + (f"({', '.join(plain)})" if plain else "") + "".join(words)


def spell(problem, types):
    sizes = [problem.samples if problem.samples is not None and types == TEXT else "*", problem.inputs or problem.channels]
    # Of sizes that a window moves over, kernels depend on each.
    sizes += problem.sizes if types == TEXT or problem.conv or problem.pool else [problem.spatial]
    head = problem.dtype + ("" if types == CHAIN else f"[{','.join(map(str, sizes))}]")
    stages = [_spell_stage(problem, stage, types) for stage in problem.stages]
    return " | ".join([head + (":nhwc" if problem.channels_last else "")] + stages)


def _spell_stage(problem, stage, types):
    if stage.op.kind != ops.BINARY:
        arguments = _spell_parameters(stage, types)
    elif stage.operand is not None:
        name, kind = problem.operands[stage.operand]
        arguments = [f"{name}: {kind}" if types == TEXT else f"${stage.operand}:{kind}"]
    else:
        name = problem.stages[stage.label - 1].name if stage.label else "x"
        arguments = [name if types == TEXT else f"@{stage.label}"]
    label = f"{stage.name} = " if stage.name and types == TEXT else ""
    return label + stage.op.name + (f"({', '.join(arguments)})" if arguments else "")


def _spell_parameters(stage, types):
    by_name = any(p.default is None for p in stage.op.params)  # those that have a default
    changed = [value != default(p) for p, value in zip(stage.op.params, stage.values)]
    last = max((k for k, p in enumerate(stage.op.params) if changed[k] and p.type != "w"), default=-1)
    arguments = []
    for k, (param, value) in enumerate(zip(stage.op.params, stage.values)):
        if param.type not in types or not (changed[k] or (not by_name and k <= last)):
            continue
        number = str(value) if param.type == "i" else number_text(value)
        if param.type == "w":
            arguments.append(param.name)
        else:
            arguments.append(f"{param.name}={number}" if by_name and param.default is not None else number)
    return arguments
