// What does a .cu file find when a CPU's compiler reads it? All that CUDA C++ has without a header, and its headers.
#pragma once
#include <cstdint>
#include <cstdio>
#include "qualifiers.h"
#include "vectors.h"
#include "lanes.h"
#include "access.h"
#include "synchronize.h"
#include "atomics.h"
#include "device_math.h"
#include "half.h"
#include "matrix.h"
#include "pipeline.h"
#include "groups.h"
#include "launch.h"

namespace cuda_on_cpu {
template <class T> T printable(T value) { return value; }
#if defined(CUDA_ON_CPU_COUNT)
template <class T> double printable(Counted<T> value) { return value.number; }
#endif
template <class... Values> int print_all(const char* format, Values... values) {
  return print(format, printable(values)...);
}
}  // namespace cuda_on_cpu

#undef assert
#define assert(condition)                                                                                   \
  ((condition) ? (void)0 : cuda_on_cpu::fail(__builtin_LINE(), "the assertion `%s` does not hold", #condition))
#undef printf
#define printf cuda_on_cpu::print_all

// From here on, the kernel's own text, which may ask whether it is compiled for a GPU, and for which.
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#if defined(CUDA_ON_CPU_TRACE) && !defined(__clang__)
#define memcpy(...) cuda_on_cpu_memcpy(__VA_ARGS__)
#define memmove(...) cuda_on_cpu_memcpy(__VA_ARGS__)
#define memset(...) cuda_on_cpu_memset(__VA_ARGS__)
#endif
#define gamma cuda_on_cpu_gamma                          // C's library keeps these names, CUDA leaves them free
#define alignas(n) __attribute__((aligned(n)))           // which may stand behind __shared__, as it may in CUDA
#if defined(CUDA_ON_CPU_COUNT)
#define float cuda_on_cpu::f32
#define double cuda_on_cpu::f64
#endif
