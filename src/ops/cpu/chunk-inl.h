// Elements of any floating type as R = float (double for double), a chunk at a time: in place when they already are,
// through a small buffer in L1 when they are half types. Kernels are then written, and compiled, for R alone.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_OPS_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_CHUNK_INL_H_
#undef FOVEA_OPS_CHUNK_INL_H_
#else
#define FOVEA_OPS_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "fovea/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kChunk = 512;

template <class T>
class ChunkIn {
 public:
  using R = Wide<T>;
  const R* read(const T* from, std::int64_t count) {
    if constexpr (std::is_same_v<T, R>)
      return from;
    else {
      for (std::int64_t i = 0; i < count; ++i) buffer_[i] = static_cast<R>(from[i]);
      return buffer_;
    }
  }

 private:
  alignas(64) R buffer_[std::is_same_v<T, R> ? 1 : kChunk];
};

template <class T>
class ChunkOut {
 public:
  using R = Wide<T>;
  R* place(T* to) {
    if constexpr (std::is_same_v<T, R>)
      return to;
    else
      return buffer_;
  }
  void write(T* to, std::int64_t count) {
    if constexpr (!std::is_same_v<T, R>)
      for (std::int64_t i = 0; i < count; ++i) to[i] = T(buffer_[i]);
  }

 private:
  alignas(64) R buffer_[std::is_same_v<T, R> ? 1 : kChunk];
};

// body(start, count) on the chunks of [begin, end).
template <class Body>
inline void for_chunks(std::int64_t begin, std::int64_t end, Body&& body) {
  for (std::int64_t i = begin; i < end; i += kChunk) body(i, std::min(kChunk, end - i));
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_CHUNK_INL_H_
