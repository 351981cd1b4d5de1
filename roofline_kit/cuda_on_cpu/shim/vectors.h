// Which types does CUDA add? dim3 and the short vectors, with the sizes and alignments they have on a GPU.
#pragma once
#include "counted.h"

namespace cuda_on_cpu {
template <class T> struct Vector { static constexpr int length = 0; };     // of all that is none
}
#define CUDA_ON_CPU_VECTOR(NAME, T, N)                                                                     \
  template <> struct cuda_on_cpu::Vector<NAME> { using element = T; static constexpr int length = N; };

#define CUDA_ON_CPU_VECTORS(T, NAME)                                                                       \
  struct NAME##1 { T x; };                                                                                 \
  struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                                                       \
  struct NAME##3 { T x, y, z; };                                                                           \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) NAME##4 { T x, y, z, w; };                       \
  CUDA_ON_CPU_VECTOR(NAME##1, T, 1) CUDA_ON_CPU_VECTOR(NAME##2, T, 2)                                      \
  CUDA_ON_CPU_VECTOR(NAME##3, T, 3) CUDA_ON_CPU_VECTOR(NAME##4, T, 4)                                      \
  inline NAME##1 make_##NAME##1(T x) { return {x}; }                                                       \
  inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                               \
  inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                                       \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDA_ON_CPU_VECTORS(signed char, char)
CUDA_ON_CPU_VECTORS(unsigned char, uchar)
CUDA_ON_CPU_VECTORS(short, short)
CUDA_ON_CPU_VECTORS(unsigned short, ushort)
CUDA_ON_CPU_VECTORS(int, int)
CUDA_ON_CPU_VECTORS(unsigned, uint)
CUDA_ON_CPU_VECTORS(long long, longlong)
CUDA_ON_CPU_VECTORS(unsigned long long, ulonglong)
CUDA_ON_CPU_VECTORS(long, long)
CUDA_ON_CPU_VECTORS(unsigned long, ulong)
CUDA_ON_CPU_VECTORS(cuda_on_cpu::f32, float)
CUDA_ON_CPU_VECTORS(cuda_on_cpu::f64, double)
#undef CUDA_ON_CPU_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
CUDA_ON_CPU_VECTOR(dim3, unsigned, 3)
