// Which memory does an operation of the shim touch? Plain loads and stores are seen by the compiler's instrumentation;
// what one call moves for a whole warp, later, or indivisibly is said here. Nothing happens outside of trace mode.
#pragma once
#include "qualifiers.h"
#include "lanes.h"

namespace cuda_on_cpu {

enum class Access { Load, Store, Atomic };

#if defined(CUDA_ON_CPU_TRACE)
void accessed(const volatile void* address, int bytes, Access kind, int line);
#else
inline void accessed(const volatile void*, int, Access, int) {}
#endif

}  // namespace cuda_on_cpu
