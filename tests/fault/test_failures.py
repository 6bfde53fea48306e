"""Wrong input and missing parts through the command line: each has its exit status and one clear line, and leaves nothing."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from broken import Kernel, Workshop
from program import GNFUSE, SIM, environment, leftovers, listing, refused, run

# ---- usage

GOOD = "f32[2,6,5] | groupnorm(3)"
USAGE = {
    "no command": ([], r"no command"),
    "unknown command": (["frobnicate"], r"'frobnicate'.*run, check"),
    "no problem": (["run"], r"PROBLEM is missing"),
    "two problems": (["run", GOOD, "f32[1,2]"], r"'f32\[1,2\]' is too much"),
    "unknown option": (["run", GOOD, "--frobnicate"], r"--frobnicate"),
    "unknown letter": (["run", GOOD, "-z"], r"-z"),
    "option of another command": (["check", GOOD, "--out", "y.npy"], r"--out.*check"),
    "value missing": (["run", GOOD, "--seed"], r"--seed"),
    "value for a switch": (["run", GOOD, "--check=1"], r"--check"),
    "device": (["run", GOOD, "--device", "gpu"], r"--device.*'gpu'.*sim"),
    "device negative": (["run", GOOD, "--device", "-1"], r"--device.*'-1'"),
    "device too long": (["run", GOOD, "--device", "99999999999999999999"], r"--device.*'9+'"),
    "seed": (["run", GOOD, "--seed", "1e3"], r"--seed.*'1e3'"),
    "seed too large": (["check", GOOD, "--seed", "18446744073709551616"], r"--seed.*'18446744073709551616'"),
    "architecture": (["compile", GOOD, "--arch", "sm_x"], r"--arch.*'sm_x'"),
    "no architecture": (["compile", GOOD], r"--arch"),
    "input without a name": (["run", GOOD, "--in", "x.npy"], r"--in.*'x.npy'.*NAME=FILE"),
    "cache action": (["cache", "frobnicate"], r"'frobnicate'.*stats, verify, clear"),
    "tune nothing": (["tune"], r"PROBLEM is missing, or --all"),
    "tune all and one": (["tune", "--all", GOOD], r"--all.*one of the two"),
    "tune any N": (["tune", "f32[*,6,5] | groupnorm(3)"], r"N.*has to be a number"),
    "budget": (["tune", GOOD, "--budget", "-1"], r"--budget: '-1' is not a number of seconds"),
    "budget in another locale": (["tune", GOOD, "--budget", "1,5"], r"--budget: '1,5'"),
    "hang": (["compare", GOOD, "--hang", "0"], r"--hang: '0'"),
    "jobs": (["tune", GOOD, "--jobs", "0"], r"--jobs: '0'.*1 to 1024"),
    "devices": (["tune", GOOD, "--devices", "x"], r"--devices: 'x'.*all, or numbers from 0 to 255"),
    "devices with a gap": (["tune", GOOD, "--devices", "0,,1"], r"--devices: '0,,1'.*all, or numbers from 0 to 255"),
    "devices too large": (["tune", GOOD, "--devices", "256"], r"--devices: '256'"),
    "devices and a device": (["tune", GOOD, "--devices", "0", "--device", "sim"], r"--devices.*one of the two"),
    "database without a name": (["tune", GOOD, "--db", ""], r"--db: '' is empty"),
    "database in a folder's place": (["tune", GOOD, "--db", "/"], r"/: cannot be written"),
    "tune a variant": (["tune", GOOD, "--variant", "v"], r"--variant: is not an option of tune"),
    "database action": (["db", "frobnicate"], r"'frobnicate'.*show, explain PROBLEM, merge A B..., export"),
    "explain nothing": (["db", "explain"], r"explain.*one PROBLEM"),
    "merge nothing": (["db", "merge"], r"merge.*files"),
    "merge a file that is not there": (["db", "merge", "a.jsonl", "--output", "o.jsonl"], r"a\.jsonl: cannot be read"),
    "export into no folder": (["db", "export", "--output", "none/o.jsonl"], r"none/o\.jsonl: cannot be written.*--output"),
    "compare two": (["compare", GOOD, GOOD], r"is too much: one PROBLEM"),
    "page in no folder": (["compare", GOOD, "--html", "none/page.html"], r"none/page\.html: cannot be written.*--html"),
    "bench nothing": (["bench"], r"PROBLEM is missing"),
    "worker by hand": (["worker", "frobnicate"], r"'frobnicate'.*measure, compile"),
}


@pytest.mark.parametrize("name", USAGE)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_wrong_usage(name, form, tmp_path):
    words, pattern = USAGE[name]
    if words:
        words = [*words[:1], *form, *words[1:]]
    refused(run(*words, sim=False, cwd=tmp_path, GNFUSE_CACHE_DIR=tmp_path / "cache"), 2, pattern)
    assert listing(tmp_path) == []


@pytest.mark.parametrize(
    "variable, value", [("GNFUSE_JIT", "perhaps"), ("GNFUSE_LOG", "loud"), ("GNFUSE_CACHE_LIMIT", "-1"), ("GNFUSE_CACHE_LIMIT", "1.5")]
)
def test_wrong_environment(variable, value, known, tmp_path):
    refused(known.run("run", GNFUSE_CACHE_DIR=tmp_path, **{variable: value}), 2, variable, f'"{value}"')
    assert listing(tmp_path) == []


# ---- problems (H11)

PROBLEMS = {
    "f32[1,4] | groupnorm(0)": r"groups = 0",
    "f32[1,4] | groupnorm(-1)": r"groups = -1",
    "f32[1,6] | groupnorm(5)": r"groups = 5.*C = 6",
    "f32[1,6,2] | groupnorm(4)": r"groups = 4.*C = 6",
    "f32[1,4] | groupnorm(8)": r"groups = 8.*C = 4",
    "f32[1,4] | groupnorm(2, eps=-1)": r"eps = -1",
    "f32[1,4] | groupnorm(2, eps=0)": r"eps = 0",
    "f32[1,4] | groupnorm(2, eps=nan)": r"eps = nan",
    "f32[1,4] | groupnorm(2, eps=1e999)": r"eps = 1e999",
    "f32[1,4] | groupnorm(2) | hardtanh(1, -1)": r"max = -1.*min = 1",
    "f32[1,4] | groupnorm(2) | clamp(nan, 1)": r"min = nan",
    "f32[1,4] | groupnorm(2) | clamp(1)": r"max",
    "f32[1,4] | groupnorm": r"groups is missing",
    "f32[1,4] | groupnorm(2": r"unexpected end",
    "f32[1,4] | groupnorm(2) |": r"(operation|stage)",
    "f32[1,4]": r"no groupnorm",
    "f32[1,4] | groupnorm(2) | groupnorm(2)": r"second groupnorm",
    "f32[1,4] | groupnorm(2) | frobnicate": r"'frobnicate'",
    "f32[1,4] | groupnorm(2) | add(later) | later = relu": r"'later'",
    "f32[1,4] | groupnorm(2) | add(r: wide)": r"wide",
    "f32[1,4] | groupnorm(2) | add(r: full) | mul(r: channel)": r"r\b",
    "f32[1,4,5] | groupnorm(2) | sum | max": r"max after a reduction",
    "f64[1,4] | groupnorm(2)": r"'f64'.*f32, f16, bf16",
    "f32[4] | groupnorm(2)": r"1 size",
    "f32[1,2,3,4,5,6] | groupnorm(1)": r"6 sizes",
    "f32[1,0] | groupnorm(1)": r"C = 0",
    "f32[1,*] | groupnorm(1)": r"C = \*",
    "f32[-1,4] | groupnorm(2)": r"N = -1",
    "f32[1,4]:nhcw | groupnorm(2)": r"nhcw",
    "": r"dtype",
    "f32[99999999999999999999,4] | groupnorm(2)": r"N = 99999999999999999999",
    "f32[1099511627776,1048576,1048576] | groupnorm(2)": r"63 bits",
    "f32[4294967296,4294967296] | groupnorm(1)": r"63 bits",
    "f32[2,4] | silu | linear(4) | groupnorm(2)": r"linear after another stage",
    "f32[2,4] | linear(4, tf32, strict) | groupnorm(2)": r"tf32 and strict",
    "f16[2,4] | linear(4, tf32) | groupnorm(2)": r"tf32 for f16",
    "f32[2,4] | linear(6) | groupnorm(2) | add(x)": r"label 'x' has other sizes",
    "f32[2,4] | linear(6) | groupnorm(2) | add(bias: channel)": r"tensor name 'bias'",
    "f32[2,4,8,8] | silu | conv2d(4, 3) | groupnorm(2)": r"conv2d after another stage",
    "f32[2,4,8,8] | conv2d(4, 9) | groupnorm(2)": r"kernel = 9",
    "f32[2,4,0,8] | groupnorm(2) | maxpool2d(1)": r"no spatial element",
    "f32[2,4,0] | groupnorm(2) | mean(all)": r"no spatial element",
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_wrong_problem(problem, tmp_path):
    """Refused before any work, pointing at the character."""
    result = run("run", problem, "--out", tmp_path / "y.npy", "--cache-dir", tmp_path / "cache")
    refused(result, 2, PROBLEMS[problem])
    shown, caret = result.err.splitlines()[1:3]
    # The text may be shown in its canonical form.
    assert shown[2:].replace(" ", "") == problem.replace(" ", "") and caret.strip() == "^", result
    assert caret.index("^") <= len(shown), result
    # Of a stage that only planning refuses, the cache's folder may be there by then.
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    "problem", ["f32[1,6] | groupnorm(5)", "f32[1,4] | groupnorm(2, eps=nan)", "f32[1,4] | groupnorm(2) | frobnicate", ""]
)
@pytest.mark.parametrize("command", ["run", "check", "kernels", "compile"])
def test_wrong_problem_of_every_command(command, problem, tmp_path):
    words = ["--arch", "sm_90"] if command == "compile" else []
    refused(run(command, problem, *words, "--json", "--cache-dir", tmp_path / "cache", sim=False), 2, PROBLEMS[problem])
    assert listing(tmp_path) == []


def test_sizes_beyond_memory(known, tmp_path):
    """Legal as text, and more than any machine has."""
    refused(
        known.run("run", "--out", tmp_path / "y.npy", problem="f32[1,1048576,1048576,1048576] | groupnorm(2)"),
        4,
        r"x.*memory.*4611686018427387904 bytes",
    )
    assert listing(tmp_path) == []


def test_no_batch_size(known):
    refused(known.run("run", problem="f32[*,6,5] | groupnorm(3)"), 2, r"N is \*", r"--in x=")


@pytest.mark.parametrize("command", ["run", "check", "kernels"])
def test_unknown_variant(command, known, warm):
    refused(known.run(command, "--variant", "warp.t1", GNFUSE_CACHE_DIR=warm), 2, r"variant.*'warp.t1'", re.escape(known.variant))


# ---- files in


def write(path, data):
    path.write_bytes(data)
    return path


def npy_bytes(array, **header):
    from io import BytesIO

    out = BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | header)
    return out.getvalue() + array.tobytes()


X = np.arange(60, dtype=np.float32).reshape(2, 6, 5)
INPUTS = {
    "empty": (b"", r"not a .npy file"),
    "not npy": (b"P5 6 5 255 " + bytes(100), r"not a .npy file"),
    "npy version 9": (b"\x93NUMPY\x09\x00" + bytes(200), r"version 9"),
    "header cut": (npy_bytes(X)[:40], r"ends in the middle"),
    "header too long": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", r"header"),
    "header nonsense": (b"\x93NUMPY\x01\x00\x10\x00" + b"[1, 2, 3, 4, 5]\n" + bytes(240), r"header"),
    "values cut": (npy_bytes(X)[:-1], r"holds 239 bytes.*says 240"),
    "values too many": (npy_bytes(X) + b"x", r"holds 241 bytes.*says 240"),
    "float64": (npy_bytes(X.astype(np.float64)), r"'<f8'"),
    "big-endian": (npy_bytes(X.astype(">f4")), r"'>f4'"),
    "float16": (npy_bytes(X.astype(np.float16)), r"'<f2'.*'<f4'"),
    "structured": (npy_bytes(X, descr=[("a", "<f4")]), r"structured|header"),
    "other shape": (npy_bytes(X.reshape(2, 5, 6)), r"2,\s?5,\s?6.*2,\s?6,\s?5"),
    "other rank": (npy_bytes(X.reshape(12, 5)), r"12,\s?5.*2,\s?6,\s?5"),
    "Fortran order": (npy_bytes(X, fortran_order=True), r"Fortran"),
    "negative size": (npy_bytes(X, shape=(-2, 6, 5)), r"x\.npy"),
    "size overflow": (npy_bytes(X, shape=(1 << 40, 1 << 40)), r"x\.npy.*63 bits"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_wrong_input_file(name, tmp_path):
    data, pattern = INPUTS[name]
    path = write(tmp_path / "x.npy", data)
    result = run("run", GOOD, "--in", f"x={path}", "--out", tmp_path / "y.npy", "--json", "--cache-dir", tmp_path / "cache")
    refused(result, 2, r"x\.npy", pattern)
    assert listing(tmp_path) == [("x.npy", len(data))]


def test_wrong_inputs(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, X)
    for inputs, problem, *patterns in (
        ([f"x={tmp_path}/none.npy"], GOOD, r"none\.npy.*No such file"),
        ([f"x={tmp_path}"], GOOD, r"Is a directory"),
        ([f"q={x}"], GOOD, r"--in.*'q'.*x, gamma, beta"),
        ([f"x={x}", f"x={x}"], GOOD, r"--in: x is given twice"),
        ([f"gamma={x}"], GOOD, r"gamma"),
        ([f"x={x}"], GOOD + " | mul(w: channel)", r"\bw\b"),
    ):
        words = [w for i in inputs for w in ("--in", i)]
        refused(run("run", problem, *words, "--cache-dir", tmp_path / "cache"), 2, *patterns)
    assert [p for p, _ in listing(tmp_path)] == ["x.npy"]


# ---- files out


def test_output_is_refused_before_any_work(tmp_path, public):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    before = listing(tmp_path)
    for out, pattern in (
        ("none/y.npy", "No such file"),
        ("folder", "Is a directory"),
        ("file/y.npy", "Not a directory"),
        ("x" * 300, "File name too long"),
    ):
        result = run("run", GOOD, "--out", tmp_path / out, "--json", "--cache-dir", tmp_path / "cache")
        refused(result, 2, pattern, out.split("/")[0], "--out")
        assert listing(tmp_path) == before
    locked = public.folder / "locked"
    locked.mkdir(mode=0o555)
    result = public.run("--out", locked / "y.npy", "--cache-dir", public.work / "cache")
    assert result.status == 2 and "Permission denied (--out)" in result.err and result.err.count("\n") == 1, result
    assert listing(locked) == listing(public.work) == []


@pytest.mark.parametrize("fault", ["cuLaunchKernelEx:1=700*", "kernel:1=719*", "cuMemcpyDtoH:1=999"])
def test_failed_run_keeps_the_old_output(fault, known, warm, tmp_path):
    out = tmp_path / "y.npy"
    out.write_text("the result of yesterday")
    before = listing(tmp_path)
    result = known.run("run", "--out", out, GNFUSE_CACHE_DIR=warm, CUDASIM_FAIL=fault)
    assert result.status == 4, result
    assert listing(tmp_path) == before and out.read_text() == "the result of yesterday"


def test_output_replaces_a_file(known, warm, tmp_path):
    out = tmp_path / "y.npy"
    out.write_text("old")
    assert known.run("run", "--out", out, GNFUSE_CACHE_DIR=warm).status == 0
    assert np.load(out).shape == (2, 6, 5) and [p.name for p in tmp_path.glob("y*")] == ["y.npy"]


@pytest.mark.parametrize("command", ["run", "check", "kernels"])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_standard_output_is_full(command, form, known, warm):
    with open("/dev/full", "w") as full:
        settings = environment(GNFUSE_CUDA_DRIVER=SIM, CUDASIM_KERNELS=known.library, GNFUSE_CACHE_DIR=warm)
        words = [GNFUSE, command, GOOD, "--pack", known.pack, "--device", "sim", "--variant", known.variant, "-q", *form]
        done = subprocess.run(words, env=settings, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "standard output: cannot be written: No space left" in done.stderr, done


# ---- packs


def test_damaged_packs(known, warm, tmp_path):
    data = known.pack.read_bytes()
    middle = len(data) // 2
    cases = {
        "empty": b"",
        "text": b"#!/bin/sh\n",
        "newer": data[:8] + b"\x02" + data[9:],
        "version 0": data[:8] + b"\x00" + data[9:],
        "longer": data + b"x",
        "magic": b"gnfpack\r" + data[8:],
    }
    cases |= {f"cut at {n}": data[:n] for n in (7, 8, 11, 15, 16, 20, 40, 1000, middle, len(data) - 4, len(data) - 1)}
    cases |= {f"flip at {n}": data[:n] + bytes([data[n] ^ 4]) + data[n + 1 :] for n in (9, 13, 17, 20, 26, 40, 200, middle, len(data) - 2)}
    before = listing(warm)
    for name, content in cases.items():
        pack = write(tmp_path / "bad.gnfpack", content)
        for words, settings in ((["--pack", pack], {}), ([], {"GNFUSE_PACK_PATH": pack})):
            result = run("run", GOOD, *words, "-q", "--json", GNFUSE_CACHE_DIR=warm, CUDASIM_KERNELS=known.library, **settings)
            assert result.status == 2, (name, result)
            said = refused(result, 2, r"bad\.gnfpack")
            assert result.json["status"] == "GNF_BAD_PACK", (name, result)
            assert ("newer" in said) == (name == "newer" or name.startswith("flip at 9")), (name, said)
    assert listing(warm) == before


def test_pack_that_is_not_there(known, tmp_path):
    for words, settings in ((["--pack", tmp_path / "none"], {}), (["--pack", tmp_path], {}), ([], {"GNFUSE_PACK_PATH": tmp_path / "none"})):
        for command in ("run", "kernels"):
            refused(
                run(command, GOOD, *words, GNFUSE_CACHE_DIR=tmp_path / "c", **settings), 2, str(words[1] if words else tmp_path / "none")
            )


# ---- driver


def test_no_driver(known, warm, tmp_path):
    """H26: starts, helps, lists and compiles without one; what needs it says so."""
    none = str(tmp_path / "libcuda-none.so")
    for command in ("run", "check"):
        result = run(command, GOOD, "--json", sim=False, GNFUSE_CUDA_DRIVER=none, GNFUSE_CACHE_DIR=tmp_path / "cache")
        refused(result, 3, "CUDA driver", none)
        refused(run(command, GOOD, GNFUSE_CUDA_DRIVER=none, GNFUSE_CACHE_DIR=tmp_path / "cache"), 3, "--device sim", none)
    assert not (tmp_path / "cache").exists()
    assert run("--version", sim=False).out.startswith("gnfuse ")
    assert "usage: gnfuse" in run("-h", sim=False).out
    assert run("info", sim=False, GNFUSE_CUDA_DRIVER=none, GNFUSE_CACHE_DIR=warm).status == 0
    words = ["--pack", known.pack, "--variant", known.variant]
    assert run("kernels", GOOD, *words[:2], sim=False, GNFUSE_CUDA_DRIVER=none, GNFUSE_CACHE_DIR=warm).status == 0
    result = run("compile", GOOD, *words, "--arch", "sm_90", sim=False, GNFUSE_CUDA_DRIVER=none, GNFUSE_CACHE_DIR=warm)
    assert result.status == 0 and "1 compiled, 0 with spills" in result.out, result


def test_no_driver_under_its_own_name(tmp_path):
    """Nothing set: libcuda.so.1, the driver's name, is looked for; the toolkit's libcuda.so is not a driver."""
    result = run("run", GOOD, sim=False, GNFUSE_CACHE_DIR=tmp_path)
    if result.status == 0:
        pytest.skip("a GPU and its driver are here")
    refused(result, 3, r"libcuda\.so\.1", r"GNFUSE_CUDA_DRIVER|device")


def test_nothing_of_cuda_is_linked():
    needed = subprocess.run(["readelf", "-d", GNFUSE], capture_output=True, text=True, check=True).stdout
    names = [line for line in needed.splitlines() if "NEEDED" in line]
    assert names and not [n for n in names if "cuda" in n or "nvrtc" in n or "cublas" in n], names


def test_driver_that_is_none(tmp_path):
    text = write(tmp_path / "libcuda.so.1", b"not a library\n" * 100)
    refused(run("run", GOOD, sim=False, GNFUSE_CUDA_DRIVER=text, GNFUSE_CACHE_DIR=tmp_path / "c"), 3, str(text))
    refused(
        run("run", GOOD, sim=False, GNFUSE_CUDA_DRIVER="libm.so.6", GNFUSE_CACHE_DIR=tmp_path / "c"), 3, r"libm\.so\.6 is not a CUDA driver"
    )


def test_device_out_of_range(known, warm):
    settings = {"GNFUSE_CUDA_DRIVER": SIM, "CUDASIM_KERNELS": known.library, "GNFUSE_CACHE_DIR": warm}
    for devices, count in (("cc=9.0", 1), ("cc=9.0|cc=8.0", 2)):
        result = run("run", GOOD, "--pack", known.pack, "--device", "7", "--json", sim=False, CUDASIM_DEVICES=devices, **settings)
        refused(result, 3, rf"device is 7; the driver has {count} device")
    result = run("run", GOOD, "--pack", known.pack, sim=False, CUDASIM_DEVICES="", **settings)
    refused(result, 3, r"cuInit: CUDA_ERROR_NO_DEVICE \(100\)")


DRIVER_FAULTS = {
    "cuInit:1=999": r"cuInit: CUDA_ERROR_UNKNOWN \(999\)",
    "cuDevicePrimaryCtxRetain:1=2": r"cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY \(2\)",
    "cuStreamCreate:1=2": r"cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY \(2\)",
    "cuMemAlloc:1=2": r"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory",
    "cuMemAlloc:2=2": r"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory",
    "cuMemAlloc:4=2": r"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory",
    "cuModuleLoadData:1=2": r"cuModuleLoadData: CUDA_ERROR_OUT_OF_MEMORY \(2\).*kernel gnf_warp_\w+ for sm_90",
    "cuMemcpyHtoD:1=700*": r"cuMemcpyHtoD: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)",
    "cuLaunchKernelEx:1=700*": r"cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*kernel gnf_warp_\w+, grid",
    "cuLaunchKernelEx:1=701": r"cuLaunchKernelEx: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES \(701\)",
    "cuStreamSynchronize:*=719": r"cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED \(719\)",
    "cuMemcpyDtoH:1=999": r"cuMemcpyDtoH: CUDA_ERROR_UNKNOWN \(999\)",
}


@pytest.mark.parametrize("fault", DRIVER_FAULTS)
def test_driver_fault(fault, known, warm, tmp_path):
    result = known.run("run", "--check", "--out", tmp_path / "y.npy", "--json", GNFUSE_CACHE_DIR=warm, CUDASIM_FAIL=fault)
    refused(result, 4, DRIVER_FAULTS[fault])
    assert not (tmp_path / "y.npy").exists() and leftovers(warm) == []
    assert known.run("run", "--check", "-q", GNFUSE_CACHE_DIR=warm).err == ""


def test_driver_that_refuses_an_image(known, warm):
    """Once: made again with a warning. Always: the driver's words."""
    result = known.run("run", "--check", GNFUSE_CACHE_DIR=warm, CUDASIM_FAIL="cuModuleLoadData:1=200")
    assert result.status == 0 and len(result.warnings) == len(result.compiled) == 1, result
    result = known.run("run", "-q", GNFUSE_CACHE_DIR=warm, CUDASIM_FAIL="cuModuleLoadData:*=200")
    assert result.status == 4 and r"cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200)" in result.err.splitlines()[-1], result
    assert known.run("run", "--check", GNFUSE_CACHE_DIR=warm).status == 0


