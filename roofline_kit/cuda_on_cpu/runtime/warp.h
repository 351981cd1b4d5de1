// What does a warp exchange? Its lanes wait until all that the mask names have arrived; the last works out the results.
#pragma once
#include "scheduler.h"

namespace cuda_on_cpu {

static int lanes_in_warp(int first) { return std::min(32, block_threads - first); }

static void meet(const Lane& me, Lane* warp, int lane) {
  const Lane& other = warp[lane];
  const int mine = me.index & 31;
  if (other.state == State::Done)
    fail(me.line, "lane %d waits for lane %d, which has returned: leave it out of the mask 0x%08x, or let it reach the "
         "call", mine, lane, me.mask);
  if (other.state == State::InWarp && (other.mask != me.mask || other.operation != me.operation))
    fail(me.line, "lanes %d and %d of one warp meet at different warp operations or masks (lines %d and %d, masks "
         "0x%08x and 0x%08x): let all lanes of a mask make the same call", mine, lane, me.line, other.line, me.mask,
         other.mask);
}

uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, int source, int line, void* operand) {
  Lane& me = *current;
  const int first = me.index & ~31, count = lanes_in_warp(first);
  Lane* warp = lanes + first;
  me.operation = operation, me.mask = mask, me.value = value, me.source = source, me.line = line, me.operand = operand;
  me.state = State::InWarp;
  if (!(mask >> (me.index & 31) & 1))
    fail(line, "lane %d calls with a mask, 0x%08x, that leaves it out: name every lane that calls, 0xffffffff for a "
         "whole warp", me.index & 31, mask);
  bool complete = true;
  for (int lane = 0; lane < count; ++lane)
    if (mask >> lane & 1) {
      meet(me, warp, lane);
      complete &= warp[lane].state == State::InWarp;
    }
  if (complete) {
    const unsigned present = count == 32 ? mask : mask & ((1u << count) - 1);
    operation(warp, present);
    for (int lane = 0; lane < count; ++lane)
      if (present >> lane & 1) warp[lane].state = State::Ready;
  } else {
    wait(State::InWarp, line);
  }
  return me.result;
}

template <class Visit> static void each(Lane* warp, unsigned mask, Visit visit) {
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) visit(warp[lane]);
}

void synchronize(Lane* warp, unsigned mask) { lanes_synchronized(warp->index, mask); }

void shuffle(Lane* warp, unsigned mask) {
  each(warp, mask, [&](Lane& lane) {           // a lane that takes no part gives no value: all ones, as a float a NaN
    lane.result = mask >> lane.source & 1 ? warp[lane.source].value : ~(uint64_t)0;
  });
}

void ballot(Lane* warp, unsigned mask) {
  uint64_t votes = 0;
  each(warp, mask, [&](Lane& lane) { votes |= (uint64_t)(lane.value != 0) << (lane.index & 31); });
  each(warp, mask, [&](Lane& lane) { lane.result = votes; });
}

void match(Lane* warp, unsigned mask) {
  each(warp, mask, [&](Lane& lane) {
    lane.result = 0;
    each(warp, mask, [&](Lane& other) { lane.result |= (uint64_t)(other.value == lane.value) << (other.index & 31); });
  });
}

template <class T, class Combine> static void reduce(Lane* warp, unsigned mask, Combine combine) {
  T all = 0;
  bool first = true;
  each(warp, mask, [&](Lane& lane) {
    all = first ? (T)lane.value : combine(all, (T)lane.value);
    first = false;
  });
  each(warp, mask, [&](Lane& lane) { lane.result = (uint64_t)all; });
}

#define CUDA_ON_CPU_REDUCE(NAME, T, EXPRESSION) \
  void NAME(Lane* warp, unsigned mask) { reduce<T>(warp, mask, [](T a, T b) { return EXPRESSION; }); }
CUDA_ON_CPU_REDUCE(reduce_add, unsigned, a + b)
CUDA_ON_CPU_REDUCE(reduce_max, int, std::max(a, b))
CUDA_ON_CPU_REDUCE(reduce_min, int, std::min(a, b))
CUDA_ON_CPU_REDUCE(reduce_max_unsigned, unsigned, std::max(a, b))
CUDA_ON_CPU_REDUCE(reduce_min_unsigned, unsigned, std::min(a, b))
CUDA_ON_CPU_REDUCE(reduce_and, unsigned, a & b)
CUDA_ON_CPU_REDUCE(reduce_or, unsigned, a | b)
CUDA_ON_CPU_REDUCE(reduce_xor, unsigned, a ^ b)
#undef CUDA_ON_CPU_REDUCE

unsigned active_lanes(int line) {
  wait(State::Gathering, line);
  return (unsigned)current->result;
}

}  // namespace cuda_on_cpu
