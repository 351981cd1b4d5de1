// Do two threads touch the same memory, one of them writing, with nothing that orders them? Each cell remembers its
// last write and last two readers, each pair of threads when something last synchronised them.
#pragma once
#include <set>
#include "requests.h"

namespace cuda_on_cpu {

struct Touch {
  uint32_t time, block;                        // time 0: never
  uint16_t lane, site;
  uint8_t bytes;                               // bit i: byte i of the cell
  bool atomic;                                 // or a load that an atomic of another thread does not harm
};
struct Cell {
  Touch write, reads[2];
  uint32_t filled_by;                          // the block that `filled` and `awaited` speak of, in shared memory
  uint8_t loaded, stored, filled, awaited;     // bytes; awaited: an asynchronous copy is under way
};
struct Space {
  char* start;
  size_t bytes;
  int grain, argument;                         // bytes of a cell, which is one element where there are elements
  bool shared;
  Cell* cells;
};
struct Finding {                               // kind: "race", "unwritten" or "unwaited"
  const char *kind, *between;
  int first, second;                           // sites
  uint32_t other_block, other_lane;
  std::string where;
  int look;                                    // the site of a load that races with an atomic; otherwise -1
  bool same;                                   // each time both wrote the same value
};

static std::vector<Space> spaces;
static std::vector<Finding> trace_findings;
static uint32_t now, block_number, block_time, warp_time[MOST_THREADS / 32], pair_time[MOST_THREADS][32];
static bool fenced;                            // this block has called __threadfence
static std::set<uint32_t> seen;                // blocks whose writes this one may rely on
static std::map<const void*, std::set<uint32_t>> released;    // by atomics on that address
static std::map<const void*, size_t> taken;    // how much this block knew when it was last at that address
using Times = std::vector<uint32_t>;           // by lane: what it did until then
static std::map<const void*, Times> unlocked;  // what lanes of this block have handed on at that address
static Times locked[MOST_THREADS];             // what each lane has taken over of the others
static bool lane_fenced[MOST_THREADS];
static std::set<int> first_looks;              // sites of loads after which the same thread changes it atomically
static struct { const void* address = nullptr; int bytes; char old[16]; size_t finding; } second_write;

static void block_synchronized() {
  block_time = ++now;
  finish_requests();
}

static void lanes_synchronized(int first, unsigned mask) {
  ++now;
  if (mask == 0xffffffffu) warp_time[first / 32] = now;
  else
    for (int a = 0; a < 32; ++a)
      for (int b = 0; b < 32; ++b)
        if (mask >> a & mask >> b & 1) pair_time[first + a][b] = now;
}

void fence_block() { lane_fenced[current->index] = true; }

void fence() {
  fenced = true;
  fence_block();
}

// An atomic takes over what others handed on there; after a __threadfence it hands on what this block has written.
static void hand_over(const void* address) {
  const auto known = taken.find(address);      // blocks run one after another: nothing else is new here
  if (known != taken.end() && known->second == 2 * seen.size() + fenced) return;
  const auto others = released.find(address);
  if (others != released.end()) seen.insert(others->second.begin(), others->second.end());
  taken[address] = 2 * seen.size() + fenced;
  if (!fenced) return;
  std::set<uint32_t>& here = released[address];
  here.insert(seen.begin(), seen.end());
  here.insert(block_number);
}

static void take_over(Times& mine, const Times& others) {
  mine.resize(block_threads);
  for (size_t lane = 0; lane < others.size(); ++lane) mine[lane] = std::max(mine[lane], others[lane]);
}

// The same between the threads of one block.
static void hand_over_lanes(const void* address) {
  const auto others = unlocked.find(address);
  if (others != unlocked.end()) take_over(locked[current->index], others->second);
  if (!lane_fenced[current->index]) return;
  take_over(unlocked[address], locked[current->index]);
  unlocked[address][current->index] = now++;
}

// A race of two plain writes has been found: is it the same value? That is known once the second has happened.
static void settle() {
  if (!second_write.address) return;
  Finding& known = trace_findings[second_write.finding];
  known.same &= !memcmp(second_write.address, second_write.old, second_write.bytes);
  second_write.address = nullptr;
}

static void trace_block(bool begins) {
  settle();
  finish_requests();
  block_time = ++now;
  block_number += begins;
  fenced = false;
  seen.clear();
  taken.clear();
  if (!unlocked.empty())
    for (Times& each : locked) each.clear();
  unlocked.clear();
  memset(lane_fenced, 0, sizeof lane_fenced);
}

static Space* space_of(const void* address) {
  static Space* last = nullptr;
  const char* at = (const char*)address;
  if (last && at >= last->start && at < last->start + last->bytes) return last;
  for (Space& space : spaces)
    if (at >= space.start && at < space.start + space.bytes) return last = &space;
  return nullptr;
}

static const char* ordered_by(const Touch& old, const Touch& mine) {       // null: something orders them
  if (old.block != mine.block) return seen.count(old.block) ? nullptr : "blocks";
  const int warp = mine.lane / 32;
  if (old.time < block_time) return nullptr;
  if (!locked[mine.lane].empty() && old.time <= locked[mine.lane][old.lane]) return nullptr;
  if (old.lane / 32 != warp) return "threads";
  return old.time < std::max(warp_time[warp], pair_time[mine.lane][old.lane % 32]) ? nullptr : "lanes";
}

static size_t report(const char* kind, const char* between, const Touch& old, const Touch& mine, const Space& space,
                     const void* address) {
  size_t number = 0;
  for (const Finding& known : trace_findings) {
    if (known.kind == kind && known.first == old.site && known.second == mine.site) return number;
    ++number;
  }
  if (number == 100) return number;
  std::string where = space.shared ? "" : memory_address(address);
  char text[200];
  snprintf(text, sizeof text, ", \"block\": [%u, %u, %u], \"thread\": [%u, %u, %u]", block_index.x, block_index.y,
           block_index.z, current->thread.x, current->thread.y, current->thread.z);
  trace_findings.push_back({kind, between, old.site, mine.site, old.block, old.lane, where + text, -1, false});
  return number;
}

static bool same_thread(const Touch& one, const Touch& other) {
  return one.time && one.block == other.block && one.lane == other.lane;
}

static void compare(const Space& space, const Touch& old, const Touch& mine, const void* address, int bytes) {
  if (!old.time || same_thread(old, mine) || (old.atomic && mine.atomic) || !(old.bytes & mine.bytes)) return;
  if (space.shared && old.block != mine.block) return;                     // another block's shared memory
  const char* between = ordered_by(old, mine);
  if (!between) return;
  const size_t count = trace_findings.size(), number = report("race", between, old, mine, space, address);
  if (number == 100) return;
  const Access one = sites[old.site].kind, other = sites[mine.site].kind;
  if (one == Access::Atomic && other == Access::Load) trace_findings[number].look = mine.site;
  if (one == Access::Load && other == Access::Atomic) trace_findings[number].look = old.site;
  if (one != Access::Store || other != Access::Store) return;
  if (count == number) trace_findings[number].same = bytes <= (int)sizeof second_write.old;
  if (!trace_findings[number].same) return;
  second_write.address = address, second_write.bytes = bytes, second_write.finding = number;
  memcpy(second_write.old, address, bytes);
}

// A GPU loads an aligned number at once, so it may look at what others change atomically: the first look of a loop of
// atomicCAS. What is in shared memory, or changed by this thread itself, is more likely read too soon: then it is one
// only if an atomic of this thread follows at some time.
static bool harmless_look(const Space& space, const Cell& cell, const Touch& mine, const char* address, int bytes) {
  const bool at_once = bytes <= 8 && (uintptr_t)address % bytes == 0;
  return at_once && !space.shared && !(cell.write.atomic && same_thread(cell.write, mine));
}

// Notes an access in the cells that it touches.
static void touch(const Space& space, char* address, int bytes, Access kind, int site, bool awaited, bool unique) {
  const size_t offset = address - space.start, end = std::min(offset + bytes, space.bytes);
  Touch mine{now, block_number, (uint16_t)current->index, (uint16_t)site, 0, kind == Access::Atomic};
  bool any_filled = false, any_awaited = false;
  settle();
  for (size_t at = offset; at < end;) {
    Cell& cell = space.cells[at / space.grain];
    const size_t cell_start = at / space.grain * space.grain, stop = std::min(end, cell_start + space.grain);
    mine.bytes = (uint8_t)((1u << (stop - cell_start)) - (1u << (at - cell_start)));
    if (space.shared && cell.filled_by != block_number) cell.filled = cell.awaited = 0, cell.filled_by = block_number;
    any_filled |= (cell.filled & mine.bytes) != 0;
    any_awaited |= (cell.awaited & mine.bytes) != 0;
    if (kind == Access::Load) mine.atomic = harmless_look(space, cell, mine, address, bytes);
    compare(space, cell.write, mine, address, bytes);
    if (kind == Access::Load) {
      if (cell.reads[0].block != mine.block || cell.reads[0].lane != mine.lane) cell.reads[1] = cell.reads[0];
      cell.reads[0] = mine;
    } else {
      for (const Touch& read : cell.reads) {
        compare(space, read, mine, address, bytes);
        if (kind == Access::Atomic && same_thread(read, mine)) first_looks.insert(read.site);
      }
      cell.write = mine;
      cell.filled |= mine.bytes;
      cell.awaited = awaited ? cell.awaited | mine.bytes : cell.awaited & ~mine.bytes;
    }
    if (unique && kind != Access::Store) cell.loaded |= mine.bytes;
    if (unique && kind != Access::Load) cell.stored |= mine.bytes;
    at = stop;
  }
  if (space.shared && kind != Access::Store && !any_filled) report("unwritten", "", mine, mine, space, address);
  if (kind == Access::Load && any_awaited) report("unwaited", "", mine, mine, space, address);
}

}  // namespace cuda_on_cpu
