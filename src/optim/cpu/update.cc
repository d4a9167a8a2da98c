#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/update.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <atomic>
#include <cmath>

#include "hwy/highway.h"
#include "ops/work.h"
#include "optim/cpu/pieces.h"
#include "optim/update_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

using cpu::Piece;

// One pass: reads value, gradient and both moments once, writes three of them once. 28 bytes a parameter in f32.
template <class T>
void update(const cpu::AdamWNumbers& of, const kernels::AdamWTensors& io, const Piece& piece) {
  const auto beta1 = static_cast<T>(of.constants.beta1), beta2 = static_cast<T>(of.constants.beta2);
  const auto rest1 = static_cast<T>(1.0 - of.constants.beta1), rest2 = static_cast<T>(1.0 - of.constants.beta2);
  const auto eps = static_cast<T>(of.constants.eps), shrink = static_cast<T>(of.shrink), pull = static_cast<T>(io.pull);
  const auto step_size = static_cast<T>(of.pace.step_size), root_size = static_cast<T>(of.pace.root_size);
  T* HWY_RESTRICT value = io.value.data<T>() + piece.begin;
  T* HWY_RESTRICT first = io.first.data<T>() + piece.begin;
  T* HWY_RESTRICT second = io.second.data<T>() + piece.begin;
  const T* HWY_RESTRICT grad = io.grad.data<T>() + piece.begin;
  for (std::int64_t i = 0; i < piece.count(); ++i) {
    const T g = grad[i] + pull * value[i];
    const T m = beta1 * first[i] + rest1 * g;
    const T v = beta2 * second[i] + rest2 * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = shrink * value[i] - step_size * m / (std::sqrt(v) * root_size + eps);
  }
}

template <class T>
void average(const Tensor& average, const Tensor& value, const Piece& piece, double share) {
  T* HWY_RESTRICT to = average.data<T>() + piece.begin;
  const T* HWY_RESTRICT from = value.data<T>() + piece.begin;
  const auto part = static_cast<T>(share);
  if (share == 1.0)
    std::copy_n(from, piece.count(), to);
  else
    for (std::int64_t i = 0; i < piece.count(); ++i) to[i] += part * (from[i] - to[i]);
}

// x - x is 0 for a finite x, and NaN for the others.
template <class T>
bool scale_finite(T* HWY_RESTRICT x, double factor, std::int64_t count) {
  const auto by = static_cast<T>(factor);
  T rest = 0;
#pragma omp simd reduction(+ : rest)
  for (std::int64_t i = 0; i < count; ++i) {
    const T old = x[i];  // not the product: that could become a fused x * by - x, which is not 0 for subnormals
    rest += old - old;   // NOLINT(misc-redundant-expression): not for infinities and NaN
    x[i] = old * by;
  }
  return rest == 0;
}

