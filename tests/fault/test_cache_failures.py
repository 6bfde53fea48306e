"""The kernel cache under damage, full and forbidden folders, other devices and locales (H13 to H16): always a right result."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from broken import Kernel, Workshop
from program import GEN, leftovers, listing, refused, run


def entries(cache):
    return sorted(cache.glob("*.cubin"))


def verified(cache):
    """`gnfuse cache verify` finds every entry whole; how many there are."""
    result = run("cache", "verify", "--json", "--cache-dir", cache, sim=False)
    assert result.status == 0 and result.json["damaged"] == 0, result
    return result.json["entries"]


# ---- H13: damage


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)


def folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("in the way")


DAMAGE = {
    "empty": lambda p: cut(p, 0),
    "half": lambda p: cut(p, p.stat().st_size // 2),
    "no header": lambda p: p.write_bytes(bytes(16) + p.read_bytes()[16:]),
    "one bit": flip,
    "one byte more": lambda p: p.write_bytes(p.read_bytes() + b"\0"),
    "a folder": folder,
}


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_entry_is_made_again(damage, which, known, warm):
    assert len(entries(warm)) == 3, "the record of the compiler and two kernels"
    victim = sorted(entries(warm), key=lambda p: p.stat().st_size)[which]
    whole = victim.read_bytes()
    DAMAGE[damage](victim)
    result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and result.json["ok"], result
    assert len(result.warnings) == 1 and victim.name in result.warnings[0] and "is damaged" in result.warnings[0], result
    assert "CUDA_ERROR" not in result.err
    assert result.json["compiled"] == len(result.compiled) == (which > 0)
    assert victim.read_bytes() == whole and verified(warm) == 3 and leftovers(warm) == []
    again = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=warm)
    assert again.json["compiled"] == 0 and again.err == "", again


def test_every_entry_damaged_is_one_warning(known, warm):
    for path in entries(warm):
        flip(path)
    result = known.run("run", "--check", GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and len(result.warnings) == 1 and len(result.compiled) == 2, result
    assert verified(warm) == 3


def test_verify_finds_and_removes_damage(warm):
    flip(entries(warm)[0])
    result = run("cache", "verify", "--json", "--cache-dir", warm, sim=False)
    assert result.status == 1 and result.json["damaged"] == 1 and result.json["entries"] == 2, result
    assert verified(warm) == 2


def test_entry_of_another_kernel_is_not_believed(known, warm):
    """Two whole entries, one under the other's name: the key text inside tells."""
    small, large = sorted(entries(warm), key=lambda p: p.stat().st_size)[1:]
    shutil.copy(small, large)
    result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and result.json["compiled"] == 1, result
    assert result.warnings == [], "the driver must not have seen it"
    assert verified(warm) == 3


# ---- H14: folders that cannot be written


def set_up_nothing(p):
    return {"GNFUSE_CACHE_DIR": None, "HOME": None}


def set_up_missing_home(p):
    return {"GNFUSE_CACHE_DIR": None, "HOME": p.folder / "none"}


def set_up_locked(p):
    (p.folder / "locked").mkdir(mode=0o555)
    return {"GNFUSE_CACHE_DIR": p.folder / "locked"}


def set_up_below_locked(p):
    (p.folder / "locked").mkdir(mode=0o555)
    return {"GNFUSE_CACHE_DIR": None, "HOME": p.folder / "locked"}


def set_up_file(p):
    (p.folder / "file").write_text("kept")
    return {"GNFUSE_CACHE_DIR": p.folder / "file"}


def set_up_relative_cache_home(p):
    return {"GNFUSE_CACHE_DIR": None, "HOME": None, "XDG_CACHE_HOME": "relative"}


def set_up_anothers(p):
    (p.folder / "anothers").mkdir()
    (p.folder / "anothers").chmod(0o777)
    return {"GNFUSE_CACHE_DIR": p.folder / "anothers"}


@pytest.mark.parametrize(
    "set_up", [v for k, v in list(globals().items()) if k.startswith("set_up_")], ids=lambda f: f.__name__.removeprefix("set_up_")
)
def test_cache_that_cannot_be_written(set_up, public):
    """As an ordinary user: compiles in memory and says once which setting to change; writes nothing anywhere."""
    settings = set_up(public)
    if set_up is set_up_anothers and not public.root:
        pytest.skip("needs root, for two users")
    before = listing(public.folder)
    result = public.run("--check", "--json", **settings)
    said = [line for line in result.err.splitlines() if "warning" in line]
    assert result.status == 0 and '"ok": true' in result.out, result
    assert len(said) == 1 and "GNFUSE_CACHE_DIR" in said[0], result
    assert listing(public.folder) == before


