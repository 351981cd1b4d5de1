// What do the accesses of a warp cost? Those that its lanes make in step are one request: sectors of global memory,
// wavefronts of shared memory.
#pragma once
#include <map>
#include "report.h"

namespace cuda_on_cpu {

constexpr int SECTOR = 32;                     // B; the unit in which global memory moves: Nsight Compute documentation
constexpr int BANKS = 32, BANK_BYTES = 4;      // of shared memory: CUDA C++ Programming Guide, compute capabilities

struct Site {                                  // one access as the compiled kernel has it
  uint64_t place;                              // a code address, or a line where `by_line`
  bool by_line, shared;
  Access kind;
  uint64_t bytes, requests, units, conflicts;  // units: sectors or wavefronts; conflicts: wavefronts beyond the least
};
struct Request {
  int bytes, lanes;
  uint8_t lane[32];
  uint64_t address[32];
};
struct Series {                                // the requests of one warp at one site since the last barrier
  std::vector<Request> requests;
  uint32_t done[32];                           // of each lane
};

static std::vector<Site> sites;
static std::map<std::pair<uint64_t, int>, int> site_numbers;
static std::vector<Series> series[MOST_THREADS / 32];         // by site

static int site_number(uint64_t place, bool by_line, bool shared, Access kind) {
  static uint64_t last_place;
  static int last_key = -1, last_number;
  const int key = (int)kind * 4 + shared * 2 + by_line;
  if (place == last_place && key == last_key) return last_number;
  auto [found, is_new] = site_numbers.try_emplace({place, key}, (int)sites.size());
  if (is_new) sites.push_back({place, by_line, shared, kind, 0, 0, 0, 0});
  last_place = place, last_key = key;
  return last_number = found->second;
}

static void request(int site, const void* address, int bytes) {
  const int warp = current->index / 32, lane = current->index % 32;
  if ((int)series[warp].size() <= site) series[warp].resize(site + 1);
  Series& mine = series[warp][site];
  const uint32_t number = mine.done[lane]++;
  if (mine.requests.size() <= number) mine.requests.push_back({bytes, 0, {}, {}});
  Request& shared = mine.requests[number];
  shared.lane[shared.lanes] = (uint8_t)lane;
  shared.address[shared.lanes++] = (uint64_t)address;
  sites[site].bytes += bytes;
}

static int sectors(const Request& request) {
  std::vector<uint64_t> touched;
  for (int i = 0; i < request.lanes; ++i)
    for (uint64_t at = request.address[i] / SECTOR; at <= (request.address[i] + request.bytes - 1) / SECTOR; ++at)
      if (touched.empty() || touched.back() != at) touched.push_back(at);
  std::sort(touched.begin(), touched.end());
  return (int)(std::unique(touched.begin(), touched.end()) - touched.begin());
}

// 32 lanes go at once with 4 bytes each, 16 with 8, 8 with 16; a bank serves one word at a time, to any lanes.
static void wavefronts(const Request& request, Site& site) {
  const int at_once = request.bytes <= 4 ? 32 : request.bytes <= 8 ? 16 : 8;
  for (int first = 0; first < 32; first += at_once) {
    std::vector<uint64_t> words;
    for (int i = 0; i < request.lanes; ++i)
      if (request.lane[i] >= first && request.lane[i] < first + at_once)
        for (int byte = 0; byte < request.bytes; byte += BANK_BYTES)
          words.push_back((request.address[i] + byte) / BANK_BYTES);
    if (words.empty()) continue;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int load[BANKS] = {}, most = 0;
    for (uint64_t word : words) most = std::max(most, ++load[word % BANKS]);
    site.units += most;
    site.conflicts += most - 1;
  }
}

// At a barrier the lanes are in step again: what they do next is a new request.
static void finish_requests() {
  for (auto& warp : series)
    for (size_t number = 0; number < warp.size(); ++number) {
      Series& mine = warp[number];
      if (mine.requests.empty()) continue;
      Site& site = sites[number];
      for (const Request& each : mine.requests) {
        ++site.requests;
        if (site.shared) wavefronts(each, site);
        else site.units += sectors(each);
      }
      mine.requests.clear();
      memset(mine.done, 0, sizeof mine.done);
    }
}

}  // namespace cuda_on_cpu
