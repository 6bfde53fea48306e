"""The harness proves itself: kernels broken on purpose must not pass `gnfuse check`, and each must fail for its own
reason; the same kernels unbroken must pass.
"""

import ctypes
import dataclasses
import os
import re
import subprocess

import pytest
from broken import Kernel, Workshop, simkernels
from program import GNFUSE, SIM, run

REGISTERS, REDUCE, CHAIN, CHANNELS = "lib/registers.cuh.j2", "lib/reduce.cuh", "lib/chain.cuh.j2", "lib/channels.cuh.j2"
SPLIT, SHARED = "split.cu.j2", "shared.cu.j2"

PLAIN = "f32[5,12,7,9] | groupnorm(4)"
WARP_TILE = {"threads": 256, "lanes": 32, "vector": 1, "items": 6}
WARP = Kernel(PLAIN, "warp", WARP_TILE)
ONE = Kernel("f32[1,3,7,9] | groupnorm(1)", "warp", WARP_TILE)
WIDE = Kernel("f32[5,12,8,8] | groupnorm(4)", "warp", {**WARP_TILE, "vector": 4, "items": 2}, WARP_TILE)
CLAMP = Kernel(PLAIN + " | hardtanh(-2, 2)", "warp", WARP_TILE)
LARGE_EPS = Kernel("f32[5,12,7,9] | groupnorm(4, eps=0.5)", "warp", WARP_TILE)
BLOCK = Kernel("f32[3,8,64] | groupnorm(2)", "block", {"threads": 256, "vector": 1, "items": 1})
ARENA = Kernel("f32[2,4,520] | groupnorm(1)", "shared", {"threads": 256, "vector": 1, "items": 4})
TALL = Kernel(
    "f32[2,8,64] | groupnorm(2) | scale(100) | logsumexp", "split", {"threads": 128, "vector": 1, "items": 4, "lanes": 4, "chunk": 4096}
)
UNBROKEN = {
    "one": ONE, "warp": WARP, "wide": WIDE, "clamp": CLAMP, "large_eps": LARGE_EPS, "block": BLOCK, "arena": ARENA, "tall": TALL
}  # fmt: skip

LAST_STORE = "gnf_store(y + place(k).at, v[k]);"
BARRIER = "        scratch[threadIdx.x / 32] = v;\n    __syncthreads();\n"


@dataclasses.dataclass(frozen=True)
class Break:
    """`fails` and `passes` are data sets; `says` is in the text of a failure, or on stderr where the device faults."""

    kernel: Kernel
    edits: tuple
    fails: tuple = ("uniform",)
    passes: tuple = ()
    says: str = ""
    status: int = 1
    seeds: tuple = (7,)


