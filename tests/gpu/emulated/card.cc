#include "gpu/emulated/card.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace fovea::emulated {

Place here;

namespace {

constexpr std::size_t kStack = 256 * 1024, kShared = 228 * 1024;
constexpr unsigned kMostThreads = 1024;
alignas(1024) std::byte shared_bytes[kShared];
std::size_t shared_size = 0;

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "emulated card: %s, thread %u of block (%u, %u, %u)\n", why, here.thread.x, here.block_index.x,
               here.block_index.y, here.block_index.z);
  std::abort();
}

// Threads that wait for each other: the last to arrive lets all go on.
struct Barrier {
  unsigned members = 0, arrived = 0;
  std::uint64_t round = 0;

  bool arrive() {
    if (++arrived < members) return false;
    open();
    return true;
  }
  void leave() {
    --members;
    if (members > 0 && arrived == members) open();
  }
  void open() { arrived = 0, ++round; }
};

struct Warp {
  Barrier barrier;
  std::array<std::array<Words, 32>, 2> words;  // of this exchange and the one before, which some still read
};

struct Thread {
  std::jmp_buf at;
  ucontext_t first;
  bool begun = false, done = false;
  const Barrier* waits_for = nullptr;
  std::uint64_t round = 0;
  unsigned exchanges = 0;
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};

std::vector<Thread> threads;
std::vector<Warp> warps;
Barrier block;
std::jmp_buf scheduler;
const std::function<void()>* body = nullptr;

Thread& current() { return threads[here.thread.x]; }
Warp& own_warp() { return warps[here.thread.x / 32]; }

std::byte* stacks() {
  static void* const memory =
      mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) stop("no memory for stacks");
  return static_cast<std::byte*>(memory);
}

void begin_thread() {
  (*body)();
  current().done = true;
  block.leave();
  own_warp().barrier.leave();
  _longjmp(scheduler, 1);
}

[[gnu::noinline]] void wait_at(Barrier& barrier) {
  const std::uint64_t round = barrier.round;
  if (barrier.arrive()) return;
  Thread& self = current();
  self.waits_for = &barrier, self.round = round;
  if (_setjmp(self.at) == 0) _longjmp(scheduler, 1);
}

[[gnu::noinline]] void go_on(unsigned index) {
  here.thread.x = index;
  Thread& thread = threads[index];
  if (_setjmp(scheduler) != 0) return;
  if (thread.begun) _longjmp(thread.at, 1);
  thread.begun = true;
  getcontext(&thread.first);
  thread.first.uc_stack.ss_sp = stacks() + kStack * index;
  thread.first.uc_stack.ss_size = kStack;
  thread.first.uc_link = nullptr;
  makecontext(&thread.first, begin_thread, 0);
  setcontext(&thread.first);
}

void run_block(unsigned count, bool backwards) {
  std::memset(shared_bytes, 0xff, shared_size);
  threads.assign(count, {});
  warps.assign((count + 31) / 32, {});
  block = {count};
  for (unsigned w = 0; w < warps.size(); ++w) warps[w].barrier.members = std::min(32u, count - 32 * w);
  while (block.members > 0) {
    bool any = false;
    for (unsigned i = 0; i < count; ++i) {
      const unsigned index = backwards ? count - 1 - i : i;
      Thread& thread = threads[index];
      if (thread.done || (thread.waits_for != nullptr && thread.waits_for->round == thread.round)) continue;
      thread.waits_for = nullptr, any = true;
      go_on(index);
    }
    if (!any) stop("threads wait for each other for ever");
  }
}

}  // namespace

std::byte* shared_memory() { return shared_bytes; }

std::byte* shared_at(std::uint32_t address, std::size_t bytes) {
  if (address % bytes != 0) stop("an address in shared memory is not aligned");
  if (address + bytes > shared_size) stop("an address is beyond shared memory");
  return shared_bytes + address;
}

void await_block() { wait_at(block); }
void await_warp() { wait_at(own_warp().barrier); }

const Words* exchange(const Words& mine) {
  auto& words = own_warp().words[current().exchanges++ % 2];
  words[here.thread.x % 32] = mine;
  await_warp();
  return words.data();
}

void begin_copy(const Copy& copy) {
  if (reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes != 0) stop("the source of a copy is not aligned");
  current().open.push_back(copy);
}

void commit_copies() {
  current().groups.push_back(std::move(current().open));
  current().open.clear();
}

void await_copies(int open) {
  auto& groups = current().groups;
  while (std::ssize(groups) > open) {
    for (const Copy& copy : groups.front()) {
      std::byte* to = shared_at(copy.to, copy.bytes);
      copy.exists ? std::memcpy(to, copy.from, copy.bytes) : std::memset(to, 0, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}

void Launch::run(const std::function<void()>& thread) const {
  static bool backwards = true;
  backwards = !backwards;
  if (block.x == 0 || block.x > kMostThreads || block.y != 1 || block.z != 1) stop("a block of so many threads");
  if (bytes > kShared) stop("more shared memory than a card has");
  here.grid = grid, here.block = block, body = &thread, shared_size = bytes;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        here.block_index = dim3(x, y, z);
        run_block(block.x, backwards);
      }
}

}  // namespace fovea::emulated

using namespace fovea::emulated;

unsigned __ballot_sync(unsigned, bool mine) {
  const Words* all = exchange({{mine ? 1u : 0u}});
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= all[lane].word[0] << lane;
  return bits;
}

int __syncthreads_or(int mine) {
  static int any;
  await_block();
  if (threadIdx.x == 0) any = 0;
  await_block();
  any |= mine;
  await_block();
  return any;
}

// The runtime's functions that the engines call: memory of the card is the host's, and fresh memory NaN.
extern "C" {
cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  const std::size_t whole = (bytes / 256 + 1) * 256;
  *at = std::aligned_alloc(256, whole);
  if (*at == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*at, 0xff, whole);
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
cudaError_t cudaFreeAsync(void* at, cudaStream_t) { return cudaFree(at); }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  std::memset(at, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// A card of the kind that has kernels of every sort.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 227 * 1024;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 30;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated card"; }
const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
}
