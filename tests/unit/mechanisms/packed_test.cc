// Packed sequences of many lengths at once, against one call for each of them.

#include <gtest/gtest.h>

#include <numeric>

#include "unit/mechanisms/mechanism_calls.h"

namespace fovea {
namespace {

struct PackedCase {
  std::string mechanism;
  bool causal = false;
};
void PrintTo(const PackedCase& c, std::ostream* out) { *out << c.mechanism << (c.causal ? " causal" : ""); }

class PackedSequences : public MechanismCalls, public ::testing::TestWithParam<PackedCase> {
 protected:
  static constexpr std::int64_t kHeads = 2, kWidth = 6, kInput = 12;

  PackedSequences() : MechanismCalls({1, 1, kHeads, kWidth}, 5) {}

  // Fresh leaves with the same numbers at every call.
  std::vector<Var> weights(std::int64_t max_length) {
    return make_weights(
        context_, Mechanism::parse(GetParam().mechanism),
        {.heads = kHeads, .kv_heads = kHeads, .d_k = kWidth, .d_v = kWidth, .width = kInput, .max_length = max_length},
        DType::f64);
  }

  struct Run {
    std::vector<Tensor> results;  // the output, and the gradients of q, k, v and the input
    std::vector<Var> weights;     // with their gradients
    std::size_t nodes;
  };
  // Rows [begin, end) of all rows, as the sequences that `packed` tells.
  Run run(const std::vector<Tensor>& rows, std::int64_t begin, std::int64_t end, const Sequences& packed,
          const std::vector<Var>& weights) {
    std::vector<Var> in;
    for (std::size_t i = 0; i < 4; ++i) in.push_back(Var::leaf(rows[i].slice(1, begin, end).clone(context_)));
    const Mechanism mechanism = Mechanism::parse(GetParam().mechanism);
    AttentionOptions options;
    options.causal = GetParam().causal;
    options.queries = packed;
    options.weights = weights;
    if (mechanism.needs_input()) options.input = in[3];
    Tape tape(context_);
    const Var o = attention(tape, in[0], in[1], in[2], mechanism, options).output;
    Run out{{o.value()}, weights, tape.size()};
    tape.backward(o, rows[4].slice(1, begin, end));
    for (std::size_t i = 0; i < (mechanism.needs_input() ? 4u : 3u); ++i) {
      const Tensor& grad = in[i].grad();  // undefined: a single causal block asks no other
      out.results.push_back(grad.defined() ? grad : Tensor::zeros(context_, in[i].shape(), DType::f64));
    }
    return out;
  }
  std::vector<Tensor> rows_of(std::int64_t total) {
    std::vector<Tensor> rows;
    for (std::uint64_t i = 0; i < 5; ++i)
      rows.push_back(random(i == 3 ? Shape{1, total, kInput} : Shape{1, total, kHeads, kWidth}, 1 + i).value());
    return rows;
  }
  static Sequences pack(const std::vector<std::int32_t>& lengths) {
    Sequences packed{{}, {0}};
    for (const std::int32_t length : lengths) packed.cu_seqlens.push_back(packed.cu_seqlens.back() + length);
    return packed;
  }
  static void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
    MechanismCalls::expect_near(got.to_vector<double>(), want.to_vector<double>(), 1e-9, what);
  }

  std::size_t nodes_of(const std::vector<std::int32_t>& lengths) {
    const Sequences packed = pack(lengths);
    const std::int64_t total = packed.cu_seqlens.back();
    return run(rows_of(total), 0, total, packed, weights(30)).nodes;
  }

