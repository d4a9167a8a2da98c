#include "reference/aligned.h"

namespace fovea::reference {

Result aligned(const Problem& given, const std::function<Result(const Problem&)>& define) {
  if (!given.top_left || given.n_q <= given.n_k) return define(given);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    Problem p = given;
    p.top_left = false;
    p.n_q = count;
    p.q.assign(given.query(first, 0), given.query(first, 0) + count * p.heads * p.d_k);
    for (auto pairwise : {&Problem::bias, &Problem::drop_factor})
      if (given.*pairwise)
        p.*pairwise = [of = given.*pairwise, first](std::int64_t head, std::int64_t i, std::int64_t j) {
          return of(head, first + i, j);
        };
    return p;
  };
  const std::int64_t own = given.n_k > 0 ? given.n_k : given.n_q;
  Result all = define(part(0, own));
  for (std::int64_t i = own; i < given.n_q; ++i) {
    const Result one = define(part(i, 1));
    all.o.insert(all.o.end(), one.o.begin(), one.o.end());
    all.lse.insert(all.lse.end(), one.lse.begin(), one.lse.end());
  }
  return all;
}

}  // namespace fovea::reference
