"""Every variant of the test problems on a real GPU, against the float64 reference; exit status 77 without a device.

    check_all.py PROBLEMS...

The PROBLEMS are files with a problem text a line, N given; GNFUSE names the program. A full-size line of another suite
may name variants after a tab; here all run.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from generator.__main__ import read_problem_file

GNFUSE = os.environ["GNFUSE"]
SKIPPED = 77


def main(files):
    found = subprocess.run([GNFUSE, "info", "--device", "0"], capture_output=True, text=True, check=False)
    if found.returncode:
        print(found.stderr.strip())
        return SKIPPED
    failed = 0
    for problem in dict.fromkeys(t for f in files for t in read_problem_file(f)):
        start = time.monotonic()
        done = subprocess.run([GNFUSE, "check", problem, "--device", "0", "--quiet"], capture_output=True, text=True, check=False)
        failed += done.returncode != 0
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]
        print(f"{time.monotonic() - start:5.1f} s  {problem}: {last if not done.returncode else done.stdout + done.stderr}", flush=True)
    print(f"{failed} problems failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main([Path(f) for f in sys.argv[1:]]))
