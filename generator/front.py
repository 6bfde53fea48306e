"""Front matter: the TOML in a template's first comment, between {#--- and ---#}, and the expressions that stand in it."""

import functools
import re
import tomllib

KERNEL_DEFAULTS = {
    "name": "",
    "units_per_block": "1",
    "span": "none",
    "tile": "1",
    "cap": "1",
    "when": "True",
    "role": "tail",
    "exact": False,
    "cluster": "0",
}
NUMBERS = ("block", "shared", "units_per_block", "tile", "cap")  # of a launch; runtime/pack.h says what they mean
SIMPLEST_CAPABILITY = 80  # cvt of two halves at once


def read(path, build):
    """What `build` makes of the template's front matter, a dict."""
    found = re.match(r"\{#---\n(.*?)---#\}\n", path.read_text(encoding="utf-8"), re.DOTALL)
    if not found:
        raise ValueError(f"{path.name}: no front matter between {{#--- and ---#}}")
    try:
        return build(tomllib.loads(found.group(1)))
    except (ValueError, KeyError) as error:  # of TOML too
        raise ValueError(f"{path.name}: front matter: {error}") from error


@functools.cache
def _compiled(expression):
    return compile(expression, "front matter", "eval")


def evaluate(name, expression, scope):
    """The value of an expression in the template NAME.cu.j2."""
    try:
        return eval(_compiled(expression), {"__builtins__": {}}, scope)
    except Exception as error:
        raise ValueError(f"{name}.cu.j2: front matter: '{expression}': {error}") from error


def launch(name, row, scope):
    """A launch rule, a row with KERNEL_DEFAULTS, with its expressions evaluated; role, exact and cluster where they are set."""
    rule = {"name": row["name"], "unit": row["unit"], "span": row["span"]}
    rule |= {field: int(evaluate(name, str(row[field]), scope)) for field in NUMBERS}
    special = {
        "role": row["role"] if row["role"] != KERNEL_DEFAULTS["role"] else None,
        "exact": row["exact"],
        "cluster": int(evaluate(name, str(row["cluster"]), scope)),
    }
    return rule | {field: value for field, value in special.items() if value}
