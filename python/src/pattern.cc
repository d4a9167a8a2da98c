#include "fovea/pattern.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "arrays.h"
#include "bindings.h"
#include "tile/plan.h"

namespace fovea::python {
namespace {

using Rect = Pattern::Rect;

// Sets the bits of what a dense boolean block (queries, keys) keeps.
void set_bits(const std::uint8_t* block, const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) {
  const std::int64_t queries = rect.query_end - rect.query_begin, keys = rect.key_end - rect.key_begin;
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j)
      if (block[i * keys + j] != 0)
        bits[static_cast<std::size_t>(j) * words + static_cast<std::size_t>(i / 64)] |= std::uint64_t{1} << (i % 64);
}

// A Python function of (query_begin, query_end, key_begin, key_end) that gives a boolean block.
Pattern from_function(const std::string& name, nb::object function) {
  const std::shared_ptr<nb::object> shared(new nb::object(std::move(function)), [](nb::object* object) {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire gil;
    delete object;
  });
  return Pattern::filled(name, [shared](const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) {
    const nb::gil_scoped_acquire gil;
    const nb::object block = (*shared)(rect.query_begin, rect.query_end, rect.key_begin, rect.key_end);
    const auto kept = nb::cast<nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(block);
    set_bits(kept.data(), rect, words, bits);
  });
}

// A matrix u8 (n_q, n_k); the last query stands on the last key.
Pattern from_matrix(nb::handle array) {
  const Tensor given = tensor_from(array, "matrix");
  if (given.rank() != 2 || given.dtype() != DType::u8)
    throw nb::type_error("a pattern is made of a boolean matrix (queries, keys)");
  const auto matrix = std::make_shared<const std::vector<std::uint8_t>>(given.to_vector<std::uint8_t>());
  const std::int64_t n_q = given.dim(0), n_k = given.dim(1);
  return Pattern::filled("matrix", [=](const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) {
    const std::int64_t first = rect.query_begin - (n_k - n_q);
    if (first < 0 || rect.query_end > n_k || rect.key_end > n_k)
      fail(ErrorCode::shape, fmt::format("a pattern made of a {} x {} matrix, and a longer sequence", n_q, n_k),
           "pattern");
    for (std::int64_t i = 0; i < rect.query_end - rect.query_begin; ++i)
      for (std::int64_t j = rect.key_begin; j < rect.key_end; ++j)
        if ((*matrix)[static_cast<std::size_t>((first + i) * n_k + j)] != 0)
          bits[static_cast<std::size_t>(j - rect.key_begin) * words + static_cast<std::size_t>(i / 64)] |=
              std::uint64_t{1} << (i % 64);
  });
}

// The kept pairs of n_q queries and n_k keys as a boolean matrix.
nb::object matrix_of(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k) {
  if (n_q < 0 || n_k < 0) fail(ErrorCode::shape, "lengths are 0 or more", "matrix");
  auto* const kept = new std::vector<std::uint8_t>(static_cast<std::size_t>(n_q * n_k));
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::vector<std::uint8_t>*>(data); });
  const tile::Plan plan = tile::compile_plan(pattern, n_q, n_k, {64, 64});
  for (std::int64_t i = 0; i < n_q; ++i)
    for (const tile::Plan::Entry& entry : plan.row(i / 64)) {
      const std::int64_t end = std::min<std::int64_t>(n_k, (entry.block + entry.count) * 64);
      for (std::int64_t j = entry.block * std::int64_t{64}; j < end; ++j)
        (*kept)[static_cast<std::size_t>(i * n_k + j)] =
            entry.mask == tile::Plan::kWhole || ((plan.mask(entry.mask)[j % 64] >> (i % 64)) & 1u) != 0 ? 1 : 0;
    }
  const std::size_t shape[] = {static_cast<std::size_t>(n_q), static_cast<std::size_t>(n_k)};
  return nb::cast(nb::ndarray<nb::numpy, bool>(kept->data(), 2, shape, owner));
}

// What the kernels will do with it: pairs kept, and blocks of the tile they use.
nb::dict plan_of(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k) {
  const auto plan = tile::plan_for(Device::cpu, pattern, n_q, n_k);
  std::int64_t whole = 0, part = 0;
  for (const tile::Plan::Entry& entry : plan->rows) (entry.mask == tile::Plan::kWhole ? whole : part) += entry.count;
  nb::dict out;
  out["kept_pairs"] = plan->kept_pairs;
  out["whole_blocks"] = whole;
  out["part_blocks"] = part;
  out["blocks"] = plan->query_blocks() * plan->key_blocks();
  out["tile"] = nb::make_tuple(plan->tile_q, plan->tile_k);
  return out;
}

}  // namespace

void bind_pattern(nb::module_& module) {
  nb::class_<Pattern>(module, "Pattern")
      .def("__and__", [](const Pattern& a, const Pattern& b) { return a & b; })
      .def("__or__", [](const Pattern& a, const Pattern& b) { return a | b; })
      .def("__invert__", [](const Pattern& a) { return ~a; })
      .def("keep", &Pattern::keep)
      .def("matrix", matrix_of)
      .def("plan", plan_of)
      .def_prop_ro("text", &Pattern::text)
      .def_static("full", &Pattern::full)
      .def_static("causal", &Pattern::causal)
      .def_static("window", &Pattern::window)
      .def_static("block_diagonal", &Pattern::block_diagonal)
      .def_static("comb", &Pattern::comb)
      .def_static("distances", &Pattern::distances)
      .def_static("blocks", &Pattern::blocks)
      .def_static("box",
                  [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
                    return Pattern::box({a, b, c, d});
                  })
      .def_static("from_function", from_function)
      .def_static("from_matrix", from_matrix);
}

}  // namespace fovea::python