template <class T>
double squares(const T* x, std::int64_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void update_piece(const cpu::AdamWNumbers& of, const kernels::AdamWTensors& io, const Piece& piece) {
  visit_wide(io.value.dtype(), [&]<class T>() { update<T>(of, io, piece); });
}

void average_piece(const Tensor& to, const Tensor& value, const Piece& piece, double share) {
  visit_wide(to.dtype(), [&]<class T>() { average<T>(to, value, piece, share); });
}

bool unscale_piece(const Tensor& grad, const Piece& piece, double factor) {
  return visit_wide(grad.dtype(),
                    [&]<class T>() { return scale_finite(grad.data<T>() + piece.begin, factor, piece.count()); });
}

double squares_of_piece(const Tensor& grad, const Piece& piece) {
  return visit_wide(grad.dtype(), [&]<class T>() { return squares(grad.data<T>() + piece.begin, piece.count()); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(update_piece);
HWY_EXPORT(average_piece);
HWY_EXPORT(unscale_piece);
HWY_EXPORT(squares_of_piece);

bool goes(const Tensor& go) { return !go.defined() || *go.data<std::int64_t>() != 0; }

// body(index, piece) on all pieces.
template <class Body>
void for_pieces(const Context& context, const std::vector<cpu::Piece>& pieces, const Body& body) {
  parallel_for(context, std::ssize(pieces), [&](std::int64_t index) {
    body(static_cast<std::size_t>(index), pieces[static_cast<std::size_t>(index)]);
  });
}

}  // namespace

template <>
void kernels::adamw<Device::cpu>(const Context& context, const AdamWUpdate& io) {
  if (!goes(io.go)) return;
  const auto update = HWY_DYNAMIC_DISPATCH(update_piece);
  const auto pieces =
      cpu::cut_into_pieces(io.parameters, [](const AdamWTensors& p) -> const Tensor& { return p.value; });
  const double* numbers = io.pace.data<double>();
  const AdamWPace pace{numbers[0], numbers[1], numbers[2]};
  for_pieces(context, pieces, [&](std::size_t, const cpu::Piece& piece) {
    const AdamWTensors& of = io.parameters[piece.tensor];
    update({io.constants, pace, 1.0 - pace.rate * of.decay}, of, piece);
  });
}

template <>
void kernels::move_averages<Device::cpu>(const Context& context, const AverageUpdate& io) {
  if (!goes(io.go)) return;
  const auto average = HWY_DYNAMIC_DISPATCH(average_piece);
  const double share = *io.share.data<double>();
  for_pieces(context, cpu::cut_into_pieces(io.averages), [&](std::size_t, const cpu::Piece& piece) {
    average(io.averages[piece.tensor], io.values[piece.tensor], piece, share);
  });
}

// On one thread: parallel loops may be stopped half way, and this must not be.
template <>
void kernels::exchange<Device::cpu>(const Context&, const Exchange& io) {
  for (std::size_t i = 0; i < io.a.size(); ++i) {
    auto *a = static_cast<std::byte*>(io.a[i].raw()), *b = static_cast<std::byte*>(io.b[i].raw());
    std::swap_ranges(a, a + io.a[i].bytes(), b);
  }
}

template <>
void kernels::gradient_norm<Device::cpu>(const Context& context, const GradientNorm& io) {
  const auto squares = HWY_DYNAMIC_DISPATCH(squares_of_piece);
  const std::vector<cpu::Piece> pieces = cpu::cut_into_pieces(io.grads);
  std::vector<double> sums(pieces.size());
  for_pieces(context, pieces,
             [&](std::size_t index, const cpu::Piece& piece) { sums[index] = squares(io.grads[piece.tensor], piece); });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  *io.norm.data<double>() = std::sqrt(total);
}

template <>
void kernels::clip_norm<Device::cpu>(const Context& context, const NormClip& io) {
  const double norm = *io.norm.data<double>();
  if (!(norm > io.limit) || !std::isfinite(norm)) return;
  for_pieces(context, cpu::cut_into_pieces(io.grads), [&](std::size_t, const cpu::Piece& piece) {
    visit_wide(io.grads[piece.tensor].dtype(), [&]<class T>() {
      T* grad = io.grads[piece.tensor].data<T>();
      const auto factor = static_cast<T>(io.limit / norm);
      for (std::int64_t i = piece.begin; i < piece.end; ++i) grad[i] *= factor;
    });
  });
}

template <>
void kernels::clip_value<Device::cpu>(const Context& context, const ValueClip& io) {
  if (!goes(io.go)) return;
  for_pieces(context, cpu::cut_into_pieces(io.grads), [&](std::size_t, const cpu::Piece& piece) {
    visit_wide(io.grads[piece.tensor].dtype(), [&]<class T>() {
      T* grad = io.grads[piece.tensor].data<T>();
      const auto most = static_cast<T>(io.limit);
      for (std::int64_t i = piece.begin; i < piece.end; ++i) grad[i] = std::clamp(grad[i], -most, most);
    });
  });
}

template <>
void kernels::unscale<Device::cpu>(const Context& context, const Unscale& io) {
  const auto unscale = HWY_DYNAMIC_DISPATCH(unscale_piece);
  std::atomic<bool> finite{true};
  const double factor = *io.factor.data<double>();
  for_pieces(context, cpu::cut_into_pieces(io.grads), [&](std::size_t, const cpu::Piece& piece) {
    if (!unscale(io.grads[piece.tensor], piece, factor)) finite.store(false, std::memory_order_relaxed);
  });
  *io.finite.data<double>() = finite ? 1.0 : 0.0;
}

}  // namespace fovea
#endif  // HWY_ONCE
