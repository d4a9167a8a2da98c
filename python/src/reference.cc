#include "reference/attention.h"

#include "bindings.h"
#include "mechanisms/defined.h"
#include "request.h"

namespace fovea::python {
namespace {

std::vector<double> item_of(const Var& x, std::int64_t item) {
  return x.defined() ? x.value().select(0, item).to_vector<double>() : std::vector<double>();
}

reference::Problem problem_of(const Request& r, std::int64_t item) {
  reference::Problem p;
  p.n_q = r.q.dim(1);
  p.n_k = r.k.dim(1);
  p.heads = r.q.dim(2);
  p.kv_heads = r.k.dim(2);
  p.d_k = r.q.dim(3);
  p.d_v = r.v.dim(3);
  p.q = item_of(r.q, item);
  p.k = item_of(r.k, item);
  p.v = item_of(r.v, item);
  p.causal = r.options.causal;
  p.top_left = r.options.align == Align::top_left;
  p.scale = r.options.scale.value_or(0.0);
  if (r.options.window) p.pattern = p.pattern & Pattern::window(r.options.window->left, r.options.window->right);
  if (r.options.pattern) p.pattern = p.pattern & *r.options.pattern;
  for (const Var& weight : r.options.weights) p.weights.push_back(weight.value().to_vector<double>());
  p.input = item_of(r.options.input, item);
  p.width = r.options.input.defined() ? r.options.input.dim(2) : 0;
  return p;
}

// The plain definition in double precision, of a batch of whole sequences. Takes no bias and no state.
nb::object define(nb::handle q, nb::handle k, nb::handle v, const Mechanism& mechanism, const nb::dict& options) {
  const Request request = read_request(q, k, v, options);
  const Context context({.threads = 1});
  const Tensor out =
      Tensor::empty(context, {request.q.dim(0), request.q.dim(1), request.q.dim(2), request.v.dim(3)}, DType::f64);
  for (std::int64_t item = 0; item < out.dim(0); ++item) {
    const reference::Result result = defined(problem_of(request, item), mechanism);
    std::copy(result.o.begin(), result.o.end(), out.data<double>() + item * out.stride(0));
  }
  return array_from(request.transposed(out), Kind::numpy);
}

}  // namespace

void bind_reference(nb::module_& module) { module.def("reference", define); }

}  // namespace fovea::python
