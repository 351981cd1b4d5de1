// Which functions does device code have without a header? CUDA's names for arithmetic, bits and conversions.
#pragma once
#include <math.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include "counted.h"

namespace cuda_on_cpu {
template <class A, class B>
using Common = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;

template <class To, class From> inline To reinterpret(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
}  // namespace cuda_on_cpu

template <class A, class B> constexpr cuda_on_cpu::Common<A, B> min(A a, B b) {
  using T = cuda_on_cpu::Common<A, B>;
  return T(a) < T(b) ? T(a) : T(b);
}
template <class A, class B> constexpr cuda_on_cpu::Common<A, B> max(A a, B b) {
  using T = cuda_on_cpu::Common<A, B>;
  return T(a) > T(b) ? T(a) : T(b);
}

#if defined(CUDA_ON_CPU_COUNT)
#include "counted_math.h"
#else
using std::isfinite;
using std::isinf;
using std::isnan;
#endif

using cuda_on_cpu::f32;                        // float, or the type that counts in its place
using cuda_on_cpu::f64;

inline f32 rsqrtf(f32 x) {
  cuda_on_cpu::count(1);
  return 1.0f / std::sqrt((float)x);
}
inline f64 rsqrt(f64 x) {
  cuda_on_cpu::count(1);
  return 1.0 / std::sqrt((double)x);
}
#define __expf(x) expf(x)                      // macros, for the C library keeps these names for itself
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
inline f32 __tanhf(f32 x) { return tanhf(x); }
inline f32 __fdividef(f32 a, f32 b) { return a / b; }
inline f32 __fdiv_rn(f32 a, f32 b) { return a / b; }
inline f32 __frcp_rn(f32 x) { return f32(1.0f) / x; }
inline f32 __fsqrt_rn(f32 x) { return sqrtf(x); }
inline f32 __frsqrt_rn(f32 x) { return rsqrtf(x); }
inline f32 __fmaf_rn(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
inline f32 __fadd_rn(f32 a, f32 b) { volatile float sum = (float)(a + b); return sum; }       // never part of an fma
inline f32 __fsub_rn(f32 a, f32 b) { volatile float sum = (float)(a - b); return sum; }
inline f32 __fmul_rn(f32 a, f32 b) { volatile float product = (float)(a * b); return product; }
inline f32 __saturatef(f32 x) { return x > 0.0f ? x < 1.0f ? x : f32(1.0f) : f32(0.0f); }

inline f32 __int_as_float(int bits) { return cuda_on_cpu::reinterpret<f32>(bits); }
inline f32 __uint_as_float(unsigned bits) { return cuda_on_cpu::reinterpret<f32>(bits); }
inline int __float_as_int(f32 x) { return cuda_on_cpu::reinterpret<int>(x); }
inline unsigned __float_as_uint(f32 x) { return cuda_on_cpu::reinterpret<unsigned>(x); }
inline f64 __longlong_as_double(long long bits) { return cuda_on_cpu::reinterpret<f64>(bits); }
inline long long __double_as_longlong(f64 x) { return cuda_on_cpu::reinterpret<long long>(x); }

inline int __float2int_rn(f32 x) { return (int)std::rint((float)x); }
inline int __float2int_rz(f32 x) { return (int)(float)x; }
inline int __float2int_rd(f32 x) { return (int)std::floor((float)x); }
inline int __float2int_ru(f32 x) { return (int)std::ceil((float)x); }
inline unsigned __float2uint_rn(f32 x) { return (unsigned)std::rint((float)x); }
inline f32 __int2float_rn(int x) { return (float)x; }
inline f32 __uint2float_rn(unsigned x) { return (float)x; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t both = (uint64_t)b << 32 | a;
  unsigned result = 0;
  for (int byte = 0; byte < 4; ++byte) result |= (unsigned)(both >> 8 * (selector >> 4 * byte & 7) & 255) << 8 * byte;
  return result;
}
inline int __dp4a(int a, int b, int sum) {
  for (int byte = 0; byte < 4; ++byte) sum += (signed char)(a >> 8 * byte) * (signed char)(b >> 8 * byte);
  return sum;
}

// The cache hints change no number. Forced inline, so that a trace names the kernel's line.
#define CUDA_ON_CPU_INLINE inline __attribute__((always_inline))
template <class T> CUDA_ON_CPU_INLINE T __ldg(const T* address) { return *address; }
template <class T> CUDA_ON_CPU_INLINE T __ldca(const T* address) { return *address; }
template <class T> CUDA_ON_CPU_INLINE T __ldcg(const T* address) { return *address; }
template <class T> CUDA_ON_CPU_INLINE T __ldcs(const T* address) { return *address; }
template <class T> CUDA_ON_CPU_INLINE void __stcg(T* address, T value) { *address = value; }
template <class T> CUDA_ON_CPU_INLINE void __stcs(T* address, T value) { *address = value; }
template <class T> CUDA_ON_CPU_INLINE void __stwt(T* address, T value) { *address = value; }

// Every clock reads 0: the time of an emulation means nothing.
inline long long clock64() { return 0; }
