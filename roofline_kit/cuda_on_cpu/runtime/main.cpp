// What does the program do that a kernel is linked into? Reads one call from a file, runs it, writes the arrays back.
#include <sys/time.h>
#include "memory.h"
//
#include "report.h"
#include "tracing.h"
#include "scheduler.h"
#include "warp.h"
#include "copies.h"

namespace cuda_on_cpu {

#if defined(CUDA_ON_CPU_COUNT)
uint64_t flops;
#endif

enum Kind : int64_t { Scalar, ReadOnly, Writable };
constexpr long MOST_STATIC_SHARED = 48 << 10;  // B; the same for every architecture: CUDA C++ Programming Guide
constexpr size_t MOST_SCALAR = 4096;           // B of all parameters of a kernel: CUDA C++ Programming Guide
struct Header { int64_t grid[3], block[3], shared, order, seed, parent, arguments; };
struct Argument { int64_t kind, bytes, itemsize, first; };     // first: the argument that is the same memory

static void get(FILE* file, void* to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, file) != bytes) _exit(1);
}

static const Kernel& find(const char* name) {
  for (int i = 0; i < kernel_count; ++i)
    if (!strcmp(kernels[i].name, name)) return kernels[i];
  _exit(1);
}

static int list_kernels() {
  for (int i = 0; i < kernel_count; ++i) printf("%s: %s\n", kernels[i].name, kernels[i].parameters.c_str());
  return 0;
}

static void write_results(const char* path, const std::vector<Argument>& arguments) {
  FILE* file = fopen(path, "wb");
  if (!file) _exit(UNWRITTEN);
  for (const Region& region : regions)
    for (const Argument& argument : arguments)
      if (argument.first == region.argument && argument.kind == Writable) {
        if (fwrite(region.start, 1, region.bytes, file) != region.bytes) _exit(UNWRITTEN);
        break;
      }
  if (fclose(file)) _exit(UNWRITTEN);
}

static void write_findings() {
  FILE* file = fopen(findings_path, "w");
  if (!file) _exit(UNWRITTEN);
  fputs("{\"kind\": \"done\"", file);
  for (const Region& region : regions)
    if (const char* stray = stray_store(region)) {
      fprintf(file, ", \"stray\": true%s", memory_address(stray).c_str());
      break;
    }
#if defined(CUDA_ON_CPU_COUNT)
  fprintf(file, ", \"flops\": %llu", (unsigned long long)flops);
#endif
  write_trace(file);
  fputs("}", file);
  if (fclose(file)) _exit(UNWRITTEN);
}

static pid_t parent;

// An interrupt reaches only Python, which ends this program; but who ends it when Python itself was killed?
static void follow_parent(pid_t process) {
  parent = process;
  struct sigaction action = {};
  action.sa_handler = [](int) { if (getppid() != parent) _exit(1); };
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval each_second = {{1, 0}, {1, 0}};
  setitimer(ITIMER_REAL, &each_second, nullptr);
}

// One kernel's static shared memory; where a source has several, theirs cannot be told apart.
static void limit_shared() {
#if !defined(CUDA_ON_CPU_COUNT)                // whose numbers are objects, which need a note of whether they are made
  const long bytes = shared_end - shared_start;
  if (kernel_count == 1 && bytes > MOST_STATIC_SHARED)
    found("\"kind\": \"static\", \"bytes\": " + std::to_string(bytes));
#endif
}

static int run(const char* name, const char* job, const char* results, const char* findings) {
  findings_path = findings;
  watch_signals();
#if defined(CUDA_ON_CPU_ASAN)
  __asan_set_error_report_callback(on_address);
#endif
  FILE* file = fopen(job, "rb");
  if (!file) return 1;
  Header header;
  get(file, &header, sizeof header);
  follow_parent((pid_t)header.parent);
  std::vector<Argument> arguments(header.arguments);
  get(file, arguments.data(), arguments.size() * sizeof(Argument));
  std::vector<char*> memory;
  std::vector<void*> values;
  for (const Argument& argument : arguments) {
    const int number = (int)memory.size();
    if (argument.first != number) {
      memory.push_back(memory[argument.first]);
      continue;
    }
    char* place = argument.kind == Scalar ? (char*)malloc(MOST_SCALAR) : guarded(argument.bytes, number);
    if (!place) found("\"kind\": \"memory\"");
    get(file, place, argument.bytes);
    if (argument.kind != Scalar) regions.push_back({number, place, (size_t)argument.bytes, (int)argument.itemsize});
    memory.push_back(place);
  }
  fclose(file);
  for (size_t i = 0; i < memory.size(); ++i)
    values.push_back(arguments[i].kind == Scalar ? memory[i] : (void*)&memory[i]);
  regions.push_back({DYNAMIC_SHARED, dynamic_shared, (size_t)header.shared, 0});
  grid_size = dim3(header.grid[0], header.grid[1], header.grid[2]);
  block_size = dim3(header.block[0], header.block[1], header.block[2]);
  order = (Order)header.order;
  random_state = 88172645463325252ull + header.seed;
  find_shared();
  limit_shared();
  begin_trace();
  run_grid(find(name), values.data(), header.shared);
  write_results(results, arguments);
  write_findings();
  return 0;
}

}  // namespace cuda_on_cpu

int main(int count, char** words) {
  return count == 5 ? cuda_on_cpu::run(words[1], words[2], words[3], words[4]) : cuda_on_cpu::list_kernels();
}
