// out[m] = w[m, n] x[n] with weights of 4, 2, 1 and about 1/2 B: x and the sums stay float32, so the bytes shrink and
// the arithmetic does not. One warp a row, any sizes. A lane takes four weights at a time, not 16 B of them: then its
// numbers of x are one float4 next to its neighbour's, which the L1 cache serves without bank conflicts.
// Each kernel also reads 4 n B of x, from a cache for all rows but the first, and writes 4 m B.
#include <cuda_fp16.h>
#ifndef DTYPE
#define DTYPE float
#endif
struct alignas(4 * sizeof(DTYPE)) Four { DTYPE x, y, z, w; };

__device__ bool aligned(const void *weights, size_t four, const float *x) {
    return (size_t)weights % four == 0 && (size_t)x % 16 == 0;
}

__device__ float warp_sum(float sum) {
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    return sum;
}

extern "C" __global__ void matvec(const DTYPE *w, const float *x, float *out, int m, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    w += (size_t)row * n;
    float sum = 0;
    const int fours = aligned(w, sizeof(Four), x) ? n / 4 : 0;
    #pragma unroll 4
    for (int i = lane; i < fours; i += 32) {
        const float4 v = ((const float4 *)x)[i];
        const Four q = ((const Four *)w)[i];                        // 4 n B a row, 2 n B in bfloat16
        sum += float(q.x) * v.x + float(q.y) * v.y + float(q.z) * v.z + float(q.w) * v.w;
    }
    for (int i = 4 * fours + lane; i < n; i += 32) sum += float(w[i]) * x[i];
    sum = warp_sum(sum);
    if (lane == 0) out[row] = sum;
}

extern "C" __global__ void matvec_int8(const signed char *w, const float *scale, const float *x, float *out,
                                       int m, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    w += (size_t)row * n;
    float sum = 0;
    const int fours = aligned(w, 4, x) ? n / 4 : 0;
    #pragma unroll 4
    for (int i = lane; i < fours; i += 32) {
        const float4 v = ((const float4 *)x)[i];
        const char4 q = ((const char4 *)w)[i];                      // n B a row
        sum += q.x * v.x + q.y * v.y + q.z * v.z + q.w * v.w;
    }
    for (int i = 4 * fours + lane; i < n; i += 32) sum += w[i] * x[i];
    sum = warp_sum(sum);
    if (lane == 0) out[row] = scale[row] * sum;                     // 4 B a row
}

// A byte holds q + 8 of two neighbours, the first in its low half; a row ends with a whole byte, and at an odd n the
// high half of that byte means nothing. Each 32 columns share a scale, the last group may hold fewer.
extern "C" __global__ void matvec_int4(const unsigned char *w, const __half *scale, const float *x, float *out,
                                       int m, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    w += (size_t)row * ((n + 1) / 2);
    scale += (size_t)row * ((n + 31) / 32);
    float sum = 0;
    const int fours = aligned(w, 2, x) ? n / 4 : 0;
    #pragma unroll 4
    for (int i = lane; i < fours; i += 32) {
        const float4 v = ((const float4 *)x)[i];
        const int q = ((const unsigned short *)w)[i];               // n / 2 B a row
        const float s = float(scale[i / 8]);                        // n / 16 B a row; eight lanes share 2 B
        sum += s * (((q & 15) - 8) * v.x + ((q >> 4 & 15) - 8) * v.y
                    + ((q >> 8 & 15) - 8) * v.z + ((q >> 12) - 8) * v.w);
    }
    for (int i = 4 * fours + lane; i < n; i += 32) {
        const int q = (w[i / 2] >> (i % 2 * 4) & 15) - 8;
        sum += float(scale[i / 32]) * q * x[i];
    }
    sum = warp_sum(sum);
    if (lane == 0) out[row] = sum;
}
