"""What does one call cost? The Work of the operations that the course measures."""

from .units import itemsize, quantity
from .work import Work


def _sizes(**sizes):
    """The sizes as Python ints, in order. Errors: ValueError that names the one that cannot be."""
    return tuple(quantity(name, value, least=1, whole=True) for name, value in sizes.items())


def dot(n, dtype="float32"):
    """s = a . b for vectors a[n], b[n].

    FLOPs:   2 n                      a multiply and an add for each pair
    Bytes:   2 b n                    read a and b once; the one result is not counted; b bytes an element
    """
    n, = _sizes(n=n)
    return Work(2 * n, 2 * itemsize(dtype) * n, dtype=dtype, name="dot")


def axpy(n, dtype="float32"):
    """y[n] = alpha x[n] + y[n], in place.

    FLOPs:   2 n
    Bytes:   3 b n                    read x and y, write y where it was read
    Source:  BLAS level 1; AI 1/6 in float32, as in the Modal GPU glossary
    """
    n, = _sizes(n=n)
    b = itemsize(dtype)
    return Work(2 * n, 3 * b * n, written=b * n, rewritten=b * n, dtype=dtype, name="axpy")


def elementwise(n, inputs=2, flops=1, dtype="float32", in_place=False):
    """out[n] = f(x_1[n], .., x_inputs[n]), element by element.

    FLOPs:   flops n                  `flops` for each element; exp, sqrt and a division count 1
    Bytes:   (inputs + 1) b n         read each input once, write the result once
    in_place:  the result replaces one of the inputs; the count is the same
    """
    n, = _sizes(n=n)
    inputs = quantity("inputs", inputs, whole=True)
    b = itemsize(dtype)
    return Work(quantity("flops", flops) * n, (inputs + 1) * b * n, written=b * n,
                rewritten=b * n if in_place and inputs else 0, dtype=dtype, name="elementwise")


def gemm(m, n, k, dtype="float32"):
    """C[m, n] = A[m, k] @ B[k, n].

    FLOPs:   2 m n k                  m n dot products of length k, a multiply and an add each
    Bytes:   b (m k + k n + m n)      read A and B once, write C once; b bytes an element
    Source:  NVIDIA, Matrix Multiplication Background guide (8192 x 128 x 8192 in 2 bytes: AI 124.1)
    """
    m, n, k = _sizes(m=m, n=n, k=k)
    b = itemsize(dtype)
    return Work(2 * m * n * k, b * (m * k + k * n + m * n), written=b * m * n,
                dtype=dtype, unit="matrix", name="gemm")


def linear(batch, d_in, d_out, dtype="float32", bias=False):
    """Y[batch, d_out] = X[batch, d_in] @ W[d_in, d_out] (+ b[d_out]).

    FLOPs:   2 batch d_in d_out       (+ batch d_out with the bias)
    Bytes:   b (batch d_in + d_in d_out + batch d_out)   (+ b d_out): W is read once for the whole batch
    Source:  NVIDIA, GPU Performance Background guide (1024 -> 4096 in 2 bytes: AI 315 at batch 512, 1 at batch 1)
    """
    batch, d_in, d_out = _sizes(batch=batch, d_in=d_in, d_out=d_out)
    product = gemm(batch, d_out, d_in, dtype)
    extra = d_out if bias else 0
    return Work(product.flops + batch * extra, product.nbytes + itemsize(dtype) * extra, written=product.written,
                dtype=dtype, unit="matrix", name="linear")


def layernorm(rows, width, dtype="float32", fused=True):
    """y = (x - mean) / sqrt(var + eps) * gamma + beta, along each row of x[rows, width].

    FLOPs:   7 rows width + 4 rows    an element: 2 sums, centre, square, divide, gamma, beta;
                                      a row: 2 divisions (the means), + eps, sqrt
    Bytes:   fused     b (2 rows width + 2 width)              read x, gamma, beta once, write y once
             unfused   b (12 rows width + 8 rows + 2 width)    9 kernels: 7 read and 5 write all of x's size
    Source:  the definition step by step; tests count the same by running it (`rk.referee.passes`)
    """
    rows, width = _sizes(rows=rows, width=width)
    size, b = rows * width, itemsize(dtype)
    flops, name = 7 * size + 4 * rows, "layernorm" if fused else "layernorm unfused"
    if fused:
        return Work(flops, b * (2 * size + 2 * width), written=b * size, dtype=dtype, name=name)
    return Work(flops, b * (12 * size + 8 * rows + 2 * width), written=b * (5 * size + 4 * rows),
                launches=9, dtype=dtype, name=name)


def softmax(rows, width, dtype="float32", fused=True):
    """y = exp(x - max) / sum(exp(x - max)), along each row of x[rows, width].

    FLOPs:   5 rows width             an element: max, subtract, exp, sum, divide, 1 each
    Bytes:   fused     b 2 rows width              read x once, write y once
             unfused   b (8 rows width + 4 rows)   5 kernels: 5 read and 3 write all of x's size
    Source:  the definition step by step; tests count the same by running it (`rk.referee.passes`)
    """
    rows, width = _sizes(rows=rows, width=width)
    size, b = rows * width, itemsize(dtype)
    flops, name = 5 * size, "softmax" if fused else "softmax unfused"
    if fused:
        return Work(flops, b * 2 * size, written=b * size, dtype=dtype, name=name)
    return Work(flops, b * (8 * size + 4 * rows), written=b * (3 * size + 2 * rows),
                launches=5, dtype=dtype, name=name)
