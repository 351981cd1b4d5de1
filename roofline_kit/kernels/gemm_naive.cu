// out[m, n] = a[m, k] b[k, n], row by row in memory. A thread makes one element: a row of a times a column of b.
// b bytes an element: loads 2 b m n k, stores b m n. All reuse is left to the caches.
#ifndef DTYPE
#define DTYPE float
#endif
template <class T> struct Real { typedef float type; };         // float arithmetic, double where the arrays are
template <> struct Real<double> { typedef double type; };
typedef Real<DTYPE>::type REAL;

extern "C" __global__ void gemm_naive(const DTYPE *__restrict__ a, const DTYPE *__restrict__ b, DTYPE *__restrict__ out,
                                      int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    REAL sum = 0;
    for (int i = 0; i < k; ++i)
        sum += REAL(a[(size_t)row * k + i])             // load b: the same for a row of threads
             * REAL(b[(size_t)i * n + column]);         // load b: side by side for a row of threads; 2 FLOP
    out[(size_t)row * n + column] = DTYPE(sum);         // store b
}
