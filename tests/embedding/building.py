"""What the tests of header, symbols and installation share: the build's compilers and paths, out of the environment.

CC, CXX, CFLAGS: as the build has them. GNF_SOURCE: the source tree. GNF_CUDA_INCLUDE: the folder of cuda.h.
GNF_LIBRARY, GNF_ARCHIVE: the shared library and the archive of its objects.
"""

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("GNF_SOURCE", HERE.parent.parent))
INCLUDE = SOURCE / "runtime" / "include"
CUDA_INCLUDE = os.environ.get("GNF_CUDA_INCLUDE", "/usr/local/cuda/include")
CC = os.environ.get("CC", "cc").split()
CXX = os.environ.get("CXX", "c++").split()
CFLAGS = os.environ.get("CFLAGS", "").split()


def run(*command, expect=0, **options):
    """Standard output. A status other than `expect` is an AssertionError with all that the command said."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != expect:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def compilers(own, others):
    """The build's own compiler, and others that this machine has and that are not the same."""
    found = [own]
    versions = {run(*own, "--version")}
    for name in others:
        if shutil.which(name) and run(name, "--version") not in versions:
            versions.add(run(name, "--version"))
            found.append([name])
    return found


def defined(path, dynamic=False):
    """Global symbols that a file defines, but for those reserved to compilers."""
    lines = run("nm", "-D" if dynamic else "-g", "--defined-only", path).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines if len(line.split()) == 3}
    return sorted(n for n in names if not n.startswith("__"))
