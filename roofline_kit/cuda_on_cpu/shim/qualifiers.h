// What do CUDA's keywords mean on a CPU? Functions are functions; shared memory is a static, one block's at a time.
#pragma once
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#undef __restrict__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __managed__ static
#define __constant__ static
#define __align__(n) __attribute__((aligned(n)))

// Blocks run one after another, so one static is enough. The runtime must find all of them, to fill them before each
// block and to tell them from other memory: under Linux they are the program's thread-local data, of which there is no
// other, under macOS a section. "used", for one that is never written is no constant. AddressSanitizer puts red zones
// only around plain statics.
#if defined(CUDA_ON_CPU_ASAN)
#define __shared__ static
#elif defined(__APPLE__)
#define __shared__ __attribute__((used, section("__DATA,cuda_shared"))) static
#else
#define __shared__ __attribute__((used)) static thread_local
#endif

// Inside the shim: a function whose memory accesses are not those of the kernel.
#define UNTRACED __attribute__((no_sanitize("thread")))
