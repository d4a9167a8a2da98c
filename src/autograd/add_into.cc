#include "autograd/add_into.h"

#include "core/parallel.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

template <class To, class From>
void add_range(To* to, const From* from, std::int64_t begin, std::int64_t end) {
  using R = Wide<To>;
  for (std::int64_t i = begin; i < end; ++i)
    to[i] = static_cast<To>(static_cast<R>(to[i]) + static_cast<R>(from[i]));
}

}  // namespace

void add_into(const Context& context, const Tensor& to, const Tensor& from) {
  const Tensor source = from.contiguous(context);
  const Tensor target = to.contiguous(context);
  visit_float(to.dtype(), [&]<class To>() {
    visit_float(from.dtype(), [&]<class From>() {
      parallel_ranges(context, to.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        add_range(target.data<To>(), source.data<From>(), begin, end);
      });
    });
  });
  if (target.raw() != to.raw()) to.copy_from(target);
}

}  // namespace fovea