def test_check_when_the_context_is_lost(known, warm):
    variant = ["--variant", known.fallback]
    result = known.run("check", *variant, "--json", GNFUSE_CACHE_DIR=warm, CUDASIM_FAIL="kernel:3=700*")
    report = result.json
    assert result.status == 4 and report["ok"] is False, result
    assert [r["ok"] for r in report["results"]] == [True, True, False], result
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in result.err and "the context is lost, the rest was not checked" in result.err
    assert f"again: gnfuse check '{GOOD}' --variant {variant[1]} --seed 1 --device sim" in result.err


def test_device_memory_is_too_small(known, warm, tmp_path):
    result = known.run(
        "run",
        "-q",
        "--out",
        tmp_path / "y.npy",
        problem="f32[40000,6,5] | groupnorm(3)",
        GNFUSE_CACHE_DIR=warm,
        CUDASIM_DEVICES="cc=9.0,memory=4m",
    )
    refused(result, 4, r"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY \(2\)")
    assert not (tmp_path / "y.npy").exists()


# ---- generator


def test_no_generator(tmp_path):
    """The command to run elsewhere can be copied as it stands."""
    problem = "f32[2,6,5] | groupnorm(3) | mish | mul(w: channel)"
    for command in ("run", "check"):
        result = run(command, problem, "--json", GNFUSE_GEN="/nonexistent", PATH="/nonexistent", GNFUSE_CACHE_DIR=tmp_path / "cache")
        refused(result, 3, r"gnfuse-gen is not found", re.escape(f"gnfuse-gen '{problem}' -o F.gnfpack"))
    assert [p for p, _ in listing(tmp_path) if "." in p] == []


