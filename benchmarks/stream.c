/* How fast does C move memory? STREAM's kernels on all cores, plain and with non-temporal stores.

   Build: cc -O3 -march=native -fopenmp stream.c -o stream        Run: stream ELEMENTS SAMPLES
   Prints for every kernel and number of threads the median rate of the bytes that cross the memory bus [B/s]:
   a plain store to a line that was not read costs a read of that line, too; a non-temporal one does not. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined __AVX512F__
#include <immintrin.h>
#define WIDTH 64
#define STORE(p, v) _mm512_stream_pd(p, (__m512d)(v))
#elif defined __AVX__
#include <immintrin.h>
#define WIDTH 32
#define STORE(p, v) _mm256_stream_pd(p, (__m256d)(v))
#else /* clang can ask for such a store on every chip; gcc elsewhere stores as usual */
#define WIDTH 16
#ifdef __clang__
#define STORE(p, v) __builtin_nontemporal_store(v, (vector *)(p))
#else
#define STORE(p, v) (*(vector *)(p) = (v))
#endif
#endif
typedef double vector __attribute__((vector_size(WIDTH)));
enum { LANES = WIDTH / sizeof(double) };

static double *restrict a, *restrict b, *restrict c;
static long n;
static volatile double sink;

#define EACH_CORE _Pragma("omp parallel for simd schedule(static) aligned(a, b, c : 64)")

static void read_(void)
{
    double sum = 0;
#pragma omp parallel for simd schedule(static) aligned(b : 64) reduction(+ : sum)
    for (long i = 0; i < n; i++) sum += b[i];
    sink = sum;
}

/* Four streams a thread keep more of the prefetcher busy than one. */
static void read_four(void)
{
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        long part = n / omp_get_num_threads() / 32 * 8;
        const double *p = b + 4 * part * omp_get_thread_num();
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < part; i++) sum += (p[i] + p[i + part]) + (p[i + 2 * part] + p[i + 3 * part]);
    }
    sink = sum;
}

static void in_place(void) { EACH_CORE for (long i = 0; i < n; i++) a[i] = 0.999 * a[i]; }
static void scale(void) { EACH_CORE for (long i = 0; i < n; i++) a[i] = 0.999 * b[i]; }
static void copy(void) { EACH_CORE for (long i = 0; i < n; i++) a[i] = b[i]; }
static void triad(void) { EACH_CORE for (long i = 0; i < n; i++) a[i] = b[i] + 0.999 * c[i]; }
static void write_(void) { EACH_CORE for (long i = 0; i < n; i++) a[i] = 1.5; }

/* The same with stores that go past the caches, a vector at a time. */
#define EACH_VECTOR _Pragma("omp parallel for schedule(static)") for (long i = 0; i < n; i += LANES)
#define LOAD(p) (*(const vector *)(p))

static void scale_nt(void) { EACH_VECTOR STORE(a + i, 0.999 * LOAD(b + i)); }
static void copy_nt(void) { EACH_VECTOR STORE(a + i, LOAD(b + i)); }
static void triad_nt(void) { EACH_VECTOR STORE(a + i, LOAD(b + i) + 0.999 * LOAD(c + i)); }
static void write_nt(void) { EACH_VECTOR STORE(a + i, (vector){0} + 1.5); }

static const struct { const char *name; void (*run)(void); int arrays; } kernels[] = {
    {"read", read_, 1},     {"read_four", read_four, 1}, {"in_place", in_place, 2}, {"scale", scale, 3},
    {"scale_nt", scale_nt, 2}, {"copy", copy, 3},        {"copy_nt", copy_nt, 2},   {"triad", triad, 4},
    {"triad_nt", triad_nt, 3}, {"write", write_, 2},     {"write_nt", write_nt, 1},
};

/* For whoever loads this file as a library: a triad on arrays of their own, which begin at a multiple of 64 bytes. */
void triad_on(double *out, double *x, double *y, long elements, int past_the_caches)
{
    a = out, b = x, c = y, n = elements / 64 * 64;
    past_the_caches ? triad_nt() : triad();
}

static int ascending(const void *p, const void *q)
{
    double x = *(const double *)p, y = *(const double *)q;
    return (x > y) - (x < y);
}

/* Huge pages where the system offers them, as NumPy asks for its own arrays. */
static double *array(void)
{
    double *p = aligned_alloc(2 << 20, (8 * n + (2 << 20) - 1) >> 21 << 21);
    if (!p) { fprintf(stderr, "stream: no memory for three arrays of %ld elements\n", n); exit(1); }
#ifdef MADV_HUGEPAGE
    madvise(p, 8 * n, MADV_HUGEPAGE);
#endif
    return p;
}

int main(int argc, char **argv)
{
    n = argc > 1 ? atol(argv[1]) / 64 * 64 : 1L << 25;
    int samples = argc > 2 ? atoi(argv[2]) : 11;
    double seconds[samples];
    a = array(), b = array(), c = array();
#pragma omp parallel for schedule(static) /* first touch, with all threads: a page stays where it is touched first */
    for (long i = 0; i < n; i++) a[i] = b[i] = c[i] = 1 + (i * 2654435761u % 1000) * 1e-3;
    for (int threads = 1; threads <= omp_get_num_procs(); threads++) {
        omp_set_num_threads(threads);
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            for (int s = -1; s < samples; s++) { /* the first is the warm-up */
                double start = omp_get_wtime();
                kernels[k].run();
                if (s >= 0) seconds[s] = omp_get_wtime() - start;
            }
            qsort(seconds, samples, sizeof *seconds, ascending);
            double bytes = 8.0 * n * kernels[k].arrays;
            printf("%s %d %.6g\n", kernels[k].name, threads, bytes / seconds[samples / 2]);
        }
    }
}
