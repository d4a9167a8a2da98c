#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace fovea::text {

// A map from 64-bit keys that is filled once and then only read: one probe in one array, where std::unordered_map
// follows pointers. The key of all ones is not allowed.
template <class Value>
class FlatMap {
 public:
  void reserve(std::size_t count) { grow(std::bit_ceil(2 * count + 16)); }

  // False when the key is there already: its value stays.
  bool insert(std::uint64_t key, const Value& value) {
    if (2 * (count_ + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
    Slot& slot = slots_[place(key)];
    if (slot.key == key) return false;
    slot = {key, value};
    ++count_;
    return true;
  }

  const Value* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }
  Value* find(std::uint64_t key) { return const_cast<Value*>(static_cast<const FlatMap*>(this)->find(key)); }

  std::size_t size() const { return count_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::uint64_t hash = key * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    std::size_t at = hash & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void grow(std::size_t size) {
    if (size <= slots_.size()) return;
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(size, Slot{});
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

inline std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace fovea::text
