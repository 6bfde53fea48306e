#!/usr/bin/env python3
"""Each seeded fault must be caught, and right programs must pass.

    simcheck.py FLAVOUR ENGINE KERNELS SIMCASE SIMCUBLASLT CC...

FLAVOUR is plain, asan or tsan; CC is the compiler that made KERNELS, asked for its sanitizer runtime.
"""

import os
import re
import subprocess
import sys

# name: (arguments of simcase, or of simcublaslt behind "product", pattern that the output must match, further environment)
RIGHT = {
    "block": ("valid 0 grid=5 n=2048 seeds=6", None),
    "cluster of 2": ("valid 1 grid=4 cluster=2 n=4096 seeds=6", None),
    "cluster of 8": ("valid 1 grid=8 cluster=8 n=8192 seeds=6", None),
    "cooperative": ("valid 2 grid=4 cooperative=1 n=4096 seeds=3", None),
    "named barriers": ("valid 3 grid=3 n=2048 seeds=6", None),
    "matrix products": ("valid 6 grid=2 n=2048 seeds=3", None),
    "programmatic": ("valid 5 grid=3 n=2048 seeds=2 programmatic=1 target=90", None),
    "programmatic behind another": ("valid 7 grid=5 n=2048 seeds=4 before=5 programmatic=1 target=90", None),
    "programmatic chain in a graph": ("valid 7 grid=4 n=1024 seeds=2 before=5 times=4 programmatic=1 target=90 graph=1", None),
    "programmatic cooperative": ("valid 7 grid=2 n=1024 seeds=2 before=5 programmatic=1 target=90 cooperative=1", None),
    "programmatic of one block": ("valid 7 grid=1 n=1024 seeds=2 before=5 programmatic=1 target=90", None),
}
# The faults that follow, of kinds 29 and on, and their correct forms.
SUM_RIGHT = r"^(?!.*Sanitizer)result 0, after 0, sum right"
UNPUBLISHED = r"faulty: shared memory at offset \d+ of block \(0,0,0\) was written by threads and not published.*"
EARLY = "programmatic=1 target=90 grid=5 n=1001 before=38"
RIGHT_FORMS = {
    "words awaited": ("faulty 29", SUM_RIGHT),
    "published, wgmma": ("faulty 32 n=1024 shared=16448", SUM_RIGHT),
    "published, pixels": ("faulty 32 n=1025 shared=16448", SUM_RIGHT),
    "published, bulk copy over it": ("faulty 32 n=1026 shared=16448", SUM_RIGHT),
    "waits for the previous, then reads": ("faulty 35 " + EARLY, SUM_RIGHT),
    "waits, then reads, in a graph": ("faulty 35 " + EARLY + " graph=1", SUM_RIGHT),
}
PLAIN = {
    "words read before the wait": ("faulty 30", r"result 0, after 0, sum wrong, q [^\n]*nan"),
    "words never awaited": ("faulty 31", r"exits with a copy of a word in flight.*result 719"),
    "not published, wgmma": ("faulty 33 n=1024 shared=16448", UNPUBLISHED + r"wgmma at faulty.cu:\d+.*result 719"),
    "not published, pixels": ("faulty 33 n=1025 shared=16448", UNPUBLISHED + r"wgmma at faulty.cu:\d+.*result 719"),
    "not published, bulk copy over it": ("faulty 33 n=1026 shared=16448", UNPUBLISHED + r"bulk copy at faulty.cu:\d+.*result 719"),
    "published before it is written": ("faulty 34 n=1025 shared=16448", UNPUBLISHED + r"result 719"),
    "previous read before the wait": ("faulty 36 " + EARLY, r"result 0, after 0, sum wrong, q 0"),
    "previous read early, in a graph": ("faulty 36 " + EARLY + " graph=1", r"result 0, after 0, sum wrong, q 0"),
    "previous written before the wait": ("faulty 37 " + EARLY + " n=1024", r"result 0, after 0, sum wrong, q 1"),
    "previous copied before the wait": ("faulty 40 " + EARLY, r"faulty: read before the wait.*bulk copy at faulty.cu.*result 719"),
    "fault before the wait": ("faulty 39 " + EARLY, r"illegal address, \d+ bytes before an allocation of 4004.*result 700, after 700"),
    "fault in the kernel before": ("faulty 35 " + EARLY, r"injected fault.*result 719, after 719", {"CUDASIM_FAIL": "kernel:1=719*"}),
    "fault behind a begun kernel": ("faulty 35 " + EARLY, r"injected fault.*result 719, after 719", {"CUDASIM_FAIL": "kernel:2=719*"}),
    "past the end": ("faulty 0", r"0 bytes past the end of an allocation of 4004.*result 700, after 700"),
    "before the start": ("faulty 1", r"illegal address, \d+ bytes before an allocation of 4004.*result 700"),
    "misaligned": ("faulty 2", r"misaligned access \(block \(0,0,0\) thread.*result 716"),
    "past the arena": ("faulty 3", r"memory of block \(0,0,0\) at offset 4\d+ of 4096.*result 700"),
    "two barriers": (
        "faulty 4",
        r"threads 0-127: wait in __syncthreads at faulty.cu:\d+.*threads 128-255: "
        r"wait in bar.sync at faulty.cu:\d+ \(barrier 1, 256 threads\).*result 702",
    ),
    "half a shuffle": ("faulty 5", r"names a lane that has exited.*__shfl_xor_sync at faulty.cu.*result 719"),
    "arrival short": ("faulty 6", r"parity 0: 1 arrivals, 0 bytes missing.*result 702"),
    "read before wait": ("faulty 7", r"result 0, .*q -?nan"),
    "flag nobody sets": ("faulty 8", r"poll a global flag at faulty.cu.*not a cooperative.*result 702"),
    "source too short": ("faulty 9", r"copy: source not inside one allocation.*result 700"),
    "shared never written": ("faulty 10", r"result 0, .*q -?nan"),
    "peer not started": ("faulty 16 grid=2 cluster=2", r"not known to have started.*result 700"),
    "peer has exited": ("faulty 17 grid=2 cluster=2", r"has exited.*result 700"),
    "bare spin": ("faulty 18", r"a bare spin loop\?.*result 702"),
    "different operations": ("faulty 19", r"meet in different operations.*result 719"),
    "exit with copy": ("faulty 20", r"copy into its shared memory in flight.*result 719"),
    "two counts": ("faulty 21", r"used with counts (64 and 192|192 and 64).*result 719"),
    "never initialised": ("faulty 22", r"before it was initialised.*result 700"),
    "stack overflow": ("faulty 23", r"stack overflow.*result 700"),
    "first barrier missing": ("faulty 24 seeds=12", r"(result 0, after 0, sum wrong[^\n]*\n){4}"),
    "second barrier missing": ("faulty 25 seeds=12", r"(result 0, after 0, sum wrong[^\n]*\n){4}"),
    "division by zero": ("faulty 26", r"division by zero.*result 719"),
    "freed memory": ("faulty 27 freed=1", r"in a freed allocation of 4004 bytes.*result 700"),
    "cooperative too large": ("valid 2 grid=132 n=4096 cooperative=1", r"result 720, after 0", {"CUDASIM_DEVICES": "cc=9.0,sms=2"}),
    "cluster before sm_90": ("valid 1 grid=4 cluster=2 n=4096", r"result 912, after 0", {"CUDASIM_DEVICES": "cc=8.0"}),
    "no wait for the previous": ("faulty 28 programmatic=1 target=90", r"without having waited for the kernel before.*result 719"),
    "no wait, plain launch": ("faulty 28", r"result 0"),
    "programmatic code for sm_80": ("valid 5 n=1024 programmatic=1", r"code for sm_80, in which nothing waits.*result 719, after 719"),
    "programmatic before sm_90": ("valid 0 n=1024 programmatic=1", r"result 0, after 0, sum right", {"CUDASIM_DEVICES": "cc=8.0"}),
    "injected allocation": ("valid 0 n=1024", r"cuMemAlloc.*: 2", {"CUDASIM_FAIL": "cuMemAlloc:2=2"}),
    "injected kernel fault": ("valid 0 n=1024", r"injected fault.*result 719, after 719", {"CUDASIM_FAIL": "kernel:1=719*"}),
    "wrong capability": ("valid 0 n=1024", r"PTX for sm_80 on Simulated sm_75.*cuModuleLoadData.*: 218", {"CUDASIM_DEVICES": "cc=7.5"}),
    "no device": ("valid 0", r"cuInit\(0\): 100", {"CUDASIM_DEVICES": ""}),
    "no such kernel": ("other 0", r"no host-compiled kernel of this name.*result 500"),
}
ASAN = {
    "past the end": ("faulty 0", r"AddressSanitizer.*faulty.cu:\d+"),
    "before the start": ("faulty 1", r"AddressSanitizer.*faulty.cu:\d+"),
    "past the arena": ("faulty 3", r"AddressSanitizer.*faulty.cu:\d+"),
    "read before wait": ("faulty 7", r"use-after-poison"),
    "slot refilled early": ("faulty 15", r"use-after-poison"),
    "local never written": ("faulty 14", r"q -?\d[.\d]*e\+\d\d"),
    "misaligned": ("faulty 2", r"result 716"),
}
RACE = r"ThreadSanitizer: data race.*faulty.cu:\d+"
TSAN = {
    "no barrier between": ("faulty 11", RACE),
    "shuffle as barrier": ("faulty 12", RACE),
    "blocks race": ("faulty 13 grid=8", RACE),
    "product and host race": ("product race", r"ThreadSanitizer: data race.*cublasLtMatmul"),
    "slot refilled early": ("faulty 15", RACE + r".*copy engine"),
    "read before wait": ("faulty 7", RACE),
    "peer has exited": ("faulty 17 grid=2 cluster=2", RACE),
    "first barrier missing": ("faulty 24", RACE),
    "second barrier missing": ("faulty 25", RACE),
}
PRODUCTS = {
    "calls of cuBLASLt": ("product", r"^(?!.*Sanitizer).*\b0 failed\n$"),
    "D too short": (
        "product absent",
        r"cublasLtMatmul: D: illegal address, \d+ bytes past the end of an allocation of 252.*result 700, after 700",
    ),
}
TABLES = {"plain": PLAIN, "asan": ASAN, "tsan": TSAN}


