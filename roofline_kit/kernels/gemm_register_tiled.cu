// out[m, n] = a[m, k] b[k, n] in float, row by row in memory. A block of 256 threads makes BLOCK x BLOCK of out, a
// thread EACH x EACH of it in registers: 2 EACH loads from shared memory feed EACH^2 multiply-adds.
// 4 bytes an element: loads 8 m n k / BLOCK, stores 4 m n.
#define BLOCK 128
#define DEPTH 8                      // of k at a time: 32 bytes of a row of a, a whole sector
#define EACH 8
#define SIDE (BLOCK / EACH)          // 16 x 16 threads
#define PLACE(i, t) ((i) / 4 * 4 * SIDE + (t) * 4 + (i) % 4)    // a thread's rows: 4 side by side, so one 16-byte load,
                                                                // then 4 from 64 further: neighbours meet no bank twice
extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
gemm_register_tiled(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out,
                    int m, int n, int k) {
    __shared__ __align__(16) float a_tile[DEPTH][BLOCK + 4];    // transposed; 4 more, or its stores meet in the banks
    __shared__ __align__(16) float b_tile[DEPTH][BLOCK];
    const int t = threadIdx.x, x = t % SIDE, y = t / SIDE, top = blockIdx.y * BLOCK, left = blockIdx.x * BLOCK;
    float sum[EACH][EACH] = {};
    for (int start = 0; start < k; start += DEPTH) {
        #pragma unroll
        for (int first = 0; first < BLOCK * DEPTH; first += SIDE * SIDE) {      // zeros beyond the edges
            const int i = first + t, row = i / DEPTH, deep = i % DEPTH, level = i / BLOCK, column = i % BLOCK;
            const bool a_in = top + row < m && start + deep < k, b_in = start + level < k && left + column < n;
            a_tile[deep][row] = a_in ? a[(size_t)(top + row) * k + start + deep] : 0.0f;              // load 4 B
            b_tile[level][column] = b_in ? b[(size_t)(start + level) * n + left + column] : 0.0f;     // load 4 B
        }
        __syncthreads();
        #pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            __align__(16) float u[EACH], v[EACH];
            for (int i = 0; i < EACH; i += 4) {
                *(float4 *)&u[i] = *(const float4 *)&a_tile[d][PLACE(i, y)];
                *(float4 *)&v[i] = *(const float4 *)&b_tile[d][PLACE(i, x)];
            }
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j) sum[i][j] += u[i] * v[j];        // 2 FLOP, from registers alone
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int row = top + PLACE(i, y), column = left + PLACE(j, x);
            if (row < m && column < n) out[(size_t)row * n + column] = sum[i][j];                     // store 4 B
        }
}