def test_read_only_file_system(public, known):
    place = public.folder / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k,uid=65534", "tmpfs", place], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        result = public.run("--check", GNFUSE_CACHE_DIR=place)
    finally:
        subprocess.run(["umount", place], check=True)
    assert result.status == 0 and "Read-only file system" in result.err and "GNFUSE_CACHE_DIR" in result.err, result


def test_generating_without_a_cache(tmp_path):
    """The command line's own files (packs, kernels for the simulator) need no cache either, and none is left behind."""
    problem = "f32[2,4] | groupnorm(2) | scale(2)"
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").write_text("kept")
    for settings in ({"HOME": tmp_path / "none"}, {"GNFUSE_CACHE_DIR": tmp_path / "file"}):
        result = run(
            "run", problem, "--check", cwd=tmp_path / "work", TMPDIR=tmp_path / "temporary", **{"GNFUSE_CACHE_DIR": None} | settings
        )
        assert listing(tmp_path / "work") == [] and listing(tmp_path / "temporary") == [], result
        assert result.status == 0 and len(result.warnings) == 1, result
    assert (tmp_path / "file").read_text() == "kept"


def test_folder_is_private(known, tmp_path):
    cache = tmp_path / "deep" / "cache"
    assert known.run("run", "-q", GNFUSE_CACHE_DIR=cache).err == ""
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o077 for p in entries(cache)} == {0}


# ---- a full disk


def test_cache_on_a_full_disk(known, tmp_path, file_limit):
    """Every write beyond 16 KiB fails, as an entry does: a warning, a right result, no part of an entry."""
    result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=tmp_path / "cache", preexec_fn=file_limit(16384))
    assert result.status == 0 and result.json["ok"] and result.json["compiled"] == 2, result
    assert len(result.warnings) == 1 and "File too large" in result.warnings[0] and "GNFUSE_CACHE_DIR" in result.warnings[0], result
    assert leftovers(tmp_path) == [] and verified(tmp_path / "cache") == 1, listing(tmp_path)


def test_cache_on_a_small_file_system(known, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(40000))
    result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=small_disk / "cache")
    assert result.status == 0 and result.json["ok"], result
    assert len(result.warnings) == 1 and "No space left on device" in result.warnings[0], result
    assert leftovers(small_disk / "cache") == [] and verified(small_disk / "cache") < 3
    filler.unlink()
    shutil.rmtree(small_disk / "cache")


@pytest.mark.parametrize("what", ["file", "disk"])
def test_output_on_a_full_disk(what, known, warm, tmp_path, file_limit, request):
    place = request.getfixturevalue("small_disk") if what == "disk" else tmp_path
    words = ["run", "-q", "--out", place / "y.npy"]
    problem = "f32[2000,6,5] | groupnorm(3)"  # 240 kB
    result = known.run(*words, problem=problem, GNFUSE_CACHE_DIR=warm, preexec_fn=file_limit(100000) if what == "file" else None)
    refused(result, 2, str(place / "y.npy"), "File too large|No space left")
    assert [p for p, _ in listing(place) if not p.startswith(("warm", "disk"))] == []


def test_generating_on_a_full_disk(tmp_path, file_limit):
    """Half a pack must not be found by the next run."""
    problem = "f32[2,4] | groupnorm(2) | scale(2)"
    cache = tmp_path / "cache"
    result = run("run", problem, "-q", GNFUSE_CACHE_DIR=cache, preexec_fn=file_limit(4096))
    last = result.err.splitlines()[-1]
    assert result.status in (2, 3) and last.startswith("gnfuse: run: ") and "Traceback" not in result.err, result
    assert "File too large" in result.err, result
    assert leftovers(cache) == [] and not list(cache.rglob("*.gnfpack")), listing(cache)


# ---- GNFUSE_JIT=off


def test_jit_off(known, warm, tmp_path):
    refused(
        known.run("run", "--json", GNFUSE_JIT="off", GNFUSE_CACHE_DIR=tmp_path / "cold"),
        3,
        rf"kernel gnf_{known.variant.replace('.', '_')}_\w+ is not compiled",
        "GNFUSE_JIT",
    )
    assert not (tmp_path / "cold").exists()
    result = known.run("run", "--check", "--json", GNFUSE_JIT="off", GNFUSE_NVRTC="/nonexistent", GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and result.json["compiled"] == 0 and result.err == "", result


# ---- H16: one cache, two devices and several kernels


def test_cache_moved_between_devices(known, tmp_path):
    seen = set()
    for capability, target in (("8.0", "sm_80"), ("9.0", "sm_90"), ("8.0", None), ("9.0", None)):
        result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=tmp_path, CUDASIM_DEVICES=f"cc={capability}")
        assert result.status == 0 and result.json["ok"] and result.json["gpu"].endswith(capability.replace(".", "")), result
        assert result.json["compiled"] == (2 if target else 0) and not result.warnings, result
        if target:
            assert set(re.findall(r" for (sm_\d+) ", result.err)) == {target}
            new = {p.name for p in entries(tmp_path)} - seen
            assert len(new) == 3
            seen |= new
    assert verified(tmp_path) == 6


