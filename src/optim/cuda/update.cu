#include "core/wide.h"
#include "optim/update_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// The tensors of one parameter, or a part of them; those that a kernel does not use are null.
struct Part {
  void *a, *b, *c, *d;
  std::int64_t count;
  double decay, l2;
};

// Null: go on.
const std::int64_t* pointer_to(const Tensor& go) { return go.defined() ? go.data<std::int64_t>() : nullptr; }

// A block goes through one part, unless it is told not to.
template <class F>
struct EachElement {
  const Part* all;
  const std::int64_t* go;
  F f;
  template <class G>
  __device__ void operator()(const G& g) const {
    if (go != nullptr && *go == 0) return;
    const Part part = all[g.row];
    for (std::int64_t i = g.lane; i < part.count; i += g.lanes) f(part, i);
  }
};
template <class R, class F>
struct SumElements {
  const Part* all;
  double* to;
  F f;
  template <class G>
  __device__ void operator()(const G& g) const {
    const Part part = all[g.row];
    double sum = 0.0;
    for (std::int64_t i = g.lane; i < part.count; i += g.lanes) sum += f(static_cast<R*>(part.a)[i]);
    sum = g.sum(sum);
    if (g.lane == 0) to[g.row] = sum;
  }
};

// All parameters of one type, cut into parts for the blocks of a card.
class Parts {
 public:
  explicit Parts(DType dtype) : dtype_(dtype) {}

  void add(const std::array<Tensor, 4>& of, double decay = 0.0, double l2 = 0.0) {
    if (of[0].dtype() != dtype_ || of[0].numel() == 0) return;
    whole_.push_back({of[0].raw(), of[1].raw(), of[2].raw(), of[3].raw(), of[0].numel(), decay, l2});
  }

  // Some 2000 in all, of 1024 elements or more: what a thread does one after the other is what a small model waits for.
  std::vector<Part> cut() const {
    constexpr std::int64_t kWanted = 2048, kLeast = 1024;
    std::int64_t total = 0;
    for (const Part& p : whole_) total += p.count;
    const std::int64_t length = (total / kWanted + kLeast) / kLeast * kLeast;
    std::vector<Part> list;
    for (const Part& p : whole_)
      for (std::int64_t begin = 0; begin < p.count; begin += length)
        list.push_back({at(p.a, begin), at(p.b, begin), at(p.c, begin), at(p.d, begin),
                        std::min(length, p.count - begin), p.decay, p.l2});
    return list;
  }

  // f(part, i) for all elements: a block for each part.
  template <class F>
  void each_element(const Context& context, const F& f, const Tensor& go = {}) const {
    if (whole_.empty()) return;
    const Uploaded<Part> parts = upload(context, cut());
    rows(context, parts.size(), kByBlocks, EachElement<F>{parts.data(), pointer_to(go), f});
  }

  static constexpr std::int64_t kByBlocks = kWidestOfWarp + 1;

 private:
  void* at(void* data, std::int64_t begin) const {
    return data == nullptr ? nullptr
                           : static_cast<std::byte*>(data) + begin * static_cast<std::int64_t>(size_of(dtype_));
  }

  DType dtype_;
  std::vector<Part> whole_;
};

template <class R>
Parts parts_of(const std::vector<Tensor>& a, const std::vector<Tensor>& b = {}) {
  Parts parts(dtype_of<R>);
  for (std::size_t i = 0; i < a.size(); ++i) parts.add({a[i], b.empty() ? Tensor() : b[i], {}, {}});
  return parts;
}

// f<R>() for both types that parameters have.
template <class F>
void for_types(const F& f) {
  f.template operator()<float>();
  f.template operator()<double>();
}

template <class R>
struct AdamW {
  R beta1, beta2, rest1, rest2, eps;
  const double* pace;  // as kernels::AdamWPace has them

  AdamW(const kernels::AdamWConstants& constants, const Tensor& numbers)
      : beta1(static_cast<R>(constants.beta1)),
        beta2(static_cast<R>(constants.beta2)),
        rest1(static_cast<R>(1.0 - constants.beta1)),
        rest2(static_cast<R>(1.0 - constants.beta2)),
        eps(static_cast<R>(constants.eps)),
        pace(numbers.data<double>()) {}

  __device__ void operator()(const Part& part, std::int64_t i) const {
    const R step_size = static_cast<R>(pace[0]), root_size = static_cast<R>(pace[1]);
    const R shrink = static_cast<R>(__dsub_rn(1.0, __dmul_rn(pace[2], part.decay)));  // as the host rounds it
    R &value = static_cast<R*>(part.a)[i], &first = static_cast<R*>(part.c)[i], &second = static_cast<R*>(part.d)[i];
    const R g = static_cast<const R*>(part.b)[i] + static_cast<R>(part.l2) * value;
    first = beta1 * first + rest1 * g;
    second = beta2 * second + rest2 * g * g;
    value = shrink * value - step_size * first / (sqrt(second) * root_size + eps);
  }
};

