#pragma once

#include "ops/sequence.h"
#include "unit/ops/cases.h"

// The operations along sequences, for the laws that every operation obeys.
namespace fovea::testing {

// Sequences of three kinds for x (b, n, ...): whole, padded (the first is empty), packed (b = 1; a gap at the end).
enum class Layout : std::uint8_t { whole, padded, packed };
inline constexpr std::pair<Layout, const char*> kLayouts[] = {
    {Layout::whole, ""}, {Layout::padded, "_padded"}, {Layout::packed, "_packed"}};

inline Sequences sequences_of(const Var& x, Layout layout) {
  Sequences s;
  const auto n = static_cast<std::int32_t>(x.dim(1)), batch = static_cast<std::int32_t>(x.dim(0));
  for (std::int32_t b = 0; layout == Layout::padded && b < batch; ++b) s.lengths.push_back(n * b / (batch - 1));
  if (layout == Layout::packed) s.cu_seqlens = {0, n / 3, n / 3, n - 1};
  return s;
}

// Shapes for a layout: a batch of three, or all in one.
inline std::vector<Shape> laid_out(Layout layout, std::vector<Shape> shapes) {
  if (layout == Layout::packed)
    for (Shape& shape : shapes) shape = shape.with(0, 1).with(1, 3 * shape.dim(1));
  return shapes;
}

inline void add_diagonals(std::vector<OpCase>& cases) {
  const Diagonals along{{0, -1, -2, 3, -70}, {}, false};
  for (const auto& [layout, name] : kLayouts)
    for (bool ring : {false, true}) {
      const auto rows = [along, ring, l = layout](const Var& x) {
        return Diagonals{along.offsets, sequences_of(x, l), ring};
      };
      const std::string suffix = std::string(name) + (ring ? "_ring" : "");
      cases.push_back({"diagonals" + suffix, one([rows](Tape& t, Inputs v) {
                         return softmax(t, diagonal_scores(t, v[0], v[1], rows(v[0]), {.scale = 0.3}));
                       }),
                       laid_out(layout, {{3, 4, 4, 3}, {3, 4, 2, 3}}),
                       laid_out(layout, {{3, 90, 4, 33}, {3, 90, 2, 33}})});
      cases.push_back({"mix_diagonals" + suffix,
                       one([rows](Tape& t, Inputs v) { return mix_diagonals(t, v[0], v[1], rows(v[0])); }),
                       laid_out(layout, {{3, 4, 4, 5}, {3, 4, 2, 3}}),
                       laid_out(layout, {{3, 90, 4, 5}, {3, 90, 2, 33}})});
    }
}

inline void add_sums(std::vector<OpCase>& cases) {
  for (const auto& [layout, name] : kLayouts) {
    cases.push_back({std::string("cumsum") + name,
                     one([l = layout](Tape& t, Inputs v) { return cumsum(t, v[0], sequences_of(v[0], l)); }),
                     laid_out(layout, {{3, 5, 2, 3}}), laid_out(layout, {{3, 600, 2, 17}})});
    cases.push_back({std::string("fill_padding") + name, one([l = layout](Tape& t, Inputs v) {
                       return scale(t, fill_padding(t, v[0], sequences_of(v[0], l), 2.0), 1.0);
                     }),
                     laid_out(layout, {{3, 5, 2}}), laid_out(layout, {{3, 600, 17}})});
    cases.push_back({std::string("segment_means_of_one_value") + name, one([l = layout](Tape& t, Inputs v) {
                       const Var x = scale(t, v[0], 2.0);
                       return add(t, segment_mean(t, x, 3, sequences_of(v[0], l)).means,
                                  segment_mean(t, x, 3, sequences_of(v[0], l)).means);
                     }),
                     laid_out(layout, {{3, 5, 2, 3}}), laid_out(layout, {{3, 1000, 2, 17}})});
    cases.push_back({std::string("segment_mean") + name, one([l = layout](Tape& t, Inputs v) {
                       return segment_mean(t, v[0], 3, sequences_of(v[0], l)).means;
                     }),
                     laid_out(layout, {{3, 5, 2, 3}}), laid_out(layout, {{3, 1000, 2, 17}})});
  }
}

// An index (b, m, heads) into n rows that starts with -1; without repeats it picks about half of them.
inline Tensor row_index(const Context& context, const Var& x, bool repeats) {
  const std::int64_t n = x.dim(1), picks = repeats ? 2 * n : n / 2 + 1, heads = x.dim(2);
  std::vector<std::int32_t> index;
  for (std::int64_t b = 0; b < x.dim(0); ++b)
    for (std::int64_t i = 0; i < picks; ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        index.push_back(static_cast<std::int32_t>(repeats ? (i * i + b + h) % n : (n - 1 - i + b + h) % n));
  index.front() = -1;
  return integers(context, {x.dim(0), picks, heads}, index);
}

inline void add_picks(std::vector<OpCase>& cases) {
  for (bool repeats : {false, true})
    cases.push_back(
        {repeats ? "take_rows_repeated" : "take_rows",
         one([repeats](Tape& t, Inputs v) { return take_rows(t, v[0], row_index(t.context(), v[0], repeats)); }),
         {{2, 5, 2, 3}},
         {{2, 300, 3, 33}}});
  cases.push_back({"put_rows",
                   one([](Tape& t, Inputs v) { return put_rows(t, v[0], row_index(t.context(), v[0], false), v[1]); }),
                   {{2, 5, 2, 3}, {2, 3, 2, 3}},
                   {{2, 300, 3, 33}, {2, 151, 3, 33}}});
}

inline void add_convolutions(std::vector<OpCase>& cases) {
  for (const auto& [layout, name] : kLayouts) {
    const auto add_conv = [&, l = layout](const std::string& kind, bool causal, std::vector<Shape> w) {
      const std::vector<Shape> small = laid_out(l, {{3, 5, 2, 3}}), large = laid_out(l, {{3, 300, 2, 67}});
      cases.push_back({"depthwise_conv_" + kind + name,
                       one([causal, l](Tape& t, Inputs v) {
                         return depthwise_conv(t, v[0], v[1], {causal, sequences_of(v[0], l)});
                       }),
                       {small[0], w[0]},
                       {large[0], w[1]},
                       1});
    };
    add_conv("heads", false, {{2, 3}, {2, 33}});
    add_conv("channels", false, {{2, 3, 4}, {2, 67, 8}});
    add_conv("causal", true, {{2, 3, 4}, {2, 67, 5}});
  }
}

inline std::vector<OpCase> sequence_cases() {
  std::vector<OpCase> cases;
  add_diagonals(cases);
  add_sums(cases);
  add_picks(cases);
  add_convolutions(cases);
  return cases;
}

}  // namespace fovea::testing
