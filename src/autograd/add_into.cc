#include "autograd/add_into.h"

#include "tensor/walk.h"

namespace fovea {
namespace {

template <class To, class From>
void add_stretch(To* to, const From* from, const Stretch& s) {
  using R = Wide<To>;
  const auto sum = [](To a, From b) { return static_cast<To>(static_cast<R>(a) + static_cast<R>(b)); };
  if (s.dense()) {
    for (std::int64_t i = 0; i < s.count; ++i) to[i] = sum(to[i], from[i]);
  } else {
    for (std::int64_t i = 0; i < s.count; ++i) to[i * s.to_step] = sum(to[i * s.to_step], from[i * s.from_step]);
  }
}

}  // namespace

void add_into(const Context& context, const Tensor& to, const Tensor& from) {
  if (to.shape() != from.shape())
    fail(ErrorCode::internal, "adding shape " + from.shape().text() + " into " + to.shape().text());
  const Walk walk(to, from);
  visit_float(to.dtype(), [&]<class To>() {
    visit_float(from.dtype(), [&]<class From>() {
      To* target = to.data<To>();
      const From* source = from.data<From>();
      walk.run(context.threads(), [&](const Stretch& s) { add_stretch(target + s.to, source + s.from, s); });
    });
  });
}

}  // namespace fovea