def test_generator_without_python(tmp_path):
    result = run("run", "f32[2,6,5] | groupnorm(3) | mish", PATH="/nonexistent", GNFUSE_CACHE_DIR=tmp_path)
    last = result.err.splitlines()[-1]
    assert result.status == 3 and result.out == "" and "Traceback" not in result.err, result
    assert last.startswith("gnfuse: run: ") and "-o F.gnfpack" in last, result
    assert leftovers(tmp_path) == [] and not list(tmp_path.rglob("*.gnfpack")), listing(tmp_path)


def test_generator_that_fails_leaves_no_pack(tmp_path):
    """One that writes half a pack and dies, and one that says it is done and has written nonsense."""
    for text, status in (
        ('printf half > "$3"; exit 9', "status 9"),
        ('printf half > "$3"', "damaged|not a gnfuse pack|made a pack without"),
    ):
        generator = write(tmp_path / "gnfuse-gen", f"#!/bin/sh\n{text}\n".encode())
        generator.chmod(0o755)
        cache = tmp_path / "cache"
        result = run("run", "f32[2,6,5] | groupnorm(3) | mish", "-q", GNFUSE_GEN=generator, GNFUSE_CACHE_DIR=cache)
        refused(result, 3, status)
        assert leftovers(cache) == [], listing(cache)
        shutil.rmtree(cache)


def test_kernel_that_does_not_compile(known, tmp_path):
    """NVRTC's log, with the line, reaches the user."""
    kernel = Kernel(known.problem, "warp", {"threads": 128, "lanes": 32, "vector": 1, "items": 1})
    shop = Workshop(tmp_path)
    pack, variant = shop.make(
        "wrong", kernel, (("lib/registers.cuh.j2", "gnf_store(y + place(k).at, v[k]);", "gnf_store(y + place(k).at, v[k]); frobnicate;"),)
    )
    result = run(
        "run", known.problem, "--variant", variant, "--pack", pack, "-q", CUDASIM_KERNELS=known.library, GNFUSE_CACHE_DIR=tmp_path / "cache"
    )
    entry = next(iter(shop.entries("wrong")))
    assert result.status == 4 and result.out == "", result
    assert f"{entry} for sm_90: NVRTC" in result.err and '"frobnicate" is undefined' in result.err and f"{entry}(" in result.err, result
    assert leftovers(tmp_path / "cache") == []
    assert os.listdir(tmp_path / "cache") == [n for n in os.listdir(tmp_path / "cache") if n.endswith(".cubin")]
