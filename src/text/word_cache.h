#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/model.h"

namespace fovea::text {

// The tokens of words seen before. Words repeat: in English text 97 of 100 are found here. Fixed in size, without
// allocations; a word takes the place of another one that has the same slot.
class WordCache {
 public:
  // False: not there, or too long to be kept.
  bool find(std::string_view word, std::vector<Token>& tokens) const {
    if (word.size() > kLongest) return false;
    const Slot& slot = slots_[place(word)];
    if (slot.size != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return false;
    for (std::size_t i = 0; i < slot.count; ++i) tokens.push_back({slot.ids[i], {slot.begins[i], slot.ends[i]}});
    return true;
  }

  void keep(std::string_view word, std::span<const Token> tokens) {
    if (word.empty() || word.size() > kLongest || tokens.size() > kMost) return;
    Slot& slot = slots_[place(word)];
    slot.size = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(slot.word.data(), word.data(), word.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      slot.ids[i] = tokens[i].id;
      slot.begins[i] = static_cast<std::uint8_t>(tokens[i].range.begin);
      slot.ends[i] = static_cast<std::uint8_t>(tokens[i].range.end);
    }
  }

 private:
  static constexpr std::size_t kSlots = 1 << 15;  // 4 MB
  static constexpr std::size_t kLongest = 50, kMost = 12;

  struct Slot {
    std::uint8_t size = 0, count = 0;  // size 0: empty
    std::array<char, kLongest> word;
    std::array<std::uint8_t, kMost> begins, ends;
    std::array<std::int32_t, kMost> ids;
  };

  static std::size_t place(std::string_view word) {
    std::uint64_t hash = word.size();
    const char* next = word.data();
    std::size_t left = word.size();
    const auto mix = [&](std::uint64_t part) {
      hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    };
    for (; left >= 8; next += 8, left -= 8) {
      std::uint64_t part;
      std::memcpy(&part, next, 8);
      mix(part);
    }
    std::uint64_t part = 0;
    std::memcpy(&part, next, left);
    mix(part);
    return (hash ^ hash >> 32) & (kSlots - 1);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace fovea::text
