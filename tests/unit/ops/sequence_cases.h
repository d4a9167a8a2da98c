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

// The same sizes for a layout: a batch of three, or all in one.
inline Shape laid_out(Layout layout, const Shape& shape) {
  return layout == Layout::packed ? shape.with(0, 1).with(1, 3 * shape.dim(1)) : shape;
}
inline std::vector<Shape> laid_out(Layout layout, std::vector<Shape> shapes) {
  for (Shape& shape : shapes) shape = laid_out(layout, shape);
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
      cases.push_back(
          {"diagonals" + suffix,
           one([rows](Tape& t, Inputs v) { return softmax(t, diagonals(t, v[0], v[1], rows(v[0]), {.scale = 0.3})); }),
           laid_out(layout, {{3, 4, 4, 3}, {3, 4, 2, 3}}), laid_out(layout, {{3, 90, 4, 33}, {3, 90, 2, 33}})});
      cases.push_back({"mix_diagonals" + suffix,
                       one([rows](Tape& t, Inputs v) { return mix_diagonals(t, v[0], v[1], rows(v[0])); }),
                       laid_out(layout, {{3, 4, 4, 5}, {3, 4, 2, 3}}),
                       laid_out(layout, {{3, 90, 4, 5}, {3, 90, 2, 33}})});
    }
}

inline std::vector<OpCase> sequence_cases() {
  std::vector<OpCase> cases;
  add_diagonals(cases);
  return cases;
}

}  // namespace fovea::testing
