"""The package as part of a process: threads, forks, signals, leaks, speed."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import arrays

import fovea


def test_many_threads_at_once(rng):
    problems = [arrays(rng, shape=(1, 64 + 8 * i, 4, 16), dtype=np.float32) for i in range(8)]
    expected = [fovea.attention(*p, "softmax", causal=True) for p in problems]
    gradients = [fovea.attention_backward(p[0], *p)[:3] for p in problems]
    failures = []

    def work(i):
        try:
            for _ in range(20):
                np.testing.assert_array_equal(fovea.attention(*problems[i], "softmax", causal=True), expected[i])
                for found, other in zip(fovea.attention_backward(problems[i][0], *problems[i])[:3], gradients[i]):
                    np.testing.assert_array_equal(found, other)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_threads_go_on(rng):
    q = rng.standard_normal((1, 8192, 4, 64), dtype=np.float32)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    fovea.attention(q, q, q)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert sum(begin < t < end for t in ticks) >= 3


def test_fork_after_use():
    code = """
import os, numpy as np, fovea
q = np.random.default_rng(0).standard_normal((2, 256, 4, 64), dtype=np.float32)  # enough work for several threads
calls = [lambda: fovea.attention(q, q, q), lambda: fovea.attention(q, q, q, "linformer")]  # the second through oneDNN
expected = [call() for call in calls]
child = os.fork()
if child == 0:
    same = all(np.allclose(call(), e, atol=1e-5) for call, e in zip(calls, expected))
    os._exit(0 if same and fovea.get_num_threads() == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
assert (calls[0]() == expected[0]).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_ctrl_c_ends_a_long_call():
    code = """
import numpy as np, fovea, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
q = np.zeros((1, 200000, 2, 64), np.float32)
p = np.zeros((1, 20000, 8, 64), np.float32)
print("ready", flush=True)
begin = time.perf_counter()
try:
    CALL
except KeyboardInterrupt:
    print("stopped", flush=True)
small = np.ones((1, 100, 8, 64), np.float32)
assert (fovea.attention(small, small, small) == 1).all()
"""
    calls = ("fovea.attention(q, q, q)", "fovea.attention_backward(q, q, q, q, causal=True)",
             "fovea.attention_backward(p, p, p, p)")  # the last divides the work into few long tasks
    for call in calls:
        child = subprocess.Popen([sys.executable, "-c", code.replace("CALL", call)], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        begin = time.perf_counter()
        assert child.stdout.readline() == "stopped\n"
        assert time.perf_counter() - begin < 1.0
        assert child.wait(timeout=60) == 0


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ten_thousand_calls_leak_nothing(rng):
    q, k, v = arrays(rng, shape=(1, 64, 2, 16), dtype=np.float32)
    pattern = fovea.Pattern(lambda query, key: query >= key)

    def calls(count):
        for i in range(count):
            out = fovea.attention(q, k, v, mask=pattern)
            fovea.attention_backward(out, q, k, v, "norm")
            fovea.attention(q, k, v, "performer")
            if i % 50 == 0:
                with pytest.raises(ValueError):
                    fovea.attention(q, k, v[:, :5])

    calls(500)
    gc.collect()
    before, references = _resident(), sys.getrefcount(q)
    calls(10000)
    gc.collect()
    assert sys.getrefcount(q) == references
    assert _resident() - before < 4 << 20


def test_patterns_and_plans_are_let_go(rng):
    q, k, v = arrays(rng, shape=(1, 64, 1, 8), dtype=np.float32)
    for _ in range(500):  # more than the engine keeps
        fovea.attention(q, k, v, mask=fovea.Pattern(lambda query, key: query >= key))
    gc.collect()
    before = _resident()
    for _ in range(2000):
        fovea.attention(q, k, v, mask=fovea.Pattern(lambda query, key: query >= key))
    gc.collect()
    assert _resident() - before < 8 << 20


def test_import_and_first_call_are_quick():
    code = ("import time, numpy as np; q = np.ones((1, 16, 8, 64), np.float32); t = time.perf_counter(); import fovea; "
            "fovea.attention(q, q, q); print(time.perf_counter() - t)")
    times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
             for _ in range(5)]
    assert min(times) < 0.3


def test_a_call_costs_little():
    q = np.ones((1, 16, 8, 64), np.float32)
    fovea.attention(q, q, q)
    best = float("inf")
    for _ in range(30):
        begin = time.perf_counter()
        for _ in range(100):
            fovea.attention(q, q, q)
        best = min(best, (time.perf_counter() - begin) / 100)
    print(f"{1e6 * best:.1f} us a call")
    assert best < 25e-6


def test_threads_can_be_set(rng):
    q, k, v = arrays(rng, shape=(2, 256, 4, 64), dtype=np.float32)
    before = fovea.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            fovea.set_num_threads(threads)
            assert fovea.get_num_threads() == threads
            results.append(fovea.attention(q, k, v))
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
        with pytest.raises(ValueError, match="threads must be"):
            fovea.set_num_threads(-1)
    finally:
        fovea.set_num_threads(before)
