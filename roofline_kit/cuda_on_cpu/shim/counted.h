// How many FLOPs does a kernel do? In counting mode float and double are these types, which count what is done to them.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace cuda_on_cpu {

#if !defined(CUDA_ON_CPU_COUNT)

using f32 = float;
using f64 = double;
inline void count(uint64_t) {}

#else

extern uint64_t flops;

constexpr void count(uint64_t done) {
  if (!__builtin_is_constant_evaluated()) flops += done;     // what the compiler works out costs the GPU nothing
}
template <class A, class B> constexpr void count_of(A a, B b) {
  if (!(__builtin_constant_p(a) && __builtin_constant_p(b))) count(1);     // so does 2.0f * 3.0f
}

// Laid out like T. Every number turns into one by itself, but only a cast turns one into a number: so no operation on
// it goes by uncounted, and `x > 0 ? x : 0.0f` stays unambiguous.
template <class T> struct Counted {
  T number;
  Counted() = default;
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N> || std::is_enum_v<N>>>
  constexpr Counted(N value) : number((T)value) {}
  template <class U> constexpr Counted(const Counted<U>& value) : number((T)value.number) {}
  template <class U> constexpr Counted(const volatile Counted<U>& value) : number((T)value.number) {}
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  explicit constexpr operator N() const { return (N)number; }
  template <class V> using Assignable = std::enable_if_t<std::is_convertible_v<V, Counted>>;
  template <class V, class = Assignable<V>> constexpr Counted& operator=(V value) {
    number = Counted(value).number;
    return *this;
  }
  template <class V, class = Assignable<V>> void operator=(V value) volatile { number = Counted(value).number; }
  template <class V> void operator+=(V value) volatile { *this = *this + value; }
  template <class V> void operator-=(V value) volatile { *this = *this - value; }
  template <class V> void operator*=(V value) volatile { *this = *this * value; }
  template <class V> void operator/=(V value) volatile { *this = *this / value; }
  template <class V> constexpr Counted& operator+=(V value) { return *this = *this + value; }
  template <class V> constexpr Counted& operator-=(V value) { return *this = *this - value; }
  template <class V> constexpr Counted& operator*=(V value) { return *this = *this * value; }
  template <class V> constexpr Counted& operator/=(V value) { return *this = *this / value; }
  constexpr Counted& operator++() { return *this += T(1); }
  constexpr Counted& operator--() { return *this -= T(1); }
  constexpr Counted operator++(int) { const Counted old = *this; ++*this; return old; }
  constexpr Counted operator--(int) { const Counted old = *this; --*this; return old; }
  constexpr Counted operator-() const { return Counted(-number); }
  constexpr Counted operator+() const { return *this; }
};

using f32 = Counted<float>;
using f64 = Counted<double>;

template <class T> struct Number { static constexpr bool counted = false, plain = std::is_arithmetic_v<T>; };
template <class T> struct Number<Counted<T>> { static constexpr bool counted = true, plain = false; };
template <class T> constexpr T plain(Counted<T> value) { return value.number; }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> constexpr T plain(T value) { return value; }

template <class A, class B> using EitherCounted = std::enable_if_t<
    (Number<A>::counted && (Number<B>::counted || Number<B>::plain)) || (Number<A>::plain && Number<B>::counted)>;

#define CUDA_ON_CPU_ARITHMETIC(OP)                                                                          \
  template <class A, class B, class = EitherCounted<A, B>> constexpr auto operator OP(A a, B b) {           \
    count_of(plain(a), plain(b));                                                                           \
    return Counted<decltype(plain(a) OP plain(b))>(plain(a) OP plain(b));                                   \
  }                                                                                                         \
  template <class N, class T, class = std::enable_if_t<std::is_arithmetic_v<N>>>                            \
  constexpr N& operator OP##=(N& a, Counted<T> b) {                                                         \
    return a = N(a OP b);                                                                                   \
  }
#define CUDA_ON_CPU_COMPARISON(OP)                                                                          \
  template <class A, class B, class = EitherCounted<A, B>> constexpr bool operator OP(A a, B b) {           \
    return plain(a) OP plain(b);                                                                            \
  }
CUDA_ON_CPU_ARITHMETIC(+) CUDA_ON_CPU_ARITHMETIC(-) CUDA_ON_CPU_ARITHMETIC(*) CUDA_ON_CPU_ARITHMETIC(/)
CUDA_ON_CPU_COMPARISON(<) CUDA_ON_CPU_COMPARISON(>) CUDA_ON_CPU_COMPARISON(<=) CUDA_ON_CPU_COMPARISON(>=)
CUDA_ON_CPU_COMPARISON(==) CUDA_ON_CPU_COMPARISON(!=)
#undef CUDA_ON_CPU_ARITHMETIC
#undef CUDA_ON_CPU_COMPARISON

#endif

}  // namespace cuda_on_cpu
