#pragma once

#include <cstddef>
#include <cstdint>

#include "core/scratch.h"
#include "simd/matrix.h"
#include "simd/prefetch.h"

namespace fovea::scan {

// Features that are made of other rows where the engine needs them, a block of rows of one head at a time, and whose
// gradients go back the same way: of neither is there more at a time than a block. In f32, without causal order, on the
// CPU. Asked by several threads at once, each with a room of its own.
class FeatureSource {
 public:
  static constexpr std::size_t kMostRows = 32;  // of a block

  struct Block {
    std::int64_t batch, row, head;  // the first row
    std::size_t rows;
  };

  virtual ~FeatureSource() = default;
  virtual std::size_t room_bytes() const = 0;
  // Has what a block is made of on its way.
  virtual void fetch(const Block& block, Prefetch& next) const = 0;
  // The features of a block, in `to` or where they stand already. `next` is fetched meanwhile.
  virtual Matrix<const float> make(const Block& block, Matrix<float> to, Room room, Prefetch* next) const = 0;
  // Takes the gradient of the features that make() gave, and uses it up.
  virtual void pull(const Block& block, Matrix<const float> features, Matrix<float> gradient, Room room,
                    Prefetch* next) const = 0;
};

}  // namespace fovea::scan
