// How does a trace see every load and store? The compiler calls these functions before each, as it would call those of
// ThreadSanitizer, which is not linked.
#pragma once
#include "races.h"

namespace cuda_on_cpu {

constexpr int WIDEST = 16;                     // B that one instruction of a GPU moves for a thread, at most

static void access(const volatile void* address, int bytes, Access kind, uint64_t place, bool by_line) {
  char* at = (char*)address;
  if (!current) return;
  const Space* space = space_of(at);
  if (kind == Access::Atomic) {                // a __device__ variable has no space, but it may be a lock
    if (!space || !space->shared) hand_over(at);
    hand_over_lanes(at);
  }
  if (!space) return;                          // a thread's own variable, or a constant
  const int site = site_number(place, by_line, space->shared, kind);
  for (int done = 0; done < bytes; done += WIDEST) request(site, at + done, std::min(bytes - done, WIDEST));
  touch(*space, at, bytes, kind, site, false, true);
}

void accessed(const volatile void* address, int bytes, Access kind, int line) {
  access(address, bytes, kind, line, true);
}

static void copy_began(void* to, int bytes, int line) {
  const Space* space = space_of(to);
  if (!space) return;
  const int site = site_number(line, true, space->shared, Access::Store);
  request(site, to, bytes);
  touch(*space, (char*)to, bytes, Access::Store, site, true, true);
}

static void copy_ended(void* to, int bytes, int line) {
  const Space* space = space_of(to);
  if (!space) return;
  const int site = site_number(line, true, space->shared, Access::Store);
  touch(*space, (char*)to, bytes, Access::Store, site, false, false);
}

static void add_space(char* start, size_t bytes, int grain, int argument, bool shared) {
  if (!bytes) return;
  void* cells = mmap(nullptr, (bytes / grain + 1) * sizeof(Cell), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);       // untouched cells take no memory
  if (cells == MAP_FAILED) found("\"kind\": \"memory\"");
  spaces.push_back({start, bytes, grain, argument, shared, (Cell*)cells});
}

static void begin_trace() {
  for (const Region& region : regions)
    if (region.argument == DYNAMIC_SHARED) add_space(region.start, region.bytes, 2, DYNAMIC_SHARED, true);
    else add_space(region.start, region.bytes, region.itemsize > 8 ? 8 : region.itemsize, region.argument, false);
  add_space(shared_start, shared_end - shared_start, 2, DYNAMIC_SHARED, true);
}

static void write_place(FILE* file, const Site& site) {
  if (site.by_line) fprintf(file, "\"line\": %llu", (unsigned long long)site.place);
  else fprintf(file, "\"return\": %llu", (unsigned long long)(site.place - (uint64_t)load_address()));
}

static void write_trace(FILE* file) {
  uint64_t loaded = 0, stored = 0;
  for (const Space& space : spaces)
    for (size_t i = 0; !space.shared && i <= space.bytes / space.grain; ++i) {
      loaded += __builtin_popcount(space.cells[i].loaded);
      stored += __builtin_popcount(space.cells[i].stored);
    }
  fprintf(file, ", \"unique_loaded\": %llu, \"unique_stored\": %llu, \"sites\": [", (unsigned long long)loaded,
          (unsigned long long)stored);
  for (const Site& site : sites) {
    fputs(&site == sites.data() ? "{" : ", {", file);
    write_place(file, site);
    fprintf(file, ", \"shared\": %s, \"kind\": %d, \"bytes\": %llu, \"requests\": %llu, \"units\": %llu, "
            "\"conflicts\": %llu}", site.shared ? "true" : "false", (int)site.kind, (unsigned long long)site.bytes,
            (unsigned long long)site.requests, (unsigned long long)site.units, (unsigned long long)site.conflicts);
  }
  fputs("], \"findings\": [", file);
  bool first = true;
  for (const Finding& each : trace_findings) {
    if (each.look >= 0 && first_looks.count(each.look)) continue;
    fprintf(file, "%s{\"kind\": \"%s\", \"between\": \"%s\", \"first\": %d, \"second\": %d, \"other_block\": %u, "
            "\"other_lane\": %u, \"same\": %s%s}", first ? "" : ", ", each.kind, each.between, each.first, each.second,
            each.other_block - 1, each.other_lane, each.same ? "true" : "false", each.where.c_str());
    first = false;
  }
  fputs("]", file);
}

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_HOOK(NAME, BYTES, KIND)                                                                 \
  extern "C" void NAME(void* address) {                                                                     \
    cuda_on_cpu::access(address, BYTES, cuda_on_cpu::Access::KIND, (uint64_t)__builtin_return_address(0), false); \
  }
#define CUDA_ON_CPU_HOOKS(BYTES)                                                                            \
  CUDA_ON_CPU_HOOK(__tsan_read##BYTES, BYTES, Load) CUDA_ON_CPU_HOOK(__tsan_write##BYTES, BYTES, Store)     \
  CUDA_ON_CPU_HOOK(__tsan_unaligned_read##BYTES, BYTES, Load)                                               \
  CUDA_ON_CPU_HOOK(__tsan_unaligned_write##BYTES, BYTES, Store)                                             \
  CUDA_ON_CPU_HOOK(__tsan_volatile_read##BYTES, BYTES, Load)                                                \
  CUDA_ON_CPU_HOOK(__tsan_volatile_write##BYTES, BYTES, Store)
CUDA_ON_CPU_HOOKS(1) CUDA_ON_CPU_HOOKS(2) CUDA_ON_CPU_HOOKS(4) CUDA_ON_CPU_HOOKS(8) CUDA_ON_CPU_HOOKS(16)
#undef CUDA_ON_CPU_HOOKS
#undef CUDA_ON_CPU_HOOK

extern "C" {
void __tsan_read_range(void* address, long bytes) {
  cuda_on_cpu::access(address, (int)bytes, cuda_on_cpu::Access::Load, (uint64_t)__builtin_return_address(0), false);
}
void __tsan_write_range(void* address, long bytes) {
  cuda_on_cpu::access(address, (int)bytes, cuda_on_cpu::Access::Store, (uint64_t)__builtin_return_address(0), false);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}

// clang copies a struct of 16 bytes and more through these, under one name or another.
static void* copied(void* to, const void* from, size_t bytes, void* place) {
  cuda_on_cpu::access(from, (int)bytes, cuda_on_cpu::Access::Load, (uint64_t)place, false);
  cuda_on_cpu::access(to, (int)bytes, cuda_on_cpu::Access::Store, (uint64_t)place, false);
  volatile char* target = (volatile char*)to;              // volatile, or the loops become calls of what they replace
  const volatile char* origin = (const volatile char*)from;
  if (target < origin)
    for (size_t i = 0; i < bytes; ++i) target[i] = origin[i];
  else
    while (bytes--) target[bytes] = origin[bytes];
  return to;
}
#define CUDA_ON_CPU_COPY(NAME)                                                                              \
  extern "C" void* NAME(void* to, const void* from, size_t bytes) {                                         \
    return copied(to, from, bytes, __builtin_return_address(0));                                            \
  }
CUDA_ON_CPU_COPY(__tsan_memcpy)
CUDA_ON_CPU_COPY(__tsan_memmove)
#if defined(__clang__)
CUDA_ON_CPU_COPY(memcpy)
CUDA_ON_CPU_COPY(memmove)
#endif
#undef CUDA_ON_CPU_COPY
