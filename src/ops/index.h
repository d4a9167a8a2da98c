#pragma once

#include <memory>
#include <string>

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/index_kernels.h"

// How operations look at an index.
namespace fovea {

struct WrongEntry {
  std::int64_t value;
  std::string where;  // "index[3]"
};

inline WrongEntry wrong_entry(const Tensor& index, std::int64_t at, const std::string& name) {
  const auto value = static_cast<std::int64_t>(index.reshape({index.numel()}).select(0, at).item());
  return {value, name + "[" + std::to_string(at) + "]"};
}

// Entries where the context runs, dense: they may come from the host.
inline Tensor taken_along(const Context& context, const Tensor& entries) {
  const bool here = entries.device() == context.device() || entries.device() != Device::cpu;
  return here ? entries.contiguous(context) : entries.clone(context);
}

// Entries where they lie, dense.
inline Tensor dense_entries(const Context& context, const Tensor& entries) {
  return entries.is_contiguous() ? entries : taken_along(context, entries);
}

// Room for one i64 where the entries lie.
inline Tensor number_beside(const Context& context, const Tensor& entries) {
  if (entries.device() == context.device()) return Tensor::empty(context, {}, DType::i64, Lifetime::scratch);
  const auto number = std::make_shared<std::int64_t>(0);
  return Tensor::wrap(number.get(), {}, DType::i64, number);
}

// Place of the first entry that is not in [least, limit), or -1. Looked for where the index lies, unless it is known.
inline std::int64_t first_outside(const Context& context, const Index& index, std::int64_t least, std::int64_t limit) {
  if (index.within(least, limit)) return -1;
  const Tensor entries = dense_entries(context, index.entries);
  const kernels::IndexRange io{entries, least, limit, number_beside(context, entries)};
  visit_device(*entries.memory(), [&]<Device D>() { kernels::first_outside<D>(context, io); });
  return io.place.to_vector<std::int64_t>().front();
}

// Refuses an index (b, m, heads) of rows below `rows` that names one of them twice.
inline void check_once(const Context& context, const Index& index, std::int64_t rows) {
  if (index.once) return;
  const Tensor entries = dense_entries(context, index.entries);
  const kernels::IndexOnce io{entries, rows, number_beside(context, entries)};
  visit_device(*entries.memory(), [&]<Device D>() { kernels::first_repeated<D>(context, io); });
  const std::int64_t at = io.place.to_vector<std::int64_t>().front();
  if (at < 0) return;
  const auto [row, where] = wrong_entry(io.index, at, "index");
  fail(ErrorCode::bad_input, "row " + std::to_string(row) + " is put twice", where);
}

}  // namespace fovea
