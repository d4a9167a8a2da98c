#include "core/guard.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace fovea::guard {

[[noreturn]] void report(const char* what, std::size_t bytes, Place where) {
  std::string_view file = where.file;
  file = file.substr(file.rfind('/') + 1);
  std::fprintf(stderr, "fovea: %s, of %zu bytes\n  in %.*s:%d\n  please report this: memory would be damaged\n", what,
               bytes, static_cast<int>(file.size()), file.data(), where.line);
  std::abort();
}

#ifdef __SANITIZE_ADDRESS__

bool turn_on() { return true; }

void place(void* array, std::size_t bytes, std::size_t room, Place) {
  ASAN_UNPOISON_MEMORY_REGION(array, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(array) + bytes, room - bytes);
}

void check(void*, std::size_t) {}

#else

bool on = false;
bool turn_on() { return on = true; }

namespace {

constexpr std::byte kValue{0xa5};

struct Guard {
  std::size_t bytes;
  std::size_t of_array;
  Place where;

  bool operator==(const Guard& other) const {
    return bytes == other.bytes && of_array == other.of_array && where.line == other.where.line;
  }
};

// All guards there are, by address. Several threads carve the same memory, alike.
class Guards {
 public:
  void place(std::byte* begin, const Guard& guard, std::byte* array) {
    const std::lock_guard lock(mutex_);
    forget(array, begin);
    if (const auto same = guards_.find(begin); same != guards_.end() && same->second == guard) return check(*same);
    forget(begin, begin + guard.bytes);
    std::fill_n(begin, guard.bytes, kValue);
    guards_.insert_or_assign(begin, guard);
  }
  void take_back(std::byte* begin, std::byte* end) {
    const std::lock_guard lock(mutex_);
    forget(begin, end);
  }

 private:
  using Map = std::map<std::byte*, Guard>;

  static void check(const Map::value_type& entry) {
    const auto& [begin, guard] = entry;
    if (std::all_of(begin, begin + guard.bytes, [](std::byte b) { return b == kValue; })) return;
    report("something was written past the end of an array", guard.of_array, guard.where);
  }
  void forget(std::byte* begin, std::byte* end) {
    const auto first = guards_.lower_bound(begin), last = guards_.lower_bound(end);
    std::for_each(first, last, check);
    guards_.erase(first, last);
  }

  std::mutex mutex_;
  Map guards_;
};

Guards& guards() {
  static Guards& all = *new Guards;  // never destroyed: blocks come back until the very end
  return all;
}

}  // namespace

void place(void* array, std::size_t bytes, std::size_t room, Place where) {
  if (!on || room == bytes) return;
  auto* begin = static_cast<std::byte*>(array);
  guards().place(begin + bytes, {std::min(room - bytes, 2 * kBytes), bytes, where}, begin);
}

void check(void* block, std::size_t bytes) {
  if (!on) return;
  guards().take_back(static_cast<std::byte*>(block), static_cast<std::byte*>(block) + bytes);
}

#endif

}  // namespace fovea::guard