def test_bounds_and_dtypes_that_share_a_cache(tmp_path):
    """Bounds are arguments, so they share a kernel and not a result; dtypes share nothing."""
    x = np.tile(np.arange(8, dtype=np.float32), 2).reshape(1, 4, 4)
    shop = Workshop(tmp_path)
    tile = {"threads": 128, "lanes": 32, "vector": 1, "items": 1}
    problems = {d: f"{d}[1,4,4] | groupnorm(2) | hardtanh(-1, 1)" for d in ("f32", "f16", "bf16")}
    packs = {d: shop.make(d, Kernel(p, "warp", tile))[0] for d, p in problems.items()}
    library = shop.build(packs, tmp_path / "kernels.so")
    made = 0
    for dtype, bound, compiled in (("f32", 1, 1), ("f32", 2, 0), ("f16", 2, 1), ("bf16", 2, 1), ("f32", 1, 0)):
        stored = x.astype("<f2") if dtype == "f16" else (x.view(np.uint32) >> 16).astype("<u2") if dtype == "bf16" else x
        np.save(tmp_path / "x.npy", stored)
        words = ["--in", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "y.npy", "--pack", packs[dtype], "--check", "--json"]
        problem = problems[dtype].replace("(-1, 1)", f"(-{bound}, {bound})")
        result = run("run", problem, *words, CUDASIM_KERNELS=library, GNFUSE_CACHE_DIR=tmp_path / "cache")
        assert result.status == 0 and result.json["compiled"] == compiled, result
        y = np.load(tmp_path / "y.npy")
        top = float((y.astype(np.uint32) << 16).view(np.float32).max() if dtype == "bf16" else y.max())
        assert abs(top - min(bound, 1.527524)) < {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}[dtype], (dtype, bound, top)
        made += compiled
    assert verified(tmp_path / "cache") == made + 1


# ---- H15: another locale


@pytest.fixture(scope="session")
def german(tmp_path_factory):
    """Settings of a locale with a decimal comma and digit grouping."""
    folder = tmp_path_factory.mktemp("locales")
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, text=True, check=False)
    settings = {"LC_ALL": "de_DE.UTF-8"} | ({"LOCPATH": folder} if (folder / "de_DE.UTF-8").exists() else {})
    probe = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.localeconv()['decimal_point'])"
    seen = subprocess.run(
        [sys.executable, "-c", probe], env={k: str(v) for k, v in settings.items()}, capture_output=True, text=True, check=False
    )
    if seen.stdout.strip() != ",":
        pytest.skip(f"there is no German locale, and none can be made: {made.stderr.strip()}")
    return settings


def test_locale_changes_nothing(german, tmp_path):
    """The input of H15: pack, cache key and result are those of the C locale."""
    problem = "f32[1,1,1048576] | groupnorm(1, eps=1e-5) | hardtanh(-0.5, 0.5)"
    packs = []
    for name, settings in (("c", {}), ("de", german)):
        env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C"} | {k: str(v) for k, v in settings.items()}
        subprocess.run(
            [sys.executable, GEN, "f32[2,6,5] | groupnorm(3, eps=1.5e-3) | hardtanh(-0.5, 0.5) | gelu", "-o", tmp_path / name],
            env=env,
            check=True,
        )
        packs.append((tmp_path / name).read_bytes())
    assert packs[0] == packs[1]

    shop = Workshop(tmp_path)
    pack, variant = shop.make("large", Kernel(problem, "split", {"threads": 256, "vector": 1, "items": 4, "lanes": 1, "chunk": 16384}))
    library = shop.build(["large"], tmp_path / "kernels.so")
    np.save(tmp_path / "x.npy", (np.arange(1 << 20) % 8).astype(np.float32).reshape(1, 1, -1))
    outputs, reports = [], []
    for name, settings in (("C", {}), ("de", german)):
        out = tmp_path / f"{name}.npy"
        words = ["--in", f"x={tmp_path / 'x.npy'}", "--out", out, "--pack", pack, "--variant", variant, "--check", "--json"]
        result = run("run", problem, *words, CUDASIM_KERNELS=library, GNFUSE_CACHE_DIR=tmp_path / "cache", **settings)
        assert result.status == 0, result
        outputs.append(out.read_bytes())
        reports.append(result.json)
    assert outputs[0] == outputs[1]
    assert (reports[0].pop("compiled"), reports[1].pop("compiled")) == (3, 0) and reports[0] == reports[1]
    y = np.load(tmp_path / "de.npy").reshape(-1, 8)
    assert np.abs(y - np.array([-0.5, -0.5, -0.5, -0.218218, 0.218218, 0.5, 0.5, 0.5])).max() < 1e-5
