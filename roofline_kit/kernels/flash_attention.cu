// Flash attention: out = softmax(q k^T / sqrt(d)) v for q, k, v, out[heads, S, d], with tiles of k and v in shared
// memory and the softmax carried along, so no score ever goes to memory.
#ifndef DTYPE
#define DTYPE float
#endif
#ifndef D               // head size: 16, 32, 64 or 128
#define D 64
#endif
#define THREADS 128
#define SPLIT (D > 32 ? D / 32 : 1)     // threads that share a query: 32 numbers of q and of out fit in one's registers
#define QUERIES (THREADS / SPLIT)       // of a block
#define KEYS 32                         // of a tile
#define PARTS (D / SPLIT / 4)           // groups of four numbers that a thread holds
#define LOWEST -3.402823466e38f         // the lowest float: unlike -infinity, minus itself it is 0 and not NaN
#define EACH_NUMBER(i, c) for (int i = 0; i < PARTS; i++) for (int c = 0; c < 4; c++)

struct alignas(16) Four { float at[4]; };                   // one access to shared memory

// Fills a tile with rows `first` and on; zeros stand for rows past the last.
__device__ void fill(Four *tile, const DTYPE *rows, int first, int S)
{
    for (int i = threadIdx.x; i < KEYS * D; i += THREADS)
        ((float *)tile)[i] = first + i / D < S ? float(rows[(size_t)first * D + i]) : 0;
}

// q k for the numbers of one thread; the threads that share the query add theirs up.
__device__ float dot(const Four *q, const Four *key)
{
    float sum = 0;
    EACH_NUMBER(i, c) sum += q[i].at[c] * key[i * SPLIT].at[c];
    for (int step = SPLIT / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    return sum;
}

// One block for QUERIES queries of a head; part + SPLIT i is the i-th group of four numbers of a thread.
extern "C" __global__ void __launch_bounds__(THREADS)
flash_attention(const DTYPE *q, const DTYPE *k, const DTYPE *v, DTYPE *out, int S, float scale, int causal)
{
    __shared__ Four keys[KEYS * D / 4], values[KEYS * D / 4];
    const int query = blockIdx.x * QUERIES + threadIdx.x / SPLIT, part = threadIdx.x % SPLIT;
    const size_t head = (size_t)blockIdx.y * S * D, row = head + (size_t)query * D + 4 * part;
    const int last = causal ? min(S, int(blockIdx.x + 1) * QUERIES) : S;
    Four mine[PARTS], sum[PARTS] = {};
    EACH_NUMBER(i, c) mine[i].at[c] = query < S ? scale * float(q[row + 4 * SPLIT * i + c]) : 0;    // reads b S d
    float largest = LOWEST, total = 0;
    for (int first = 0; first < last; first += KEYS) {
        __syncthreads();                                    // the tile before is used up
        fill(keys, k + head, first, S);                                             // reads b S d a block of queries,
        fill(values, v + head, first, S);                                           // each; about half if causal
        __syncthreads();
        float score[KEYS], before = largest;
#pragma unroll                                              // keeps the scores in registers
        for (int j = 0; j < KEYS; j++) {
            score[j] = dot(mine, keys + j * D / 4 + part);
            if (first + j >= S || (causal && first + j > query)) score[j] = LOWEST;
            largest = fmaxf(largest, score[j]);
        }
        const float shrink = expf(before - largest);        // a new maximum scales what is summed so far
        total *= shrink;
        EACH_NUMBER(i, c) sum[i].at[c] *= shrink;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            const float weight = expf(score[j] - largest);
            total += weight;
            EACH_NUMBER(i, c) sum[i].at[c] += weight * values[j * D / 4 + part + SPLIT * i].at[c];
        }
    }
    if (query < S) EACH_NUMBER(i, c) out[row + 4 * SPLIT * i + c] = DTYPE(sum[i].at[c] / total);    // writes b S d
}
