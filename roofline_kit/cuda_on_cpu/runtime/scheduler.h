// Which thread runs next? Blocks one after another; in a block each thread until it waits, then the next one.
#pragma once
#include <algorithm>
#include "fibers.h"
#include "report.h"

namespace cuda_on_cpu {

Lane* current = nullptr;
uint3 block_index;
dim3 block_size, grid_size;
int block_threads;
alignas(4096) char dynamic_shared[MOST_SHARED];

enum class Order { Forward, Reversed, Shuffled };

static Lane lanes[MOST_THREADS];
static Fiber* fibers[MOST_THREADS];            // of the lanes that have begun and not returned
static std::vector<Fiber*> free_fibers;        // a returned lane's serves the next one, so its stack stays in cache
static Order order;
static uint64_t random_state;
static const Kernel* running;
static void** running_arguments;

static uint32_t random_number() {              // xorshift64: Marsaglia, Journal of Statistical Software 8 (2003)
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 16);
}

template <class T> static void arrange(std::vector<T>& items) {
  if (order == Order::Reversed) std::reverse(items.begin(), items.end());
  if (order == Order::Shuffled)
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random_number() % i]);
}

static void wait(State state, int line) {
  Lane* lane = current;
  lane->state = state;
  lane->line = line;
  leave(*fibers[lane->index], state == State::Done);
}

void barrier(int line, int vote) {
  current->vote = vote;
  wait(State::AtBarrier, line);
}

static void begin_lane() {
  arrived(nullptr);
  running->call(running->function, running_arguments);
  wait(State::Done, 0);
}

static void resume(Lane& lane) {
  Fiber*& fiber = fibers[lane.index];
  if (!fiber) {
    if (free_fibers.empty()) free_fibers.push_back(new Fiber{new_stack()});
    fiber = free_fibers.back();
    free_fibers.pop_back();
    prepare(*fiber, begin_lane);
  }
  current = &lane;
  enter(*fiber);
  current = nullptr;
  if (lane.state == State::Done) {
    drop_copies(lane.index);
    free_fibers.push_back(fiber);
    fiber = nullptr;
  }
}

static bool overflows_stack(const void* address) {
  const Fiber* fiber = current ? fibers[current->index] : nullptr;
  return fiber && (const char*)address < fiber->stack && (const char*)address >= fiber->stack - STACK_GUARD;
}

// What the lanes of the block do, and one lane that does each.
struct Census {
  int done = 0, at_barrier = 0, in_warp = 0, gathering = 0, votes = 0;
  Lane *returned = nullptr, *waiting = nullptr, *elsewhere = nullptr, *exchanging = nullptr;
};

static Census census() {
  Census found;
  for (int i = 0; i < block_threads; ++i) {
    Lane& lane = lanes[i];
    if (lane.state == State::Done) ++found.done, found.returned = &lane;
    if (lane.state == State::InWarp) ++found.in_warp, found.exchanging = &lane;
    found.gathering += lane.state == State::Gathering;
    if (lane.state != State::AtBarrier) continue;
    ++found.at_barrier;
    found.votes += lane.vote;
    if (!found.waiting) found.waiting = &lane;
    else if (lane.line != found.waiting->line) found.elsewhere = &lane;
  }
  return found;
}

static void release_barrier(const Census& found) {
  if (found.elsewhere) {
    current = found.waiting;
    fail(current->line, "threads of one block wait at different barriers, this one and that of line %d: let all "
         "threads reach the same __syncthreads", found.elsewhere->line);
  }
  for (int i = 0; i < block_threads; ++i) lanes[i].state = State::Ready, lanes[i].vote = found.votes;
  block_synchronized();
}

static void meet(const Lane& me, Lane* warp, int lane);      // in warp.h

[[noreturn]] static void explain_deadlock(const Census& found) {
  current = found.waiting ? found.waiting : found.exchanging;
  if (found.waiting && found.in_warp)
    fail(current->line, "%d of %d threads wait at __syncthreads while %d wait in the warp operation of line %d: let "
         "all of them reach both", found.at_barrier, block_threads, found.in_warp, found.exchanging->line);
  if (found.waiting)
    fail(current->line, "%d of %d threads wait at __syncthreads while %d have returned: let every thread of the block "
         "reach the barrier", found.at_barrier, block_threads, found.done);
  for (int lane = 0; lane < 32; ++lane)
    if (current->mask >> lane & 1) meet(*current, &lanes[current->index & ~31], lane);
  fail(current->line, "a warp operation with mask 0x%08x waits for lanes that never come: let every lane that the mask "
       "names reach it", current->mask);
}

// __activemask has no mask to wait for: where no lane of a warp can go on, those at the same call have met.
static bool gather(int first) {
  bool met = false;
  const int end = std::min(first + 32, block_threads);
  for (int i = first; i < end; ++i)
    if (lanes[i].state == State::Ready) return false;
  for (int i = first; i < end; ++i) {
    if (lanes[i].state != State::Gathering) continue;
    unsigned mask = 0;
    for (int j = i; j < end; ++j)
      if (lanes[j].state == State::Gathering && lanes[j].line == lanes[i].line) mask |= 1u << (j - first);
    for (int j = first; j < end; ++j)
      if (mask >> (j - first) & 1) lanes[j].result = mask, lanes[j].state = State::Ready;
    met = true;
  }
  return met;
}

static void run_block() {
  std::vector<Lane*> turns;
  for (int i = 0; i < block_threads; ++i) {
    lanes[i].thread = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    lanes[i].index = i;
    lanes[i].state = State::Ready;
    turns.push_back(&lanes[i]);
  }
  for (;;) {
    arrange(turns);
    for (Lane* lane : turns)
      while (lane->state == State::Ready) resume(*lane);
    if (order == Order::Reversed) std::reverse(turns.begin(), turns.end());     // to be reversed again
    const Census found = census();
    bool met = false;
    for (int first = 0; found.gathering && first < block_threads; first += 32) met |= gather(first);
    if (met) continue;
    if (found.done == block_threads) return;
    if (found.at_barrier == block_threads) release_barrier(found);
    else if (found.done + found.at_barrier + found.in_warp == block_threads) explain_deadlock(found);
  }
}

static void run_grid(const Kernel& kernel, void** arguments, size_t shared) {
  std::vector<uint3> blocks;
  for (unsigned z = 0; z < grid_size.z; ++z)
    for (unsigned y = 0; y < grid_size.y; ++y)
      for (unsigned x = 0; x < grid_size.x; ++x) blocks.push_back({x, y, z});
  arrange(blocks);
  running = &kernel;
  running_arguments = arguments;
  block_threads = (int)(block_size.x * block_size.y * block_size.z);
  for (const uint3& block : blocks) {
    block_index = block;
    begin_block(shared);
    run_block();
    end_block();
  }
}

}  // namespace cuda_on_cpu
