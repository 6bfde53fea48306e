#!/bin/sh
# Installs, builds and runs the main job: both seed chains, without and with the layer before groupnorm, through generator,
# compiler and GPU, checked against float64. Without a GPU they run in the simulator, smaller. Usage: sh tests/quickstart.sh [BUILD_FOLDER]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

sh .ci/install
if [ ! -f "$build/build.ninja" ]; then
    said=$(meson setup "$build" 2>&1) || { echo "$said" >&2; exit 1; }
fi
echo "building in $build (a minute or so)"
quiet=--quiet
[ ! -t 1 ] || quiet="" # one line that changes
# shellcheck disable=SC2086
ninja -C "$build" $quiet gnfuse tests/sim/libgnfuse_cudasim.so

python3 - "$build/gnfuse" <<'END'
import json
import subprocess
import sys

program = sys.argv[1]
chains = {  # on a GPU, in the simulator
    "f32[1024,8192] | groupnorm(16) | hardtanh(-2, 2)": "f32[64,8192]",
    "f32[128,64,126,126] | groupnorm(16) | tanh | hardswish | add(x) | logsumexp": "f32[2,64,126,126]",
    "f32[1024,8192] | linear(8192) | groupnorm(16) | hardtanh(-2, 2)": "f32[16,8192]",
    "f32[128,8,128,128] | y = conv2d(64, 3) | groupnorm(16) | tanh | hardswish | add(y) | logsumexp": "f32[2,8,32,32]",
}
has_gpu = subprocess.run([program, "info", "--device", "0"], capture_output=True, check=False).returncode == 0
device = "0" if has_gpu else "sim"
rows, failed = [], False
for problem, smaller in chains.items():
    if not has_gpu:
        problem = smaller + problem[problem.index("]") + 1 :]
    print(f"running {problem}", flush=True)
    done = subprocess.run([program, "run", problem, "--check", "--json", "--device", device], stdout=subprocess.PIPE, check=False)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(done.returncode or 1)
    if "variant" not in result:
        sys.exit(done.returncode or 1)
    failed |= not result["ok"]
    time = result.get("time_us")
    rows.append([
        problem,
        result["variant"],
        f"{result['max_error']:.1e} of {result['tolerance']:.0e} {'ok' if result['ok'] else 'WRONG'}",
        f"{time:.1f} us" if time else "-",
        f"{result['copy_fraction']:.2f}" if time else "-",
    ])
    where = result["gpu"]
print(f"\non {where}" + ("" if has_gpu else ": the simulator on the CPU, since no GPU was found; its times would mean nothing"))
head = ["problem", "variant", "error against float64", "time", "share of a copy's speed"]
widths = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]
for row in [head, ["-" * w for w in widths]] + rows:
    print("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())
sys.exit(failed)
END
