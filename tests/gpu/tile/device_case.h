#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "attention_case.h"
#include "gpu/support/mirror.h"
#include "tile/cuda/launch.h"

// An attention case run on the card: its arrays are copied there, the results back.
namespace fovea::tile::testing {

// Also of the fields of a case.
class Mirror : public fovea::testing::Mirror {
 public:
  using fovea::testing::Mirror::in, fovea::testing::Mirror::out;
  In in(const Field& field) {
    return {in(field.storage.data(), field.storage.size()), field.in().batch, field.in().row, field.in().head};
  }
  Out out(Field& field) {
    const Out host = field.out();
    return {out(field.storage.data(), field.storage.size()), host.batch, host.row, host.head};
  }
};

inline DType wide_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// The problem with its slopes and bias on the card.
inline Problem problem_on(Mirror& mirror, const AttentionCase& c) {
  Problem p = c.problem();
  if (p.alibi != nullptr)
    p.alibi = static_cast<const double*>(mirror.in(p.alibi, static_cast<std::size_t>(p.heads) * sizeof(double)));
  if (p.bias.data != nullptr) p.bias.data = mirror.in(p.bias.data, c.arrays().bias.size() * size_of(wide_of(p.dtype)));
  return p;
}

// Runs `call(problem, io)`, a forward or a backward of the card, on the case's arrays.
template <class F>
void forward_on_card(AttentionCase& c, bool statistic, F&& call) {
  Arrays& a = c.arrays();
  Mirror mirror;
  const Problem problem = problem_on(mirror, c);
  const Forward io{mirror.in(a.q), mirror.in(a.k), mirror.in(a.v), mirror.out(a.o),
                   statistic ? mirror.out(a.lse) : Out{}};
  call(problem, io);
  mirror.finish();
  a.o.load();
  if (statistic) a.lse.load();
}

template <class F>
void backward_on_card(AttentionCase& c, bool statistic, F&& call) {
  Arrays& a = c.arrays();
  Mirror mirror;
  const Problem problem = problem_on(mirror, c);
  Backward io{mirror.in(a.q),
              mirror.in(a.k),
              mirror.in(a.v),
              statistic ? mirror.in(a.o) : In{},
              statistic ? mirror.in(a.lse) : In{},
              mirror.in(a.d_o),
              c.options().d_lse ? mirror.in(a.d_lse) : In{},
              mirror.out(a.dq),
              mirror.out(a.dk),
              mirror.out(a.dv),
              {}};
  const DType wide = wide_of(problem.dtype);
  // Where pieces reach everything the engine must overwrite NaN.
  std::vector<std::byte> d_bias(a.bias.size() * size_of(wide),
                                std::byte{c.covers() ? std::uint8_t{0xff} : std::uint8_t{0}});
  if (!d_bias.empty())
    io.d_bias = {mirror.out(d_bias.data(), d_bias.size()), problem.bias.batch, problem.bias.head, problem.bias.query,
                 problem.bias.key};
  call(problem, io);
  mirror.finish();
  for (Field* field : {&a.dq, &a.dk, &a.dv}) field->load();
  visit_float(wide, [&]<class T>() {
    const T* data = reinterpret_cast<const T*>(d_bias.data());
    a.d_bias.assign(data, data + a.bias.size());
  });
}

inline void run_forward_on_card(AttentionCase& c) {
  forward_on_card(c, has_statistic(c.options().weight),
                  [](const Problem& p, const Forward& io) { cuda::forward({}, p, io); });
}
inline void run_backward_on_card(AttentionCase& c) {
  backward_on_card(c, has_statistic(c.options().weight),
                   [](const Problem& p, const Backward& io) { cuda::backward({}, p, io); });
}

}  // namespace fovea::tile::testing
