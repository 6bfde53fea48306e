import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# Runs in CI must not differ from run to run, and the database of examples would be written into the source tree.
settings.register_profile("gnfuse", deadline=None, derandomize=True, database=None)
settings.load_profile("gnfuse")


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """build(name, source, *arguments, compiler="gcc"): the source, and files among the arguments, as a loaded library."""
    folder = tmp_path_factory.mktemp("libraries")

    def compile_and_load(name, source, *arguments, compiler="gcc"):
        suffix = ".cc" if compiler == "g++" else ".c"
        (folder / (name + suffix)).write_text(source, encoding="ascii")
        library = folder / (name + ".so")
        # No contraction: the tests compare forms of a function, not the compiler's.
        flags = ["-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off"]
        subprocess.run([compiler, *flags, "-o", library, folder / (name + suffix), *arguments, "-lm"], check=True, cwd=ROOT)
        return ctypes.CDLL(str(library))

    return compile_and_load


@pytest.fixture(scope="session")
def comma_locale(tmp_path_factory):
    """Environment variables of a locale that writes 0,5; the plain one where the machine cannot make it."""
    folder = tmp_path_factory.mktemp("locale")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    wanted = {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}
    try:
        subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pass
    # Without its sources localedef makes an empty folder and ends with the status of a warning: only use tells.
    use = [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, '')"]
    usable = subprocess.run(use, env=os.environ | wanted, capture_output=True, check=False).returncode == 0
    return wanted if usable else {"LC_ALL": "C"}
