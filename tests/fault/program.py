"""The gnfuse program as the fault tests run it.

GNFUSE names the program, GNFUSE_SIM the simulator, GNFUSE_GEN the generator. Every run gets a clean environment: what
the tests are about (the driver, NVRTC, the cache, injected faults) is only what a test says.
"""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GNFUSE = os.path.abspath(os.environ.get("GNFUSE", ROOT / "build" / "gnfuse"))
SIM = os.path.abspath(os.environ.get("GNFUSE_SIM", ROOT / "build" / "tests" / "sim" / "libgnfuse_cudasim.so"))
GEN = os.path.abspath(os.environ.get("GNFUSE_GEN", ROOT / "generator" / "gnfuse-gen"))
OURS = ("GNFUSE", "CUDASIM_", "XDG_", "LD_PRELOAD", "LC_", "LANG", "TMPDIR")


def environment(**settings):
    """The caller's environment less all that gnfuse reads; a setting of None takes a variable away."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    env |= {"GNFUSE_GEN": GEN, "LC_ALL": "C.UTF-8", "CUDASIM_SEED": "7", "PYTHONDONTWRITEBYTECODE": "1"}
    # None, unless a test names one: a developer's own must not decide anything.
    env |= {"GNFUSE_DB": "/nonexistent/tuned.jsonl"}
    # What a test asks for may be more memory than there is: under AddressSanitizer too, that is an answer and no abort.
    env["ASAN_OPTIONS"] = ":".join([*filter(None, [env.get("ASAN_OPTIONS")]), "allocator_may_return_null=1"])
    env |= {k: str(v) for k, v in settings.items() if v is not None}
    return {k: v for k, v in env.items() if settings.get(k, "") is not None}


class Result:
    """What a run left: status, and both streams as text."""

    def __init__(self, words, done):
        self.words, self.status, self.out = words, done.returncode, done.stdout
        self.err = re.sub(r"^==\d+==WARNING: AddressSanitizer failed to allocate.*\n", "", done.stderr, flags=re.M)

    def __repr__(self):
        return f"gnfuse {' '.join(map(repr, self.words))}\nstatus {self.status}\n--- stdout\n{self.out}--- stderr\n{self.err}"

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def warnings(self):
        return [line for line in self.err.splitlines() if line.startswith("gnfuse: warning: ")]

    @property
    def compiled(self):
        """Entries of the kernels that were compiled, as announced."""
        return re.findall(r"^gnfuse: compiling (gnf_\w+) for ", self.err, re.M)


def run(*words, sim=True, driver=None, cwd=None, timeout=60, preexec_fn=None, **settings):
    """Runs gnfuse in the simulator, or with no driver but what the settings name."""
    words = [str(w) for w in words]
    if sim:
        settings.setdefault("GNFUSE_CUDA_DRIVER", SIM)
        words += ["--device", "sim"]
    done = subprocess.run(
        [GNFUSE, *words],
        env=environment(**settings),
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
        preexec_fn=preexec_fn,
    )
    return Result(words, done)


def refused(result, status, *patterns):
    """A run that failed as it should: its status, nothing on stdout, and one line on stderr that says all of `patterns`.

    Lines that point at a character of a problem (indented) may follow. With --json stdout holds the same message.
    """
    lines = result.err.splitlines()
    said = [line for line in lines if not line.startswith("  ")]
    assert result.status == status, result
    assert len(said) == 1 and said[0].startswith("gnfuse: "), result
    assert "Traceback" not in result.err, result
    for pattern in patterns:
        assert re.search(pattern, said[0]), (pattern, result)
    if "--json" in result.words:
        report = result.json
        assert report["ok"] is False and report["status"].startswith("GNF_"), result
        assert said[0].endswith(report["error"].splitlines()[0]), result
    else:
        assert result.out == "", result
    return said[0]


def listing(folder):
    """Everything below a folder, with sizes: to see that a run left nothing and changed nothing."""
    return sorted((str(p.relative_to(folder)), p.lstat().st_size) for p in Path(folder).rglob("*"))


def leftovers(folder):
    """Files of a cache that only a process at work may have there."""
    return [p.name for p in Path(folder).rglob("*") if p.is_file() and not p.name.endswith((".cubin", ".gnfpack", ".so", ".lock"))]
