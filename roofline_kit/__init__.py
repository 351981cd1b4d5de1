"""Why is code fast or slow on the machine it runs on? A small kit to derive, predict, measure and explain.

    count    (standard library only)   units  <-  work  <-  ops      traced  <-  referee
    bound                              roofline  <-  datasheets
    machine                            host, gpu  <-  device (+ kernels/)  <-  timing  <-  cuda, sustained, record
    people                             report  plot  <-  tiles      check, grade (+ exercises/)      __main__

Each layer imports only from the layers above it. Importing the kit measures nothing and starts nothing.
"""

from . import referee
from .check import check, hint, progress
from .cuda import CudaError, cuda
from .datasheets import chips, datasheet
from .device import Device, device
from .doctor import doctor
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
from .plot import plot, plot_sweep
from .recorded import recorded
from .report import Scorecard, scorecard
from .roofline import Roofline, Times
from .sustained import card, sustained
from .tiles import draw_tiles
from .timing import MeasureError, Run, measure
from .units import DTYPES, itemsize, si
from .work import Work, fused

__version__ = "0.1.0"
