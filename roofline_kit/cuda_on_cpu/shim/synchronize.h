// How do threads wait for each other and exchange values? Barriers of a block, and the intrinsics of a warp.
#pragma once
#include <cstring>
#include "access.h"

#define AT_LINE int line = __builtin_LINE()    // a default argument: the line of the kernel that calls

UNTRACED inline void __syncthreads(AT_LINE) { cuda_on_cpu::barrier(line); }
UNTRACED inline int __syncthreads_count(int vote, AT_LINE) {
  cuda_on_cpu::barrier(line, vote != 0);
  return cuda_on_cpu::current->vote;
}
UNTRACED inline int __syncthreads_or(int vote, AT_LINE) { return __syncthreads_count(vote, line) != 0; }
UNTRACED inline int __syncthreads_and(int vote, AT_LINE) {
  return __syncthreads_count(vote, line) == cuda_on_cpu::block_threads;
}
inline void __threadfence() { cuda_on_cpu::fence(); }
inline void __threadfence_system() { cuda_on_cpu::fence(); }
inline void __threadfence_block() { cuda_on_cpu::fence_block(); }
inline void __nanosleep(unsigned) {}

namespace cuda_on_cpu {

void synchronize(Lane* warp, unsigned mask);   // the operations, in runtime/warp.cpp
void shuffle(Lane* warp, unsigned mask);
void ballot(Lane* warp, unsigned mask);
void match(Lane* warp, unsigned mask);
void reduce_add(Lane* warp, unsigned mask);
void reduce_max(Lane* warp, unsigned mask);
void reduce_min(Lane* warp, unsigned mask);
void reduce_max_unsigned(Lane* warp, unsigned mask);
void reduce_min_unsigned(Lane* warp, unsigned mask);
void reduce_and(Lane* warp, unsigned mask);
void reduce_or(Lane* warp, unsigned mask);
void reduce_xor(Lane* warp, unsigned mask);

UNTRACED inline int lane_in_warp() { return current->index & 31; }

template <class T> UNTRACED T shuffle_from(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = warp_operation(shuffle, mask, bits, source, line);
  memcpy(&value, &bits, sizeof value);
  return value;
}

UNTRACED inline bool same_segment(int a, int b, int width) { return a >= 0 && a / width == b / width; }

}  // namespace cuda_on_cpu

UNTRACED inline void __syncwarp(unsigned mask = 0xffffffffu, AT_LINE) {
  cuda_on_cpu::warp_operation(cuda_on_cpu::synchronize, mask, 0, 0, line);
}
template <class T> UNTRACED T __shfl_sync(unsigned mask, T value, int source, int width = 32, AT_LINE) {
  const int lane = cuda_on_cpu::lane_in_warp();
  return cuda_on_cpu::shuffle_from(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), line);
}
template <class T> UNTRACED T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, AT_LINE) {
  const int lane = cuda_on_cpu::lane_in_warp(), source = lane ^ bits;      // an earlier segment may be read, no later
  return cuda_on_cpu::shuffle_from(mask, value, source / width > lane / width ? lane : source, line);
}
template <class T> UNTRACED T __shfl_down_sync(unsigned mask, T value, int delta, int width = 32, AT_LINE) {
  const int lane = cuda_on_cpu::lane_in_warp(), source = lane + delta;
  return cuda_on_cpu::shuffle_from(mask, value, cuda_on_cpu::same_segment(source, lane, width) ? source : lane, line);
}
template <class T> UNTRACED T __shfl_up_sync(unsigned mask, T value, int delta, int width = 32, AT_LINE) {
  const int lane = cuda_on_cpu::lane_in_warp(), source = lane - delta;
  return cuda_on_cpu::shuffle_from(mask, value, cuda_on_cpu::same_segment(source, lane, width) ? source : lane, line);
}

#define CUDA_ON_CPU_WARP(RESULT, NAME, T, OPERATION, SENT)                                                  \
  UNTRACED inline RESULT NAME(unsigned mask, T value, AT_LINE) {                                            \
    return (RESULT)cuda_on_cpu::warp_operation(cuda_on_cpu::OPERATION, mask, (uint64_t)(SENT), 0, line);    \
  }
CUDA_ON_CPU_WARP(unsigned, __ballot_sync, int, ballot, value != 0)
CUDA_ON_CPU_WARP(int, __reduce_add_sync, int, reduce_add, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_add_sync, unsigned, reduce_add, value)
CUDA_ON_CPU_WARP(int, __reduce_max_sync, int, reduce_max, value)
CUDA_ON_CPU_WARP(int, __reduce_min_sync, int, reduce_min, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_max_sync, unsigned, reduce_max_unsigned, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_min_sync, unsigned, reduce_min_unsigned, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_and_sync, unsigned, reduce_and, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_or_sync, unsigned, reduce_or, value)
CUDA_ON_CPU_WARP(unsigned, __reduce_xor_sync, unsigned, reduce_xor, value)
#undef CUDA_ON_CPU_WARP
template <class T> UNTRACED unsigned __match_any_sync(unsigned mask, T value, AT_LINE) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return (unsigned)cuda_on_cpu::warp_operation(cuda_on_cpu::match, mask, bits, 0, line);
}

UNTRACED inline int __any_sync(unsigned mask, int vote, AT_LINE) { return __ballot_sync(mask, vote, line) != 0; }
UNTRACED inline int __all_sync(unsigned mask, int vote, AT_LINE) { return __ballot_sync(mask, !vote, line) == 0; }
UNTRACED inline unsigned __activemask(AT_LINE) { return cuda_on_cpu::active_lanes(line); }
