// What has a thread asked cp.async to copy that it has not waited for? Batches, oldest first.
#pragma once
#include <deque>
#include "scheduler.h"

namespace cuda_on_cpu {

struct Copy {
  char* to;
  const char* from;
  size_t bytes, zeros;
  int line;
};
struct Queue {
  std::vector<Copy> open;                      // not committed yet
  std::deque<std::vector<Copy>> committed;
};
static Queue queues[MOST_THREADS];

static void drop_copies(int lane) {
  queues[lane].open.clear();
  queues[lane].committed.clear();
}

void copy_later(void* to, const void* from, size_t bytes, size_t zeros, int line) {
  accessed(from, (int)(bytes - zeros), Access::Load, line);
  copy_began(to, (int)bytes, line);
  Lane* lane = current;
  current = nullptr;                           // what follows is not the kernel's doing
  memset(to, 0xff, bytes);                     // what a reader finds who does not wait
  current = lane;
  queues[current->index].open.push_back({(char*)to, (const char*)from, bytes, zeros, line});
}

void commit_copies() {
  Queue& queue = queues[current->index];
  queue.committed.push_back(std::move(queue.open));
  queue.open.clear();
}

void wait_for_copies(size_t but) {
  Queue& queue = queues[current->index];
  while (queue.committed.size() > but) {
    for (const Copy& copy : queue.committed.front()) {
      Lane* lane = current;
      current = nullptr;
      memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
      memset(copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
      current = lane;
      copy_ended(copy.to, (int)copy.bytes, copy.line);
    }
    queue.committed.pop_front();
  }
}

}  // namespace cuda_on_cpu
