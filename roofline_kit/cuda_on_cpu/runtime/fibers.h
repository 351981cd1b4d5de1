// How can a thread stop in the middle of a kernel and go on later? Each has a stack of its own; the CPU changes stacks.
#pragma once
#if defined(__APPLE__)
#define _XOPEN_SOURCE 700                      // or Apple's <ucontext.h> refuses
#define _DARWIN_C_SOURCE
#endif
#include <sys/mman.h>
#include <cstdlib>
#include <vector>
#if !defined(__x86_64__)
#define CUDA_ON_CPU_UCONTEXT
#endif
#if defined(CUDA_ON_CPU_UCONTEXT)
#include <ucontext.h>
#endif
#if defined(CUDA_ON_CPU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {

constexpr size_t STACK_BYTES = 512 << 10;      // what CUDA allows a thread of local memory; untouched pages are free
constexpr size_t STACK_GUARD = 4 << 20;        // B below it that trap: a large local array must not jump over them

struct Fiber {
  char* stack = nullptr;
  void* sanitizer = nullptr;                   // AddressSanitizer's own note of a stack that is left
#if defined(CUDA_ON_CPU_UCONTEXT)
  ucontext_t context;
#else
  void* top = nullptr;                         // of its stack, where its registers are saved
#endif
};

static Fiber scheduler_fiber;
#if defined(CUDA_ON_CPU_ASAN)
static const void* scheduler_stack;
static size_t scheduler_stack_bytes;
#endif

static char* new_stack() {
  char* memory = (char*)mmap(nullptr, STACK_GUARD + STACK_BYTES, PROT_NONE,
                             MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + STACK_GUARD, STACK_BYTES, PROT_READ | PROT_WRITE)) abort();
  return memory + STACK_GUARD;
}

#if defined(CUDA_ON_CPU_UCONTEXT)

static void prepare(Fiber& fiber, void (*start)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = STACK_BYTES;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, start, 0);
}
static void change(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#else

// Saves the registers that a called function must preserve, changes stacks, and returns into the other's caller.
__attribute__((naked, noinline)) static void change_stacks(void** /* save: rdi */, void* /* load: rsi */) {
  asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
}

static void prepare(Fiber& fiber, void (*start)()) {
  void** top = (void**)(fiber.stack + STACK_BYTES);
  *--top = nullptr;                            // where `start` would return to, which it never does; 16 B aligned
  *--top = (void*)start;
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.top = top;
}
static void change(Fiber& from, Fiber& to) { change_stacks(&from.top, to.top); }

#endif

static void enter(Fiber& fiber) {              // from the scheduler
#if defined(CUDA_ON_CPU_ASAN)
  __sanitizer_start_switch_fiber(&scheduler_fiber.sanitizer, fiber.stack, STACK_BYTES);
#endif
  change(scheduler_fiber, fiber);
#if defined(CUDA_ON_CPU_ASAN)
  __sanitizer_finish_switch_fiber(scheduler_fiber.sanitizer, nullptr, nullptr);
#endif
}

static void arrived(void* sanitizer) {         // on a fiber, after each change to it
#if defined(CUDA_ON_CPU_ASAN)
  __sanitizer_finish_switch_fiber(sanitizer, &scheduler_stack, &scheduler_stack_bytes);
#endif
  (void)sanitizer;
}

static void leave(Fiber& fiber, bool for_good) {             // to the scheduler
#if defined(CUDA_ON_CPU_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fiber.sanitizer, scheduler_stack, scheduler_stack_bytes);
#endif
  (void)for_good;
  change(fiber, scheduler_fiber);
  arrived(fiber.sanitizer);
}

}  // namespace cuda_on_cpu
