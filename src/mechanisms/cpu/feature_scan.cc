#include "mechanisms/feature_scan_kernels.h"

#include <algorithm>

#include "ops/cpu/features.h"
#include "scan/feature_source.h"
#include "simd/product.h"

namespace fovea {
namespace {

static_assert(scan::FeatureSource::kMostRows <= static_cast<std::size_t>(cpu::kFeatureBlock));

using Block = scan::FeatureSource::Block;

cpu::FeatureTask task_of(const Block& block) {
  return {block.batch, block.row, block.row + static_cast<std::int64_t>(block.rows), block.head, 0, block.row};
}

float* first_row(const Tensor& x, const Block& block) {
  return x.data<float>() + block.batch * x.stride(0) + block.row * x.stride(1) + block.head * x.stride(2);
}

void fetch_rows(const Tensor& x, const Block& block, Prefetch& next) {
  next.add(first_row(x, block), static_cast<std::size_t>(x.dim(3)) * sizeof(float),
           static_cast<std::size_t>(x.stride(1)) * sizeof(float), block.rows);
}

// Features of a forward pass.
class MadeFeatures final : public scan::FeatureSource {
 public:
  MadeFeatures(const Context& context, const kernels::FeatureForward& io) : rows_(cpu::prepared(context, io)) {}

  std::size_t room_bytes() const override { return cpu::feature_scratch_bytes(rows_.in); }
  void fetch(const Block& block, Prefetch& next) const override { fetch_rows(rows_.in.x, block, next); }
  Matrix<const float> make(const Block& block, Matrix<float> to, Room room, Prefetch* next) const override {
    cpu::feature_block(rows_, task_of(block), to, {room, next});
    return to;
  }
  void pull(const Block&, Matrix<const float>, Matrix<float>, Room, Prefetch*) const override {
    fail(ErrorCode::usage, "a forward pass takes no gradients", "features");
  }

 private:
  cpu::FeatureForward rows_;
};

// Those it left behind, for backward.
class KeptFeatures final : public scan::FeatureSource {
 public:
  KeptFeatures(const Context& context, const kernels::FeatureBackward& io) : rows_(cpu::prepared(context, io)) {}

  std::size_t room_bytes() const override { return cpu::feature_scratch_bytes(rows_.in); }
  void fetch(const Block& block, Prefetch& next) const override {
    fetch_rows(rows_.y, block, next);
    fetch_rows(rows_.in.x, block, next);
  }
  // Where they stand, if whole vectors do.
  Matrix<const float> make(const Block& block, Matrix<float> to, Room, Prefetch*) const override {
    const auto r = static_cast<std::size_t>(rows_.y.dim(3));
    const Matrix<const float> kept{first_row(rows_.y, block), static_cast<std::size_t>(rows_.y.stride(1))};
    if (r == padded<float>(r)) return kept;
    for (std::size_t i = 0; i < block.rows; ++i) std::fill(std::copy_n(kept.row(i), r, to.row(i)), to.row(i + 1), 0.0F);
    return to;
  }
  void pull(const Block& block, Matrix<const float> features, Matrix<float> gradient, Room room,
            Prefetch* next) const override {
    cpu::vjp_feature_block(rows_, task_of(block), {features, gradient}, {room, next});
  }

 private:
  cpu::FeatureBackward rows_;
};

}  // namespace

template <>
void kernels::feature_scan<Device::cpu>(const Context& context, const FeatureScan& io) {
  const MadeFeatures q(context, io.q), k(context, io.k);
  scan::forward(context, *io.problem, io.scan, {&q, &k});
}

template <>
void kernels::feature_scan_backward<Device::cpu>(const Context& context, const FeatureScanBackward& io) {
  const KeptFeatures q(context, io.q), k(context, io.k);
  scan::backward(context, *io.problem, io.scan, {&q, &k});
}

}  // namespace fovea
