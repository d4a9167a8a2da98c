#include "core/wide.h"
#include "ops/activation_kernels.h"
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/quick.cuh"
#include "tensor/cuda/held_rows.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class P>
struct ApplyOf {
  template <class R>
  __device__ R operator()(R x) const {
    return P::apply(x);
  }
};

template <class P>
struct VjpOf {
  template <class R>
  __device__ R operator()(R g, R saved) const {
    return g * P::slope(saved);
  }
};

template <class P, class R>
struct GateOf {
  DropoutFactors<R> factors;
  __device__ Philox of_eight(std::int64_t i) const { return factors.of_eight(i); }
  __device__ R operator()(const Philox& words, int in_eight, R a, R b) const {
    return P::apply(a) * b * factors.factor(words, in_eight);
  }
};

template <class P, class R>
struct GateVjpOf {
  DropoutFactors<R> factors;
  __device__ Philox of_eight(std::int64_t i) const { return factors.of_eight(i); }
  __device__ Values<R, 2> operator()(const Philox& words, int in_eight, R g, R a, R b) const {
    const R act = P::apply(a), upstream = g * factors.factor(words, in_eight);
    return {{upstream * b * P::slope(P::kFromOutput ? act : a), upstream * act}};
  }
};

// f<kType>() for what a type of the arithmetic may be stored as.
template <class R, class F>
void visit_type(DType dtype, const F& f) {
  if constexpr (sizeof(R) == 8) {
    f.template operator()<DType::f64>();
  } else {
    switch (dtype) {
      case DType::bf16: return f.template operator()<DType::bf16>();
      case DType::f16: return f.template operator()<DType::f16>();
      default: return f.template operator()<DType::f32>();
    }
  }
}

// Writes eight neighbours of dx, and gives them as others will read them.
template <class P, class R, DType kType>
struct VjpPacks {
  Elements<R> g, saved, dx;
  std::int64_t width;

  __device__ void operator()(std::int64_t r, std::int64_t c, R (&to)[kPack]) const {
    RawPack<kType> upstream, kept;
    upstream.load(g, r * width + c);
    kept.load(saved, r * width + c);
    R of[kPack];
    upstream.get(to);
    kept.get(of);
#pragma unroll
    for (int e = 0; e < kPack; ++e) to[e] = as_stored(kType, to[e] * P::slope(of[e]));
    store_pack(Elements<R>{dx.data, kType}, r * width + c, to);
  }
};

template <class P, class R, DType kType>
void vjp_and_sum_packs(const Context& context, const kernels::ActivateVjp& io, const Tensor& sums) {
  const Elements<R> to = elements<R>(sums);
  const std::int64_t width = io.g.dim(1);
  pack_sums<R>(context, {io.g.dim(0), width},
               VjpPacks<P, R, kType>{elements<R>(io.g), elements<R>(io.saved), elements<R>(io.dx), width},
               [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

template <class P, class R>
void vjp_and_sum(const Context& context, const kernels::ActivateVjp& io, const Tensor& sums) {
  const Elements<R> g = elements<R>(io.g), saved = elements<R>(io.saved), dx = elements<R>(io.dx),
                    to = elements<R>(sums);
  const std::int64_t width = io.g.dim(1);
  column_sums(
      context, {io.g.dim(0), width},
      [=] __device__(std::int64_t r, std::int64_t c) -> R {
        const std::int64_t i = r * width + c;
        dx.put(i, g[i] * P::slope(saved[i]));
        return dx[i];  // rounded, as others will read it
      },
      [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

Tensor left(const Tensor& x) { return x.slice(1, 0, x.dim(1) / 2); }
Tensor right(const Tensor& x) { return x.slice(1, x.dim(1) / 2, x.dim(1)); }

}  // namespace

template <>
void kernels::activate<Device::cuda>(const Context& context, const Apply& io) {
  visit_activation_of(io.activation, io.x.dtype(),
                      [&]<class P, class R>() { map<R>(context, ApplyOf<P>(), io.y, io.x); });
}

template <>
void kernels::activate_backward<Device::cuda>(const Context& context, const ActivateVjp& io) {
  visit_activation_of(io.activation, io.g.dtype(),
                      [&]<class P, class R>() { map<R>(context, VjpOf<P>(), io.dx, io.g, io.saved); });
}

template <>
Tensor kernels::activate_backward_and_sum<Device::cuda>(const Context& context, const ActivateVjp& io) {
  const Tensor sums = Tensor::empty(context, {io.g.dim(1)}, wide_type(io.g.dtype()));
  const bool packs =
      PackedRow<DType::f32>(io.g.dim(1), {&io.g, &io.saved, &io.dx}).has_packs && io.saved.dtype() == io.g.dtype();
  visit_activation_of(io.activation, io.g.dtype(), [&]<class P, class R>() {
    if (!packs) return vjp_and_sum<P, R>(context, io, sums);
    visit_type<R>(io.g.dtype(), [&]<DType kType>() { vjp_and_sum_packs<P, R, kType>(context, io, sums); });
  });
  return sums;
}

template <>
void kernels::glu<Device::cuda>(const Context& context, const Glu& io) {
  visit_activation_of(io.activation, io.x.dtype(), [&]<class P, class R>() {
    map<R>(context, GateOf<P, R>{DropoutFactors<R>(io.keep)}, io.y, left(io.x), right(io.x));
  });
}

template <>
void kernels::glu_backward<Device::cuda>(const Context& context, const GluVjp& io) {
  visit_activation_of(io.activation, io.g.dtype(), [&]<class P, class R>() {
    map<R>(context, GateVjpOf<P, R>{DropoutFactors<R>(io.keep)}, std::array{left(io.dx), right(io.dx)}, io.g,
           left(io.x), right(io.x));
  });
}

}  // namespace fovea
