#include "core/wide.h"
#include "optim/update_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr std::int64_t kPiece = 1 << 14;  // elements that a block takes

// A part of the tensors of one parameter; those that a kernel does not use are null.
struct Piece {
  void *a, *b, *c, *d;
  std::int64_t count;
  double shrink, pull;
};

// All parameters of one type, cut into pieces.
class Pieces {
 public:
  explicit Pieces(DType dtype) : dtype_(dtype) {}

  void add(std::array<Tensor, 4> of, double shrink = 1.0, double pull = 0.0) {
    if (of[0].dtype() != dtype_) return;
    const auto size = static_cast<std::int64_t>(size_of(dtype_));
    for (std::int64_t begin = 0; begin < of[0].numel(); begin += kPiece) {
      const auto at = [&](const Tensor& t) -> void* {
        return t.defined() ? static_cast<std::byte*>(t.raw()) + begin * size : nullptr;
      };
      list_.push_back(
          {at(of[0]), at(of[1]), at(of[2]), at(of[3]), std::min(kPiece, of[0].numel() - begin), shrink, pull});
    }
  }
  const std::vector<Piece>& list() const { return list_; }

  // f(piece, i) for all elements: a block for each piece.
  template <class F>
  void each_element(const Context& context, const F& f) const {
    if (list_.empty()) return;
    const Uploaded<Piece> pieces = upload(context, list_);
    const Piece* const all = pieces.data();
    rows(context, pieces.size(), kPiece, [=] __device__(const auto& g) {
      const Piece piece = all[g.row];
      for (std::int64_t i = g.lane; i < piece.count; i += g.lanes) f(piece, i);
    });
  }

 private:
  DType dtype_;
  std::vector<Piece> list_;
};

template <class R>
Pieces pieces_of(const std::vector<Tensor>& a, const std::vector<Tensor>& b = {}) {
  Pieces pieces(dtype_of<R>);
  for (std::size_t i = 0; i < a.size(); ++i) pieces.add({a[i], b.empty() ? Tensor() : b[i], {}, {}});
  return pieces;
}

// f<R>() for both types that parameters have.
template <class F>
void for_types(const F& f) {
  f.template operator()<float>();
  f.template operator()<double>();
}

template <class R>
struct AdamW {
  R beta1, beta2, rest1, rest2, eps, step_size, root_size;

  explicit AdamW(const kernels::AdamWStep& step)
      : beta1(static_cast<R>(step.beta1)),
        beta2(static_cast<R>(step.beta2)),
        rest1(static_cast<R>(1.0 - step.beta1)),
        rest2(static_cast<R>(1.0 - step.beta2)),
        eps(static_cast<R>(step.eps)),
        step_size(static_cast<R>(step.step_size)),
        root_size(static_cast<R>(step.root_size)) {}

  __device__ void operator()(const Piece& piece, std::int64_t i) const {
    R &value = static_cast<R*>(piece.a)[i], &first = static_cast<R*>(piece.c)[i], &second = static_cast<R*>(piece.d)[i];
    const R g = static_cast<const R*>(piece.b)[i] + static_cast<R>(piece.pull) * value;
    first = beta1 * first + rest1 * g;
    second = beta2 * second + rest2 * g * g;
    value = static_cast<R>(piece.shrink) * value - step_size * first / (sqrt(second) * root_size + eps);
  }
};

template <class R>
struct Average {
  R share;
  __device__ void operator()(const Piece& piece, std::int64_t i) const {
    R& to = static_cast<R*>(piece.a)[i];
    const R from = static_cast<const R*>(piece.b)[i];
    to = share == R(1) ? from : to + share * (from - to);
  }
};

template <class R>
struct Swap {
  __device__ void operator()(const Piece& piece, std::int64_t i) const {
    R &a = static_cast<R*>(piece.a)[i], &b = static_cast<R*>(piece.b)[i];
    const R kept = a;
    a = b;
    b = kept;
  }
};

template <class R>
struct ClipNorm {
  const double* norm;
  double limit;
  __device__ void operator()(const Piece& piece, std::int64_t i) const {
    if (*norm > limit && isfinite(*norm)) static_cast<R*>(piece.a)[i] *= static_cast<R>(limit / *norm);
  }
};

