// How does the runner say what went wrong? One line of JSON in its findings file, then it ends at once.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include "memory.h"
#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif
#include <dlfcn.h>

namespace cuda_on_cpu {

constexpr int FOUND = 3, UNWRITTEN = 4;        // exit status: there is a finding; a file cannot be written
constexpr long MOST_PRINTED = 1 << 20;         // B; CUDA's printf buffer holds as much by default

static const char* findings_path;
static bool overflows_stack(const void* address);     // in scheduler.h

static std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') result += '\\';
    result += (unsigned char)*text < ' ' ? ' ' : *text;
  }
  return result + '"';
}

static void* load_address() {
  Dl_info info;
  return dladdr((void*)&quoted, &info) ? info.dli_fbase : nullptr;
}

// Takes what has been found as the members of a JSON object; the functions below it give some of them.
[[noreturn]] static void found(const std::string& members) {
  std::string text = "{" + members;
  char number[200];
  if (current) {
    snprintf(number, sizeof number, ", \"block\": [%u, %u, %u], \"thread\": [%u, %u, %u]", block_index.x, block_index.y,
             block_index.z, current->thread.x, current->thread.y, current->thread.z);
    text += number;
  }
  text += "}";
  const int file = open(findings_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || write(file, text.data(), text.size()) < 0) _exit(UNWRITTEN);
  fflush(stdout);
  _exit(FOUND);
}

static std::string code_address(void* pc) {
  char text[100];
  snprintf(text, sizeof text, ", \"pc\": %llu, \"base\": %llu", (unsigned long long)pc,
           (unsigned long long)load_address());
  return text;
}

static std::string memory_address(const void* address) {
  char text[200];
  const Region* region = nearest_region(address);
  if (!region) return "";
  snprintf(text, sizeof text, ", \"argument\": %d, \"offset\": %lld, \"nbytes\": %zu", region->argument,
           (long long)((const char*)address - region->start), region->bytes);
  return text;
}

void fail(int line, const char* format, ...) {
  char text[1000];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  found("\"kind\": \"broken\", \"text\": " + quoted(text) + ", \"line\": " + std::to_string(line));
}

int print(const char* format, ...) {
  static long printed;
  if (printed >= MOST_PRINTED) return 0;
  va_list values;
  va_start(values, format);
  const int length = vprintf(format, values);
  va_end(values);
  printed += length;
  if (printed >= MOST_PRINTED) puts("\n(printf: the rest is left out)");
  return length;
}

static void* interrupted_at(void* context) {
#if defined(__APPLE__) && defined(__x86_64__)
  return (void*)((ucontext_t*)context)->uc_mcontext->__ss.__rip;
#elif defined(__APPLE__)
  return (void*)((ucontext_t*)context)->uc_mcontext->__ss.__pc;
#elif defined(__x86_64__)
  return (void*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (void*)((ucontext_t*)context)->uc_mcontext.pc;
#else
  return nullptr;
#endif
}

static void on_signal(int number, siginfo_t* info, void* context) {
  std::string text = "\"kind\": \"signal\", \"signal\": " + std::to_string(number);
  text += code_address(interrupted_at(context));
  if (number == SIGSEGV || number == SIGBUS)
    text += overflows_stack(info->si_addr) ? ", \"stack\": true" : memory_address(info->si_addr);
  found(text);
}

static void watch_signals() {
  static char stack[64 << 10];                 // the fiber's own may be what has overflowed
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace cuda_on_cpu

#if defined(CUDA_ON_CPU_ASAN)

extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:symbolize=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
         "detect_stack_use_after_return=0:verify_asan_link_order=0";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=0:symbolize=0"; }
extern "C" void __ubsan_get_current_report_data(const char** kind, const char** message, const char** file,
                                                unsigned* line, unsigned* column, char** address);

extern "C" void __ubsan_on_report() {
  const char *kind, *message, *file;
  unsigned line, column;
  char* address;
  __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
  cuda_on_cpu::found("\"kind\": \"undefined\", \"what\": " + cuda_on_cpu::quoted(kind) + ", \"text\": " +
                     cuda_on_cpu::quoted(message) + ", \"file\": " + cuda_on_cpu::quoted(file) + ", \"line\": " +
                     std::to_string(line) + cuda_on_cpu::memory_address(address));
}

static void on_address(const char*) {
  char name[200] = "";
  void *start = nullptr, *address = __asan_get_report_address();
  size_t bytes = 0;
  const char* storage = __asan_locate_address(address, name, sizeof name, &start, &bytes);
  cuda_on_cpu::found(
      "\"kind\": \"address\", \"what\": " + cuda_on_cpu::quoted(__asan_get_report_description()) +
      ", \"write\": " + (__asan_get_report_access_type() ? "true" : "false") +
      ", \"bytes\": " + std::to_string(__asan_get_report_access_size()) +
      ", \"storage\": " + cuda_on_cpu::quoted(storage) + ", \"name\": " + cuda_on_cpu::quoted(name) +
      cuda_on_cpu::code_address(__asan_get_report_pc()) +
      cuda_on_cpu::memory_address(address));
}

#endif
