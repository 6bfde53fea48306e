#!/usr/bin/env python3
"""gnfuse as others build on it: a Meson subproject, and pkg-config over an installation, shared and static."""

import os
import tempfile
import unittest
from pathlib import Path

from building import CC, HERE, SOURCE, defined, run

PROJECT = """project('scratch', 'c', meson_version: '>=1.0.1', default_options: ['c_std=c11', 'buildtype=debug'])
gnfuse = dependency('gnfuse', fallback: ['gnfuse', 'gnfuse_dep'], default_options: ['tools=disabled', 'default_library=static'])
executable('host', 'host.c', dependencies: gnfuse)
"""


def environment(**variables):
    # the machine's own installation of gnfuse, if any, is not what is asked for
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GNFUSE_") and k not in ("DESTDIR", "CFLAGS")}
    return {**kept, "GNFUSE_CUDA_DRIVER": "/nonexistent/libcuda.so.1", **variables}


class Consumers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def check(self, program, **variables):
        said = run(program, env=environment(**variables))
        self.assertRegex(said, r"^version \d+\ncontext GNF_NO_DRIVER\ncalled 0\n$")

    def test_subproject(self):
        (self.folder / "subprojects").mkdir()
        (self.folder / "subprojects" / "gnfuse").symlink_to(SOURCE)
        (self.folder / "meson.build").write_text(PROJECT, encoding="ascii")
        (self.folder / "host.c").write_text((HERE / "host.c").read_text(encoding="ascii"), encoding="ascii")
        env, build = environment(), self.folder / "build"
        said = run("meson", "setup", build, self.folder, "--force-fallback-for=gnfuse", env=env)
        self.assertNotIn("cudasim", said)
        run("ninja", "-C", build, "host", env=env)
        self.check(build / "host")
        # nothing of gnfuse's own tests or tools came along
        self.assertEqual(list(build.rglob("libgnfuse_cudasim*")), [])

    def test_installation(self):
        build, root = self.folder / "build", self.folder / "root"
        env = environment(DESTDIR=str(root))
        run(
            "meson",
            "setup",
            build,
            SOURCE,
            "--prefix=/usr",
            "--libdir=lib",
            "--buildtype=debug",
            "-Dtests=disabled",
            "-Dtools=disabled",
            "-Ddefault_library=both",
            env=env,
        )
        run("ninja", "-C", build, "install", env=env)
        library = root / "usr" / "lib"
        self.assertEqual((library / "libgnfuse.so.0").resolve().name, "libgnfuse.so.0.1.0")
        self.assertTrue((root / "usr" / "include" / "gnfuse" / "gnfuse.h").exists())
        self.assertEqual([n for n in defined(library / "libgnfuse.a") if not n.startswith("gnf_")], [])
        installed = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
        self.assertEqual([p for p in installed if "core" in p or "test" in p or "cudasim" in p], [])

        paths = environment(PKG_CONFIG_PATH=str(library / "pkgconfig"))
        flags = ["pkg-config", f"--define-variable=prefix={root}/usr", "--cflags", "--libs"]
        shared, static = self.folder / "shared", self.folder / "static"
        common = [*CC, "-std=c11", "-fno-builtin", HERE / "host.c"]
        run(*common, *run(*flags, "gnfuse", env=paths).split(), "-o", shared)
        self.check(shared, LD_LIBRARY_PATH=str(library))
        (library / "libgnfuse.so").unlink()
        run(*common, *run(*flags, "--static", "gnfuse", env=paths).split(), "-o", static)
        self.assertNotIn("libgnfuse", run("ldd", static))
        self.check(static)

        pack = self.folder / "one.gnfpack"
        run(root / "usr" / "bin" / "gnfuse-gen", "f32[*,6,7] | groupnorm(3)", "-o", pack, env=paths)
        self.assertEqual(pack.read_bytes()[:8], b"gnfpack\n")


if __name__ == "__main__":
    unittest.main()
