// The card against the CPU engine in double, for what the plain loops of attention_case.h do not know: pieces of single
// key heads, biases of the distance.

#include <gtest/gtest.h>

#include "device_case.h"
#include "support/names.h"

namespace fovea::tile::testing {
namespace {

class EnginesAgree : public ::testing::TestWithParam<DType> {
 protected:
  double limit() const { return GetParam() == DType::f64 ? 2e-12 : (GetParam() == DType::f32 ? 3e-5 : 1.5e-2); }
};

void copy_inputs(const Arrays& from, Arrays& to) {
  for (auto [a, b] : {std::pair{&from.q, &to.q}, {&from.k, &to.k}, {&from.v, &to.v}, {&from.d_o, &to.d_o}}) {
    b->values = a->values;
    b->store();
  }
}

TEST_P(EnginesAgree, PiecesOfSingleHeads) {
  Options o;
  o.dtype = GetParam();
  o.heads = 4, o.kv_heads = 2, o.n_q = 150, o.n_k = 130, o.d_k = o.d_v = 32, o.tile = {64, 64}, o.dropout = 0.2f;
  o.pattern = Pattern::causal();
  o.pieces = {{0, 0, 150, 0, 70, nullptr, 1, 1, 0, 0},
              {0, 10, 40, 70, 60, nullptr, 2, 1, 0, 1},
              {0, 11, 60, 5, 20, nullptr, 2, 1, 0, 1}};
  AttentionCase card(o);
  o.dtype = DType::f64;
  AttentionCase host(o);
  copy_inputs(card.arrays(), host.arrays());
  const Context context({.threads = 1});
  host.run_forward(context);
  host.run_backward(context);
  run_forward_on_card(card);
  run_backward_on_card(card);
  const Arrays &a = card.arrays(), &b = host.arrays();
  EXPECT_LT(difference(a.o.values, b.o.values), limit()) << "o";
  EXPECT_LT(difference(a.dq.values, b.dq.values), limit()) << "dq";
  EXPECT_LT(difference(a.dk.values, b.dk.values), limit()) << "dk";
  EXPECT_LT(difference(a.dv.values, b.dv.values), limit()) << "dv";
}

// One element for every distance from -(n_k - 1) to n_q - 1, for each head and batch item, in both widths.
struct DistanceBias {
  std::int64_t size, heads;
  std::vector<double> wide;
  std::vector<float> narrow;

  DistanceBias(const Options& o, std::uint64_t seed) : size(o.n_q + o.n_k - 1), heads(o.heads) {
    Random random(seed);
    for (std::int64_t i = 0; i < size * heads * o.batch; ++i) {
      narrow.push_back(2.0f * random.uniform() - 1.0f);
      wide.push_back(static_cast<double>(narrow.back()));
    }
  }
  template <class Pointer>
  BiasArray<Pointer> array(Pointer data) const {
    return {data, size * heads, size, 1, -1};
  }
  void* data(DType dtype) { return dtype == DType::f64 ? static_cast<void*>(wide.data()) : narrow.data(); }
  std::size_t bytes(DType dtype) const { return wide.size() * size_of(wide_of(dtype)); }
};

// A case with a bias of the distance; gradients are added to what `gradient` holds.
struct DistanceCase {
  AttentionCase attention;
  DistanceBias bias, gradient;
  std::vector<Piece> pieces;

  explicit DistanceCase(const Options& o) : attention(o), bias(o, 5), gradient(o, 6) {
    const Problem problem = attention.problem();
    pieces.assign(problem.pieces.begin(), problem.pieces.end());
    for (Piece& piece : pieces) piece.bias_at = piece.d_bias_at = o.n_k - 1;
  }
  Arrays& arrays() { return attention.arrays(); }
  Problem problem(const void* bias_data) {
    Problem p = attention.problem();
    p.pieces = pieces;
    p.bias = bias.array<const void*>(bias_data);
    return p;
  }
  void load() {
    for (Field* f : {&arrays().o, &arrays().dq, &arrays().dk, &arrays().dv}) f->load();
  }

  void run_on_host() {
    Arrays& a = arrays();
    const Context context({.threads = 1});
    const Problem p = problem(bias.wide.data());
    forward<Device::cpu>(context, p, {a.q.in(), a.k.in(), a.v.in(), a.o.out(), a.lse.out()});
    backward<Device::cpu>(context, p,
                          {a.q.in(),
                           a.k.in(),
                           a.v.in(),
                           a.o.in(),
                           a.lse.in(),
                           a.d_o.in(),
                           {},
                           a.dq.out(),
                           a.dk.out(),
                           a.dv.out(),
                           gradient.array<void*>(gradient.wide.data())});
    load();
  }
  void run_on_card() {
    Arrays& a = arrays();
    Mirror mirror;
    const DType dtype = attention.options().dtype;
    const Problem p = problem(mirror.in(bias.data(dtype), bias.bytes(dtype)));
    const Out o = mirror.out(a.o), lse = mirror.out(a.lse);
    const In q = mirror.in(a.q), k = mirror.in(a.k), v = mirror.in(a.v);
    cuda::forward({}, p, {q, k, v, o, lse});
    const In o_in{o.data, o.batch, o.row, o.head}, lse_in{lse.data, lse.batch, lse.row, lse.head};
    void* d_bias = mirror.out(gradient.data(dtype), gradient.bytes(dtype));
    cuda::backward({}, p,
                   {q,
                    k,
                    v,
                    o_in,
                    lse_in,
                    mirror.in(a.d_o),
                    {},
                    mirror.out(a.dq),
                    mirror.out(a.dk),
                    mirror.out(a.dv),
                    gradient.array<void*>(d_bias)});
    mirror.finish();
    load();
    if (dtype != DType::f64) gradient.wide.assign(gradient.narrow.begin(), gradient.narrow.end());
  }
};

TEST_P(EnginesAgree, BiasOfTheDistance) {
  for (const Pattern& pattern : {Pattern::full(), Pattern::causal(), Pattern::window(20, 70)}) {
    Options o;
    o.dtype = GetParam();
    o.batch = 2, o.heads = 3, o.kv_heads = 3, o.n_q = 150, o.n_k = 201, o.d_k = o.d_v = 24, o.tile = {64, 64};
    o.pattern = pattern;
    DistanceCase card(o);
    o.dtype = DType::f64;
    DistanceCase host(o);
    copy_inputs(card.arrays(), host.arrays());
    host.run_on_host();
    card.run_on_card();
    const Arrays &a = card.arrays(), &b = host.arrays();
    EXPECT_LT(difference(a.o.values, b.o.values), limit()) << "o";
    EXPECT_LT(difference(a.dq.values, b.dq.values), limit()) << "dq";
    EXPECT_LT(difference(a.dk.values, b.dk.values), limit()) << "dk";
    EXPECT_LT(difference(a.dv.values, b.dv.values), limit()) << "dv";
    EXPECT_LT(difference(card.gradient.wide, host.gradient.wide), limit()) << "d_bias";
  }
}
INSTANTIATE_TEST_SUITE_P(All, EnginesAgree, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace fovea::tile::testing
