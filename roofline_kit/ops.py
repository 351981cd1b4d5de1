"""What does one call cost? The Work of the operations that the course measures."""

from dataclasses import replace

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


def embedding(tokens, width, dtype="float32", line=1):
    """y[tokens, width] = table[ids[tokens]]: one row of a table for each token; ids are int32.

    FLOPs:   0                        a gather moves, it does not compute
    Bytes:   tokens (4 + b read + b width)   read = width, or what whole lines of memory hold of a row
    line:    bytes that memory moves at once (64 on most CPUs, 32 on NVIDIA GPUs): a row that ends inside one costs
             all of it; 1 counts the row alone. Rows that start at a line are assumed, and no row twice
    """
    tokens, width, line = _sizes(tokens=tokens, width=width, line=line)
    row = itemsize(dtype) * width
    return Work(0, tokens * (4 + -(-row // line) * line + row), written=tokens * row, dtype=dtype, name="embedding")


def conv2d(channels, height, width, filters, kernel=3, stride=1, padding=0, batch=1, dtype="float32", im2col=False):
    """y[batch, filters, h, w]: a filter[channels, kernel, kernel] on each window of x[batch, channels, height, width].

    FLOPs:   2 batch filters h w channels kernel^2     h = (height + 2 padding - kernel) // stride + 1, w likewise
    Bytes:   direct  b (x + filters + y)               each array once
             im2col  direct + 2 b batch h w channels kernel^2   the windows, written out and read by one GEMM
    Errors:  ValueError where the kernel is larger than the padded image
    """
    channels, height, width, filters, kernel, stride, batch = _sizes(
        channels=channels, height=height, width=width, filters=filters, kernel=kernel, stride=stride, batch=batch)
    padding = quantity("padding", padding, whole=True)
    if kernel > min(height, width) + 2 * padding:
        raise ValueError(f"a kernel of {kernel} does not fit an image of {height} x {width} padded by {padding}.")
    b, area = itemsize(dtype), channels * kernel**2
    places = batch * ((height + 2 * padding - kernel) // stride + 1) * ((width + 2 * padding - kernel) // stride + 1)
    windows = places * area if im2col else 0
    nbytes = b * (batch * channels * height * width + filters * area + places * filters + 2 * windows)
    return Work(2 * places * filters * area, nbytes, written=b * (places * filters + windows),
                launches=2 if im2col else 1, dtype=dtype, unit="matrix", name="conv2d im2col" if im2col else "conv2d")


def attention(heads, queries, keys, width, kv_heads=None, causal=False, batch=1, dtype="float32"):
    """out = softmax(q k^T / sqrt(width)) v for each head: three kernels, with the scores and weights in memory.

    FLOPs:   batch heads (4 width + 6) pairs         two products; to scale, and softmax
    Bytes:   b batch (2 heads queries width          q, out
             + 2 kv_heads keys width                 k and v; heads that share them (GQA, MQA) read them once
             + 4 heads pairs)                        scores and weights, each written and read
    pairs:   queries keys, less what a causal mask leaves out
    """
    once = flash_attention(heads, queries, keys, width, kv_heads, causal, batch, dtype)
    through = itemsize(dtype) * once.aside // 3             # 6 FLOPs a pair aside, 2 elements a pair written
    return replace(once, nbytes=once.nbytes + 2 * through, written=once.written + through, launches=3,
                   name="attention")


def flash_attention(heads, queries, keys, width, kv_heads=None, causal=False, batch=1, dtype="float32", block=None):
    """The same attention in one kernel: softmax keeps a running maximum and sum, so no score is ever stored.

    FLOPs:   batch heads (4 width + 6) pairs         as `attention`; rescaling the running sums is not counted
    Bytes:   b batch (2 heads queries width + 2 kv_heads keys width reads)
    block:   queries that stay on the chip together: k and v are read ceil(queries / block) times; None: once.
             Room for M elements holds about M / (4 width) queries, which makes it Theta(N^2 d^2 / M)
    Source:  Dao et al., FlashAttention, arXiv 2205.14135, theorem 2
    Errors:  ValueError where heads do not share kv_heads evenly, or a causal mask has more queries than keys
    """
    heads, queries, keys, width, batch = _sizes(heads=heads, queries=queries, keys=keys, width=width, batch=batch)
    kv_heads, block = _sizes(kv_heads=heads if kv_heads is None else kv_heads,
                             block=queries if block is None else block)
    if heads % kv_heads:
        raise ValueError(f"{heads} heads cannot share {kv_heads} heads of keys and values evenly.")
    if causal and queries > keys:
        raise ValueError(f"a causal mask needs as many keys as queries, but there are {keys} and {queries}.")
    unseen = queries * (queries - 1) // 2 if causal else 0     # the last query sees all keys, the one before one fewer
    pairs = batch * heads * (queries * keys - unseen)
    own, shared = batch * heads * queries * width, batch * kv_heads * keys * width
    b, reads = itemsize(dtype), -(-queries // block)
    return Work((4 * width + 6) * pairs, b * (2 * own + 2 * shared * reads), written=b * own, dtype=dtype,
                unit="matrix", aside=6 * pairs, name="flash attention")


def mlp(d_in, d_hidden, d_out, batch=1, dtype="float32", fused=True):
    """out = relu(x W1 + b1) W2 + b2 for x[batch, d_in], by the vector unit: too small to fill the matrix unit.

    FLOPs:   batch (2 d_hidden (d_in + d_out) + 2 d_hidden + d_out)   a bias and a maximum for each hidden unit
    Bytes:   fused     b (weights and biases + batch (d_in + d_out))
             unfused   + b batch (6 d_hidden + 2 d_out): five kernels, two products, two biases, one relu
    """
    d_in, d_hidden, d_out, batch = _sizes(d_in=d_in, d_hidden=d_hidden, d_out=d_out, batch=batch)
    b, parameters = itemsize(dtype), d_hidden * (d_in + d_out) + d_hidden + d_out
    flops = batch * (2 * d_hidden * (d_in + d_out) + 2 * d_hidden + d_out)
    between = 0 if fused else b * batch * (3 * d_hidden + d_out)           # written, and read again
    return Work(flops, b * (parameters + batch * (d_in + d_out)) + 2 * between, written=b * batch * d_out + between,
                launches=1 if fused else 5, dtype=dtype, name="mlp" if fused else "mlp unfused")


def gru(d_in, width, dtype="float32"):
    """One step of a gated recurrent unit on one input, h'[width] from x[d_in] and h[width], in one kernel.

    FLOPs:   6 width (d_in + width) + 21 width     three gates; 6 biases, 3 nonlinearities, the blend a unit
    Bytes:   b (3 width (d_in + width) + 6 width + d_in + 2 width)
    Source:  the equations of PyTorch's GRUCell
    """
    d_in, width = _sizes(d_in=d_in, width=width)
    weights, b = 3 * width * (d_in + width), itemsize(dtype)
    return Work(2 * weights + 21 * width, b * (weights + 6 * width + d_in + 2 * width), written=b * width, dtype=dtype,
                name="gru")


def matvec(m, n, weights="float32", group=32):
    """y[m] = W[m, n] x[n]: the weights stored in `weights`, x and y and the arithmetic in float32.

    FLOPs:   2 m n + scales           a scale multiplies a row (int8) or a group of weights (int4) once
    Bytes:   b m n + scales + 4 (m + n)   int8: a float32 scale a row; int4: a float16 scale for `group` weights
    Errors:  ValueError where n is no multiple of the group
    """
    m, n, group = _sizes(m=m, n=n, group=group)
    if weights == "int4" and n % group:
        raise ValueError(f"rows of {n} weights do not split into groups of {group}.")
    scales, size = {"int8": (m, 4), "int4": (m * n // group, 2)}.get(weights, (0, 0))
    nbytes = int(itemsize(weights) * m * n) + size * scales + 4 * (m + n)
    return Work(2 * m * n + scales, nbytes, written=4 * m, name=f"matvec {weights}")
