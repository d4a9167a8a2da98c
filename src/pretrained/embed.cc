#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.h"
#include "data/collate.h"
#include "fovea/pretrained.h"
#include "models/network.h"
#include "tensor/views.h"

namespace fovea {
namespace {

using Ids = std::vector<std::int32_t>;

// Texts as ids, cut to what the model reads; an empty one has the first token of the vocabulary, so that it has a row.
std::vector<Ids> encode_texts(const Context& context, const Model& model, const Tokenizer& tokenizer,
                              std::span<const std::string_view> texts) {
  const auto most = static_cast<std::size_t>(model.config().max_length);
  std::vector<Ids> rows(texts.size());
  parallel_for(context, std::ssize(texts), [&](std::int64_t i) {
    Ids& row = rows[static_cast<std::size_t>(i)];
    row = tokenizer.encode(texts[static_cast<std::size_t>(i)], true, most).ids;
    if (row.empty()) row.push_back(0);
  });
  return rows;
}

// Rows divided by their lengths; zeros stay.
void make_unit(const Tensor& vectors) {
  const std::int64_t width = vectors.dim(1);
  for (std::int64_t i = 0; i < vectors.dim(0); ++i) {
    float* row = vectors.data<float>() + i * width;
    const double square = std::inner_product(row, row + width, row, 0.0);
    if (square == 0.0) continue;
    for (std::int64_t c = 0; c < width; ++c) row[c] = static_cast<float>(row[c] / std::sqrt(square));
  }
}

}  // namespace

Tensor embed(Context& context, const Model& model, const Tokenizer& tokenizer, std::span<const std::string_view> texts,
             const EmbedOptions& options) {
  const std::vector<Ids> rows = encode_texts(context, model, tokenizer, texts);
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].size() > rows[b].size(); });
  Tensor out;
  for (std::size_t begin = 0; begin < order.size();) {
    std::vector<std::span<const std::int32_t>> batch;
    std::int64_t tokens = 0;
    const std::size_t first = begin;
    while (begin < order.size() && (batch.empty() || tokens + std::ssize(rows[order[begin]]) <= options.batch_tokens)) {
      batch.emplace_back(rows[order[begin]]);
      tokens += std::ssize(rows[order[begin++]]);
    }
    Tape tape(context, {.record = false});
    const Tensor vectors = model.network().features(tape, packed_rows<std::int32_t>(context, batch)).value();
    if (!out.defined())
      out = Tensor::empty(context, {std::ssize(rows), vectors.dim(1)}, DType::f32, Lifetime::persistent);
    for (std::size_t i = first; i < begin; ++i)
      out.select(0, static_cast<std::int64_t>(order[i]))
          .copy_from(vectors.select(0, static_cast<std::int64_t>(i - first)));
    if (options.progress) options.progress(static_cast<std::int64_t>(begin), std::ssize(rows));
  }
  if (!out.defined()) return Tensor::zeros(context, {0, model.config().width}, DType::f32, Lifetime::persistent);
  out = on_host(out);
  if (options.normalize) make_unit(out);
  return out;
}

std::vector<std::vector<Neighbour>> neighbours(const Context& context, const Tensor& vectors, std::int64_t k) {
  if (!vectors.defined() || vectors.rank() != 2) fail(ErrorCode::shape, "vectors must be (n, d)", "vectors");
  const Tensor copy = Tensor::empty(context, vectors.shape(), DType::f32);
  copy.copy_from(vectors);
  const Tensor unit = on_host(copy);
  make_unit(unit);
  const std::int64_t n = unit.dim(0), width = unit.dim(1);
  const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, std::max<std::int64_t>(0, n - 1)));
  std::vector<std::vector<Neighbour>> out(static_cast<std::size_t>(n));
  parallel_for(context, n, [&](std::int64_t i) {
    std::vector<Neighbour>& near = out[static_cast<std::size_t>(i)];
    const float* a = unit.data<float>() + i * width;
    for (std::int64_t j = 0; j < n; ++j) {
      const float* b = unit.data<float>() + j * width;
      if (j != i) near.push_back({j, std::inner_product(a, a + width, b, 0.0f)});
    }
    const auto nearer = [](const Neighbour& x, const Neighbour& y) {
      return x.cosine != y.cosine ? x.cosine > y.cosine : x.row < y.row;
    };
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(most), near.end(), nearer);
    near.resize(most);
  });
  return out;
}

}  // namespace fovea
