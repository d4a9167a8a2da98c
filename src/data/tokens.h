#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
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

// Only a part of another source.
class TokenPart final : public TokenSource {
 public:
  TokenPart(std::shared_ptr<const TokenSource> whole, std::int64_t begin, std::int64_t size)
      : whole_(std::move(whole)), begin_(begin), size_(size) {}
  std::int64_t size() const override { return size_; }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override { whole_->copy(begin_ + begin, out); }

 private:
  std::shared_ptr<const TokenSource> whole_;
  std::int64_t begin_, size_;
};

}  // namespace fovea
