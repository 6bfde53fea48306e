import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from program import GNFUSE, SIM, environment, run

PROBLEM = "f32[2,6,5] | groupnorm(3)"


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """A problem whose kernels are there: .pack, .library (host-compiled), .warm (a cache that has its two cubins), .variant
    (the default one) and .fallback (for any alignment).

    .run(...) takes pack and kernels from there, so the cache folder that a test names holds cubins and nothing else.
    """
    folder = tmp_path_factory.mktemp("known")
    result = run("run", PROBLEM, "--check", "--json", "--cache-dir", folder / "cache")
    assert result.status == 0, result
    (pack,), (library,) = (list((folder / "cache" / "packs").glob("*" + end)) for end in (".gnfpack", ".so"))
    k = SimpleNamespace(problem=PROBLEM, pack=folder / "known.gnfpack", library=folder / "known.so", warm=folder / "cache")
    k.variant, k.fallback = result.json["variant"], result.json["fallback"]
    assert result.json["compiled"] == 2, "the tests count on a variant of vectors and one for any alignment"
    shutil.move(pack, k.pack)
    shutil.move(library, k.library)
    shutil.rmtree(k.warm / "packs")

    def run_known(command, *words, problem=PROBLEM, **settings):
        return run(command, problem, *words, "--pack", k.pack, **{"CUDASIM_KERNELS": k.library, **settings})

    k.run = run_known
    return k


@pytest.fixture
def warm(known, tmp_path):
    """A copy of the warm cache, to be harmed."""
    return Path(shutil.copytree(known.warm, tmp_path / "warm"))


@pytest.fixture
def public(known):
    """A folder that every user reaches, with the program, its simulator and the known kernels; .run(...) runs them there as
    an ordinary user, since mode bits mean nothing to root. Its folder `work` is that user's working directory."""
    folder = Path(tempfile.mkdtemp(prefix="gnfuse-fault-"))
    folder.chmod(0o755)
    for source in (GNFUSE, SIM, known.pack, known.library):
        shutil.copy(source, folder)
    (folder / "work").mkdir()
    for path in (folder / "work", *folder.iterdir()):
        path.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        os.chown(folder / "work", 65534, 65534)

    def become_ordinary():
        if root:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    def run_there(*words, command="run", **settings):
        settings = {
            "GNFUSE_CUDA_DRIVER": folder / Path(SIM).name,
            "CUDASIM_KERNELS": folder / known.library.name,
            "TMPDIR": folder / "work",
        } | settings
        words = [command, known.problem, "--pack", folder / known.pack.name, "--device", "sim", *words]
        done = subprocess.run(
            [folder / Path(GNFUSE).name, *map(str, words)],
            env=environment(**settings),
            cwd=folder / "work",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=become_ordinary,
        )
        return SimpleNamespace(words=words, status=done.returncode, out=done.stdout, err=done.stderr)

    yield SimpleNamespace(folder=folder, work=folder / "work", run=run_there, root=root)
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def file_limit():
    """file_limit(bytes): for preexec_fn; writing beyond that is an error (as on a full disk) and not a signal."""
    import resource

    def limit(size):
        def apply():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return apply

    return limit


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB; skipped where it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
