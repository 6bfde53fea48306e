"""NVRTC that is missing, incomplete, older than the GPU or exchanged (H16 to H18), and gnfuse interrupted at work."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from program import GNFUSE, ROOT, SIM, environment, leftovers, listing, refused, run

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def nvrtc():
    """Path of the NVRTC that gnfuse finds."""
    info = run("info", "--device", "sim", sim=False, GNFUSE_CUDA_DRIVER=SIM)
    found = re.search(r"^NVRTC +(\S+),", info.out, re.M)
    assert found, info
    return found.group(1)


def compiled_c(folder, source, *flags):
    out = folder / (source.stem + ".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", out, source, "-ldl", *flags], check=True)
    return out


@pytest.fixture(scope="session")
def wrapper(nvrtc, tmp_path_factory):
    """Settings for NVRTC as it is, but for what WRAP_NVRTC_ARCHS and WRAP_NVRTC_VERSION say."""
    # The builtins too, since only those beside the library that gnfuse opens are found without the loader's help.
    beside = Path(nvrtc).parent
    needed = [nvrtc, *beside.glob("libnvrtc-builtins.so.*[0-9]")]
    library = compiled_c(tmp_path_factory.mktemp("wrapper"), HERE / "wrap_nvrtc.c", "-Wl,--no-as-needed", *needed, f"-Wl,-rpath,{beside}")
    return {"GNFUSE_NVRTC": library, "WRAP_NVRTC": nvrtc}


@pytest.fixture(scope="session")
def stub(tmp_path_factory):
    """An NVRTC that compiles nothing: what it says is set by STUB_NVRTC_*."""
    return compiled_c(tmp_path_factory.mktemp("stub"), ROOT / "tests" / "unit" / "stub_nvrtc.c")


# ---- missing and broken


def test_no_nvrtc(known, warm, tmp_path):
    cold = tmp_path / "cold"
    for command in ("run", "check"):
        result = known.run(command, "--json", GNFUSE_NVRTC="/nonexistent/libnvrtc.so", GNFUSE_CACHE_DIR=cold)
        refused(result, 3, "NVRTC is needed", "/nonexistent/libnvrtc.so", "GNFUSE_NVRTC")
    assert [p for p in tmp_path.rglob("*") if p.is_file() and cold in p.parents] == []
    result = known.run("run", "--check", "--json", GNFUSE_NVRTC="/nonexistent/libnvrtc.so", GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and result.json["compiled"] == 0 and result.err == "", result
    result = known.run("run", "--check", GNFUSE_CACHE_DIR=cold)
    assert result.status == 0 and len(result.compiled) == 2, result


def test_compile_command_without_nvrtc(known, tmp_path):
    words = ["--arch", "sm_90", "--output-dir", tmp_path / "cubins", "--pack", known.pack, "--json"]
    refused(
        run("compile", known.problem, *words, sim=False, GNFUSE_NVRTC="/nonexistent", GNFUSE_CACHE_DIR=tmp_path / "cache"),
        3,
        "NVRTC is needed",
        "/nonexistent",
    )
    assert listing(tmp_path) == []


def test_nvrtc_that_is_none(known, tmp_path):
    text = tmp_path / "libnvrtc.so"
    text.write_bytes(b"not a library\n" * 100)
    refused(known.run("run", GNFUSE_NVRTC=text, GNFUSE_CACHE_DIR=tmp_path / "c"), 3, "NVRTC is needed", str(text))
    refused(known.run("run", GNFUSE_NVRTC="libm.so.6", GNFUSE_CACHE_DIR=tmp_path / "c"), 3, r"libm\.so\.6 \(not NVRTC")


def test_no_toolkit_beside_nvrtc(known, nvrtc, tmp_path):
    """H18: sources include nothing, so no toolkit folder is needed."""
    result = known.run("run", "--check", GNFUSE_NVRTC=nvrtc, CUDA_HOME=None, CUDA_PATH=None, HOME="/nonexistent", GNFUSE_CACHE_DIR=tmp_path)
    assert result.status == 0 and len(result.compiled) == 2, result


def test_builtins_are_hidden(known, nvrtc, tmp_path):
    """NVRTC opens its builtins library by name, so a copy that asks for a name nobody has stands for a machine without it."""
    data = Path(nvrtc).read_bytes()
    name = b"libnvrtc-builtins.so"
    assert name in data, "NVRTC opens its builtins under another name: adapt the test"
    hidden = tmp_path / "libnvrtc.so.13"
    hidden.write_bytes(data.replace(name, b"libnvrtc-builtinz.so"))
    result = known.run("run", "-q", "--json", GNFUSE_NVRTC=hidden, GNFUSE_CACHE_DIR=tmp_path / "cache")
    hidden.unlink()
    assert result.status == 4 and result.json["ok"] is False, result
    assert re.search(r"gnf_warp_\w+ for sm_90: NVRTC \d+\.\d+ says NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", result.err), result
    assert "failed to open libnvrtc-builtinz.so" in result.err, result
    assert leftovers(tmp_path / "cache") == []


# ---- GPU and NVRTC that do not know each other


def test_gpu_newer_than_nvrtc(known, wrapper, tmp_path):
    """H17: no exact target, so PTX of the highest virtual one below, which the driver finishes."""
    result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=tmp_path, WRAP_NVRTC_ARCHS="75,80", **wrapper)
    assert result.status == 0 and result.json["ok"] and set(re.findall(r" for (\w+) \(", result.err)) == {"compute_80"}, result
    again = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=tmp_path, WRAP_NVRTC_ARCHS="75,80", **wrapper)
    assert again.status == 0 and again.json["compiled"] == 0, again


def test_gpu_older_than_nvrtc(known, stub, tmp_path):
    settings = {"GNFUSE_NVRTC": stub, "GNFUSE_CACHE_DIR": tmp_path, "CUDASIM_DEVICES": "cc=8.0"}
    result = known.run("run", "--json", STUB_NVRTC_ARCHS="90,100,120", STUB_NVRTC_VERSION="14010", **settings)
    refused(result, 3, r"capability is 8\.0", r"NVRTC 14\.1", r"9\.0 to 12\.0")
    assert leftovers(tmp_path) == [] and list(tmp_path.glob("*.cubin")) == []


def test_nvrtc_of_another_version(known, wrapper, tmp_path):
    """H16: the version is part of the key; going back finds the old entries again."""
    for version, compiled in (("13000", 2), ("14000", 2), ("13000", 0)):
        # The library's file is what tells a new one, so it has to look new.
        fresh = tmp_path / f"libnvrtc-{version}.so"
        if not fresh.exists():
            shutil.copy(wrapper["GNFUSE_NVRTC"], fresh)
        settings = wrapper | {"GNFUSE_NVRTC": fresh, "WRAP_NVRTC_VERSION": version}
        result = known.run("run", "--check", "--json", GNFUSE_CACHE_DIR=tmp_path / "cache", **settings)
        assert result.status == 0 and result.json["compiled"] == compiled and not result.warnings, (version, result)
    assert len(list((tmp_path / "cache").glob("*.cubin"))) == 5


def test_nvrtc_log_reaches_the_caller(known, stub, tmp_path):
    settings = {"GNFUSE_NVRTC": stub, "STUB_NVRTC_ARCHS": "80,90", "STUB_NVRTC_FAIL": "builtins", "GNFUSE_CACHE_DIR": tmp_path}
    result = known.run("run", "-q", **settings)
    assert (
        result.status == 4 and "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE" in result.err and "libnvrtc-builtins.so.12.4" in result.err
    ), result
    # Neither a cubin nor PTX: the driver's word, not a crash.
    del settings["STUB_NVRTC_FAIL"]
    result = known.run("run", "-q", "--json", **settings)
    assert result.status == 4 and "cuModuleLoadData" in result.err and "cuModuleLoadData" in result.json["error"], result


# ---- Ctrl-C


def interrupt(words, settings, marker, wait=0.0):
    """Sends SIGINT to the whole group, as a terminal does, once a line with `marker` is on stderr; (status, seconds until the end)."""
    process = subprocess.Popen(
        [GNFUSE, *map(str, words)],
        env=environment(GNFUSE_CUDA_DRIVER=SIM, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stderr:
            if marker in line:
                break
        else:
            pytest.fail(f"ended with {process.wait()} before it said '{marker}'")
        time.sleep(wait)
        start = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        seconds = time.monotonic() - start
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    # Helpers may outlive the program for a moment.
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.02)
    return process.returncode, seconds


def test_interrupted_check(known, warm, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = ["check", "f32[20000,6,5] | groupnorm(3)", "--pack", known.pack, "--device", "sim"]
    settings = {"CUDASIM_KERNELS": known.library, "GNFUSE_CACHE_DIR": warm, "TMPDIR": temporary}
    status, seconds = interrupt(words, settings, "[1/")
    assert status in (-signal.SIGINT, 128 + signal.SIGINT) and seconds < 2, (status, seconds)
    assert leftovers(warm) == [] and listing(temporary) == []


def test_interrupted_compile(known, tmp_path):
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    words = ["check", known.problem, "--pack", known.pack, "--device", "sim"]
    settings = {"CUDASIM_KERNELS": known.library, "GNFUSE_CACHE_DIR": cache, "TMPDIR": temporary}
    status, seconds = interrupt(words, settings, "compiling gnf_", 0.05)
    assert status in (-signal.SIGINT, 128 + signal.SIGINT) and seconds < 2, (status, seconds)
    assert leftovers(cache) == [] and listing(temporary) == []
    assert run("cache", "verify", "--json", "--cache-dir", cache, sim=False).json["damaged"] == 0
    # The lock of the process that is gone holds nobody up.
    start = time.monotonic()
    result = known.run("run", "--check", GNFUSE_CACHE_DIR=cache)
    assert result.status == 0 and time.monotonic() - start < 10, result


@pytest.mark.parametrize("marker", ["generating kernels", "for the simulator"])
def test_interrupted_generator(marker, tmp_path):
    """Ctrl-C reaches the helpers too: whatever stage they are in, nothing half-made is found later."""
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    problem = "f32[2,4] | groupnorm(2) | scale(2)"
    status, seconds = interrupt(["run", problem, "--device", "sim"], {"GNFUSE_CACHE_DIR": cache, "TMPDIR": temporary}, marker, 0.15)
    assert status != 0 and seconds < 3, (status, seconds)
    assert leftovers(cache) == [] and listing(temporary) == [], (listing(cache), listing(temporary))
    result = run("run", problem, "--check", GNFUSE_CACHE_DIR=cache, TMPDIR=temporary)
    assert result.status == 0 and listing(temporary) == [], result
