// How fast do bytes move? Thread t takes the vectors of 16 bytes t, t + all threads, t + 2 all threads, ...
// b bytes an element. Arithmetic is in float, in double where the array is.
#ifndef DTYPE
#define DTYPE float
#endif
#define PER (16 / (int)sizeof(DTYPE))                 // elements of a vector
#define FOR_EACH(i, count) for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (count); \
                                i += (long long)gridDim.x * blockDim.x)

template <class T> struct Real { typedef float type; };
template <> struct Real<double> { typedef double type; };
typedef Real<DTYPE>::type REAL;
struct __align__(16) Vector { DTYPE of[PER]; };

// How many vectors to take. The rest goes element by element: the tail, or all where an address is no multiple of 16.
__device__ long long vectors(long long n, size_t addresses) { return addresses % 16 == 0 ? n / PER : 0; }

extern "C" __global__ void stream_copy(DTYPE *__restrict__ out, const DTYPE *__restrict__ x, long long n) {
    const long long whole = vectors(n, (size_t)out | (size_t)x);
    FOR_EACH(i, whole) ((Vector *)out)[i] = ((const Vector *)x)[i];               // load b, store b an element
    FOR_EACH(i, n - whole * PER) out[whole * PER + i] = x[whole * PER + i];
}

extern "C" __global__ void stream_write(DTYPE *out, REAL s, long long n) {
    const long long whole = vectors(n, (size_t)out);
    Vector v;
    for (int e = 0; e < PER; ++e) v.of[e] = DTYPE(s);
    FOR_EACH(i, whole) ((Vector *)out)[i] = v;                                    // store b
    FOR_EACH(i, n - whole * PER) out[whole * PER + i] = DTYPE(s);
}

extern "C" __global__ void stream_scale(DTYPE *x, REAL s, long long n) {
    const long long whole = vectors(n, (size_t)x);
    FOR_EACH(i, whole) {
        Vector v = ((const Vector *)x)[i];                                        // load b
        for (int e = 0; e < PER; ++e) v.of[e] = DTYPE(s * REAL(v.of[e]));         // 1 FLOP
        ((Vector *)x)[i] = v;                                                     // store b
    }
    FOR_EACH(i, n - whole * PER) x[whole * PER + i] = DTYPE(s * REAL(x[whole * PER + i]));
}

extern "C" __global__ void stream_triad(DTYPE *out, const DTYPE *x, const DTYPE *y, REAL s, long long n) {
    const long long whole = vectors(n, (size_t)out | (size_t)x | (size_t)y);
    FOR_EACH(i, whole) {                                                          // out may be x or y
        Vector u = ((const Vector *)x)[i];                                        // load b
        const Vector v = ((const Vector *)y)[i];                                  // load b
        for (int e = 0; e < PER; ++e) u.of[e] = DTYPE(REAL(u.of[e]) + s * REAL(v.of[e]));       // 2 FLOP
        ((Vector *)out)[i] = u;                                                   // store b
    }
    FOR_EACH(i, n - whole * PER)
        out[whole * PER + i] = DTYPE(REAL(x[whole * PER + i]) + s * REAL(y[whole * PER + i]));
}

__device__ REAL total;                  // of the blocks that are done: both are 0 before and after each launch
__device__ unsigned int done;
__device__ float take(float *from) { return atomicExch(from, 0.0f); }
__device__ double take(double *from) {  // the exchange knows no double, but its 8 bytes
    const unsigned long long bits = atomicExch((unsigned long long *)from, 0ull);
    return *(const double *)&bits;
}

// The sum over all threads of all blocks, in one launch: the last block to come writes it. A block has whole warps.
__device__ void finish(REAL sum, REAL *result) {
    __shared__ REAL block;
    if (threadIdx.x == 0) block = 0;
    __syncthreads();
    for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(0xffffffffu, sum, far);
    if (threadIdx.x % 32 == 0) atomicAdd(&block, sum);
    __syncthreads();
    if (threadIdx.x > 0) return;
    atomicAdd(&total, block);
    __threadfence();                                                              // the sum goes before the count
    if (atomicInc(&done, gridDim.x - 1) == gridDim.x - 1) *result = take(&total); // atomicInc goes back to 0 by itself
}

extern "C" __global__ void stream_dot(const DTYPE *__restrict__ x, const DTYPE *__restrict__ y, long long n,
                                      REAL *result) {
    const long long whole = vectors(n, (size_t)x | (size_t)y);
    REAL sum = 0;
    FOR_EACH(i, whole) {
        const Vector u = ((const Vector *)x)[i], v = ((const Vector *)y)[i];      // load b + b
        for (int e = 0; e < PER; ++e) sum += REAL(u.of[e]) * REAL(v.of[e]);       // 2 FLOP
    }
    FOR_EACH(i, n - whole * PER) sum += REAL(x[whole * PER + i]) * REAL(y[whole * PER + i]);
    finish(sum, result);
}

__device__ REAL plus(REAL sum, DTYPE number) { return sum + REAL(number); }
__device__ REAL plus(REAL sum, Vector v) {
    for (int e = 0; e < PER; ++e) sum += REAL(v.of[e]);
    return sum;
}

// The repeats of x stand in a row, and the threads walk that row: so all are busy however short x is, and a
// multiprocessor hardly meets again what it has read before, unless all of x fits in its L1.
template <class T> __device__ REAL sum_over(const T *__restrict__ x, long long count, int repeats) {
    REAL sum = 0;
    if (count == 0) return sum;
    const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, all = (long long)gridDim.x * blockDim.x;
    const long long step = all % count;
    long long at = first % count;
    for (long long i = first; i < count * repeats; i += all) {
        const T here = x[at];                                                     // load b an element
        sum = plus(sum, here);                                                    // 1 FLOP an element
        at += step;
        if (at >= count) at -= count;
    }
    return sum;
}

extern "C" __global__ void stream_read(const DTYPE *x, long long n, int repeats, REAL *result) {
    const long long whole = vectors(n, (size_t)x);
    const REAL sum = sum_over((const Vector *)x, whole, repeats);
    finish(sum + sum_over(x + whole * PER, n - whole * PER, repeats), result);
}
