#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fovea {

// A long text as token ids, wherever they lie.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;
  virtual void copy(std::int64_t begin, std::span<std::int32_t> out) const = 0;  // out.size() ids from `begin` on
};

class TokenList final : public TokenSource {
 public:
  explicit TokenList(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  std::int64_t size() const override { return std::ssize(ids_); }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override {
    std::copy_n(ids_.begin() + begin, out.size(), out.begin());
  }

 private:
  std::vector<std::int32_t> ids_;
};

}  // namespace fovea
