#pragma once

#include <cstddef>

namespace fovea {

// Rows that will be needed next, fetched a few cache lines at a time between micro-tiles of the current work. One burst
// gains 3 to 4% on linear attention at n 16384, spreading it gains 8 to 14%.
class Prefetch {
 public:
  static constexpr std::size_t kLine = 64;

  void clear() {
    ranges_ = current_ = 0;
    offset_ = lines_ = 0;
  }
  // `rows` rows of `bytes` bytes, `stride` bytes apart. What does not fit is ignored: prefetching is advice.
  void add(const void* data, std::size_t bytes, std::size_t stride, std::size_t rows) {
    if (ranges_ == kMaxRanges || rows == 0 || bytes == 0) return;
    range_[ranges_++] = {static_cast<const char*>(data), bytes, stride, rows};
    lines_ += rows * ((bytes + kLine - 1) / kLine);
  }
  // Sets the pace so that everything is fetched within this many calls of some().
  void spread(std::size_t calls) { pace_ = static_cast<int>(lines_ / (calls + 1)) + 1; }
  // The next few lines.
  void some() {
    for (int i = 0; i < pace_ && current_ < ranges_; ++i) step();
  }

 private:
  static constexpr int kMaxRanges = 8;
  struct Range {
    const char* data;
    std::size_t bytes, stride, rows;
  };

  void step() {
    Range& range = range_[current_];
    __builtin_prefetch(range.data + offset_);
    offset_ += kLine;
    if (offset_ < range.bytes) return;
    offset_ = 0;
    range.data += range.stride;
    if (--range.rows == 0) ++current_;
  }

  Range range_[kMaxRanges];
  int ranges_ = 0, current_ = 0;
  int pace_ = 6;
  std::size_t offset_ = 0, lines_ = 0;
};

}  // namespace fovea