def environment(flavour, engine, kernels, cc):
    base = dict(
        os.environ,
        GNFUSE_CUDA_DRIVER=engine,
        CUDASIM_KERNELS=kernels,
        CUDASIM_TIMEOUT="1",
        CUDASIM_THREADS="2",
        CUDASIM_SEED="7",
        ASAN_OPTIONS="detect_leaks=0",
        TSAN_OPTIONS="atexit_sleep_ms=0",
    )
    for name in (
        "CUDASIM_CLOCK",
        "CUDASIM_CUBLASLT",
        "CUDASIM_DEVICES",
        "CUDASIM_FAIL",
        "CUDASIM_LAZY",
        "CUDASIM_MISSING",
        "CUDASIM_STACK",
    ):
        base.pop(name, None)
    if flavour != "plain":
        run = subprocess.run([*cc, f"-print-file-name=lib{flavour}.so"], capture_output=True, text=True, check=True)
        base["LD_PRELOAD"] = run.stdout.strip()
    return base


def good(run, pattern):
    text = run.stderr + run.stdout
    if pattern:
        return re.search(pattern, text, re.S)
    lines = run.stdout.splitlines()
    return run.returncode == 0 and "Sanitizer" not in text and lines and all("sum right" in x for x in lines)


def main():
    flavour, engine, kernels, simcase, simcublaslt, *cc = sys.argv[1:]
    base = environment(flavour, engine, kernels, cc)
    cases = [(name, *case) for table in (RIGHT, RIGHT_FORMS, PRODUCTS, TABLES[flavour]) for name, case in table.items()]
    failed = 0
    for name, arguments, pattern, *more in cases:
        if flavour == "tsan" and not pattern:  # it slows down with the square of the fibers
            arguments = re.sub(r"seeds=\d+", "seeds=2", arguments)
        program, words = simcase, arguments.split()
        if words[0] == "product":
            program, words = simcublaslt, words[1:]
        run = subprocess.run(
            [program, *words],
            env=base | (more[0] if more else {}),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if not good(run, pattern):
            failed += 1
            print(f"FAILED: {flavour}: {name}: {arguments}: wanted {pattern or 'the right sums'}")
            print((run.stderr + run.stdout)[:2000])
    print(f"{flavour}: {len(cases)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
