// What is atomic? Threads run one at a time and change only where they wait, so plain code is.
#pragma once
#include "synchronize.h"

namespace cuda_on_cpu {
template <class T> struct Itself { using type = T; };      // the value converts to what the pointer points to
}
#define CUDA_ON_CPU_ATOMIC(NAME, EXPRESSION)                                                                \
  template <class T> UNTRACED T NAME(T* address, typename cuda_on_cpu::Itself<T>::type value, AT_LINE) {    \
    cuda_on_cpu::accessed(address, sizeof(T), cuda_on_cpu::Access::Atomic, line);                           \
    const T old = *address;                                                                                 \
    *address = EXPRESSION;                                                                                  \
    (void)value;                                                                                            \
    return old;                                                                                             \
  }
CUDA_ON_CPU_ATOMIC(atomicAdd, old + value)
CUDA_ON_CPU_ATOMIC(atomicSub, old - value)
CUDA_ON_CPU_ATOMIC(atomicMax, old > value ? old : value)
CUDA_ON_CPU_ATOMIC(atomicMin, old < value ? old : value)
CUDA_ON_CPU_ATOMIC(atomicExch, value)
CUDA_ON_CPU_ATOMIC(atomicAnd, old & value)
CUDA_ON_CPU_ATOMIC(atomicOr, old | value)
CUDA_ON_CPU_ATOMIC(atomicXor, old ^ value)
CUDA_ON_CPU_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
CUDA_ON_CPU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CUDA_ON_CPU_ATOMIC

template <class T>
UNTRACED T atomicCAS(T* address, typename cuda_on_cpu::Itself<T>::type expected,
                     typename cuda_on_cpu::Itself<T>::type value, AT_LINE) {
  cuda_on_cpu::accessed(address, sizeof(T), cuda_on_cpu::Access::Atomic, line);
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}
