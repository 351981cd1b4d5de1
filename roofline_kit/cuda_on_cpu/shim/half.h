// How do 16-bit floats compute? Each operation in float, rounded once to nearest even, as the device's does.
#pragma once
#include "atomics.h"
#include "device_math.h"

namespace cuda_on_cpu {

constexpr uint32_t FLOAT_INFINITY = 0x7f800000;

inline float half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 0) return reinterpret<float>(sign | reinterpret<uint32_t>((float)fraction * 0x1p-24f));
  if (exponent == 31) return reinterpret<float>(sign | FLOAT_INFINITY | fraction << 13);
  return reinterpret<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = reinterpret<uint32_t>(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > FLOAT_INFINITY) return 0x7fff;                                // not a number
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                // 65520 and more round to infinity
  if (size < 0x38800000)                                                   // below 2^-14: adding 0.5 rounds at 2^-24
    return (uint16_t)(sign | (reinterpret<uint32_t>(reinterpret<float>(size) + 0.5f) - 0x3f000000));
  return (uint16_t)(sign | (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

inline float bfloat16_to_float(uint16_t value) { return reinterpret<float>((uint32_t)value << 16); }

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = reinterpret<uint32_t>(value);
  if ((bits & 0x7fffffff) > FLOAT_INFINITY) return 0x7fff;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class N>
using Numeric = std::enable_if_t<std::is_arithmetic_v<N> || std::is_same_v<N, f32> || std::is_same_v<N, f64>>;

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_OPERATOR(H, OP, NAME)                                                                   \
  inline H operator OP(H a, H b) { return H(f32(a) OP f32(b)); }                                            \
  inline H& operator OP##=(H& a, H b) { return a = a OP b; }                                                \
  inline H NAME(H a, H b) { return a OP b; }
#define CUDA_ON_CPU_COMPARE(H, OP, NAME)                                                                    \
  inline bool operator OP(H a, H b) { return f32(a) OP f32(b); }                                            \
  inline bool NAME(H a, H b) { return a OP b; }

#define CUDA_ON_CPU_PAIR(H2, OP, NAME)                                                                      \
  inline H2 operator OP(H2 a, H2 b) { return {a.x OP b.x, a.y OP b.y}; }                                    \
  inline H2& operator OP##=(H2& a, H2 b) { return a = a OP b; }                                             \
  inline H2 NAME(H2 a, H2 b) { return a OP b; }
#define CUDA_ON_CPU_EACH(H2, NAME, OF_ONE) inline H2 NAME(H2 a) { return {OF_ONE(a.x), OF_ONE(a.y)}; }
#define CUDA_ON_CPU_BOTH(H2, NAME, OF_TWO)                                                                  \
  inline H2 NAME(H2 a, H2 b) { return {OF_TWO(a.x, b.x), OF_TWO(a.y, b.y)}; }

// The constructor is constexpr so that a shared array of them needs no code, and no flag beside it, to begin with.
#define CUDA_ON_CPU_HALF(H, H2, TO_FLOAT, FROM_FLOAT)                                                       \
  struct alignas(2) H {                                                                                     \
    uint16_t bits;                                                                                          \
    constexpr H() : bits(0) {}                                                                              \
    template <class N, class = cuda_on_cpu::Numeric<N>> H(N number)                                         \
        : bits(cuda_on_cpu::FROM_FLOAT((float)number)) {}                                                   \
    operator f32() const { return cuda_on_cpu::TO_FLOAT(bits); }                                            \
    H operator-() const { H negative; negative.bits = bits ^ 0x8000; return negative; }                     \
  };                                                                                                        \
  CUDA_ON_CPU_OPERATOR(H, +, __hadd) CUDA_ON_CPU_OPERATOR(H, -, __hsub)                                     \
  CUDA_ON_CPU_OPERATOR(H, *, __hmul) CUDA_ON_CPU_OPERATOR(H, /, __hdiv)                                     \
  CUDA_ON_CPU_COMPARE(H, <, __hlt) CUDA_ON_CPU_COMPARE(H, >, __hgt) CUDA_ON_CPU_COMPARE(H, ==, __heq)       \
  CUDA_ON_CPU_COMPARE(H, <=, __hle) CUDA_ON_CPU_COMPARE(H, >=, __hge) CUDA_ON_CPU_COMPARE(H, !=, __hne)     \
  inline H __hfma(H a, H b, H c) { return H(fmaf(f32(a), f32(b), f32(c))); }                                \
  inline H __hmax(H a, H b) { return H(fmaxf(f32(a), f32(b))); }                                            \
  inline H __hmin(H a, H b) { return H(fminf(f32(a), f32(b))); }                                            \
  inline H __hneg(H a) { return -a; }                                                                       \
  inline H __habs(H a) { a.bits &= 0x7fff; return a; }                                                      \
  inline H hexp(H a) { return H(expf(f32(a))); }                                                            \
  inline H hlog(H a) { return H(logf(f32(a))); }                                                            \
  inline H hsqrt(H a) { return H(sqrtf(f32(a))); }                                                          \
  inline H hrsqrt(H a) { return H(rsqrtf(f32(a))); }                                                        \
  inline H hrcp(H a) { return H(f32(1.0f) / f32(a)); }                                                      \
  inline H hsin(H a) { return H(sinf(f32(a))); }                                                            \
  inline H hcos(H a) { return H(cosf(f32(a))); }                                                            \
  inline H hexp2(H a) { return H(exp2f(f32(a))); }                                                          \
  inline H hlog2(H a) { return H(log2f(f32(a))); }                                                          \
  inline H hfloor(H a) { return H(floorf(f32(a))); }                                                        \
  inline H hceil(H a) { return H(ceilf(f32(a))); }                                                          \
  inline H hrint(H a) { return H(rintf(f32(a))); }                                                          \
  inline H htrunc(H a) { return H(truncf(f32(a))); }                                                        \
  inline bool __hisnan(H a) { return isnan(f32(a)); }                                                       \
  struct alignas(4) H2 { H x, y; };                                                                         \
  CUDA_ON_CPU_VECTOR(H2, H, 2)                                                                              \
  CUDA_ON_CPU_PAIR(H2, +, __hadd2) CUDA_ON_CPU_PAIR(H2, -, __hsub2)                                          \
  CUDA_ON_CPU_PAIR(H2, *, __hmul2) CUDA_ON_CPU_PAIR(H2, /, __h2div)                                          \
  CUDA_ON_CPU_EACH(H2, __hneg2, -) CUDA_ON_CPU_EACH(H2, __habs2, __habs)                                     \
  CUDA_ON_CPU_EACH(H2, h2exp, hexp) CUDA_ON_CPU_EACH(H2, h2log, hlog) CUDA_ON_CPU_EACH(H2, h2sqrt, hsqrt)    \
  CUDA_ON_CPU_EACH(H2, h2rsqrt, hrsqrt) CUDA_ON_CPU_EACH(H2, h2rcp, hrcp)                                    \
  CUDA_ON_CPU_BOTH(H2, __hmin2, __hmin) CUDA_ON_CPU_BOTH(H2, __hmax2, __hmax)                                \
  CUDA_ON_CPU_BOTH(H2, __heq2, __heq) CUDA_ON_CPU_BOTH(H2, __hne2, __hne) CUDA_ON_CPU_BOTH(H2, __hlt2, __hlt) \
  CUDA_ON_CPU_BOTH(H2, __hgt2, __hgt) CUDA_ON_CPU_BOTH(H2, __hle2, __hle) CUDA_ON_CPU_BOTH(H2, __hge2, __hge) \
  inline H2 operator-(H2 a) { return __hneg2(a); }                                                          \
  inline bool __hbeq2(H2 a, H2 b) { return a.x == b.x && a.y == b.y; }                                       \
  inline H2 __hfma2(H2 a, H2 b, H2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }

CUDA_ON_CPU_HALF(__half, __half2, half_to_float, float_to_half)
CUDA_ON_CPU_HALF(__nv_bfloat16, __nv_bfloat162, bfloat16_to_float, float_to_bfloat16)
#undef CUDA_ON_CPU_HALF
#undef CUDA_ON_CPU_OPERATOR
#undef CUDA_ON_CPU_COMPARE
#undef CUDA_ON_CPU_PAIR
#undef CUDA_ON_CPU_EACH
#undef CUDA_ON_CPU_BOTH
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline f32 __half2float(__half h) { return f32(h); }
inline __half __float2half(f32 x) { return __half(x); }
inline __half __float2half_rn(f32 x) { return __half(x); }
inline __half __int2half_rn(int x) { return __half(x); }
inline __half __ushort_as_half(unsigned short bits) { return cuda_on_cpu::reinterpret<__half>(bits); }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __float2half2_rn(f32 x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(f32 x, f32 y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {f32(v.x), f32(v.y)}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
inline __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
inline int __half2int_rn(__half h) { return __float2int_rn(f32(h)); }
inline int __half2int_rz(__half h) { return __float2int_rz(f32(h)); }
inline f32 __low2float(__half2 v) { return f32(v.x); }
inline f32 __high2float(__half2 v) { return f32(v.y); }

inline f32 __bfloat162float(__nv_bfloat16 h) { return f32(h); }
inline __nv_bfloat16 __float2bfloat16(f32 x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(f32 x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return cuda_on_cpu::reinterpret<__nv_bfloat16>(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(f32 x, f32 y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {f32(v.x), f32(v.y)}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __float2bfloat162_rn(f32 x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
inline __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
inline int __bfloat162int_rn(__nv_bfloat16 h) { return __float2int_rn(f32(h)); }
inline f32 __low2float(__nv_bfloat162 v) { return f32(v.x); }
inline f32 __high2float(__nv_bfloat162 v) { return f32(v.y); }
