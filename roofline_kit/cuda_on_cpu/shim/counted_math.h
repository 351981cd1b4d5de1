// What do the functions of the C library cost in counting mode? 1 FLOP each, a multiply-add 2, rounding and sign none.
#pragma once

#define CUDA_ON_CPU_OF_ONE(NAME, FLOPS)                                                                                \
  inline cuda_on_cpu::f32 NAME##f(cuda_on_cpu::f32 x) { cuda_on_cpu::count(FLOPS); return ::NAME##f(x.number); }       \
  template <class N, class = std::enable_if_t<std::is_integral_v<N>>> cuda_on_cpu::f32 NAME##f(N x) {                  \
    return NAME##f(cuda_on_cpu::f32(x));                                                                               \
  }                                                                                                                    \
  inline cuda_on_cpu::f32 NAME(cuda_on_cpu::f32 x) { cuda_on_cpu::count(FLOPS); return ::NAME##f(x.number); }          \
  inline cuda_on_cpu::f64 NAME(cuda_on_cpu::f64 x) { cuda_on_cpu::count(FLOPS); return ::NAME(x.number); }             \
  namespace std { using ::NAME; using ::NAME##f; }
#define CUDA_ON_CPU_OF_TWO(NAME, FLOPS)                                                                                \
  inline cuda_on_cpu::f32 NAME##f(cuda_on_cpu::f32 x, cuda_on_cpu::f32 y) {                                            \
    cuda_on_cpu::count(FLOPS);                                                                                         \
    return ::NAME##f(x.number, y.number);                                                                              \
  }                                                                                                                    \
  inline cuda_on_cpu::f64 NAME(cuda_on_cpu::f64 x, cuda_on_cpu::f64 y) {                                               \
    cuda_on_cpu::count(FLOPS);                                                                                         \
    return ::NAME(x.number, y.number);                                                                                 \
  }                                                                                                                    \
  namespace std { using ::NAME; using ::NAME##f; }

CUDA_ON_CPU_OF_ONE(sqrt, 1) CUDA_ON_CPU_OF_ONE(cbrt, 1)
CUDA_ON_CPU_OF_ONE(exp, 1) CUDA_ON_CPU_OF_ONE(exp2, 1) CUDA_ON_CPU_OF_ONE(exp10, 1) CUDA_ON_CPU_OF_ONE(expm1, 1)
CUDA_ON_CPU_OF_ONE(log, 1) CUDA_ON_CPU_OF_ONE(log2, 1) CUDA_ON_CPU_OF_ONE(log10, 1) CUDA_ON_CPU_OF_ONE(log1p, 1)
CUDA_ON_CPU_OF_ONE(sin, 1) CUDA_ON_CPU_OF_ONE(cos, 1) CUDA_ON_CPU_OF_ONE(tan, 1)
CUDA_ON_CPU_OF_ONE(asin, 1) CUDA_ON_CPU_OF_ONE(acos, 1) CUDA_ON_CPU_OF_ONE(atan, 1)
CUDA_ON_CPU_OF_ONE(sinh, 1) CUDA_ON_CPU_OF_ONE(cosh, 1) CUDA_ON_CPU_OF_ONE(tanh, 1)
CUDA_ON_CPU_OF_ONE(asinh, 1) CUDA_ON_CPU_OF_ONE(acosh, 1) CUDA_ON_CPU_OF_ONE(atanh, 1)
CUDA_ON_CPU_OF_ONE(erf, 1) CUDA_ON_CPU_OF_ONE(erfc, 1) CUDA_ON_CPU_OF_ONE(tgamma, 1) CUDA_ON_CPU_OF_ONE(lgamma, 1)
CUDA_ON_CPU_OF_ONE(floor, 0) CUDA_ON_CPU_OF_ONE(ceil, 0) CUDA_ON_CPU_OF_ONE(trunc, 0) CUDA_ON_CPU_OF_ONE(round, 0)
CUDA_ON_CPU_OF_ONE(rint, 0) CUDA_ON_CPU_OF_ONE(nearbyint, 0) CUDA_ON_CPU_OF_ONE(fabs, 0)
CUDA_ON_CPU_OF_TWO(pow, 1) CUDA_ON_CPU_OF_TWO(fmod, 1) CUDA_ON_CPU_OF_TWO(atan2, 1) CUDA_ON_CPU_OF_TWO(hypot, 1)
CUDA_ON_CPU_OF_TWO(fmax, 1) CUDA_ON_CPU_OF_TWO(fmin, 1) CUDA_ON_CPU_OF_TWO(copysign, 0)
CUDA_ON_CPU_OF_TWO(fdim, 1) CUDA_ON_CPU_OF_TWO(remainder, 1) CUDA_ON_CPU_OF_TWO(nextafter, 0)
#undef CUDA_ON_CPU_OF_ONE
#undef CUDA_ON_CPU_OF_TWO

inline cuda_on_cpu::f32 fmaf(cuda_on_cpu::f32 a, cuda_on_cpu::f32 b, cuda_on_cpu::f32 c) {
  cuda_on_cpu::count(2);
  return ::fmaf(a.number, b.number, c.number);
}
inline cuda_on_cpu::f64 fma(cuda_on_cpu::f64 a, cuda_on_cpu::f64 b, cuda_on_cpu::f64 c) {
  cuda_on_cpu::count(2);
  return ::fma(a.number, b.number, c.number);
}
inline cuda_on_cpu::f32 abs(cuda_on_cpu::f32 x) { return ::fabsf(x.number); }
inline cuda_on_cpu::f64 abs(cuda_on_cpu::f64 x) { return ::fabs(x.number); }
inline cuda_on_cpu::f32 ldexpf(cuda_on_cpu::f32 x, int by) { cuda_on_cpu::count(1); return ::ldexpf(x.number, by); }
inline cuda_on_cpu::f32 scalbnf(cuda_on_cpu::f32 x, int by) { cuda_on_cpu::count(1); return ::scalbnf(x.number, by); }
inline cuda_on_cpu::f32 frexpf(cuda_on_cpu::f32 x, int* power) { return ::frexpf(x.number, power); }
inline cuda_on_cpu::f32 modff(cuda_on_cpu::f32 x, cuda_on_cpu::f32* whole) { return ::modff(x.number, &whole->number); }
inline void sincosf(cuda_on_cpu::f32 x, cuda_on_cpu::f32* sine, cuda_on_cpu::f32* cosine) {
  cuda_on_cpu::count(2);
  ::sincosf(x.number, &sine->number, &cosine->number);
}
inline long lrintf(cuda_on_cpu::f32 x) { return ::lrintf(x.number); }
inline long lroundf(cuda_on_cpu::f32 x) { return ::lroundf(x.number); }
inline long long llrintf(cuda_on_cpu::f32 x) { return ::llrintf(x.number); }

template <class A, class B, class = cuda_on_cpu::EitherCounted<A, B>> auto max(A a, B b) {
  cuda_on_cpu::count(1);
  return cuda_on_cpu::Counted<decltype(cuda_on_cpu::plain(a) + cuda_on_cpu::plain(b))>(a > b ? a : b);
}
template <class A, class B, class = cuda_on_cpu::EitherCounted<A, B>> auto min(A a, B b) {
  cuda_on_cpu::count(1);
  return cuda_on_cpu::Counted<decltype(cuda_on_cpu::plain(a) + cuda_on_cpu::plain(b))>(a < b ? a : b);
}
template <class T> bool signbit(cuda_on_cpu::Counted<T> x) { return std::signbit(x.number); }
template <class T> bool isnan(cuda_on_cpu::Counted<T> x) { return std::isnan(x.number); }
template <class T> bool isinf(cuda_on_cpu::Counted<T> x) { return std::isinf(x.number); }
template <class T> bool isfinite(cuda_on_cpu::Counted<T> x) { return std::isfinite(x.number); }
namespace std {
inline cuda_on_cpu::f32 max(cuda_on_cpu::f32 a, cuda_on_cpu::f32 b) { return ::max(a, b); }
inline cuda_on_cpu::f32 min(cuda_on_cpu::f32 a, cuda_on_cpu::f32 b) { return ::min(a, b); }
inline cuda_on_cpu::f64 max(cuda_on_cpu::f64 a, cuda_on_cpu::f64 b) { return ::max(a, b); }
inline cuda_on_cpu::f64 min(cuda_on_cpu::f64 a, cuda_on_cpu::f64 b) { return ::min(a, b); }
using ::abs;
using ::fma;
using ::fmaf;
using ::isfinite;
using ::isinf;
using ::isnan;
}  // namespace std
