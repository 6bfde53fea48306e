#!/usr/bin/env python3
"""gnfuse.h is valid C and C++ of every standard, whatever else is included and in which order (H27)."""

import tempfile
import unittest
from pathlib import Path

from building import CC, CUDA_INCLUDE, CXX, INCLUDE, compilers, run

C = ("c99", "c11", "c17")
CPP = ("c++11", "c++17", "c++20")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

# An initialiser by position, a null stream, a pointer to each function: what both languages take.
USE = """
static int on_progress(void *user, const gnf_tune_progress *progress)
{
    return user == NULL && progress->done == progress->total;
}
int use(void);
int use(void)
{
    gnf_context_options options = {sizeof(gnf_context_options), NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, GNF_LOG_ERROR, NULL, NULL};
    gnf_tune_options tuning = {sizeof(gnf_tune_options), 3, 1.5, 0, NULL, on_progress, NULL};
    gnf_tune_report report;
    gnf_variant_info info;
    gnf_context *context = NULL;
    gnf_arguments arguments;
    gnf_status (*create)(gnf_context **, const gnf_context_options *) = gnf_context_create;
    arguments.size = sizeof arguments;
    report.size = sizeof report;
    info.size = sizeof info;
    if (gnf_tune(NULL, NULL, &tuning, &report) != GNF_INVALID_ARGUMENT || gnf_get_variant(NULL, NULL, 0, &info) == GNF_OK)
        return 0;
    arguments.operand[GNF_MAX_OPERANDS - 1] = 0;
    return create(&context, &options) == GNF_OK && gnf_execute(NULL, &arguments, NULL) == GNF_INVALID_ARGUMENT &&
           gnf_prepare_weight(NULL, 0, 0, 0, NULL) == GNF_INVALID_ARGUMENT;
}
"""
# Its handles are the driver's own types.
SAME_TYPES = """
CUcontext same_context(gnf_cuda_context c);
CUstream same_stream(gnf_stream s);
CUcontext same_context(gnf_cuda_context c) { return c; }
CUstream same_stream(gnf_stream s) { return s; }
"""
HEADER, CUDA = "#include <gnfuse/gnfuse.h>\n", "#include <cuda.h>\n"
SOURCES = {
    "alone": HEADER + USE,
    "twice": HEADER + HEADER + USE,
    "before cuda.h": HEADER + CUDA + USE + SAME_TYPES,
    "after cuda.h": CUDA + HEADER + USE + SAME_TYPES,
}


class Header(unittest.TestCase):
    def compile(self, compiler, standard, language, text):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / ("one.c" if language == "c" else "one.cc")
            source.write_text(text, encoding="ascii")
            run(*compiler, f"-std={standard}", "-fsyntax-only", *WARNINGS, f"-I{INCLUDE}", "-isystem", CUDA_INCLUDE, source)

    def each(self, own, others, standards, language):
        for compiler in compilers(own, others):
            for standard in standards:
                for name, text in SOURCES.items():
                    with self.subTest(compiler=compiler, standard=standard, source=name):
                        self.compile(compiler, standard, language, text)

    def test_c(self):
        self.each(CC, ("gcc", "clang"), C, "c")

    def test_cpp(self):
        self.each(CXX, ("g++", "clang++"), CPP, "c++")

    def test_linkage_guard(self):
        """In C++ its functions have C linkage: the object asks for the plain name."""
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / "one.cc", Path(folder) / "one.o"
            source.write_text(HEADER + "int version() { return gnf_version(); }\n", encoding="ascii")
            run(*CXX, "-c", f"-I{INCLUDE}", source, "-o", made)
            self.assertIn(" U gnf_version\n", run("nm", made))

    def test_it_defines_only_its_own_names(self):
        """Of the macros that it adds to those of the two standard headers, each is ours."""

        def macros(text):
            lines = run(*CC, "-dM", "-E", "-x", "c", f"-I{INCLUDE}", "-", input=text).splitlines()
            return {line.split()[1].split("(")[0] for line in lines}

        new = macros(HEADER) - macros("#include <stddef.h>\n#include <stdint.h>\n")
        self.assertTrue(new)
        self.assertEqual([n for n in sorted(new) if not n.startswith("GNF")], [])


if __name__ == "__main__":
    unittest.main()
