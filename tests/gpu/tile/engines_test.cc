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

// One element for every distance from -(n_k - 1) to n_q - 1, for each head and batch item; gradients are added to what
// is there.
struct DistanceBias {
  std::int64_t size, heads, batch;
  std::vector<double> wide;
  std::vector<float> narrow;

  DistanceBias(const Options& o, std::uint64_t seed) : size(o.n_q + o.n_k - 1), heads(o.heads), batch(o.batch) {
    Random random(seed);
    for (std::int64_t i = 0; i < size * heads * batch; ++i) {
      narrow.push_back(2.0f * random.uniform() - 1.0f);
      wide.push_back(static_cast<double>(narrow.back()));
    }
  }
  template <class Pointer>
  BiasArray<Pointer> array(Pointer data) const {
    return {data, size * heads, size, 1, -1};
  }
  void place(std::vector<Piece>& pieces, std::int64_t n_k) const {
    for (Piece& piece : pieces) piece.bias_at = piece.d_bias_at = n_k - 1;
  }
};

TEST_P(EnginesAgree, BiasOfTheDistance) {
  for (const Pattern& pattern : {Pattern::full(), Pattern::causal(), Pattern::window(20, 70)}) {
    Options o;
    o.dtype = GetParam();
    o.batch = 2, o.heads = 3, o.kv_heads = 3, o.n_q = 150, o.n_k = 201, o.d_k = o.d_v = 24, o.tile = {64, 64};
    o.pattern = pattern;
    AttentionCase card(o);
    Options w = o;
    w.dtype = DType::f64;
    AttentionCase host(w);
    copy_inputs(card.arrays(), host.arrays());
    DistanceBias bias(o, 5), gradient(o, 6);
    const bool is_wide = o.dtype == DType::f64;
    const std::size_t bytes = bias.wide.size() * (is_wide ? sizeof(double) : sizeof(float));

    Problem p = host.problem();
    std::vector<Piece> pieces(p.pieces.begin(), p.pieces.end());
    bias.place(pieces, o.n_k);
    p.pieces = pieces;
    p.bias = bias.array<const void*>(bias.wide.data());
    Arrays& b = host.arrays();
    const Context context({.threads = 1});
    forward(context, p, {b.q.in(), b.k.in(), b.v.in(), b.o.out(), b.lse.out()});
    backward(context, p,
             {b.q.in(),
              b.k.in(),
              b.v.in(),
              b.o.in(),
              b.lse.in(),
              b.d_o.in(),
              {},
              b.dq.out(),
              b.dk.out(),
              b.dv.out(),
              gradient.array<void*>(gradient.wide.data())});

    Mirror mirror;
    Problem c = card.problem();
    std::vector<Piece> card_pieces(c.pieces.begin(), c.pieces.end());
    bias.place(card_pieces, o.n_k);
    c.pieces = card_pieces;
    c.bias =
        bias.array<const void*>(mirror.in(is_wide ? static_cast<void*>(bias.wide.data()) : bias.narrow.data(), bytes));
    std::vector<double> wide_gradient = DistanceBias(o, 6).wide;
    void* to = is_wide ? static_cast<void*>(wide_gradient.data()) : gradient.narrow.data();
    Arrays& a = card.arrays();
    const Out o_out = mirror.out(a.o), lse = mirror.out(a.lse);
    const In q = mirror.in(a.q), k = mirror.in(a.k), v = mirror.in(a.v);
    cuda::forward({}, c, {q, k, v, o_out, lse});
    cuda::backward({}, c,
                   {q,
                    k,
                    v,
                    {o_out.data, o_out.batch, o_out.row, o_out.head},
                    {lse.data, lse.batch, lse.row, lse.head},
                    mirror.in(a.d_o),
                    {},
                    mirror.out(a.dq),
                    mirror.out(a.dk),
                    mirror.out(a.dv),
                    gradient.array<void*>(mirror.out(to, bytes))});
    mirror.finish();
    for (Field* f : {&a.o, &a.dq, &a.dk, &a.dv}) f->load();
    for (Field* f : {&b.o, &b.dq, &b.dk, &b.dv}) f->load();
    EXPECT_LT(difference(a.o.values, b.o.values), limit()) << "o";
    EXPECT_LT(difference(a.dq.values, b.dq.values), limit()) << "dq";
    EXPECT_LT(difference(a.dk.values, b.dk.values), limit()) << "dk";
    EXPECT_LT(difference(a.dv.values, b.dv.values), limit()) << "dv";
    const std::vector<double> ours =
        is_wide ? wide_gradient : std::vector<double>(gradient.narrow.begin(), gradient.narrow.end());
    EXPECT_LT(difference(ours, gradient.wide), limit()) << "d_bias";
  }
}
INSTANTIATE_TEST_SUITE_P(All, EnginesAgree, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace fovea::tile::testing
