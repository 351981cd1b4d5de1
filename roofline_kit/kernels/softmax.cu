// Softmax: out = exp(x - max) / sum(exp(x - max)) along each row of x[rows, width].
// `softmax` reads x once, `softmax_three_pass` three times; the five kernels below them do it step by step.
#ifndef DTYPE
#define DTYPE float
#endif
#ifndef VECTOR          // elements that one access moves: 16 bytes of them where rows begin on such a boundary
#define VECTOR 1
#endif
#define LOWEST -3.402823466e38f         // the lowest float: unlike -infinity, minus itself it is 0 and not NaN
#define EACH(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)

struct alignas(VECTOR * sizeof(DTYPE)) Pack { DTYPE at[VECTOR]; };

__device__ float sum(float a, float b) { return a + b; }
__device__ float larger(float a, float b) { return fmaxf(a, b); }

// `combine` over the values of all threads of the block, in every thread; the block consists of whole warps.
template <float combine(float, float)> __device__ float block(float value)
{
    __shared__ float warps[32];
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, step));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int warp = 1; warp < int(blockDim.x) / 32; warp++) value = combine(value, warps[warp]);
    __syncthreads();                                    // `warps` may be used again from here on
    return value;
}

// Online: maximum and sum in one pass. One block a row; shared memory keeps the first `kept` packs of it, what does
// not fit is read twice. `packs` are the packs of a row, VECTOR elements each.
extern "C" __global__ void softmax(const Pack *x, Pack *out, int packs, int kept)
{
    extern __shared__ Pack row[];
    x += (size_t)blockIdx.x * packs;
    out += (size_t)blockIdx.x * packs;
    float largest = LOWEST, total = 0;                  // of what this thread has seen: max, sum of exp(number - max)
    EACH(i, packs) {
        const Pack pack = x[i];                                                             // reads b width
        const float before = largest;
        for (int k = 0; k < VECTOR; k++) largest = fmaxf(largest, float(pack.at[k]));
        total *= expf(before - largest);                // a new maximum scales the sum so far
        for (int k = 0; k < VECTOR; k++) total += expf(float(pack.at[k]) - largest);
        if (i < kept) row[i] = pack;                    // each thread reads back only what it kept itself
    }
    const float most = block<larger>(largest);
    total = block<sum>(total * expf(largest - most));
    EACH(i, packs) {
        const Pack pack = i < kept ? row[i] : x[i];                                         // reads what was not kept
        Pack result;
        for (int k = 0; k < VECTOR; k++) result.at[k] = DTYPE(expf(float(pack.at[k]) - most) / total);
        out[i] = result;                                                                    // writes b width
    }
}

// The definition taken literally: one block a row, which each of the three loops reads from memory.
extern "C" __global__ void softmax_three_pass(const DTYPE *x, DTYPE *out, int width)
{
    x += (size_t)blockIdx.x * width;
    out += (size_t)blockIdx.x * width;
    float largest = LOWEST, total = 0;
    EACH(i, width) largest = fmaxf(largest, float(x[i]));                                   // reads b width
    largest = block<larger>(largest);
    EACH(i, width) total += expf(float(x[i]) - largest);                                    // reads b width
    total = block<sum>(total);
    EACH(i, width) out[i] = DTYPE(expf(float(x[i]) - largest) / total);                     // reads, writes b width
}

// ---- The same in five passes: one block a row, what lies between two passes goes through memory ----

#define HERE ((size_t)blockIdx.x * width + i)

extern "C" __global__ void row_max(const DTYPE *x, DTYPE *out, int width)
{
    float largest = LOWEST;
    EACH(i, width) largest = fmaxf(largest, float(x[HERE]));                // reads b size
    largest = block<larger>(largest);
    if (threadIdx.x == 0) out[blockIdx.x] = DTYPE(largest);                 // writes b rows
}

// reads b (size + rows), writes b size
extern "C" __global__ void subtract(const DTYPE *x, const DTYPE *largest, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) - float(largest[blockIdx.x]));
}

// reads b size, writes b size
extern "C" __global__ void exponential(const DTYPE *x, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(expf(float(x[HERE])));
}

extern "C" __global__ void row_sum(const DTYPE *x, DTYPE *out, int width)
{
    float total = 0;
    EACH(i, width) total += float(x[HERE]);                                 // reads b size
    total = block<sum>(total);
    if (threadIdx.x == 0) out[blockIdx.x] = DTYPE(total);                     // writes b rows
}

// reads b (size + rows), writes b size
extern "C" __global__ void divide(const DTYPE *x, const DTYPE *total, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) / float(total[blockIdx.x]));
}
