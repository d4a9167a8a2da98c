#include "fovea/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/guard.h"
#include "fovea/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace fovea {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Rounds up to one of four steps per power of two, so that blocks of similar size can stand in for each other.
std::size_t size_class(std::size_t bytes) {
  bytes = std::max(bytes, kAlign);
  const std::size_t step = std::max(kAlign, std::bit_floor(bytes) / 4);
  return (bytes + step - 1) / step * step;
}

// Under the address sanitizer blocks that wait for reuse cannot be touched.
void hide([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

void show([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string megabytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

}  // namespace

Allocator::Allocator(Options options) : options_(options) {
  if (options_.limit == 0) options_.limit = machine_memory();
}

Allocator::~Allocator() { trim(); }

Allocator::Block Allocator::allocate(std::size_t bytes, Lifetime lifetime) {
  if (bytes > options_.limit)  // also keeps the rounding below from overflowing
    fail(ErrorCode::out_of_memory,
         "cannot allocate " + megabytes(bytes) + "; the limit is " + megabytes(options_.limit), {},
         "a shorter sequence, a smaller batch, or a mechanism of linear cost (fovea list)");
  const std::size_t rounded = size_class(bytes);
  void* data = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (total_.now + rounded > options_.limit)
      fail(ErrorCode::out_of_memory,
           "out of memory: " + megabytes(total_.now) + " in use, " + megabytes(rounded) + " more asked for, limit " +
               megabytes(options_.limit),
           {}, "a shorter sequence, a smaller batch, or a mechanism of linear cost (fovea list)");
    data = take_cached(rounded);
    if (data == nullptr) data = map_fresh(rounded);
    count(lifetime, rounded);
  }
  show(data, rounded);
  if (options_.poison) std::memset(data, 0xff, rounded);  // all ones is a NaN in every floating type
  guard::place(data, bytes, rounded + guard::gap(), std::source_location::current());
  return {data, rounded, lifetime};
}

void Allocator::release(const Block& block) {
  if (block.data == nullptr) return;
  guard::check(block.data, block.bytes + guard::gap());
  hide(block.data, block.bytes);
  const std::lock_guard lock(mutex_);
  cached_[block.bytes].push_back(block.data);
  use_[static_cast<std::size_t>(block.lifetime)].now -= block.bytes;
  total_.now -= block.bytes;
}

void* Allocator::take_cached(std::size_t bytes) {
  const auto it = cached_.find(bytes);
  if (it == cached_.end() || it->second.empty()) return nullptr;
  void* data = it->second.back();
  it->second.pop_back();
  return data;
}

void* Allocator::map_fresh(std::size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const std::size_t align = huge ? kHugePage : kAlign;
  const std::size_t mapped = (bytes + guard::gap() + align - 1) / align * align;
  void* data = std::aligned_alloc(align, mapped);
  if (data == nullptr) fail(ErrorCode::out_of_memory, "the system refused " + megabytes(bytes));
  hide(data, mapped);
  if (huge) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: small pages work too
  return data;
}

void Allocator::count(Lifetime lifetime, std::size_t bytes) {
  for (MemoryUse* use : {&use_[static_cast<std::size_t>(lifetime)], &total_}) {
    use->now += bytes;
    use->peak = std::max(use->peak, use->now);
  }
}

MemoryUse Allocator::use(Lifetime lifetime) const {
  const std::lock_guard lock(mutex_);
  return use_[static_cast<std::size_t>(lifetime)];
}

MemoryUse Allocator::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

void Allocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (MemoryUse& use : use_) use.peak = use.now;
  total_.peak = total_.now;
}

void Allocator::trim() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : cached_)
    for (void* data : blocks) std::free(data);
  cached_.clear();
}

}  // namespace fovea
