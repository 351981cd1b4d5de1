// out[m, n] = a[m, k] b[k, n], row by row in memory. A block of TILE x TILE threads makes a tile of out: it brings
// a tile of a and a tile of b into shared memory, where each number is used TILE times.
// b bytes an element: loads 2 b m n k / TILE, stores b m n.
#ifndef DTYPE
#define DTYPE float
#endif
#ifndef TILE
#define TILE 32
#endif
template <class T> struct Real { typedef float type; };         // float arithmetic, double where the arrays are
template <> struct Real<double> { typedef double type; };
typedef Real<DTYPE>::type REAL;

extern "C" __global__ void gemm_tiled(const DTYPE *__restrict__ a, const DTYPE *__restrict__ b, DTYPE *__restrict__ out,
                                      int m, int n, int k) {
    __shared__ DTYPE a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    REAL sum = 0;
    for (int start = 0; start < k; start += TILE) {             // zeros beyond the edges
        a_tile[y][x] = row < m && start + x < k ? a[(size_t)row * k + start + x] : DTYPE(0.0f);         // load b
        b_tile[y][x] = start + y < k && column < n ? b[(size_t)(start + y) * n + column] : DTYPE(0.0f); // load b
        __syncthreads();                                        // the tiles are there
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += REAL(a_tile[y][i]) * REAL(b_tile[i][x]);     // 2 FLOP; a row of threads meets no bank twice
        __syncthreads();                                        // nobody needs them any more
    }
    if (row < m && column < n) out[(size_t)row * n + column] = DTYPE(sum);      // store b
}