template <class R>
struct Average {
  const double* of_value;
  __device__ void operator()(const Part& part, std::int64_t i) const {
    const R share = static_cast<R>(*of_value);
    R& to = static_cast<R*>(part.a)[i];
    const R from = static_cast<const R*>(part.b)[i];
    to = share == R(1) ? from : to + share * (from - to);
  }
};

template <class R>
struct Swap {
  __device__ void operator()(const Part& part, std::int64_t i) const {
    R &a = static_cast<R*>(part.a)[i], &b = static_cast<R*>(part.b)[i];
    const R kept = a;
    a = b;
    b = kept;
  }
};

template <class R>
struct ClipNorm {
  const double* norm;
  double limit;
  __device__ void operator()(const Part& part, std::int64_t i) const {
    if (*norm > limit && isfinite(*norm)) static_cast<R*>(part.a)[i] *= static_cast<R>(limit / *norm);
  }
};

template <class R>
struct ClipValue {
  R limit;
  __device__ void operator()(const Part& part, std::int64_t i) const {
    R& x = static_cast<R*>(part.a)[i];
    x = x < -limit ? -limit : limit < x ? limit : x;  // NaN stays
  }
};

// to_p = the sum over the elements of part p of f(x); to has a place for every part.
template <class R, class F>
void sum_parts(const Context& context, const std::vector<Part>& list, double* to, const F& f) {
  if (list.empty()) return;
  const Uploaded<Part> parts = upload(context, list);
  rows(context, parts.size(), Parts::kByBlocks, SumElements<R, F>{parts.data(), to, f});
}

// put(the sum of f over all elements of all gradients).
template <class F, class Put>
void sum_gradients(const Context& context, const std::vector<Tensor>& grads, const F& f, const Put& put) {
  const std::vector<Part> narrow = parts_of<float>(grads).cut(), wide = parts_of<double>(grads).cut();
  const std::size_t count = narrow.size() + wide.size();
  const DeviceScratch scratch(launch_of(context), count * sizeof(double));
  auto* const sums = static_cast<double*>(scratch.data());
  sum_parts<float>(context, narrow, sums, f);
  sum_parts<double>(context, wide, sums + narrow.size(), f);
  total(context, static_cast<std::int64_t>(count), LoadPart<double>{sums}, put);
}

struct Square {
  template <class R>
  __device__ double operator()(R x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

// Scales what it looks at; counts what was not finite.
struct ScaleAndCount {
  const double* factor;
  template <class R>
  __device__ double operator()(R& x) const {
    const bool finite = isfinite(x);
    x *= static_cast<R>(*factor);
    return finite ? 0.0 : 1.0;
  }
};

struct PutRoot {
  double* to;
  __device__ void operator()(double sum) const { *to = sqrt(sum); }
};
struct PutNone {
  double* to;
  __device__ void operator()(double count) const { *to = count == 0.0 ? 1.0 : 0.0; }
};

void write_norm(const Context& context, const kernels::GradientNorm& io) {
  sum_gradients(context, io.grads, Square(), PutRoot{io.norm.data<double>()});
}

void write_finite(const Context& context, const kernels::Unscale& io) {
  sum_gradients(context, io.grads, ScaleAndCount{io.factor.data<double>()}, PutNone{io.finite.data<double>()});
}

}  // namespace

template <>
void kernels::adamw<Device::cuda>(const Context& context, const AdamWUpdate& io) {
  for_types([&]<class R>() {
    Parts parts(dtype_of<R>);
    for (const AdamWTensors& p : io.parameters) parts.add({p.value, p.grad, p.first, p.second}, p.decay, p.l2);
    parts.each_element(context, AdamW<R>(io.constants, io.pace), io.go);
  });
}

template <>
void kernels::move_averages<Device::cuda>(const Context& context, const AverageUpdate& io) {
  for_types([&]<class R>() {
    parts_of<R>(io.averages, io.values).each_element(context, Average<R>{io.share.data<double>()}, io.go);
  });
}

template <>
void kernels::exchange<Device::cuda>(const Context& context, const Exchange& io) {
  for_types([&]<class R>() { parts_of<R>(io.a, io.b).each_element(context, Swap<R>()); });
}

template <>
void kernels::gradient_norm<Device::cuda>(const Context& context, const GradientNorm& io) {
  write_norm(context, io);
}

template <>
void kernels::clip_norm<Device::cuda>(const Context& context, const NormClip& io) {
  for_types([&]<class R>() {
    parts_of<R>(io.grads).each_element(context, ClipNorm<R>{io.norm.data<double>(), io.limit});
  });
}

template <>
void kernels::clip_value<Device::cuda>(const Context& context, const ValueClip& io) {
  for_types(
      [&]<class R>() { parts_of<R>(io.grads).each_element(context, ClipValue<R>{static_cast<R>(io.limit)}, io.go); });
}

template <>
void kernels::unscale<Device::cuda>(const Context& context, const Unscale& io) {
  write_finite(context, io);
}

}  // namespace fovea
