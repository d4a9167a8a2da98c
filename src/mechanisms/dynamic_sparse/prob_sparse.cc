#include "mechanisms/dynamic_sparse/prob_sparse.h"

#include <algorithm>
#include <cmath>

#include "autograd/host_stream.h"
#include "core/visit_device.h"
#include "mechanisms/dynamic_sparse/prob_sparse_kernels.h"
#include "ops/work.h"

namespace fovea {

std::int64_t kept_of(std::int64_t n, std::int64_t factor) {
  const auto wanted = factor * static_cast<std::int64_t>(std::ceil(std::log(static_cast<double>(n))));
  return std::clamp<std::int64_t>(wanted, 1, n);
}

Tensor query_measures(const Call& call, const reference::ProbSparse& how, double scale) {
  const Context& context = call.tape.context();
  kernels::MeasureQueries io{dense_rows(context, call.q.value()),
                             dense_rows(context, call.k.value()),
                             {},
                             0,
                             {how, call.options.causal, call.k.dim(1)},
                             scale};
  if (call.options.causal) io.first = std::max<std::int64_t>(0, call.q.dim(1) - call.k.dim(1));
  if (call.tape.training()) {
    io.sample.seed = context.seed();
    io.sample.stream = next_host_stream(call.tape);
  }
  io.out = Tensor::empty(context, {call.q.dim(0), call.q.dim(1), call.q.dim(2)}, wide_type(call.q.dtype()));
  io.out.fill(-INFINITY);
  visit_device(context, io, [&]<Device D>() { kernels::measure_queries<D>(context, io); });
  return io.out;
}

Tensor prefix_choice(const Context& context, const Tensor& measures, std::int64_t first, std::int64_t factor) {
  const kernels::ChooseSoFar io{measures, Tensor::empty(context, measures.shape(), DType::i32),
                                Tensor::empty(context, {}, DType::i32), first, factor};
  visit_device(context, io, [&]<Device D>() { kernels::choose_so_far<D>(context, io); });
  // To ask another device how many there are is to wait for it: there all rows are kept, most of which name none.
  if (context.device() != Device::cpu) return io.chosen;
  return io.chosen.slice(1, 0, std::max<std::int64_t>(1, static_cast<std::int64_t>(io.most.item())));
}

Tensor causal_bias(const Call& call, const Tensor& index) {
  const Context& context = call.tape.context();
  const Shape shape{index.dim(0), index.dim(2), index.dim(1), call.k.dim(1)};
  const kernels::HideLater io{index.contiguous(context), Tensor::empty(context, shape, wide_type(call.q.dtype())),
                              call.k.dim(1) - call.q.dim(1)};
  visit_device(context, io, [&]<Device D>() { kernels::hide_later<D>(context, io); });
  return io.bias;
}

}  // namespace fovea
