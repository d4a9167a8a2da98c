#include "fuzz/tensors.h"

namespace fovea::fuzz {
namespace {

// A view of a dense (b, n, heads, d) tensor's memory with other strides, from its element `first` on.
Tensor strided(const Tensor& base, const Shape& shape, const std::vector<std::int64_t>& strides, std::int64_t first) {
  char* data = static_cast<char*>(base.raw()) + first * static_cast<std::int64_t>(size_of(base.dtype()));
  return Tensor::wrap(data, shape, strides, base.dtype(), std::make_shared<Tensor>(base));
}

Tensor room(const Context& context, const Layout& layout) {
  const Shape& s = layout.shape;
  const auto empty = [&](const Shape& shape) { return Tensor::empty(context, shape, layout.dtype); };
  if (s.numel() == 0) return empty(s);
  const std::int64_t token = s[2] * s[3], item = s[1] * token;
  switch (layout.stride) {
    case Stride::by_head: return empty({s[0], s[2], s[1], s[3]}).transpose(1, 2);
    case Stride::sliced: return empty({s[0], s[1], s[2] + 3, s[3]}).slice(2, 1, s[2] + 1);
    case Stride::reversed: return strided(empty(s), s, {item, -token, -s[3], 1}, item - s[3]);
    case Stride::column: return empty({s[3], s[0], s[1], s[2]}).transpose(0, 1).transpose(1, 2).transpose(2, 3);
    case Stride::one_batch: return strided(empty(s.with(0, 1)), s, {0, token, s[3], 1}, 0);
    case Stride::one_head: return strided(empty(s.with(2, 1)), s, {s[1] * s[3], s[3], 0, 1}, 0);
    default: return empty(s);
  }
}

}  // namespace

std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  if (dtype == DType::f64) return values;
  std::vector<double> out;
  out.reserve(values.size());
  visit_float(dtype, [&]<class T>() {
    for (const double x : values) out.push_back(static_cast<double>(static_cast<T>(static_cast<float>(x))));
  });
  return out;
}

void repeat(const Shape& s, Stride stride, std::vector<double>& values) {
  if (stride != Stride::one_batch && stride != Stride::one_head) return;
  const auto item = static_cast<std::size_t>(s[1] * s[2] * s[3]), head = static_cast<std::size_t>(s[3]),
             token = static_cast<std::size_t>(s[2] * s[3]);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = values[stride == Stride::one_batch ? i % item : i / token * token + i % head];
}

Tensor laid_out(const Context& context, const Layout& layout, const std::vector<double>& values) {
  const Tensor x = room(context, layout);
  if (x.numel() > 0) x.copy_from(Tensor::from<double>(context, layout.shape, values));
  return x;
}

void spoil(const Context& context, const std::string& wrong, conformance::Inputs& in, conformance::Trial& t) {
  const auto zeros = [&](const Shape& shape, DType dtype) { return Var(Tensor::zeros(context, shape, dtype)); };
  const auto n = static_cast<std::int32_t>(t.n_q);
  AttentionOptions& o = t.options;
  if (wrong == "lengths") o.queries.lengths.assign(static_cast<std::size_t>(t.batch), n + 1);
  if (wrong == "cu_start") o.queries.cu_seqlens = {1, n};
  if (wrong == "cu_order") o.queries.cu_seqlens = {0, n, n - 1};
  if (wrong == "cu_end") o.queries.cu_seqlens = {0, n + 1};
  if (wrong == "k_width") in.k = zeros(in.k.shape().with(3, t.d_k + 1), in.k.dtype());
  if (wrong == "v_length") in.v = zeros(in.v.shape().with(1, t.n_k + 1), in.v.dtype());
  if (wrong == "kv_heads") in.k = zeros(in.k.shape().with(2, t.kv_heads + 1), in.k.dtype());
  if (wrong == "dtype") in.k = zeros(in.k.shape(), in.k.dtype() == DType::f32 ? DType::f64 : DType::f32);
  if (wrong == "rank") in.q = zeros({t.batch, t.n_q, t.heads * t.d_k}, in.q.dtype());
  if (wrong == "bias_shape") o.bias = zeros({t.batch, t.heads, t.n_q, t.n_k + 2}, wide_type(in.q.dtype()));
  if (wrong == "mask_dtype") o.mask = Tensor::zeros(context, {1, 1, 1, 1}, DType::f32);
  if (wrong == "dropout") o.dropout_p = 1.0;
  if (wrong == "window") o.window = Window{-2, 0};
  if (wrong == "weights") in.weights.push_back(zeros({3}, DType::f32));
}

}  // namespace fovea::fuzz
