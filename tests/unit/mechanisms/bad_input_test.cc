#include "support/expect_error.h"
#include "unit/mechanisms/mechanism_fixture.h"

// What may be asked of a mechanism by mistake: a named error, or the behaviour that its page tells.
namespace fovea {
namespace {

class BadInput : public MechanismTest {
 protected:
  // Everything a mechanism may want besides q, k and v.
  AttentionOptions furnished(const char* mechanism) {
    AttentionOptions options;
    options.input = random({1, kTokens, 4}, 5);
    options.weights = weights_of(mechanism, kTokens, 4);
    return options;
  }
  std::vector<double> run_furnished(const char* mechanism) { return run(mechanism, furnished(mechanism)); }
  std::vector<double> run_causal(const char* mechanism) {
    AttentionOptions options = furnished(mechanism);
    options.causal = true;
    return run(mechanism, options);
  }
};

TEST_F(BadInput, NoCausalForm) {
  for (const char* mechanism : {"linformer", "nystrom", "skyformer", "lara", "long-short", "sinkhorn:cut=2"}) {
    EXPECT_ERROR(run_causal(mechanism), ErrorCode::unsupported, "has no causal form", "x causal",
                 "fovea list --with causal");
  }
}

TEST_F(BadInput, NoStepForm) {
  for (const char* mechanism : {"linformer", "nystrom", "skyformer", "lara", "long-short", "informer", "reformer",
                                "sinkhorn", "flash-gau", "sigmoid:shift=log-n"}) {
    DecodeState state;
    Tape tape(context_, {.record = false});
    EXPECT_ERROR(attention_step(tape, q_.value(), k_.value(), v_.value(), Mechanism::parse(mechanism), state,
                                furnished(mechanism)),
                 ErrorCode::unsupported, "has no step form", "x step", "fovea list --with step");
    EXPECT_EQ(state.length, 0) << "a refused step leaves nothing behind";
  }
}

TEST_F(BadInput, StatesThatDoNotGoWithTheStep) {
  Tape tape(context_, {.record = false});
  DecodeState one, two;
  DecodeState* const both[] = {&one, &two};
  const Tensor &q = q_.value(), &k = k_.value(), &v = v_.value();
  const Mechanism softmax("softmax");
  EXPECT_ERROR(attention_step(tape, q, k, v, softmax, both), ErrorCode::shape, "1 sequences, but 2 states", "states",
               "one for each");
  EXPECT_ERROR(attention_step(tape, q, {}, {}, softmax, one), ErrorCode::usage, "neither new keys nor any", "states",
               "");
  EXPECT_ERROR(attention_step(tape, q, {}, {}, Mechanism("norm"), one), ErrorCode::usage, "neither new keys nor any",
               "states", "");
  attention_step(tape, q, k, v, softmax, one);
  const std::int64_t seen = one.length;
  const Tensor half = q.slice(3, 0, 1), narrow = k.slice(3, 0, 1);
  EXPECT_ERROR(attention_step(tape, half, narrow, v, softmax, one), ErrorCode::shape, "the cache holds f64 keys",
               "states", "each layer and sequence");
  EXPECT_EQ(one.length, seen);
}

TEST_F(BadInput, NothingToWorkWith) {
  const auto refused = [&](const char* mechanism, const char* parameter) {
    EXPECT_ERROR(Mechanism::parse(mechanism), ErrorCode::usage, "must be between", parameter, "");
  };
  refused("performer:features=0", "features");
  refused("rfa:features=0", "features");
  refused("polysketch:features=0", "features");
  refused("reformer:directions=0", "directions");
  refused("reformer:rounds=0", "rounds");
  refused("linformer:slots=0", "slots");
  refused("nystrom:landmarks=0", "landmarks");
  refused("skyformer:landmarks=1", "landmarks");
  refused("lara:landmarks=0", "landmarks");
  refused("memformer:slots=0", "slots");
  refused("topk:k=0", "k");
  refused("gla:rank=0", "rank");
  refused("diag:block=0", "block");
  refused("sinkhorn:iterations=0", "iterations");
  refused("compressive:rate=0", "rate");
  refused("s4d:states=0", "states");
}

// One block, segment or window that holds the whole sequence: everybody reads everybody.
TEST_F(BadInput, ABlockLargerThanTheSequenceIsFullAttention) {
  const std::vector<double> full = run("softmax");
  for (const char* mechanism :
       {"diag:block=64", "window:left=64,right=64", "sparse-fixed:block=64", "sparse-strided:stride=64",
        "bigbird:block=64", "cascade:window=64", "longformer:window=64,projections=shared", "sinkhorn:block=64",
        "compressive:segment=64", "topk:k=64"})
    EXPECT_LT(largest_difference(run_furnished(mechanism), full), 1e-12) << mechanism;
  EXPECT_LT(largest_difference(run_causal("polysketch:block=64"), run_causal("polysketch:form=exact")), 1e-10);
}

// Segments whose sizes differ by at most one; more landmarks than tokens: every token is one.
TEST_F(BadInput, LandmarksNeedNotDivideTheSequence) {
  for (const char* mechanism : {"nystrom:landmarks=4", "nystrom:landmarks=20", "lara:landmarks=4", "lara:landmarks=20",
                                "skyformer:landmarks=8", "linformer:slots=4"})
    for (const double x : run_furnished(mechanism)) ASSERT_TRUE(std::isfinite(x)) << mechanism;
  EXPECT_EQ(run("nystrom:landmarks=100"), run("nystrom:landmarks=21"));
  EXPECT_EQ(run_furnished("lara:landmarks=100"), run_furnished("lara:landmarks=21"));
  EXPECT_EQ(run_furnished("skyformer:landmarks=100"), run_furnished("skyformer:landmarks=42"));
}

TEST_F(BadInput, APatternThatKeepsNothingGivesZeros) {
  AttentionOptions options;
  options.pattern = Pattern::predicate("nothing", [](std::int64_t, std::int64_t) { return false; });
  options.return_lse = true;
  Tape tape(context_);
  const AttentionResult result = attention(tape, q_, k_, v_, Mechanism("softmax"), options);
  for (const double x : result.output.value().to_vector<double>()) ASSERT_EQ(x, 0.0);
  for (const double x : result.lse.value().to_vector<double>()) ASSERT_EQ(x, -INFINITY);
  tape.backward(result.output, random({1, kTokens, kHeads, kWidth}, 9).value());
  for (const Var* x : {&q_, &k_, &v_})
    for (const double g : x->grad().to_vector<double>()) ASSERT_EQ(g, 0.0);
}

}  // namespace
}  // namespace fovea
