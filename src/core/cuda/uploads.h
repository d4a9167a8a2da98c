#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cuda/memory.h"
#include "core/recording.h"

// Small data that the host makes once and the card keeps.
namespace fovea::device {

// Places arrays one after the other, then copies them at once.
class Uploader {
 public:
  template <class T>
  std::size_t place(const std::vector<T>& values) {
    const std::size_t at = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(at + values.size() * sizeof(T));
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T),
                bytes_.begin() + static_cast<std::ptrdiff_t>(at));
    return at;
  }
  // For every stream: a copy from ordinary memory may return before it has arrived, and waits for no other stream.
  DeviceBuffer upload() const {
    DeviceBuffer buffer(bytes_.size());
    if (bytes_.empty()) return buffer;
    check_cuda(cudaMemcpy(buffer.data(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice), "plans to the card");
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "plans to the card");
    return buffer;
  }

 private:
  std::vector<std::byte> bytes_;
};

// What was used last, up to a number.
template <class Key, class Value>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  // What a recording found it keeps.
  template <class Make>
  std::shared_ptr<const Value> find(const Key& key, Make&& make) {
    std::shared_ptr<const Value> value = look_up(key, make);
    if (Recording* const recording = Recording::current()) recording->keep(value);
    return value;
  }

 private:
  using Item = std::pair<Key, std::shared_ptr<const Value>>;

  template <class Make>
  std::shared_ptr<const Value> look_up(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto it = index_.find(key); it != index_.end()) {
      order_.splice(order_.begin(), order_, it->second);
      return it->second->second;
    }
    order_.emplace_front(key, make());
    index_[key] = order_.begin();
    if (order_.size() > most_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

  std::size_t most_;
  std::mutex mutex_;
  std::list<Item> order_;
  std::map<Key, typename std::list<Item>::iterator> index_;
};

}  // namespace fovea::device