  void expect_each_as_by_itself() {
    const std::vector<std::int32_t> lengths{19, 0, 3, 8, 30, 1, 19, 5, 23};
    const Sequences packed = pack(lengths);
    const std::int64_t total = packed.cu_seqlens.back();
    const std::vector<Tensor> rows = rows_of(total);
    const Run together = run(rows, 0, total, packed, weights(30));
    const std::vector<Var> shared = weights(30);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (lengths[s] == 0) continue;
      const std::int64_t begin = packed.cu_seqlens[s], end = packed.cu_seqlens[s + 1];
      const Run alone = run(rows, begin, end, {}, shared);
      for (std::size_t i = 0; i < alone.results.size(); ++i)
        expect_near(together.results[i].slice(1, begin, end), alone.results[i],
                    "sequence " + std::to_string(s) + ", result " + std::to_string(i));
    }
    for (std::size_t w = 0; w < shared.size(); ++w)
      if (shared[w].needs_grad())
        expect_near(together.weights[w].grad(), shared[w].grad(), "weight " + std::to_string(w));
  }
};

TEST_P(PackedSequences, EqualSequencesByThemselves) { expect_each_as_by_itself(); }

// Twice as many sequences are as many operations.
TEST_P(PackedSequences, RunInOneGo) { EXPECT_EQ(nodes_of({19, 30, 24}), nodes_of({19, 30, 24, 28, 17, 21})); }

INSTANTIATE_TEST_SUITE_P(
    All, PackedSequences,
    ::testing::Values(PackedCase{"performer:features=16"}, PackedCase{"nystrom:landmarks=8"},
                      PackedCase{"nystrom:landmarks=8,conv=3"}, PackedCase{"linformer:slots=5"},
                      PackedCase{"linformer:slots=5,sharing=none"}, PackedCase{"linformer:slots=5,sharing=kv"},
                      PackedCase{"sinkhorn:block=8"}, PackedCase{"sinkhorn:block=8", true},
                      PackedCase{"sinkhorn:block=8,cut=2"}, PackedCase{"sinkhorn:block=8,combine=sum"},
                      PackedCase{"sinkhorn:block=8,causal=sinkhorn", true}, PackedCase{"sinkhorn:block=8,sort=learned"},
                      PackedCase{"sinkhorn:block=8,sort=learned", true}, PackedCase{"reformer:chunk=8"},
                      PackedCase{"reformer:chunk=8,across=false", true},
                      PackedCase{"reformer:chunk=8,rounds=3", true}));

// Sequences that run together with their like alone, or those of one length after those of another.
class PackedGroups : public PackedSequences {};

TEST_P(PackedGroups, EqualSequencesByThemselves) { expect_each_as_by_itself(); }

INSTANTIATE_TEST_SUITE_P(All, PackedGroups,
                         ::testing::Values(PackedCase{"sinkhorn:block=2"}, PackedCase{"sinkhorn:block=2", true},
                                           PackedCase{"sinkhorn:block=2,cut=2"},
                                           PackedCase{"sinkhorn:block=2,sort=learned"}));

class PackedLengths : public PackedSequences {};

TEST_P(PackedLengths, EqualSequencesByThemselves) { expect_each_as_by_itself(); }

// Another sequence of a length that is there already is cut out (q, k, v and input) and put back, and runs with the
// first.
TEST_P(PackedLengths, RunWithTheirEqualsInOneGo) {
  EXPECT_LE(nodes_of({19, 30, 19, 30, 19, 30}), nodes_of({19, 30, 19, 30}) + 2 * 5);
}

INSTANTIATE_TEST_SUITE_P(All, PackedLengths,
                         ::testing::Values(PackedCase{"compressive:segment=4,memory=3", true}, PackedCase{"flash-gau"},
                                           PackedCase{"flash-quad"}, PackedCase{"informer"},
                                           PackedCase{"informer", true}, PackedCase{"lara"}, PackedCase{"long-short"},
                                           PackedCase{"longformer:window=4,globals=2"}, PackedCase{"memformer"},
                                           PackedCase{"polysketch:features=8"}, PackedCase{"s4d"},
                                           PackedCase{"shaw:clip=4"}, PackedCase{"sigmoid:shift=log-n"},
                                           PackedCase{"skyformer:landmarks=8"},
                                           PackedCase{"transformer-xl:segment=8,memory=4"}));

}  // namespace
}  // namespace fovea
