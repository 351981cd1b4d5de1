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

// The compiler calls C's library for a copy whose length it does not know, and tells no hook.
#if defined(CUDA_ON_CPU_TRACE) && !defined(__clang__)
namespace cuda_on_cpu {
UNTRACED inline void* told_copy(void* to, const void* from, size_t bytes, int line) {
  accessed(from, (int)bytes, Access::Load, line);
  accessed(to, (int)bytes, Access::Store, line);
  return __builtin_memmove(to, from, bytes);
}
UNTRACED inline void* told_fill(void* to, int value, size_t bytes, int line) {
  accessed(to, (int)bytes, Access::Store, line);
  return __builtin_memset(to, value, bytes);
}
constexpr bool at_once(size_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }
}  // namespace cuda_on_cpu
__attribute__((always_inline)) inline void* cuda_on_cpu_memcpy(void* to, const void* from, size_t bytes,
                                                               int line = __builtin_LINE()) {
  if (__builtin_constant_p(bytes) && cuda_on_cpu::at_once(bytes)) return __builtin_memcpy(to, from, bytes);
  return cuda_on_cpu::told_copy(to, from, bytes, line);
}
inline void* cuda_on_cpu_memset(void* to, int value, size_t bytes, int line = __builtin_LINE()) {
  return cuda_on_cpu::told_fill(to, value, bytes, line);
}
namespace std {
using ::cuda_on_cpu_memcpy;
using ::cuda_on_cpu_memset;
}  // namespace std
#endif
