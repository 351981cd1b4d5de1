// What does the scheduler tell a trace, and what happens to shared memory before each block?
#pragma once
#if !defined(__APPLE__)
#include <link.h>
#endif
#include "report.h"

namespace cuda_on_cpu {

static void drop_copies(int lane);             // in copies.h

static char *shared_start, *shared_end;        // of static shared memory, as shim/qualifiers.h places it

#if defined(CUDA_ON_CPU_ASAN)
static void find_shared() {}
#elif defined(__APPLE__)
extern char section_start[] __asm("section$start$__DATA$cuda_shared");
extern char section_end[] __asm("section$end$__DATA$cuda_shared");
static void find_shared() { shared_start = section_start, shared_end = section_end; }
#else
static int read_program(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data) {
      shared_start = (char*)info->dlpi_tls_data;
      shared_end = shared_start + info->dlpi_phdr[i].p_memsz;
    }
  return 1;                                    // the program comes first; no need to see its libraries
}
static void find_shared() { dl_iterate_phdr(read_program, nullptr); }
#endif

#if defined(CUDA_ON_CPU_TRACE)
}  // namespace cuda_on_cpu
#include "requests.h"
//
#include "races.h"
//
#include "hooks.h"
namespace cuda_on_cpu {
#else
static void block_synchronized() {}
static void lanes_synchronized(int, unsigned) {}
static void copy_began(void*, int, int) {}
static void copy_ended(void*, int, int) {}
static void begin_trace() {}
static void trace_block(bool) {}
static void write_trace(FILE*) {}
void fence() {}
void fence_block() {}
#endif

// Fresh shared memory holds no zeros: it reads as NaN. AddressSanitizer reports what lies beyond the launch's share.
static void begin_block(size_t shared) {
  if (shared_start) memset(shared_start, 0xff, shared_end - shared_start);
  memset(dynamic_shared, 0xff, shared);
#if defined(CUDA_ON_CPU_ASAN)
  __asan_poison_memory_region(dynamic_shared + shared, MOST_SHARED - shared);
#endif
  trace_block(true);
}
static void end_block() { trace_block(false); }

}  // namespace cuda_on_cpu