template <class R>
struct ClipValue {
  R limit;
  __device__ void operator()(const Piece& piece, std::int64_t i) const {
    R& x = static_cast<R*>(piece.a)[i];
    x = x < -limit ? -limit : limit < x ? limit : x;  // NaN stays
  }
};

// to_p = the sum over the elements of piece p of f(x); to has a place for every piece.
template <class R, class F>
void sum_pieces(const Context& context, const std::vector<Piece>& list, double* to, const F& f) {
  if (list.empty()) return;
  const Uploaded<Piece> pieces = upload(context, list);
  const Piece* const all = pieces.data();
  rows(context, pieces.size(), kPiece, [=] __device__(const auto& g) {
    const Piece piece = all[g.row];
    double sum = 0.0;
    for (std::int64_t i = g.lane; i < piece.count; i += g.lanes) sum += f(static_cast<R*>(piece.a)[i]);
    sum = g.sum(sum);
    if (g.lane == 0) to[g.row] = sum;
  });
}

// put(the sum of f over all elements of all gradients).
template <class F, class Put>
void sum_gradients(const Context& context, const std::vector<Tensor>& grads, const F& f, const Put& put) {
  const Pieces narrow = pieces_of<float>(grads), wide = pieces_of<double>(grads);
  const std::size_t count = narrow.list().size() + wide.list().size();
  const DeviceScratch scratch(launch_of(context), count * sizeof(double));
  auto* const sums = static_cast<double*>(scratch.data());
  sum_pieces<float>(context, narrow.list(), sums, f);
  sum_pieces<double>(context, wide.list(), sums + narrow.list().size(), f);
  total(
      context, static_cast<std::int64_t>(count), [=] __device__(std::int64_t i) { return sums[i]; }, put);
}

struct Square {
  template <class R>
  __device__ double operator()(R x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

// Scales what it looks at; counts what was not finite.
struct ScaleAndCount {
  double factor;
  template <class R>
  __device__ double operator()(R& x) const {
    const bool finite = isfinite(x);
    x *= static_cast<R>(factor);
    return finite ? 0.0 : 1.0;
  }
};

void write_norm(const Context& context, const kernels::GradientNorm& io) {
  double* const norm = io.norm.data<double>();
  sum_gradients(context, io.grads, Square(), [=] __device__(double sum) { *norm = sqrt(sum); });
}

void write_finite(const Context& context, const kernels::Unscale& io) {
  double* const finite = io.finite.data<double>();
  sum_gradients(context, io.grads, ScaleAndCount{io.factor},
                [=] __device__(double strange) { *finite = strange == 0.0 ? 1.0 : 0.0; });
}

}  // namespace

template <>
void kernels::adamw<Device::cuda>(const Context& context, const AdamWUpdate& io) {
  for_types([&]<class R>() {
    Pieces pieces(dtype_of<R>);
    for (const AdamWTensors& p : io.parameters) pieces.add({p.value, p.grad, p.first, p.second}, p.shrink, p.pull);
    pieces.each_element(context, AdamW<R>(io.step));
  });
}

template <>
void kernels::move_averages<Device::cuda>(const Context& context, const AverageUpdate& io) {
  for_types([&]<class R>() {
    pieces_of<R>(io.averages, io.values).each_element(context, Average<R>{static_cast<R>(io.share)});
  });
}

template <>
void kernels::exchange<Device::cuda>(const Context& context, const Exchange& io) {
  for_types([&]<class R>() { pieces_of<R>(io.a, io.b).each_element(context, Swap<R>()); });
}

template <>
void kernels::gradient_norm<Device::cuda>(const Context& context, const GradientNorm& io) {
  write_norm(context, io);
}

template <>
void kernels::clip_norm<Device::cuda>(const Context& context, const NormClip& io) {
  for_types([&]<class R>() {
    pieces_of<R>(io.grads).each_element(context, ClipNorm<R>{io.norm.data<double>(), io.limit});
  });
}

template <>
void kernels::clip_value<Device::cuda>(const Context& context, const ValueClip& io) {
  for_types([&]<class R>() { pieces_of<R>(io.grads).each_element(context, ClipValue<R>{static_cast<R>(io.limit)}); });
}

template <>
void kernels::unscale<Device::cuda>(const Context& context, const Unscale& io) {
  write_finite(context, io);
}

}  // namespace fovea
