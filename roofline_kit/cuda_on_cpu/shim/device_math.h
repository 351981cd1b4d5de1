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

#if defined(__APPLE__)                         // elsewhere C's library has them
inline float exp10f(float x) { return powf(10.0f, x); }
inline double exp10(double x) { return pow(10.0, x); }
inline void sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
#endif
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
#define __tanf(x) tanf(x)
#define __exp10f(x) exp10f(x)
#define __log10f(x) log10f(x)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)
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
inline f32 fdividef(f32 a, f32 b) { return a / b; }
inline f64 __dadd_rn(f64 a, f64 b) { volatile double sum = (double)(a + b); return sum; }
inline f64 __dsub_rn(f64 a, f64 b) { volatile double sum = (double)(a - b); return sum; }
inline f64 __dmul_rn(f64 a, f64 b) { volatile double product = (double)(a * b); return product; }
inline f64 __ddiv_rn(f64 a, f64 b) { return a / b; }
inline f64 __dsqrt_rn(f64 x) { return sqrt(x); }
inline f64 __drcp_rn(f64 x) { return f64(1.0) / x; }
inline f64 __fma_rn(f64 a, f64 b, f64 c) { return fma(a, b, c); }

namespace cuda_on_cpu {
// Two floats' exact sum or product fits a double, or nearly; it is cut off towards zero.
inline float cut(double exact) {
  const float near = (float)exact;
  return std::fabs((double)near) > std::fabs(exact) ? std::nextafterf(near, 0.0f) : near;
}
inline double in_turns(double x) { return std::fmod(x, 2.0) * 3.14159265358979323846; }   // of a half
}  // namespace cuda_on_cpu
inline f32 __fadd_rz(f32 a, f32 b) { cuda_on_cpu::count(1); return cuda_on_cpu::cut((double)a + (double)b); }
inline f32 __fsub_rz(f32 a, f32 b) { return __fadd_rz(a, -b); }
inline f32 __fmul_rz(f32 a, f32 b) { cuda_on_cpu::count(1); return cuda_on_cpu::cut((double)a * (double)b); }
inline f32 sinpif(f32 x) { cuda_on_cpu::count(1); return (float)std::sin(cuda_on_cpu::in_turns((double)x)); }
inline f32 cospif(f32 x) { cuda_on_cpu::count(1); return (float)std::cos(cuda_on_cpu::in_turns((double)x)); }
inline f32 rcbrtf(f32 x) { cuda_on_cpu::count(1); return (float)(1 / std::cbrt((double)x)); }
inline f32 rhypotf(f32 x, f32 y) { cuda_on_cpu::count(1); return (float)(1 / std::hypot((double)x, (double)y)); }
inline f32 norm3df(f32 x, f32 y, f32 z) {
  cuda_on_cpu::count(1);
  return (float)std::hypot((double)x, (double)y, (double)z);
}
inline f32 normcdff(f32 x) { cuda_on_cpu::count(1); return (float)(0.5 * std::erfc(-(double)x * 0.70710678118654752)); }
inline f32 erfinvf(f32 y) {                    // by Newton's method on erf, in double
  cuda_on_cpu::count(1);
  const double goal = (double)y;
  if (!(std::fabs(goal) < 1)) return (float)(goal / (1 - std::fabs(goal)) / (std::fabs(goal) == 1));
  const double a = 0.147, l = std::log(1 - goal * goal), h = 2 / (3.14159265358979323846 * a) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(h * h - l / a) - h), goal);                // Winitzki's approximation
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - goal) * 0.88622692545275801 * std::exp(x * x);
  return (float)x;
}
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
inline unsigned __float2uint_rz(f32 x) { return (unsigned)(float)x; }
inline long long __float2ll_rn(f32 x) { return (long long)std::rint((float)x); }
inline int __double2int_rn(f64 x) { return (int)std::rint((double)x); }
inline int __double2int_rz(f64 x) { return (int)(double)x; }
inline long long __double2ll_rn(f64 x) { return (long long)std::rint((double)x); }
inline f32 __double2float_rn(f64 x) { return (float)(double)x; }
inline f64 __int2double_rn(int x) { return (double)x; }
inline f64 __ll2double_rn(long long x) { return (double)x; }
inline f32 __ll2float_rn(long long x) { return (float)x; }
inline f32 __int2float_rn(int x) { return (float)x; }
inline f32 __uint2float_rn(unsigned x) { return (float)x; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __sad(int a, int b, unsigned sum) { return sum + (a > b ? (unsigned)a - b : (unsigned)b - a); }
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a > b ? a - b : b - a); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
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
#define clock() (int)clock64()                 // C has another of this name
#define __trap() cuda_on_cpu::fail(__builtin_LINE(), "calls __trap()")
