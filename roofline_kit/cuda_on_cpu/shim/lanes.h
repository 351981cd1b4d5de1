// Where is the code that runs? In one thread ("lane") of one block; the scheduler in runtime/ says in which.
#pragma once
#include <cstddef>
#include <cstdint>
#include "vectors.h"

namespace cuda_on_cpu {

constexpr int MOST_THREADS = 1024;             // of a block: CUDA C++ Programming Guide, compute capabilities
constexpr size_t MOST_SHARED = 227 << 10;      // B of dynamic shared memory a block, sm_90 and sm_100: the same table

enum class State { Ready, AtBarrier, InWarp, Gathering, Done };

struct Lane;
using WarpOperation = void (*)(Lane* warp, unsigned mask);   // called once, by the last lane of the mask to arrive

struct Lane {
  uint3 thread;                                // threadIdx
  int index;                                   // the same as one number
  State state;
  int line;                                    // of the source, where it waits
  int vote;                                    // what it brings to, and then takes from, __syncthreads_count
  unsigned mask;                               // the rest: what it brings to a warp operation, and the result
  WarpOperation operation;
  uint64_t value, result;
  int source;
  void* operand;
};

extern Lane* current;                          // null outside of a kernel
extern uint3 block_index;
extern dim3 block_size, grid_size;
extern int block_threads;
extern char dynamic_shared[MOST_SHARED];

void barrier(int line, int vote = 0);
uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, int source, int line,
                        void* operand = nullptr);
unsigned active_lanes(int line);               // those that arrive at this call when no lane can go further without it
void fence();                                  // and one that is only for this thread's block
void fence_block();
int print(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void fail(int line, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::current->thread)
#define blockIdx (cuda_on_cpu::block_index)
#define blockDim (cuda_on_cpu::block_size)
#define gridDim (cuda_on_cpu::grid_size)
static constexpr int warpSize = 32;
