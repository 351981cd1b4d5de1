// When does cp.async copy? Here as late as the program allows, at the wait, so that a missing wait shows.
#pragma once
#include "atomics.h"

namespace cuda_on_cpu {
void copy_later(void* to, const void* from, size_t bytes, size_t zeros, int line);
void commit_copies();
void wait_for_copies(size_t but);
}  // namespace cuda_on_cpu

UNTRACED inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0, AT_LINE) {
  if (bytes != 4 && bytes != 8 && bytes != 16)
    cuda_on_cpu::fail(line, "an asynchronous copy moves 4, 8 or 16 bytes, not %d", (int)bytes);
  if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
    cuda_on_cpu::fail(line, "an asynchronous copy of %d bytes needs both addresses at a multiple of that", (int)bytes);
  if (zeros < bytes) (void)(((const volatile char*)from)[0] + ((const volatile char*)from)[bytes - zeros - 1]);
  ((volatile char*)to)[bytes - 1] = (char)0xff;                    // these touch both ends, for AddressSanitizer
  cuda_on_cpu::copy_later(to, from, bytes, zeros, line);
}
inline void __pipeline_commit() { cuda_on_cpu::commit_copies(); }
inline void __pipeline_wait_prior(size_t but) { cuda_on_cpu::wait_for_copies(but); }
