#pragma once

#include <cstdint>
#include <string_view>

#include "text/flat_map.h"

namespace fovea::text {

// Strings with a number each; finds those that a text begins with, shortest first.
class Trie {
 public:
  void insert(std::string_view key, std::int32_t value) {
    std::uint32_t node = 0;
    for (const char byte : key) {
      const std::uint64_t edge = edge_of(node, byte);
      Node* next = nodes_.find(edge);
      if (next == nullptr) {
        nodes_.insert(edge, {++last_, kNone});
        next = nodes_.find(edge);
      }
      node = next->number;
    }
    if (!key.empty()) *value_of(key) = value;
  }

  // visit(size, value) for each string that text begins with.
  template <class Visit>
  void prefixes(std::string_view text, Visit&& visit) const {
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const Node* next = nodes_.find(edge_of(node, text[at]));
      if (next == nullptr) return;
      node = next->number;
      if (next->value != kNone) visit(at + 1, next->value);
    }
  }

  bool empty() const { return last_ == 0; }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Node {
    std::uint32_t number = 0;
    std::int32_t value = kNone;
  };

  static std::uint64_t edge_of(std::uint32_t node, char byte) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
  }
  std::int32_t* value_of(std::string_view key) {
    std::uint32_t node = 0;
    Node* found = nullptr;
    for (const char byte : key) {
      found = nodes_.find(edge_of(node, byte));
      node = found->number;
    }
    return &found->value;
  }

  FlatMap<Node> nodes_;
  std::uint32_t last_ = 0;
};

}  // namespace fovea::text
