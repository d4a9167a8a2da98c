#include <algorithm>

#include "core/parallel.h"
#include "core/wide.h"
#include "policy/merge.h"
#include "tile/merge_kernels.h"

namespace fovea::tile::kernels {
namespace {

constexpr std::int64_t kGrain = 256;  // rows per task

// One head of one row of a part.
template <class T>
struct PartRow {
  const T* o;
  Wide<T> lse;

  bool is_empty() const { return MergeShares<Wide<T>>::is_empty(lse); }
};

// `to` may be one of the parts. Gives the log-sum-exp of both.
template <class T>
Wide<T> merge_row(const PartRow<T>& a, const PartRow<T>& b, T* to, std::int64_t width) {
  using R = Wide<T>;
  const auto shares = MergeShares<R>::of(a.lse, b.lse);
  if (a.is_empty() && b.is_empty()) {
    std::fill_n(to, width, T{});
  } else if (a.is_empty() || b.is_empty()) {
    const T* only = a.is_empty() ? b.o : a.o;
    if (only != to) std::copy_n(only, width, to);
  } else {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c)
      to[c] = static_cast<T>(shares.a * static_cast<R>(a.o[c]) + shares.b * static_cast<R>(b.o[c]));
  }
  return shares.whole;
}

template <class T>
void merge_rows(const Context& context, const Merge& io) {
  using R = Wide<T>;
  const std::int64_t n = io.to.o.dim(1), heads = io.to.o.dim(2), width = io.to.o.dim(3);
  parallel_ranges(context, io.to.o.dim(0) * n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto at = [&](const Tensor& x) { return r / n * x.stride(0) + r % n * x.stride(1) + h * x.stride(2); };
        const auto o = [&](const PartialOutput& part) { return part.o.data<T>() + at(part.o); };
        const auto lse = [&](const PartialOutput& part) { return part.lse.data<R>() + at(part.lse); };
        *lse(io.to) = merge_row<T>({o(io.a), *lse(io.a)}, {o(io.b), *lse(io.b)}, o(io.to), width);
      }
  });
}

// d_part = share d_o; d_lse_part = share (share of the other d_o . (part - other) + d_lse). (part - o is the same times
// less, but loses what o, rounded, has of the smaller share.)
template <class T>
void vjp_rows(const Context& context, const MergeGradient& io) {
  using R = Wide<T>;
  const std::int64_t width = io.part.o.dim(-1);
  parallel_ranges(context, io.lse.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto share_of = [&](const PartialOutput& part) {
        return MergeShares<R>::share(part.lse.data<R>()[r], io.lse.data<R>()[r]);
      };
      const R share = share_of(io.part), rest = share_of(io.other);
      const T* d_o = io.d_o.defined() ? io.d_o.data<T>() + r * width : nullptr;
      T* d_part = io.d_part.o.data<T>() + r * width;
      for (std::int64_t c = 0; c < width; ++c)
        d_part[c] = static_cast<T>(d_o == nullptr ? R(0) : share * static_cast<R>(d_o[c]));
      R apart = 0;
      if (d_o != nullptr && share > 0 && rest > 0) {
        const T *own = io.part.o.data<T>() + r * width, *other = io.other.o.data<T>() + r * width;
        for (std::int64_t c = 0; c < width; ++c)
          apart += static_cast<R>(d_o[c]) * (static_cast<R>(own[c]) - static_cast<R>(other[c]));
      }
      const R d_lse = io.d_lse.defined() ? io.d_lse.data<R>()[r] : R(0);
      io.d_part.lse.data<R>()[r] = share * (rest * apart + d_lse);
    }
  });
}

}  // namespace

template <>
void merge<Device::cpu>(const Context& context, const Merge& io) {
  visit_float(io.to.o.dtype(), [&]<class T>() { merge_rows<T>(context, io); });
}

template <>
void merge_backward<Device::cpu>(const Context& context, const MergeGradient& io) {
  visit_float(io.part.o.dtype(), [&]<class T>() { vjp_rows<T>(context, io); });
}

}  // namespace fovea::tile::kernels
