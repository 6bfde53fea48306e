#!/usr/bin/env python3
"""Compile the kernels of packs with the host's C++ compiler, for the simulator.

    simkernels.py INPUT... -o OUT.so

An input is a kernel pack, or a file ENTRY.cu with one kernel. The library goes into CUDASIM_KERNELS. Kernels
that several packs share are compiled once; a few at a time go into one translation unit, each in a namespace
of its own. Exit status: 0, 1 (an input or a kernel is wrong), 2 (usage).
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = ("simt_abi.h", "simt.h")
SONAME = "libgnfuse_cudasim.so"
BATCH = 16

# a large frame must not jump over the guard of a fiber's stack
COMMON = [
    "-std=c++17",
    "-x",
    "c++",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fstack-clash-protection",
    "-ffp-contract=off",
    "-Wno-unknown-pragmas",
]
# a misaligned access ends in an illegal instruction: the engine makes CUDA_ERROR_MISALIGNED_ADDRESS of it
TRAP = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
FLAVOURS = {
    "plain": ["-O1", *TRAP],  # -O2 takes half as long again to compile, and runs a tenth faster
    "asan": ["-O1", *TRAP, "-fsanitize=address", "-fno-omit-frame-pointer", "-ftrivial-auto-var-init=pattern"],
    "tsan": ["-O1", "-fsanitize=thread"],
}


class Error(Exception):
    """A message for the user."""


# ---- packs


def zstd_frame(data, name):
    """The content of one zstd frame of raw and run-length blocks; other frames go to the zstd program."""
    if data[:4] != b"\x28\xb5\x2f\xfd":
        raise Error(f"{name}: no zstd frame after the header")
    try:
        content = _uncompressed_blocks(data)
    except IndexError:
        raise Error(f"{name}: the zstd frame is cut short") from None
    if content is not None:
        return content
    program = shutil.which("zstd")
    if not program:
        raise Error(f"{name}: a compressed pack, and no zstd program to unpack it")
    run = subprocess.run([program, "-dcq"], input=data, capture_output=True, check=False)
    if run.returncode:
        raise Error(f"{name}: zstd: {run.stderr.decode(errors='replace').strip()}")
    return run.stdout


def _uncompressed_blocks(data):
    """None where a block is compressed."""
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    at = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    at += (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    out = []
    last = False
    while not last:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += 3
        stored = 1 if kind == 1 else size
        if kind > 1:
            return None
        if at + stored > len(data):
            raise IndexError
        out.append(data[at : at + size] if kind == 0 else data[at : at + 1] * size)
        at += stored
    return b"".join(out)


def read_pack(path):
    """{entry name: source text} of a pack."""
    data = Path(path).read_bytes()
    if data[:8] != b"gnfpack\n":
        raise Error(f"{path}: not a kernel pack")
    version = int.from_bytes(data[8:12], "little")
    if version != 1:
        raise Error(f"{path}: pack format {version}; this program reads 1")
    payload = zstd_frame(data[16:], path)
    try:
        size = int.from_bytes(payload[:8], "little")
        manifest = json.loads(payload[8 : 8 + size])
        blob = payload[8 + size :]
        parts = [blob[offset : offset + length] for offset, length in manifest["parts"]]
        kernels = {}
        for entry in manifest["entries"]:
            for variant in entry["variants"]:
                for kernel in variant["kernels"]:
                    source = b"".join(parts[i] for i in kernel["parts"]).decode()
                    _add(kernels, kernel["entry"], source, path)
    except (KeyError, IndexError, TypeError, ValueError) as e:
        raise Error(f"{path}: bad manifest: {type(e).__name__}: {e}") from None
    return kernels


def _add(kernels, name, source, path):
    if kernels.setdefault(name, source) != source:
        raise Error(f"{path}: another source than before for the kernel {name}")


def read_inputs(paths):
    """{entry name: source text} of packs and .cu files."""
    kernels = {}
    for path in map(Path, paths):
        try:
            one = {path.stem: path.read_text()} if path.suffix == ".cu" else read_pack(path)
        except OSError as e:
            raise Error(f"{path}: {e.strerror}") from None
        for name, source in one.items():
            _add(kernels, name, source, path)
    if not kernels:
        raise Error("no kernels in " + ", ".join(map(str, paths)))
    return kernels


# ---- translation units

DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)


def batches(kernels):
    """Names in groups that change little when a kernel comes or goes, so that old objects stay useful."""
    count = 1
    while count * BATCH < len(kernels):
        count *= 2
    groups = {}
    for name in sorted(kernels):
        where = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") % count
        groups.setdefault(where, []).append(name)
    return [groups[k] for k in sorted(groups)]


def unit_text(names, kernels, own_macros):
    """One translation unit. Macros of a source end with it, or the next kernel would inherit them."""
    lines = ['#include "simt.h"']
    for name in names:
        # A namespace of its own also among all units, as what sources call the same need not be the same.
        lines += [f"namespace k_{name} {{", f'#include "{name}.cu"', "}", f"SIMT_ENTRY({name}, k_{name}::{name})"]
        lines += [f"#undef {m}" for m in sorted(set(DEFINE.findall(kernels[name])) - own_macros)]
    return "\n".join(lines) + "\n"


interrupted = threading.Event()  # by Ctrl-C


class Compiler:
    def __init__(self, cxx, flavour, extra, work, objects):
        self.cxx, self.work, self.objects = cxx.split(), Path(work), objects and Path(objects)
        self.flags = COMMON + FLAVOURS[flavour] + list(extra)
        self.headers = "".join((HERE / h).read_text() for h in HEADERS)
        self.macros = set(DEFINE.findall(self.headers))
        version = self._run([*self.cxx, "--version"])
        if version.returncode:
            raise Error(f"{cxx}: {version.stderr.strip()}")
        self.version = version.stdout

    def _run(self, command):
        try:
            return subprocess.run(command, cwd=self.work, capture_output=True, text=True, errors="replace", check=False)
        except OSError as e:
            raise Error(f"{command[0]}: {e.strerror}") from None

    def compile(self, number, names, kernels):
        """The object file of one batch."""
        if interrupted.is_set():
            raise Error("interrupted")
        text = unit_text(names, kernels, self.macros)
        key = hashlib.sha256()
        for piece in (self.version, *self.flags, self.headers, text, *(kernels[n] for n in names)):
            key.update(piece.encode() + b"\0")
        kept = self.objects and self.objects / (key.hexdigest()[:32] + ".o")
        if kept and kept.exists():
            return kept
        unit, object_file = f"unit_{number}.cc", self.work / f"unit_{number}.o"
        (self.work / unit).write_text(text)
        # relative names, so that neither messages nor debugging data hold the folder of the day
        run = self._run([*self.cxx, *self.flags, f"-ffile-prefix-map={self.work}=.", f"-I{HERE}", "-c", unit, "-o", str(object_file)])
        if interrupted.is_set():
            raise Error("interrupted")
        if run.returncode:
            raise Error(self._explain(names, run.stderr))
        if not kept:
            return object_file
        temporary = kept.with_suffix(f".{os.getpid()}.{number}")
        shutil.copyfile(object_file, temporary)
        os.replace(temporary, kept)
        return kept

    @staticmethod
    def _explain(names, message):
        error = r"\.cu:\d+(:\d+)?: (fatal )?error"
        wrong = [n for n in names if re.search(r"(^|/)" + re.escape(n) + error, message, re.M)]
        return f"does not compile: {', '.join(wrong or names)}\n{message.rstrip()}"

    def link(self, objects, out):
        # kernels must name the engine they need, though it is not at hand here: an empty library of that name
        # will do
        stub, made = self.work / SONAME, self.work / "out.so"
        run = self._run([*self.cxx, "-shared", "-nostdlib", "-x", "c", "/dev/null", f"-Wl,-soname,{SONAME}", "-o", str(stub)])
        if run.returncode == 0:
            run = self._run([*self.cxx, "-shared", "-o", str(made), *map(str, objects), "-Wl,--no-as-needed", str(stub)])
        if run.returncode:
            raise Error(f"link: {run.stderr.strip()}")
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = out.with_name(f".{out.name}.{os.getpid()}")
        shutil.copyfile(made, temporary)
        os.replace(temporary, out)


def build(packs, out, flavour="plain", cxx="g++", sources=None, objects=None, jobs=None, extra=()):
    """Compile the kernels of `packs` into the shared library `out`; returns their names. Raises Error.

    sources: a folder where the kernel sources stay, for debuggers. objects: a folder of objects to use again;
    it knows nothing of what a source includes from elsewhere.
    """
    kernels = read_inputs(packs)
    if objects:
        Path(objects).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="simkernels-") as folder:
        work = Path(folder)
        for name, source in kernels.items():
            (work / f"{name}.cu").write_text(source)
            if sources:
                Path(sources).mkdir(parents=True, exist_ok=True)
                (Path(sources) / f"{name}.cu").write_text(source)
        compiler = Compiler(cxx, flavour, extra, work, objects and Path(objects).resolve())
        with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
            tasks = [pool.submit(compiler.compile, i, names, kernels) for i, names in enumerate(batches(kernels))]
            try:
                files = [t.result() for t in tasks]
            except Error:
                pool.shutdown(cancel_futures=True)
                raise
        compiler.link(files, Path(out).resolve())
    return sorted(kernels)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="kernel packs, or files ENTRY.cu")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.so")
    parser.add_argument("--flavour", choices=FLAVOURS, default="plain")
    parser.add_argument("--cxx", default="g++", help="the compiler; words are split at blanks")
    parser.add_argument("--flag", action="append", default=[], help="a further flag for the compiler")
    parser.add_argument("--sources", metavar="DIR", help="leave the kernel sources here")
    parser.add_argument("--objects", metavar="DIR", help="keep object files here and use them again")
    parser.add_argument("--jobs", type=int, metavar="N", help="compilers at a time (all cores)")
    a = parser.parse_args(arguments)
    # Not KeyboardInterrupt, which can strike while a thread is being started or the folder taken away, and leave either.
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        build(a.inputs, a.output, a.flavour, a.cxx, a.sources, a.objects, a.jobs, a.flag)
    except Error as e:
        if not interrupted.is_set():
            print(f"simkernels: {e}", file=sys.stderr)
            return 1
    if interrupted.is_set():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
