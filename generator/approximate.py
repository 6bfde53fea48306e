"""Where the tanh of the special-function unit, whose absolute error is 8e-6, is near enough to the exact one."""

from generator import ops

# Operations that make an error no larger: their slope is at most 1 everywhere, or where a tanh can be.
CALM = ("relu", "hardtanh", "clamp", "hardswish", "sigmoid", "tanh", "add", "logsumexp", "mean", "max", "min")


def fast_tanh(problem):
    """Whether a tanh stands right behind groupnorm, and nothing behind it makes its error larger."""
    after = problem.stages[problem.norm + 1 :]
    if not after or after[0].op.name != "tanh":
        return False

    def calm(stage):
        adds_itself = stage.op.kind == ops.BINARY and (stage.label or 0) > problem.norm + 1
        return stage.op.name in CALM and not adds_itself

    # The slope of hardswish is at most 1 where a tanh can be, and beyond 1.5 no longer: what was added takes it there.
    first_added = next((i for i, stage in enumerate(after) if stage.op.kind == ops.BINARY), len(after))
    return all(calm(stage) for stage in after[1:]) and all(stage.op.name != "hardswish" for stage in after[first_added:])
