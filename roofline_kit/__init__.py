"""Why is code fast or slow on the machine it runs on? A small kit to derive, predict, measure and explain.

    count    (standard library only)   units  <-  work  <-  ops  <-  transformer, serving      traced  <-  referee
    bound                              roofline  <-  datasheets      links
    machine                            host, gpu  <-  device (+ kernels/)  <-  timing  <-  cuda, sustained, record
    people                             report  plot  <-  tiles, diagnose      svg  <-  explore      check, grade

Each layer imports only from the layers above it. Importing the kit measures nothing and starts nothing.
"""

import os

# Between two products OpenBLAS's threads wait for work without sleeping, 2**26 clocks long unless told otherwise, and
# keep the cores from whatever runs next. NumPy's OpenBLAS reads this once, when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

from . import links, referee
from .check import check, hint, progress
from .cuda import CudaError, cuda
from .datasheets import chips, datasheet
from .device import Device, device
from .diagnose import Diagnosis, diagnose
from .doctor import doctor
from .explore_gemm import explore_gemm
from .explore_latency import explore_latency
from .explore_roofline import explore_roofline
from .explore_serving import explore_serving
from .latency import Latencies, latencies, plot_latencies
from .mysteries import Mystery, mystery
from .ops import (
    attention,
    axpy,
    conv2d,
    dot,
    elementwise,
    embedding,
    flash_attention,
    gemm,
    gru,
    layernorm,
    linear,
    matvec,
    mlp,
    softmax,
)
from .pair import Pair
from .plot import plot, plot_sweep
from .recorded import recorded
from .report import Scorecard, scorecard
from .report_card import report_card
from .roofline import Roofline, Times
from .serving import paged_waste, speculative_speedup
from .sheet import sheet
from .sustained import card, one_core, sustained
from .tiles import draw_tiles
from .timing import MeasureError, Run, measure
from .training import TrainingStep
from .transformer import Model
from .units import DTYPES, itemsize, si
from .work import Work, fused

__version__ = "0.1.0"
