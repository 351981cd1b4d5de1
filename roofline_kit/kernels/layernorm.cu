// Layer normalisation: out = (x - mean) / sqrt(variance + EPSILON) * gain + bias along each row of x[rows, width].
// `layernorm` does it in one pass over memory; the nine kernels below it do the same step by step.
#ifndef DTYPE
#define DTYPE float
#endif
#ifndef VECTOR          // elements that one access moves: 16 bytes of them where rows begin on such a boundary
#define VECTOR 1
#endif
#define EPSILON 1e-5f
#define EACH(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)

struct alignas(VECTOR * sizeof(DTYPE)) Pack { DTYPE at[VECTOR]; };

// The sum of `value` over all threads of the block, in every thread; the block consists of whole warps.
__device__ float block_sum(float value)
{
    __shared__ float warps[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < int(blockDim.x) / 32; warp++) sum += warps[warp];
    __syncthreads();                                    // `warps` may be used again from here on
    return sum;
}

// One block a row. Shared memory keeps the first `kept` packs of it; what does not fit is read three times.
// `packs` are the packs of a row, VECTOR elements each.
extern "C" __global__ void layernorm(const Pack *x, const Pack *gain, const Pack *bias, Pack *out, int packs, int kept)
{
    extern __shared__ Pack row[];
    const float width = float(packs) * VECTOR;
    x += (size_t)blockIdx.x * packs;
    out += (size_t)blockIdx.x * packs;
    float sum = 0, squares = 0;
    EACH(i, packs) {
        const Pack pack = x[i];                                                             // reads b width
        for (int k = 0; k < VECTOR; k++) sum += float(pack.at[k]);
        if (i < kept) row[i] = pack;                    // each thread reads back only what it kept itself
    }
    const float mean = block_sum(sum) / width;
    EACH(i, packs) {
        const Pack pack = i < kept ? row[i] : x[i];                                         // reads what was not kept
        for (int k = 0; k < VECTOR; k++) {
            const float centred = float(pack.at[k]) - mean;
            squares += centred * centred;
        }
    }
    const float deviation = sqrtf(block_sum(squares) / width + EPSILON);
    EACH(i, packs) {
        const Pack pack = i < kept ? row[i] : x[i], scale = gain[i], shift = bias[i];       // reads 2 b width, in cache
        Pack result;                                                                        // after the first row
        for (int k = 0; k < VECTOR; k++)
            result.at[k] = DTYPE((float(pack.at[k]) - mean) / deviation * float(scale.at[k]) + float(shift.at[k]));
        out[i] = result;                                                                    // writes b width
    }
}

// ---- The same in nine passes: one block a row, what lies between two passes goes through memory ----

#define HERE ((size_t)blockIdx.x * width + i)

// launched twice: for x, and for the squares
extern "C" __global__ void row_mean(const DTYPE *x, DTYPE *mean, int width)
{
    float sum = 0;
    EACH(i, width) sum += float(x[HERE]);                                   // reads b size
    sum = block_sum(sum);
    if (threadIdx.x == 0) mean[blockIdx.x] = DTYPE(sum / width);            // writes b rows
}

// reads b (size + rows), writes b size
extern "C" __global__ void centre(const DTYPE *x, const DTYPE *mean, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) - float(mean[blockIdx.x]));
}

// reads b size, writes b size
extern "C" __global__ void square(const DTYPE *x, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) * float(x[HERE]));
}

// reads b rows, writes b rows
extern "C" __global__ void add_epsilon(const DTYPE *x, DTYPE *out, int rows)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) out[i] = DTYPE(float(x[i]) + EPSILON);
}

// reads b rows, writes b rows
extern "C" __global__ void square_root(const DTYPE *x, DTYPE *out, int rows)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) out[i] = DTYPE(sqrtf(float(x[i])));
}

// reads b (size + rows), writes b size
extern "C" __global__ void divide(const DTYPE *x, const DTYPE *deviation, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) / float(deviation[blockIdx.x]));
}

// reads b (size + width), writes b size
extern "C" __global__ void times_gain(const DTYPE *x, const DTYPE *gain, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) * float(gain[i]));
}

// reads b (size + width), writes b size
extern "C" __global__ void plus_bias(const DTYPE *x, const DTYPE *bias, DTYPE *out, int width)
{
    EACH(i, width) out[HERE] = DTYPE(float(x[HERE]) + float(bias[i]));
}
