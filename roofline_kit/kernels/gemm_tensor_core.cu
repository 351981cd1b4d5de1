// out[m, n] = a[m, k] b[k, n], row by row in memory: a and b in 2 bytes, products and sums in float on Tensor Cores.
// A block of 8 warps makes BLOCK x BLOCK of out; a warp makes 64 x 32 of it as 4 x 2 fragments of 16 x 16.
// Loads 4 m n k / BLOCK bytes, stores 4 m n.
#include <mma.h>
#ifndef DTYPE
#include <cuda_fp16.h>
#define DTYPE __half
#endif
#define BLOCK 128
#define DEPTH 32
#define PAD 8                        // 16 bytes more in each row of a tile, so that its rows begin at different banks
using namespace nvcuda;
struct __align__(16) Vector { DTYPE of[8]; };

// rows x columns of x from (top, left) on into a tile in shared memory, zeros beyond the edges of x.
template <int ROWS, int COLUMNS>
__device__ void bring(DTYPE *tile, const DTYPE *__restrict__ x, int rows, int columns, int top, int left) {
    const bool vectors = columns % 8 == 0 && (size_t)x % 16 == 0;     // eight numbers are inside together or not at all
    #pragma unroll
    for (int first = 0; first < ROWS * COLUMNS; first += 256 * 8) {
        const int i = first + threadIdx.x * 8, row = top + i / COLUMNS, column = left + i % COLUMNS;
        const DTYPE *from = x + (size_t)row * columns + column;
        Vector v;
        for (int e = 0; e < 8; ++e) v.of[e] = DTYPE(0.0f);
        if (vectors && row < rows && column < columns) v = *(const Vector *)from;                     // load 16 B
        if (!vectors)
            for (int e = 0; e < 8; ++e) if (row < rows && column + e < columns) v.of[e] = from[e];    // load 2 B
        *(Vector *)(tile + i / COLUMNS * (COLUMNS + PAD) + i % COLUMNS) = v;
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemm_tensor_core(const DTYPE *__restrict__ a, const DTYPE *__restrict__ b, float *__restrict__ out,
                 int m, int n, int k) {
    __shared__ __align__(32) DTYPE a_tile[BLOCK][DEPTH + PAD], b_tile[DEPTH][BLOCK + PAD];
    __shared__ __align__(32) float stage[8][16][16];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, top = blockIdx.y * BLOCK, left = blockIdx.x * BLOCK;
    const int y = warp / 4 * 64, x = warp % 4 * 32;                     // where the warp's part of the block begins
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][2];
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
    for (int start = 0; start < k; start += DEPTH) {
        bring<BLOCK, DEPTH>(&a_tile[0][0], a, m, k, top, start);
        bring<DEPTH, BLOCK>(&b_tile[0][0], b, k, n, start, left);
        __syncthreads();
        for (int d = 0; d < DEPTH; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, DTYPE, wmma::row_major> u;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, DTYPE, wmma::row_major> v[2];
            for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(v[j], &b_tile[d][x + 16 * j], BLOCK + PAD);
            for (int i = 0; i < 4; ++i) {
                wmma::load_matrix_sync(u, &a_tile[y + 16 * i][d], DEPTH + PAD);
                for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], u, v[j], sum[i][j]);   // 8192 FLOP a warp
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 2; ++j) {           // through shared memory, since edges may be odd
        wmma::store_matrix_sync(&stage[warp][0][0], sum[i][j], 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int row = top + y + 16 * i + e / 16, column = left + x + 16 * j + e % 16;
            if (row < m && column < n) out[(size_t)row * n + column] = stage[warp][e / 16][e % 16];  // store 4 B
        }
        __syncwarp();
    }
}
