#!/usr/bin/env python3
"""What the library exports and needs, and a host program of clashing names over it, shared and static (H26, H27)."""

import ctypes
import os
import re
import tempfile
import unittest
from pathlib import Path

from building import CC, CFLAGS, HERE, INCLUDE, defined, run

LIBRARY = Path(os.environ.get("GNF_LIBRARY", "libgnfuse.so"))
ARCHIVE = Path(os.environ.get("GNF_ARCHIVE", "libgnfuse_core.a"))
PROBLEM = "f32[2,6,7] | groupnorm(3) | add(r: full)"


def exports():
    return (HERE / "exports.txt").read_text(encoding="ascii").split()


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class Symbols(unittest.TestCase):
    def test_exports(self):
        self.assertEqual(defined(LIBRARY, dynamic=True), exports())

    def test_exports_are_what_the_header_declares(self):
        text = (INCLUDE / "gnfuse" / "gnfuse.h").read_text(encoding="utf-8")
        declared = re.findall(r"^GNF_API\s[^;(]*?\b(\w+)\(", text, re.M)
        self.assertEqual(sorted(declared), exports())

    def test_archive(self):
        names = defined(ARCHIVE)
        self.assertTrue(set(exports()) <= set(names))
        self.assertEqual([n for n in names if not n.startswith("gnf_")], [])

    def test_needed(self):
        dynamic = run("readelf", "-d", LIBRARY)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertTrue(needed)
        for name in needed:
            self.assertNotRegex(name, r"^lib(cuda|cudart|nvrtc|nvJitLink|cublas|nvidia)")
        self.assertIn("[libgnfuse.so.0]", dynamic)
        self.assertNotRegex(dynamic, r"\((RPATH|TEXTREL)\)")

    def test_calls_of_the_c_library_that_a_guest_must_not_make(self):
        """Nothing that changes the process, ends it or prints on its own."""
        wanted = {line.split()[-1].split("@")[0] for line in run("nm", "-u", ARCHIVE).splitlines() if line.strip()}
        forbidden = {
            "setlocale",
            "uselocale",
            "signal",
            "sigaction",
            "exit",
            "_exit",
            "abort",
            "printf",
            "puts",
            "putchar",
            "perror",
            "chdir",
            "umask",
            "setenv",
            "putenv",
            "srand",
            "rand",
            "atexit",
            "strtok",
            "strerror_l",
            "strtod",
            "atof",
            "sscanf",
            "system",
            "fork",
        }
        self.assertEqual(sorted(wanted & (forbidden | {f"__isoc99_{n}" for n in forbidden})), [])


class Host(unittest.TestCase):
    """host.c over the shared library and over the archive."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        common = [*CC, *CFLAGS, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{INCLUDE}", HERE / "host.c"]
        cls.programs = {}
        for name, link in {
            # exported, the program's names come before the library's for everyone who looks names up
            "shared": ["-rdynamic", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"],
            "static": ["-rdynamic", ARCHIVE, "-ljansson", "-lxxhash", "-lzstd", "-lpthread", "-ldl", "-lm"],
        }.items():
            cls.programs[name] = Path(cls.folder.name) / name
            run(*common, *link, "-o", cls.programs[name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def environment(self, **variables):
        kept = {k: v for k, v in os.environ.items() if k not in ("GNFUSE_CUDA_DRIVER", "GNFUSE_LOG", "GNFUSE_CACHE_DIR")}
        return {**kept, "GNFUSE_CACHE_DIR": str(Path(self.folder.name) / "cache"), **variables}

    @unittest.skipUnless(os.environ.get("GNFUSE_CUDA_DRIVER"), "no GNFUSE_CUDA_DRIVER")
    def test_the_hosts_names_stay_its_own(self):
        env = self.environment(GNFUSE_CUDA_DRIVER=os.environ["GNFUSE_CUDA_DRIVER"])
        for name, program in self.programs.items():
            with self.subTest(link=name):
                said = run(program, PROBLEM, env=env).split("\n")
                self.assertEqual(said[1:4], ["context GNF_OK", "plan GNF_OK", "called 0"])

    def test_no_driver(self):
        """H26: without a driver the program starts, has its version, and is told so."""
        env = self.environment() if not has_driver() else self.environment(GNFUSE_CUDA_DRIVER="/nonexistent/libcuda.so.1")
        for name, program in self.programs.items():
            with self.subTest(link=name):
                said = run(program, PROBLEM, env=env)
                self.assertRegex(said, r"^version [1-9]\d*\ncontext GNF_NO_DRIVER\ncalled 0\n$")

    def test_no_driver_needs_no_cuda_files(self):
        """The program needs no library but the C library and those of the distribution."""
        for name, program in self.programs.items():
            with self.subTest(link=name):
                self.assertNotRegex(run("ldd", program), r"lib(cuda|nvrtc|cublas)")


if __name__ == "__main__":
    unittest.main()
