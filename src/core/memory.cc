#include "fovea/memory.h"

#include <algorithm>
#include <bit>
#include <string>

#include "core/guard.h"
#include "core/visit_device.h"
#include "fovea/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace fovea {
namespace {

constexpr std::size_t kAlign = 64;

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

std::string megabytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

}  // namespace

Allocator::Allocator(Options options, std::shared_ptr<Memory> memory)
    : options_(options), memory_(std::move(memory)), host_(kernels_of(memory_->device()) == Device::cpu) {
  if (options_.limit == 0) options_.limit = memory_->size();
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
  if (host_) show(data, rounded);
  if (options_.poison) memory_->fill(data, 0xff, rounded);  // all ones is a NaN in every floating type
  if (host_) {
    const OpenMemory open(*memory_);
    guard::place(data, bytes, rounded + gap(), guard::Place::current());
  }
  return {data, rounded, lifetime};
}

void Allocator::release(const Block& block) {
  if (block.data == nullptr) return;
  if (host_) {
    const OpenMemory open(*memory_);
    guard::check(block.data, block.bytes + gap());
    hide(block.data, block.bytes);
  }
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

std::size_t Allocator::gap() const { return host_ ? guard::gap() : 0; }

void* Allocator::map_fresh(std::size_t bytes) {
  void* data = memory_->map(bytes + gap());
  if (data == nullptr) {  // blocks that wait for reuse may be what is missing
    unmap_cached();
    data = memory_->map(bytes + gap());
  }
  if (data == nullptr)
    fail(ErrorCode::out_of_memory,
         "out of memory: " + megabytes(total_.now) + " in use, " + megabytes(bytes) + " more asked for, " +
             megabytes(memory_->available()) + " free",
         std::string(name_of(memory_->device())),
         "a shorter sequence, a smaller batch, or a mechanism of linear cost (fovea list)");
  if (host_) hide(data, bytes + gap());
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
  unmap_cached();
}

void Allocator::unmap_cached() {
  for (auto& [size, blocks] : cached_)
    for (void* data : blocks) memory_->unmap(data, size + gap());
  cached_.clear();
}

}  // namespace fovea
