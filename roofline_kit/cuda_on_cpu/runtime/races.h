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
  bool atomic;
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
};

static std::vector<Space> spaces;
static std::vector<Finding> trace_findings;
static uint32_t now, block_number, block_time, warp_time[MOST_THREADS / 32], pair_time[MOST_THREADS][32];
static bool fenced;                            // this block has called __threadfence
static std::set<uint32_t> seen;                // blocks whose writes this one may rely on
static std::map<const void*, std::set<uint32_t>> released;    // by atomics on that address

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

void fence() { fenced = true; }

// After a __threadfence, an atomic hands on what this block has written and takes over what others handed on there.
static void hand_over(const void* address) {
  if (!fenced) return;
  std::set<uint32_t>& here = released[address];
  seen.insert(here.begin(), here.end());
  here.insert(seen.begin(), seen.end());
  here.insert(block_number);
}

static void trace_block(bool begins) {
  finish_requests();
  block_time = ++now;
  block_number += begins;
  fenced = false;
  seen.clear();
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
  if (old.lane / 32 != warp) return "threads";
  return old.time < std::max(warp_time[warp], pair_time[mine.lane][old.lane % 32]) ? nullptr : "lanes";
}

static void report(const char* kind, const char* between, const Touch& old, const Touch& mine, const Space& space,
                   const void* address) {
  for (const Finding& known : trace_findings)
    if (known.kind == kind && known.first == old.site && known.second == mine.site) return;
  if (trace_findings.size() == 100) return;
  std::string where = space.shared ? "" : memory_address(address);
  char text[200];
  snprintf(text, sizeof text, ", \"block\": [%u, %u, %u], \"thread\": [%u, %u, %u]", block_index.x, block_index.y,
           block_index.z, current->thread.x, current->thread.y, current->thread.z);
  trace_findings.push_back({kind, between, old.site, mine.site, old.block, old.lane, where + text});
}

static void compare(const Space& space, const Touch& old, const Touch& mine, const void* address) {
  const bool same_thread = old.block == mine.block && old.lane == mine.lane;
  if (!old.time || same_thread || (old.atomic && mine.atomic) || !(old.bytes & mine.bytes)) return;
  if (space.shared && old.block != mine.block) return;                     // another block's shared memory
  if (const char* between = ordered_by(old, mine)) report("race", between, old, mine, space, address);
}

// Notes an access in the cells that it touches.
static void touch(const Space& space, char* address, int bytes, Access kind, int site, bool awaited, bool unique) {
  const size_t offset = address - space.start, end = std::min(offset + bytes, space.bytes);
  Touch mine{now, block_number, (uint16_t)current->index, (uint16_t)site, 0, kind == Access::Atomic};
  bool any_filled = false, any_awaited = false;
  for (size_t at = offset; at < end;) {
    Cell& cell = space.cells[at / space.grain];
    const size_t cell_start = at / space.grain * space.grain, stop = std::min(end, cell_start + space.grain);
    mine.bytes = (uint8_t)((1u << (stop - cell_start)) - (1u << (at - cell_start)));
    if (space.shared && cell.filled_by != block_number) cell.filled = cell.awaited = 0, cell.filled_by = block_number;
    any_filled |= (cell.filled & mine.bytes) != 0;
    any_awaited |= (cell.awaited & mine.bytes) != 0;
    compare(space, cell.write, mine, address);
    if (kind == Access::Load) {
      if (cell.reads[0].block != mine.block || cell.reads[0].lane != mine.lane) cell.reads[1] = cell.reads[0];
      cell.reads[0] = mine;
    } else {
      compare(space, cell.reads[0], mine, address);
      compare(space, cell.reads[1], mine, address);
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
