// What are cooperative groups? Names for the threads of a block and for the tiles of a warp.
#pragma once
#include "synchronize.h"

namespace cooperative_groups {

struct thread_block {
  UNTRACED void sync(AT_LINE) const { cuda_on_cpu::barrier(line); }
  UNTRACED unsigned thread_rank() const { return (unsigned)cuda_on_cpu::current->index; }
  unsigned size() const { return (unsigned)cuda_on_cpu::block_threads; }
  unsigned num_threads() const { return size(); }
  UNTRACED uint3 thread_index() const { return threadIdx; }
  dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  dim3 dim_threads() const { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }
inline void sync(const thread_block& block, AT_LINE) { block.sync(line); }

template <unsigned N> struct thread_block_tile {
  static_assert(N && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  UNTRACED unsigned mask() const { return (0xffffffffu >> (32 - N)) << (cuda_on_cpu::lane_in_warp() & ~(N - 1)); }
  UNTRACED unsigned thread_rank() const { return cuda_on_cpu::lane_in_warp() & (N - 1); }
  UNTRACED unsigned meta_group_rank() const { return (unsigned)cuda_on_cpu::current->index / N; }
  unsigned meta_group_size() const { return (cuda_on_cpu::block_threads + N - 1) / N; }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  UNTRACED void sync(AT_LINE) const { __syncwarp(mask(), line); }
  template <class T> UNTRACED T shfl(T v, int rank, AT_LINE) const { return __shfl_sync(mask(), v, rank, N, line); }
  template <class T> UNTRACED T shfl_xor(T v, int by, AT_LINE) const { return __shfl_xor_sync(mask(), v, by, N, line); }
  template <class T> UNTRACED T shfl_down(T v, int by, AT_LINE) const {
    return __shfl_down_sync(mask(), v, by, N, line);
  }
  template <class T> UNTRACED T shfl_up(T v, int by, AT_LINE) const { return __shfl_up_sync(mask(), v, by, N, line); }
  UNTRACED int any(int vote, AT_LINE) const { return __any_sync(mask(), vote, line); }
  UNTRACED int all(int vote, AT_LINE) const { return __ballot_sync(mask(), !vote, line) == 0; }
  UNTRACED unsigned ballot(int vote, AT_LINE) const {
    return __ballot_sync(mask(), vote, line) >> (cuda_on_cpu::lane_in_warp() & ~(N - 1));
  }
};
template <unsigned N> thread_block_tile<N> tiled_partition(const thread_block&) { return {}; }

}  // namespace cooperative_groups
