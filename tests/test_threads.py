"""Do the threads of one library leave the cores to the next one?"""

import json
import os
import subprocess
import sys

import pytest

RATIO = """
import time
import roofline_kit as rk

device = rk.device("cpu")
a, b, out = (device.random(512, 512) for _ in range(3))
read, product = device.kernel("read"), lambda: device.xp.matmul(a, b, out=out)
x = device.random(2**22)

def shortest(before):
    times = []
    for _ in range(60):
        before()
        start = time.perf_counter()
        read(x)
        times.append(time.perf_counter() - start)
    return sorted(times)[15]

read(x), product()
print(shortest(product) / shortest(lambda: read(x)))
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has no second thread to wait")
def test_a_kernel_after_a_product_is_not_held_up_by_threads_that_wait_for_the_next_product():
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    done = subprocess.run([sys.executable, "-c", RATIO], env=env, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8                            # 2 on two quiet cores; 27 if the threads wait busily


ONE_CORE = """
import json
import numba
import threadpoolctl
import roofline_kit as rk

one = rk.one_core("float32")
pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
print(json.dumps({"threads": [numba.get_num_threads(), *pools], "rates": [one.peak, one.vector_peak, one.bandwidth]}))
"""


def test_one_core_holds_the_libraries_to_one():
    done = subprocess.run([sys.executable, "-c", ONE_CORE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["threads"]) == {1} and min(found["rates"]) > 0
