"""Variants -> sources. A source is self-contained: shared parts of templates/lib, the chain, then one kernel.

The kernels of a product know no chain and no sizes, so that all problems of a dtype share them.
"""

import hashlib
import re

import jinja2

from generator import chain as chains
from generator import front, products
from generator import variants as variant_rules

# Parts in the order that a source takes them; {elements} by dtype.
COMMON_PARTS = ("args.h", "base.cuh", "{elements}", "vector.cuh", "math.cuh", "reduce.cuh")
ELEMENT_PARTS = {
    "f32": ("element_f32.cuh",),
    "f16": ("element_f16.cuh", "f16.cuh", "element_halves.cuh"),
    "bf16": ("element_bf16.cuh", "element_halves.cuh"),
}
WAIT = "wait.cuh"  # for kernels that may start before the one before them ends
UNITS, SPANS = ("group", "sample", "position", "channel", "output"), ("none", "group", "spatial", "sample", "channels")


class Renderer:
    """Renders kernels from one template folder. The same inputs give the same text, whatever Jinja2's version."""

    def __init__(self, folder=variant_rules.TEMPLATES):
        self.folder = folder
        self.strategies = variant_rules.read_strategies(folder)
        self.products = products.read_templates(folder)
        self.jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder, folder / "lib"]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )

    def kernels(self, problem, variant):
        """(rule, entry, parts) of each of a variant's kernels, in the order of their launches; a rule is a launch's
        numbers, and its role if not "tail", exact and cluster where they are set."""
        for kernel in variant.product_kernels:
            yield self._product_rule(problem, kernel), *self._product_kernel(problem, kernel)
        for rule in variant.kernels:
            yield rule, *self.kernel(problem, variant, rule["name"])

    def capability(self, variant):
        """The least compute capability that the variant needs."""
        return max([variant.strategy.capability, *(self.products[k.template].capability for k in variant.product_kernels)])

    def exact(self, variant):
        """Whether it runs on that capability alone."""
        return variant.strategy.exact or any(self.products[k.template].exact for k in variant.product_kernels)

    def kernel(self, problem, variant, name):
        """(entry, parts) of a kernel of the variant's strategy: the source is the parts, one after another."""
        generic = variant.strategy.generic
        rows = variant_rules.is_rows(problem, generic)
        parameters = dict(variant.parameters)
        for key, values in variant.strategy.parameters.items():
            parameters.setdefault(key, values[0])
        vector = parameters.get("vector", 1)
        context = (
            variant_rules.names(problem, generic)
            | {
                "problem": problem,
                "chain": chains.build(problem),
                "subject": problem.chain if generic else problem.key,
                "generic": generic,
                "rows": rows,
                "straddle": not rows and (generic or problem.spatial % vector != 0) and vector > 1,
                "strategy": variant.strategy.name,
                "about": variant.strategy.about.split(":")[0],
                "kernel": name,
                "conv": problem.conv,
                "pool": problem.pool,
                "product": variant.product,
                "eps": problem.stages[problem.norm].scalar_at,
                "entry": "GNF_ENTRY",
            }
            | parameters
            | variant.derived
        )
        parts = self._common_parts(problem)
        if problem.inputs:
            parts.append(self._part(WAIT, context))
        parts += [self._part(part, context) for part in ("chain.cuh.j2", *variant.strategy.parts)]
        if name == "reduce":
            parts.append(self._part("channels.cuh.j2", context))
        # Kernels of different variants can be the same one: these take their name from the strategy alone.
        stem = f"{variant.strategy.name}_{name}" if name else variant.tail.replace(".", "_")
        return self._finished(stem, parts, self._render(variant.strategy.name + ".cu.j2", context))

    def _product_context(self, problem, kernel):
        return {"dtype": problem.dtype, "element": problem.element, "entry": "GNF_ENTRY"} | dict(kernel.parameters)

    def _product_rule(self, problem, kernel):
        template, context = self.products[kernel.template], self._product_context(problem, kernel)
        words = {}
        for field, allowed in (("unit", UNITS), ("span", SPANS)):
            text = template.launch[field]
            words[field] = text if text in allowed else front.evaluate(template.name, text, context)
        return front.launch(template.name, template.launch | words, context) | {"role": kernel.role}

    def _product_kernel(self, problem, kernel):
        template, context = self.products[kernel.template], self._product_context(problem, kernel)
        parts = self._common_parts(problem) + [self._part(part, context) for part in template.parts]
        return self._finished(kernel.name, parts, self._render(f"product/{template.name}.cu.j2", context))

    def _finished(self, stem, parts, body):
        """(entry, parts): the entry's name depends on all that the source holds."""
        digest = hashlib.sha256("".join([*parts, body]).encode()).hexdigest()[:16]
        entry = f"gnf_{stem}_{digest}"
        return entry, parts + [body.replace("GNF_ENTRY", entry)]

    def _common_parts(self, problem):
        names = [name for part in COMMON_PARTS for name in (ELEMENT_PARTS[problem.dtype] if part == "{elements}" else (part,))]
        parts = [self._part(name, {}) for name in names]
        # The last fields are those of linear, then of conv2d and maxpool2d: the source of a problem without these, which
        # its tuning records are about, does not depend on them.
        if not (problem.conv or problem.pool):
            before, found, _ = parts[0].partition("    /* Of conv2d" if problem.linear else "    /* Of linear")
            parts[0] = before + "};\n" if found else before
        return parts

    def _part(self, name, context):
        """A file of templates/lib, rendered where it is a template."""
        if name.endswith(".j2"):
            return self._render(name, context)
        return (self.folder / "lib" / name).read_text(encoding="ascii")

    def _render(self, name, context):
        text = self.jinja.get_template(name).render(context)
        return re.sub(r"\n{3,}", "\n\n", text)
