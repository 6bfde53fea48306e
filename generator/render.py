"""Variants -> sources. A source is self-contained: shared parts of templates/lib, the chain, then one kernel."""

import hashlib
import re

import jinja2

from generator import chain as chains
from generator import variants as variant_rules

# Parts in the order that a source takes them; {element} and {halves} by dtype.
COMMON_PARTS = ("args.h", "base.cuh", "element_{dtype}.cuh", "{halves}", "vector.cuh", "math.cuh", "reduce.cuh")


class Renderer:
    """Renders kernels from one template folder. The same inputs give the same text, whatever Jinja2's version."""

    def __init__(self, folder=variant_rules.TEMPLATES):
        self.folder = folder
        self.strategies = variant_rules.read_strategies(folder)
        self.jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder, folder / "lib"]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )

    def kernel(self, problem, variant, name):
        """(entry, parts) of a variant's kernel: the source is the parts, one after another."""
        generic = variant.strategy.generic
        rows = variant_rules.is_rows(problem, generic)
        parameters = dict(variant.parameters)
        for key, values in variant.strategy.parameters.items():
            parameters.setdefault(key, values[0])
        context = {
            "problem": problem,
            "chain": chains.build(problem),
            "subject": problem.chain if generic else problem.key,
            "generic": generic,
            "rows": rows,
            "straddle": not rows and (generic or problem.spatial % parameters["vector"] != 0) and parameters["vector"] > 1,
            "strategy": variant.strategy.name,
            "about": variant.strategy.about.split(":")[0],
            "kernel": name,
            "eps": problem.stages[problem.norm].scalar_at,
            "entry": "GNF_ENTRY",
        } | parameters
        halves = problem.dtype != "f32"
        parts = [
            self._plain(part.format(dtype=problem.dtype, halves="element_halves.cuh"))
            for part in COMMON_PARTS
            if halves or part != "{halves}"
        ]
        parts.append(self._render("chain.cuh.j2", context))
        parts += [self._plain(part) for part in variant.strategy.parts]
        if name == "reduce":
            parts.append(self._render("channels.cuh.j2", context))
        body = self._render(variant.strategy.name + ".cu.j2", context)
        digest = hashlib.sha256("".join([*parts, body]).encode()).hexdigest()[:16]
        # Kernels of different variants can be the same one: these take their name from the strategy alone.
        stem = f"{variant.strategy.name}_{name}" if name else variant.name.replace(".", "_")
        entry = f"gnf_{stem}_{digest}"
        return entry, parts + [body.replace("GNF_ENTRY", entry)]

    def _plain(self, name):
        return (self.folder / "lib" / name).read_text(encoding="ascii")

    def _render(self, name, context):
        text = self.jinja.get_template(name).render(context)
        return re.sub(r"\n{3,}", "\n\n", text)
