#include "ops/fft_conv_cpu.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <numbers>

#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

using Roots = std::vector<std::complex<double>>;

// e^(-2 pi i j / size), j < size, with few library calls: far steps times near ones.
Roots roots_of(std::int64_t size) {
  const std::int64_t near = std::min<std::int64_t>(size, 256);
  const auto turn = [size](std::int64_t j) {
    return std::polar(1.0, -2.0 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(size));
  };
  Roots roots;
  roots.reserve(static_cast<std::size_t>(size));
  for (std::int64_t j = 0; j < near; ++j) roots.push_back(turn(j));
  for (std::int64_t j = near; j < size; j += near) {
    const std::complex<double> far = turn(j);
    for (std::int64_t i = 0; i < near; ++i) roots.push_back(far * roots[static_cast<std::size_t>(i)]);
  }
  return roots;
}

Tensor twiddles_of(const Context& context, std::int64_t size, DType dtype) {
  std::int64_t count = 0;
  for (std::int64_t level = size; level >= 4; level /= 4) count += level / 4;
  const Tensor out = Tensor::empty(context, {count, 3, 2}, dtype);
  const Roots roots = roots_of(size);
  visit_wide(dtype, [&]<class R>() {
    R* to = out.data<R>();
    for (std::int64_t level = size; level >= 4; level /= 4)
      for (std::int64_t j = 0; j < level / 4; ++j)
        for (std::int64_t power = 1; power <= 3; ++power, to += 2) {
          const std::complex<double> root = roots[static_cast<std::size_t>(power * j * (size / level))];
          to[0] = static_cast<R>(root.real());
          to[1] = static_cast<R>(root.imag());
        }
  });
  return out;
}

// Sequences by the size of their transform.
std::vector<cpu::FftGroup> groups_of(const Context& context, RowList sequences, DType dtype) {
  const auto size_of_transform = [](const Sequences::Rows& rows) {
    return 2 * static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows.count)));
  };
  std::erase_if(sequences, [](const Sequences::Rows& rows) { return rows.count == 0; });
  std::stable_sort(sequences.begin(), sequences.end(),
                   [&](const auto& a, const auto& b) { return size_of_transform(a) < size_of_transform(b); });
  std::vector<cpu::FftGroup> groups;
  for (const Sequences::Rows& rows : sequences) {
    const std::int64_t size = size_of_transform(rows);
    if (groups.empty() || groups.back().size != size) groups.push_back({size, twiddles_of(context, size, dtype), {}});
    groups.back().sequences.push_back(rows);
  }
  return groups;
}

// saved: u, k (taps, width).
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& groups = std::any_cast<const std::vector<cpu::FftGroup>&>(node.attributes);
  const Tensor &u = node.saved[0], &k = node.saved[1];
  const cpu::FftConvPull io{{groups, u, k, dense_rows(context, node.grad())},
                            node.wants(0) ? Tensor::zeros(context, u.shape(), u.dtype()) : Tensor(),
                            node.wants(1) ? Tensor::zeros(context, k.shape(), k.dtype()) : Tensor()};
  cpu::fft_conv_backward(context, io);
  if (node.wants(0)) tape.accumulate(node.inputs[0], io.du);
  if (node.wants(1)) tape.accumulate(node.inputs[1], io.dk.transpose(0, 1));
}

constexpr Op kFftConv{"fft_conv", backward};

}  // namespace

Var fft_conv(Tape& tape, const Var& u, const Var& k, const Sequences& rows) {
  const bool fits = u.value().rank() == 3 && k.value().rank() == 2 && k.dim(0) == u.dim(2) &&
                    wide_type(k.dtype()) == wide_type(u.dtype());
  if (!fits)
    fail(ErrorCode::shape,
         "fft_conv of " + std::string(name_of(u.dtype())) + u.shape().text() + " by " +
             std::string(name_of(k.dtype())) + k.shape().text(),
         {}, "(b, n, width) by (width, taps)");
  const Context& context = tape.context();
  const DType type = wide_type(u.dtype());
  const Tensor in = dense_rows(context, u.value());
  const Tensor taps = k.value().to(context, type).transpose(0, 1).contiguous(context);
  const Tensor y = Tensor::zeros(context, u.shape(), u.dtype());
  std::vector<cpu::FftGroup> groups = groups_of(context, rows.rows(u.dim(0), u.dim(1), "rows"), type);
  cpu::fft_conv(context, {groups, in, taps, y});
  return tape.record(kFftConv, {u, k}, y, {in, taps}, std::move(groups));
}

}  // namespace fovea
