#include "request.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string_view>

#include "autograd/new_slot.h"

namespace fovea::python {
namespace {

// Neighbouring seeds must not share streams, of which a call uses a few in a row (splitmix64).
std::uint64_t stream_of(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

// Axes of size 1 in front, until there are four.
Tensor pairwise(const Tensor& x) {
  std::vector<std::int64_t> shape(x.shape().dims().begin(), x.shape().dims().end()), strides;
  for (int i = 0; i < x.rank(); ++i) strides.push_back(x.stride(i));
  while (shape.size() < 4) {
    shape.insert(shape.begin(), 1);
    strides.insert(strides.begin(), 0);
  }
  return Tensor::wrap(x.raw(), Shape(shape), strides, x.dtype(), std::make_shared<Tensor>(x)).in(x.memory());
}

Rotary rotary_from(nb::handle value) {
  const auto [base, halves, width] = nb::cast<std::tuple<double, bool, std::int64_t>>(value);
  return {.base = base, .halves = halves, .width = width};
}

Align align_from(nb::handle value) {
  const auto name = nb::cast<std::string>(value);
  for (const Align align : {Align::bottom_right, Align::top_left})
    if (name == name_of(align)) return align;
  fail(ErrorCode::usage, fmt::format("unknown alignment \"{}\"", name), "align",
       fmt::format("align=\"{}\" or align=\"{}\"", name_of(Align::bottom_right), name_of(Align::top_left)));
}

using Setter = void (*)(Request& request, nb::handle value);
struct Option {
  std::string_view name;
  Setter set;
};

constexpr Option kOptions[] = {
    {"causal", [](Request& r, nb::handle x) { r.options.causal = nb::cast<bool>(x); }},
    {"align", [](Request& r, nb::handle x) { r.options.align = align_from(x); }},
    {"card", [](Request&, nb::handle) {}},  // settle() has read it
    {"numpy", [](Request& r, nb::handle x) { r.kind = nb::cast<bool>(x) ? Kind::numpy : Kind::dlpack; }},
    {"heads_first", [](Request& r, nb::handle x) { r.heads_first = nb::cast<bool>(x); }},
    {"scale", [](Request& r, nb::handle x) { r.options.scale = nb::cast<double>(x); }},
    {"window",
     [](Request& r, nb::handle x) {
       const auto [left, right] = nb::cast<std::pair<std::int64_t, std::int64_t>>(x);
       r.options.window = Window{left, right};
     }},
    {"pattern", [](Request& r, nb::handle x) { r.options.pattern = nb::cast<Pattern>(x); }},
    {"mask", [](Request& r, nb::handle x) { r.options.mask = pairwise(r.tensor(x, "mask")); }},
    {"bias",
     [](Request& r, nb::handle x) {
       const Tensor bias = r.tensor(x, "bias");
       r.bias_rank = bias.rank();
       r.options.bias = pairwise(bias);
     }},
    {"diagonal_bias", [](Request& r, nb::handle x) { r.options.diagonal_bias = r.tensor(x, "diagonal_bias"); }},
    {"alibi", [](Request& r, nb::handle x) { r.options.alibi = nb::cast<bool>(x); }},
    {"rotary", [](Request& r, nb::handle x) { r.options.rotary = rotary_from(x); }},
    {"positions", [](Request& r, nb::handle x) { r.options.positions = r.tensor(x, "positions"); }},
    {"dropout_p", [](Request& r, nb::handle x) { r.options.dropout_p = nb::cast<double>(x); }},
    {"training", [](Request& r, nb::handle x) { r.training = nb::cast<bool>(x); }},
    {"seed", [](Request& r, nb::handle x) { r.stream = stream_of(nb::cast<std::uint64_t>(x)); }},
    {"cu_seqlens",
     [](Request& r, nb::handle x) { r.options.queries.cu_seqlens = nb::cast<std::vector<std::int32_t>>(x); }},
    {"cu_seqlens_k",
     [](Request& r, nb::handle x) { r.options.keys.cu_seqlens = nb::cast<std::vector<std::int32_t>>(x); }},
    {"lengths", [](Request& r, nb::handle x) { r.options.queries.lengths = nb::cast<std::vector<std::int32_t>>(x); }},
    {"lengths_k", [](Request& r, nb::handle x) { r.options.keys.lengths = nb::cast<std::vector<std::int32_t>>(x); }},
    {"weights",
     [](Request& r, nb::handle x) {
       for (nb::handle weight : nb::cast<nb::sequence>(x)) r.options.weights.push_back(r.tensor(weight, "weights"));
     }},
    {"input", [](Request& r, nb::handle x) { r.options.input = r.tensor(x, "input"); }},
    {"layer", [](Request& r, nb::handle x) { r.options.layer = nb::cast<std::int64_t>(x); }},
    {"layers", [](Request& r, nb::handle x) { r.options.layers = nb::cast<std::int64_t>(x); }},
    {"return_lse", [](Request& r, nb::handle x) { r.options.return_lse = nb::cast<bool>(x); }},
    {"initial_state", [](Request& r, nb::handle x) { r.options.initial_state = r.tensor(x, "initial_state"); }},
    {"final_state", [](Request& r, nb::handle x) { r.options.final_state = nb::cast<bool>(x); }},
};

void set_option(Request& request, nb::handle key, nb::handle value) {
  const auto name = nb::cast<std::string>(key);
  for (const Option& option : kOptions) {
    if (option.name != name) continue;
    try {
      return option.set(request, value);
    } catch (const nb::cast_error&) {
      throw nb::type_error(fmt::format("{} cannot be {}", name, nb::repr(value).c_str()).c_str());
    }
  }
  fail(ErrorCode::internal, fmt::format("the binding knows no option \"{}\"", name));
}

// What decides how the arrays among the options are read.
void settle(Request& request, const nb::dict& options) {
  if (!options.contains("card")) return;
  const auto [index, stream] = nb::cast<std::pair<int, Stream>>(options["card"]);
  request.home.place = {Device::cuda, index, stream};
  request.home.memory = context_for(0.0, request.home.place)->memory();
}

// A value whose gradient is wanted, where it has one.
Var asked_for(const Var& value) { return value.defined() && is_float(value.dtype()) ? wanted(value.value()) : value; }

Var widened(Tape& tape, const Var& x, DType wide) {
  return x.defined() && is_float(x.dtype()) && x.dtype() != wide ? cast(tape, x, wide) : x;
}

// The gradient of an input; zeros where nothing flowed.
Tensor gradient_of(const Context& context, const Var& x) {
  return x.grad().defined() ? x.grad() : Tensor::zeros(context, x.shape(), x.dtype());
}

}  // namespace

std::shared_ptr<Context> Request::context(std::int64_t cached_keys) const {
  const bool sane = q.value().rank() == 4 && k.value().rank() == 4;
  const double work = sane ? static_cast<double>(q.value().numel()) * static_cast<double>(cached_keys + k.dim(1)) : 0.0;
  return context_for(work, home.place);
}

void Request::want_gradients() {
  for (Var* x : {&q, &k, &v, &options.bias, &options.diagonal_bias, &options.initial_state, &options.input})
    *x = asked_for(*x);
  for (Var& weight : options.weights) weight = asked_for(weight);
}

AttentionOptions Request::resolved(Tape& tape) const {
  const DType wide = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  AttentionOptions out = options;
  for (Var* x : {&out.bias, &out.diagonal_bias, &out.initial_state}) *x = widened(tape, *x, wide);
  for (Var& weight : out.weights) weight = widened(tape, weight, wide);
  return out;
}

nb::dict Request::gradients(const Context& context) const {
  const auto gradient = [&](const Var& x) { return gradient_of(context, x); };
  nb::dict out;
  out["q"] = array(transposed(gradient(q)));
  out["k"] = array(transposed(gradient(k)));
  out["v"] = array(transposed(gradient(v)));
  if (options.bias.defined()) {
    Tensor bias = gradient(options.bias);
    while (bias.rank() > bias_rank) bias = bias.select(0, 0);
    out["bias"] = array(bias);
  }
  if (options.diagonal_bias.defined()) out["diagonal_bias"] = array(gradient(options.diagonal_bias));
  if (options.initial_state.defined()) out["initial_state"] = array(gradient(options.initial_state));
  if (options.input.defined()) out["input"] = array(gradient(options.input));
  nb::list weights;
  for (const Var& weight : options.weights) weights.append(array(gradient(weight)));
  out["weights"] = weights;
  return out;
}

Request read_request(nb::handle q, nb::handle k, nb::handle v, const nb::dict& options) {
  Request request;
  settle(request, options);
  for (const auto& [key, value] : options) set_option(request, key, value);
  const auto read = [&](nb::handle array, const char* name) {
    const Tensor x = request.tensor(array, name);
    return request.heads_first && x.rank() == 4 ? x.transpose(1, 2) : x;
  };
  request.q = read(q, "q");
  request.k = read(k, "k");
  request.v = read(v, "v");
  return request;
}

void check_like(const Tensor& gradient, const Var& value, const char* name) {
  if (!value.defined()) fail(ErrorCode::usage, fmt::format("{} of a result that was not asked for", name), name);
  if (gradient.shape() != value.shape() || gradient.dtype() != value.dtype())
    fail(ErrorCode::shape,
         fmt::format("{} is {} {}, the result is {} {}", name, name_of(gradient.dtype()), gradient.shape().text(),
                     name_of(value.dtype()), value.shape().text()),
         name);
}

}  // namespace fovea::python
