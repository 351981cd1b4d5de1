/* How many FLOP/s can C do on all cores? Independent chains of fused multiply-adds in the widest vectors.

   Build: cc -O3 -march=native -ffp-contract=fast -fopenmp fma.c -o fma        Run: fma [SAMPLES]
   Prints for every type and number of chains the median rate [FLOP/s]; a multiply-add is 2 FLOP. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#if defined __AVX512F__
#define WIDTH 64
#elif defined __AVX__
#define WIDTH 32
#else
#define WIDTH 16
#endif
enum { STEPS = 2000000 };

static volatile double start = 0.5, ratio = 0.999, sink; /* volatile: nothing can be worked out beforehand */

/* x = r x + (1 - r) goes to 1 whatever it starts from: no zeros, no denormals, no overflow. */
#define CHAINS(type, count)                                                                              \
    static void type##_##count(void)                                                                     \
    {                                                                                                    \
        typedef type vector __attribute__((vector_size(WIDTH)));                                         \
        _Pragma("omp parallel")                                                                          \
        {                                                                                                \
            vector x[count], sum = {0}, r = sum + (type)ratio, d = sum + (type)(1 - ratio);              \
            for (int k = 0; k < count; k++) x[k] = sum + (type)start;                                    \
            _Pragma("GCC unroll 1") for (long i = 0; i < STEPS; i++)                                     \
            {                                                                                            \
                _Pragma("GCC unroll 16") for (int k = 0; k < count; k++) x[k] = r * x[k] + d;            \
            }                                                                                            \
            for (int k = 0; k < count; k++) sum += x[k];                                                 \
            sink = sum[0];                                                                               \
        }                                                                                                \
    }
#define BOTH(count) CHAINS(float, count) CHAINS(double, count)
BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6) BOTH(8) BOTH(10) BOTH(12) BOTH(16)

#define ROW(count) {"float32", float_##count, count, WIDTH / 4}, {"float64", double_##count, count, WIDTH / 8}
static const struct { const char *dtype; void (*run)(void); int chains, lanes; } kernels[] = {
    ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(8), ROW(10), ROW(12), ROW(16),
};

static int ascending(const void *p, const void *q)
{
    double x = *(const double *)p, y = *(const double *)q;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int samples = argc > 1 ? atoi(argv[1]) : 11;
    double seconds[samples];
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        for (int s = -1; s < samples; s++) { /* the first is the warm-up */
            double begin = omp_get_wtime();
            kernels[k].run();
            if (s >= 0) seconds[s] = omp_get_wtime() - begin;
        }
        qsort(seconds, samples, sizeof *seconds, ascending);
        double flops = 2.0 * STEPS * kernels[k].chains * kernels[k].lanes * omp_get_max_threads();
        printf("%s %d %.6g\n", kernels[k].dtype, kernels[k].chains, flops / seconds[samples / 2]);
    }
}
