// Where do the arrays of a call live? Each alone between guard bands, so that no thread strays unnoticed.
#pragma once
#include <sys/mman.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../shim/launch.h"
#if defined(CUDA_ON_CPU_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_on_cpu {

constexpr size_t PAGE = 16 << 10;              // B; the largest page of the systems that run this
constexpr size_t LEAST_BAND = 1 << 20, MOST_BAND = 64 << 20;   // B that nobody may touch, on either side
constexpr int DYNAMIC_SHARED = -1;             // in place of an argument's number

struct Region {
  int argument;
  char* start;
  size_t bytes;
  int itemsize;
};
static std::vector<Region> regions;

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static uint32_t mark(int argument) { return 0x7fa5a500u + (unsigned)argument % 256; }      // as a float, a NaN

static void fill(char* from, char* to, int argument) {
  const uint32_t word = mark(argument);
  for (; from < to; ++from) *from = ((const char*)&word)[(uintptr_t)from % sizeof word];
}

// Next to the array lie pages full of its own mark, which shows a stray store; beyond them, pages that trap.
static char* guarded(size_t bytes, int argument) {
  const size_t band = whole_pages(std::min(std::max(bytes, LEAST_BAND), MOST_BAND));
  const size_t middle = whole_pages(bytes) + 2 * PAGE;
  char* memory = (char*)mmap(nullptr, band + middle + band, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* start = memory + band + PAGE;
  mprotect(memory + band, middle, PROT_READ | PROT_WRITE);
#if defined(CUDA_ON_CPU_ASAN)
  __asan_poison_memory_region(memory, band + PAGE);
  __asan_poison_memory_region(start + bytes, middle - PAGE - bytes + band);
#else
  fill(start - PAGE, start, argument);
  fill(start + bytes, start + whole_pages(bytes) + PAGE, argument);
#endif
  return start;
}

// The first byte next to an array that a thread has written, if one has; AddressSanitizer would not have let it.
static const char* stray_store(const Region& region) {
#if !defined(CUDA_ON_CPU_ASAN)
  if (region.argument == DYNAMIC_SHARED) return nullptr;
  const char *end = region.start + region.bytes, *last = region.start + whole_pages(region.bytes) + PAGE;
  const uint32_t word = mark(region.argument);
  auto changed = [&](const char* at) { return *at != ((const char*)&word)[(uintptr_t)at % sizeof word]; };
  for (const char* at = end; at < last; ++at)
    if (changed(at)) return at;
  for (const char* at = region.start - 1; at >= region.start - PAGE; --at)
    if (changed(at)) return at;
#endif
  (void)region;
  return nullptr;
}

// The array that an address lies in or next to, if there is one.
static const Region* nearest_region(const void* address) {
  const Region* best = nullptr;
  size_t least = MOST_BAND + PAGE;
  const char* at = (const char*)address;
  for (const Region& region : regions) {
    const char* end = region.start + region.bytes;
    const size_t distance = at < region.start ? region.start - at : at >= end ? at - end : 0;
    if (region.argument == DYNAMIC_SHARED && (at < region.start || at >= region.start + MOST_SHARED)) continue;
    if (distance < least) best = &region, least = distance;
  }
  return best;
}

}  // namespace cuda_on_cpu
