#!/usr/bin/env python3
"""Each rule of CUDASIM_CLOCK does what the README says.

simclock.py ENGINE KERNELS SIMCLOCK SIMCUBLASLT
"""

import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ENGINE, KERNELS, SIMCLOCK, SIMCUBLASLT = sys.argv[1:5]


class Clock(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "clock"

    def start(self, rules, *arguments, seed="7", program=SIMCLOCK):
        self.file.write_text(rules)
        names = ("CUDASIM_CUBLASLT", "CUDASIM_DEVICES", "CUDASIM_FAIL", "CUDASIM_LAZY", "CUDASIM_MISSING", "CUDASIM_STACK", "CUDASIM_SEED")
        environment = {k: v for k, v in os.environ.items() if k not in names}
        environment |= {"GNFUSE_CUDA_DRIVER": ENGINE, "CUDASIM_KERNELS": KERNELS, "CUDASIM_CLOCK": str(self.file)}
        if seed:
            environment["CUDASIM_SEED"] = seed
        return subprocess.Popen([program, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_with(self, rules, *arguments, seed="7"):
        """Microseconds of each launch or graph, the numbers of the last line, standard error."""
        process = self.start(rules, *arguments, seed=seed)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        last = re.search(r"result (\d+), after (\d+), blocks (\d+)", out)
        return [float(t) for t in re.findall(r": (\S+) us", out)], tuple(map(int, last.groups())), err

    def times(self, rules, n, seed="7"):
        times, last, err = self.run_with(rules, n, seed=seed)
        self.assertEqual((last, err), ((0, 0, n), ""))
        return times

    def test_time(self):
        self.assertEqual(self.times("", 3), [10, 10, 10])
        self.assertEqual(self.times("# nothing\n\n time other 5 # of another kernel\n", 2), [10, 10])
        self.assertEqual(self.times("time valid 2.5\n", 2), [2.5, 2.5])
        self.assertEqual(self.times("time * 3\ntime v[a-b]* 40\ntime x* 5", 2), [40, 40])  # the last that matches
        self.assertEqual(self.times("time valid 0", 1), [0])

    def products(self, rules, algorithm):
        process = self.start(rules, "clock", 2, algorithm, program=SIMCUBLASLT)
        out, err = process.communicate(timeout=60)
        return [float(t) for t in re.findall(r": (\S+) us", out)], int(re.search(r"result (\d+)", out)[1]), err

    def test_products(self):
        self.assertEqual(self.products("", 0), ([10, 10], 0, ""))
        for algorithm, want in enumerate((7, 5, 7)):
            self.assertEqual(self.products("time cublasLtMatmul 7\ntime cublasLtMatmul.1 5", algorithm)[0], [want] * 2)
        self.assertEqual(self.products("time cublasLtMatmul.1 5\ntime cublasLtMatmul* 7", 1)[0], [7, 7])
        self.assertEqual(self.products("time cublas 7", 1)[0], [10, 10])
        times, result, err = self.products("fault cublasLtMatmul.2 700", 2)
        self.assertEqual((times, result), ([], 700))
        self.assertIn("cublasLtMatmul.2: a fault that CUDASIM_CLOCK asked for", err)
        self.assertEqual(self.products("fault cublasLtMatmul.2 700", 1)[1], 0)

    def test_noise(self):
        n = 400
        times = self.times("time * 100\nnoise 0.03\n", n)
        self.assertAlmostEqual(statistics.mean(times), 100, delta=1)
        self.assertAlmostEqual(statistics.stdev(times), 3, delta=0.5)
        self.assertEqual(times, self.times("time * 100\nnoise 0.03\n", n))
        self.assertNotEqual(times, self.times("time * 100\nnoise 0.03\n", n, seed="8"))
        self.assertNotEqual(self.times("noise 0.03", 5, seed=None), self.times("noise 0.03", 5, seed=None))
        # a rule more does not change what the others do
        busy = self.times("time * 100\nnoise 0.03\nbusy 0.1 3\n", n)
        self.assertTrue(any(b > a for a, b in zip(times, busy)))
        for a, b in zip(times, busy):
            self.assertTrue(math.isclose(a, b, rel_tol=1e-4) or math.isclose(3 * a, b, rel_tol=1e-4), (a, b))
        self.assertTrue(all(t > 0 for t in self.times("noise 10", n)))  # never backwards

    def test_drift(self):
        times = self.times("time * 100000\ndrift 0.5\n", 10)
        self.assertAlmostEqual(times[0], 100000, delta=1)
        now = 0
        for t in times:
            self.assertAlmostEqual(t / (100000 * (1 + 0.5 * now * 1e-6)), 1, delta=1e-4)
            now += t

    def test_busy(self):
        times = self.times("busy 0.1 3", 400)
        self.assertEqual(set(times), {10, 30})
        self.assertTrue(20 < times.count(30) < 65, times.count(30))
        self.assertEqual(set(self.times("busy 0 3", 50)), {10})
        self.assertEqual(set(self.times("busy 1 3", 50)), {30})

    def test_elapsed(self):
        got = self.times("elapsed 2 0\nelapsed 3 -1\nelapsed 4 nan\nelapsed 5 inf\nelapsed 6 0.5", 7)
        self.assertEqual(got[:3] + got[4:], [10, 0, -1000, math.inf, 500, 10])
        self.assertTrue(math.isnan(got[3]))
        self.assertTrue(all(map(math.isnan, self.times("elapsed * nan", 3))))

    def test_fault(self):
        for result in (700, 719):
            times, last, err = self.run_with(f"fault va* {result}", 5)
            self.assertEqual((times, last), ([], (result, result, 0)))  # for good
            self.assertIn("valid: a fault that CUDASIM_CLOCK asked for", err)
        self.assertEqual(self.times("fault other 700", 2), [10, 10])

    def test_hang(self):
        process = self.start("hang valid", 1)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.7)
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(self.times("hang other", 2), [10, 10])

    def test_crash(self):
        for before in ([], ["after"]):  # once a kernel has run there is a handler for the faults of kernels
            process = self.start("crash val*", 1, *before)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGSEGV)
        self.assertEqual(self.times("crash other", 2), [10, 10])

    def test_skip(self):
        # of each graph launch one kernel of each grid runs, 1 + 2 blocks, and all of them take time
        self.assertEqual(self.run_with("skip", 5, "graph"), ([100, 100], (0, 0, 6), ""))
        self.assertEqual(self.run_with("", 5, "graph"), ([100, 100], (0, 0, 30), ""))
        self.assertEqual(self.times("skip", 5), [10] * 5)  # without a graph all run

    def test_malformed(self):
        for line, wanted in {
            "tick 3": "'tick' is no rule: one of time, noise",
            "time valid": "want time GLOB MICROSECONDS",
            "time valid -1": "want time",
            "time valid nan": "want time",
            "time valid 5us": "want time",
            "time valid 5 6": "want time",
            "noise 3%": "want noise FRACTION",
            "noise -0.1": "want noise",
            "drift": "want drift",
            "drift inf": "want drift",
            "busy 1.5 3": "want busy PROBABILITY",
            "busy 0.5 0": "want busy",
            "elapsed 0 1": "want elapsed N VALUE",
            "elapsed 1.5 1": "want elapsed",
            "elapsed 1 x": "want elapsed",
            "fault valid 0": "want fault GLOB RESULT",
            "hang": "want hang GLOB",
            "crash a b": "want crash GLOB",
            "skip all": "want skip",
        }.items():
            with self.subTest(line):
                times, last, err = self.run_with(f"# rules\ntime * 3\n{line}\n", 1)
                self.assertEqual((times, last[0]), ([], 1))  # CUDA_ERROR_INVALID_VALUE of cuInit
                self.assertIn(f"{self.file}:3: ", err)
                self.assertIn(wanted, err)

    def test_no_file(self):
        self.file.mkdir()
        with mock.patch.object(Path, "write_text"):
            self.assertIn("cannot read", self.run_with("", 1)[2])
            self.file.rmdir()
            times, last, err = self.run_with("", 1)
        self.assertEqual((times, last[0]), ([], 1))
        self.assertIn(f"cannot read {self.file}: No such file", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
