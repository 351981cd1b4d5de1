// Attention in the standard pieces, for q, k, v, out[heads, S, d]: the scores q k^T / sqrt(d) go to memory, softmax.cu
// reads them and writes weights, out = p v reads those: S x S numbers a head cross memory at least four times.
#ifndef DTYPE
#define DTYPE float
#endif
#define TILE 16         // threads in each direction of a block, and numbers in each direction of a tile
#define MINUS_INFINITY __int_as_float(0xff800000)

// p = scale q k^T: one block a tile of p, one number a thread. If causal, -infinity where a query cannot look ahead.
extern "C" __global__ void scores(const DTYPE *q, const DTYPE *k, DTYPE *p, int S, int d, float scale, int causal)
{
    __shared__ float queries[TILE][TILE], keys[TILE][TILE + 1];                 // padded: it is read by columns
    const int x = threadIdx.x, y = threadIdx.y;
    const int query = blockIdx.y * TILE + y, key = blockIdx.x * TILE + x, loaded = blockIdx.x * TILE + y;
    q += (size_t)blockIdx.z * S * d;
    k += (size_t)blockIdx.z * S * d;
    p += (size_t)blockIdx.z * S * S;
    float sum = 0;
    for (int start = 0; start < d; start += TILE) {
        const int column = start + x;
        queries[y][x] = query < S && column < d ? float(q[(size_t)query * d + column]) : 0;     // reads b S d S / TILE
        keys[y][x] = loaded < S && column < d ? float(k[(size_t)loaded * d + column]) : 0;      // reads b S d S / TILE
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += queries[y][i] * keys[x][i];
        __syncthreads();
    }
    if (query < S && key < S)
        p[(size_t)query * S + key] = DTYPE(causal && key > query ? MINUS_INFINITY : scale * sum);   // writes b S S
}

// out = p v: one block a tile of out, one number a thread.
extern "C" __global__ void weighted_sum(const DTYPE *p, const DTYPE *v, DTYPE *out, int S, int d)
{
    __shared__ float weights[TILE][TILE], values[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int query = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    p += (size_t)blockIdx.z * S * S;
    v += (size_t)blockIdx.z * S * d;
    out += (size_t)blockIdx.z * S * d;
    float sum = 0;
    for (int start = 0; start < S; start += TILE) {
        const int a = start + x, b = start + y;             // keys: a of this thread's weight, b of its value
        weights[y][x] = query < S && a < S ? float(p[(size_t)query * S + a]) : 0;               // reads b S S d / TILE
        values[y][x] = b < S && column < d ? float(v[(size_t)b * d + column]) : 0;              // reads b S d S / TILE
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += weights[y][i] * values[i][x];
        __syncthreads();
    }
    if (query < S && column < d) out[(size_t)query * d + column] = DTYPE(sum);  // writes b S d
}
