"""Kernels broken on purpose: templates with a piece of text replaced, rendered and packed as the generator would."""

import dataclasses
import shutil
import sys

from program import ROOT

sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sim")]

import simkernels  # noqa: E402
from generator import variants  # noqa: E402
from generator.__main__ import make_pack  # noqa: E402
from generator.problem import parse  # noqa: E402
from generator.render import Renderer  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A problem and the one variant of it that is looked at; `beside` is legal at any alignment where that is not."""

    problem: str
    strategy: str
    parameters: dict
    beside: dict = None


def replace_once(folder, file, old, new):
    """Replaces text that must be there exactly once: a break that no longer breaks anything would prove nothing."""
    path = folder / file
    text = path.read_text(encoding="utf-8")
    found = text.count(old)
    assert found == 1, f"templates/{file} has this {found} times, and not once: adapt the test\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


class Workshop:
    """Makes packs from the templates as they are, or from a copy with replacements."""

    def __init__(self, folder):
        self.folder, self.packs = folder, {}

    def make(self, name, kernel, edits=()):
        """(path of the pack, name of its variant)."""
        templates = self.folder / name
        shutil.copytree(variants.TEMPLATES, templates)
        for edit in edits:
            replace_once(templates, *edit)
        renderer = Renderer(templates)
        base = next(s for s in renderer.strategies if s.name == kernel.strategy)
        chosen = [kernel.parameters] + ([kernel.beside] if kernel.beside else [])
        renderer.strategies = [dataclasses.replace(base, parameters={k: [v] for k, v in p.items()}) for p in chosen]
        offered = [v.name for v in variants.enumerate_variants(parse(kernel.problem), renderer.strategies)]
        wanted = variants.Variant(base, tuple(kernel.parameters.items()), (), 0, 0, {}).name
        assert wanted in offered and len(offered) == len(chosen), (wanted, offered)
        path = self.folder / f"{name}.gnfpack"
        path.write_bytes(make_pack([kernel.problem], renderer))
        self.packs[name] = path
        return path, wanted

    def entries(self, name):
        """{entry: source} of a pack that was made."""
        return simkernels.read_pack(self.packs[name])

    def build(self, names, library, flavour="plain"):
        """Compiles the kernels of several packs for the simulator."""
        simkernels.build([self.packs[n] for n in names], library, flavour, jobs=2)
        return library