BREAKS = {
    "no_barrier_in_block_sum": Break(
        BLOCK, ((REDUCE, BARRIER, BARRIER.replace("    __syncthreads();\n", "")),), seeds=(1, 2, 3, 4, 5)
    ),
    "no_barrier_in_reduction": Break(
        TALL, ((SPLIT, "half /= 2) {\n                __syncthreads();\n", "half /= 2) {\n"),), seeds=(1, 2, 3, 4, 5)
    ),
    "stores_past_the_tensor": Break(
        ONE,
        ((REGISTERS, LAST_STORE, LAST_STORE + " if (k * LANES + lane == VECTORS - 1) gnf_store(y + place(k).at + V, v[k]);"),),
        says=r"wrote outside y: byte 1 past its end",
    ),
    "stores_past_the_group": Break(
        WARP, ((REGISTERS, LAST_STORE, LAST_STORE + " if (k * LANES + lane == VECTORS - 1) gnf_store(y + place(k).at + V, v[k]);"),)
    ),
    "stores_before_the_tensor": Break(
        ONE,
        ((REGISTERS, LAST_STORE, LAST_STORE + " if (k * LANES + lane == 0) gnf_store(y + place(k).at - V, v[k]);"),),
        says=r"wrote outside y: byte \d before its start",
    ),
    "stores_far_outside": Break(
        WARP, ((REGISTERS, LAST_STORE, "gnf_store(y + place(k).at + (1 << 20), v[k]);"),), says=r"CUDA_ERROR_ILLEGAL_ADDRESS \(700\)", status=4
    ),
    "stores_misaligned_vectors": Break(
        WIDE, ((REGISTERS, LAST_STORE, "gnf_store(y + place(k).at + 1, v[k]);"),), says=r"CUDA_ERROR_MISALIGNED_ADDRESS \(716\)", status=4
    ),
    "never_stores_an_element": Break(
        WARP, ((REGISTERS, LAST_STORE, "if (unit + lane + k > 0) " + LAST_STORE),), says="1 elements not written"
    ),
    "stores_into_an_input": Break(
        WARP, ((REGISTERS, LAST_STORE, LAST_STORE + " gnf_store((gnf_element *)x + place(k).at, v[k]);"),), says="changed x, an input"
    ),
    "workspace_one_too_far": Break(
        TALL, ((SPLIT, "gnf_stats(a)[unit] =", "gnf_stats(a)[unit + 1] ="),), says=r"wrote outside its workspace: byte 1 past its end"
    ),
    "arena_too_small": Break(
        ARENA,
        ((SHARED, 'shared = "256 + group_size * element"', 'shared = "256 + group_size * element - 2048"'),),
        says=r"shared memory of block .* at offset \d+(.|\n)*\(700\)",
        status=4,
    ),
    "tail_counted_in_divisor": Break(
        WARP, ((REGISTERS, "gnf_team_sum<LANES>(sum, scratch) / size", "gnf_team_sum<LANES>(sum, scratch) / (float)(ITEMS * LANES * V)"),), passes=()
    ),
    "unbiased_variance": Break(WARP, ((REDUCE, "m2 / n + eps", "m2 / (n - 1.0f) + eps"),)),
    "no_eps": Break(WARP, ((REDUCE, "m2 / n + eps", "m2 / n"),), fails=("constant",), passes=("uniform", "null-affine")),
    "eps_outside_the_root": Break(LARGE_EPS, ((REDUCE, "1.0f / sqrtf(m2 / n + eps)", "1.0f / (sqrtf(m2 / n) + eps)"),)),
    "one_pass_statistics": Break(
        WARP,
        (
            (REGISTERS, "const float d = __fsub_rn(t[j], pivot) - mean;", "const float d = t[j];"),
            (REGISTERS, "gnf_team_sum<LANES>(squares, scratch + 32);", "gnf_team_sum<LANES>(squares, scratch + 32) - size * (pivot + mean) * (pivot + mean);"),
        ),
        fails=("large-mean",),
        passes=("uniform", "null-affine"),
    ),
    "no_pivot": Break(BLOCK, ((CHAIN, "    return v[0];\n", "    return 0.0f;\n"),), fails=("large-mean",), passes=("uniform", "null-affine")),
    "gamma_of_next_channel": Break(
        WARP,
        ((CHAIN, "gnf_load(one, t + p.channel);", "gnf_load(one, t + (p.channel + 1) % (gnf_groups(a) * gnf_group_channels(a)));"),),
        passes=("null-affine",),
    ),
    "last_group_is_the_one_before": Break(
        WARP,
        ((REGISTERS, "(gnf_index)(unit - sample * gnf_groups(a));", "(gnf_index)(unit - sample * gnf_groups(a)) - (unit == a.samples * gnf_groups(a) - 1);"),),
        says="189 elements not written",
    ),
    "clamp_that_drops_nan": Break(
        CLAMP,
        ((CHAIN, "return {{ f.device }};", 'return {{ f.device | replace("v < s0 ? s0 : v > s1 ? s1 : v", "fminf(fmaxf(v, s0), s1)") }};'),),
        fails=("one-nan", "one-inf"),
        passes=("uniform", "null-affine", "large-mean", "constant"),
        says="NaN or infinity on one side only",
    ),
    "unshifted_logsumexp": Break(TALL, ((CHANNELS, "return fabsf(peak) < gnf_infinity() ? peak : 0.0f;", "return 0.0f;"),)),
    "sum_without_the_last_step": Break(WARP, ((REDUCE, "for (int k = LANES / 2; k; k /= 2)", "for (int k = LANES / 2; k > 1; k /= 2)"),)),
    "shuffle_mask_without_a_lane": Break(WARP, ((REDUCE, "__shfl_xor_sync(~0u,", "__shfl_xor_sync(0x7fffffffu,"),), says="mask", status=4),
    "shuffle_without_a_lane": Break(
        WARP,
        ((REDUCE, "v += __shfl_xor_sync(~0u, v, k);", "if (threadIdx.x != 31) v += __shfl_xor_sync(~0u, v, k);"),),
        says=r"__shfl_xor_sync at gnf_warp_\w+.cu:\d+",
        status=4,
    ),
}  # fmt: skip
# A shuffle is no memory barrier: with y = x the group's first element may be overwritten before a lane reads it. No
# schedule of whole warps shows that, ThreadSanitizer does.
UNSEEN = {
    "pivot_from_what_is_overwritten": Break(
        WARP,
        (
            (REGISTERS, "    if (LANES > 32)\n        pivot = gnf_pivot(", "    if (active)\n        pivot = gnf_pivot("),
            (REGISTERS, "if (LANES <= 32) { //", "if (false) { //"),
        ),
    ),
}
# A piece of the source line that each race is to be named by.
RACES = {
    "no_barrier_in_block_sum": "scratch[threadIdx.x / 32] = v;",
    "no_barrier_in_reduction": "slot[(lane * PIXELS",
    "pivot_from_what_is_overwritten": "gnf_store(y + place(k).at, v[k]);",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Every pack of this module, the names of the variants, and the kernels compiled for the simulator."""
    workshop = Workshop(tmp_path_factory.mktemp("broken"))
    workshop.variant = {}
    for name, kernel in UNBROKEN.items():
        _, workshop.variant[name] = workshop.make(name, kernel)
    good = {entry for name in UNBROKEN for entry in workshop.entries(name)}
    for name, broken in (BREAKS | UNSEEN).items():
        _, workshop.variant[name] = workshop.make(name, broken.kernel, broken.edits)
    # An edit that the rendered text does not show would test nothing.
    for name in BREAKS | UNSEEN:
        if name == "arena_too_small":  # the one break of a launch rule: same source, so a pack cannot share the library
            continue
        assert set(workshop.entries(name)) - good, f"{name}: the broken source is the same as the right one"
    workshop.library = workshop.build([*UNBROKEN, *BREAKS], workshop.folder / "plain.so")
    workshop.cache = tmp_path_factory.mktemp("cache")
    return workshop


def check(shop, name, kernel, **settings):
    settings = {"CUDASIM_KERNELS": shop.library, "GNFUSE_CACHE_DIR": shop.cache, "CUDASIM_TIMEOUT": 5} | settings
    return run("check", kernel.problem, "--variant", shop.variant[name], "--pack", shop.packs[name], "--json", **settings)


@pytest.mark.parametrize("name", UNBROKEN)
def test_unbroken_passes(shop, name):
    for seed in range(6):
        result = check(shop, name, UNBROKEN[name], CUDASIM_SEED=seed)
        assert result.status == 0 and result.json["ok"], (seed, result)
        assert [v["name"] for v in result.json["variants"]] == [shop.variant[name]]


@pytest.mark.parametrize("name", BREAKS)
def test_broken_is_caught(shop, name):
    broken = BREAKS[name]
    for seed in broken.seeds:
        result = check(shop, name, broken.kernel, CUDASIM_SEED=seed)
        assert result.status == broken.status and result.json["ok"] is False, (seed, result)
        failed = [r for r in result.json["results"] if not r["ok"]]
        right = {r["data"] for r in result.json["results"] if r["ok"]} - {r["data"] for r in failed}
        if broken.status == 1:
            assert set(broken.fails) <= {r["data"] for r in failed}, (seed, result)
            assert set(broken.passes) <= right, (seed, result)
            assert re.search(broken.says, "\n".join(r["text"] for r in failed)), (seed, result)
        else:
            assert re.search(broken.says, result.err), (seed, result)
            assert "the context is lost" in result.err
        assert f"again: gnfuse check '{broken.kernel.problem}' --variant {shop.variant[name]}" in result.err


def test_one_that_does_not_compile_is_one_failure(shop):
    """NVRTC refuses the variant of vectors; the other is checked all the same."""
    refuse = '\n#ifdef __CUDACC_RTC__\nstatic_assert(V == 1, "no vectors");\n#endif\n'
    kernel = dataclasses.replace(WIDE, problem=WIDE.problem + " | scale(3)")  # a chain that is in no other pack
    path, name = shop.make("refused", kernel, ((REGISTERS, LAST_STORE, refuse + LAST_STORE),))
    library = shop.build(["refused"], shop.folder / "refused.so")
    settings = {"CUDASIM_KERNELS": library, "GNFUSE_CACHE_DIR": shop.cache}
    result = run("check", kernel.problem, "--pack", path, "--json", **settings)
    assert result.status == 1, result
    failed = [r for r in result.json["results"] if not r["ok"]]
    assert [(r["name"], r["mode"]) for r in failed] == [(name, "compile")] and "no vectors" in failed[0]["text"], result
    others = [v for v in result.json["variants"] if v["name"] != name]
    assert others and all(v["ok"] and v["passed"] for v in others), result


RACELESS = ("warp", "block", "tall")


def has_sanitizer():
    with open(GNFUSE, "rb") as program:
        return b"__asan_init" in program.read() or b"__tsan_init" in program.read()


@pytest.fixture(scope="module")
def tsan(shop):
    if has_sanitizer():
        pytest.skip("this build of gnfuse has a sanitizer of its own")
    runtime = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True).stdout.strip()
    library = shop.build([*RACES, *RACELESS], shop.folder / "tsan.so", "tsan")
    settings = {
        "LD_PRELOAD": runtime,
        "TSAN_OPTIONS": "atexit_sleep_ms=0 report_signal_unsafe=0",
        "CUDASIM_THREADS": 2,
        "CUDASIM_KERNELS": library,
    }
    return lambda name, kernel: check(shop, name, kernel, **settings)


@pytest.mark.parametrize("name", RACES)
def test_race_is_named_by_source_line(shop, tsan, name):
    result = tsan(name, (BREAKS | UNSEEN)[name].kernel)
    entry = next(e for e in shop.entries(name) if not set(e.split("_")) & {"stats", "merge"})
    source = shop.entries(name)[entry].splitlines()
    writes = [i for i, line in enumerate(source, 1) if RACES[name] in line]
    named = {int(n) for n in re.findall(rf"{entry}\.cu:(\d+)", result.err)}
    assert "ThreadSanitizer: data race" in result.err, result
    assert named & set(writes), (writes, result)


@pytest.mark.parametrize("name", RACELESS)
def test_no_race_where_nothing_is_broken(tsan, name):
    result = tsan(name, UNBROKEN[name])
    assert result.status == 0 and "ThreadSanitizer" not in result.err, result


# ---- element offsets beyond 2^31: too much memory for a run, so the kernels' own function is asked

OFFSET = """
extern "C" __attribute__((visibility("default"))) long long gnf_test_offset(long long sample, long long group, long long inside)
{
    gnf_kernel_args a = {};
    a.samples = sample + 1, a.groups = 4, a.group_channels = 3, a.spatial = 63;
    return gnf_locate(a, sample, (gnf_index)group, (gnf_index)inside).at;
}
"""


def offset_function(shop, name, folder):
    source = next(iter(shop.entries(name).values()))
    (folder / f"{name}.cc").write_text('#include "simt.h"\n' + source + OFFSET)
    library = folder / f"{name}.so"
    flags = ["-std=c++17", "-w", "-O1", "-fPIC", "-shared", f"-I{simkernels.HERE}"]
    subprocess.run(["g++", *flags, "-o", library, folder / f"{name}.cc", SIM, f"-Wl,-rpath,{os.path.dirname(SIM)}"], check=True)
    function = ctypes.CDLL(str(library)).gnf_test_offset
    function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_longlong] * 3
    return function


def test_offsets_have_64_bits(shop, tmp_path):
    edit = (
        CHAIN,
        "p.at = (sample * gnf_groups(a) + group) * gnf_group_size(a) + inside;",
        "p.at = (int)((sample * gnf_groups(a) + group) * gnf_group_size(a) + inside);",
    )
    shop.make("narrow_offsets", WARP, (edit,))
    right, narrow = offset_function(shop, "warp", tmp_path), offset_function(shop, "narrow_offsets", tmp_path)
    for sample in (0, 1, 70000, 2840000, 5680000, 1 << 40):
        for group, inside in ((0, 0), (3, 188)):
            want = (sample * 4 + group) * 189 + inside
            assert right(sample, group, inside) == want
            assert (narrow(sample, group, inside) == want) == (want < 2**31)
