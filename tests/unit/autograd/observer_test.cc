#include <gtest/gtest.h>

#include <map>

#include "autograd/watch.h"
#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/autograd/small_ops.h"

namespace fovea::testing {
namespace {

// Writes down all it sees, in order.
class Diary final : public TapeObserver {
 public:
  void on_begin(const Tape&) override { lines.push_back("begin"); }
  void on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) override {
    lines.push_back((tape.replaying() ? "again " : "value ") + line(tape, op));
    if (tape.replaying()) return;
    for (const Tensor& value : values) {
      kept.push_back(value);  // so that its memory is not another's later
      ++seen[value.raw()];
    }
  }
  void on_gradients(const Tape& tape, const Node& node) override {
    lines.push_back("gradient " + line(tape, *node.op));
    gradients.push_back(node.grad().to_vector<double>());
  }
  void on_complete(const Tape&, const std::shared_ptr<Slot>& leaf) override {
    lines.push_back("complete " + names[leaf.get()]);
    ++completed[leaf.get()];
    at_completion[leaf.get()] = leaf->grad.defined() ? leaf->grad.to_vector<double>() : std::vector<double>();
  }

  Var named(const std::string& name, Tensor value) {
    Var leaf = Var::leaf(std::move(value));
    names[leaf.slot().get()] = name;
    return leaf;
  }
  std::vector<std::string> taken() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  std::vector<Tensor> kept;
  std::map<const void*, int> seen;
  std::map<const Slot*, std::string> names;
  std::map<const Slot*, int> completed;
  std::map<const Slot*, std::vector<double>> at_completion;
  std::vector<std::vector<double>> gradients;

 private:
  static std::string line(const Tape& tape, const Op& op) {
    const std::string path = tape.path(tape.place());
    return path.empty() ? op.name : path + " " + op.name;
  }
};

using Lines = std::vector<std::string>;

// w^2 + x, at a place below the one it runs at.
class Inner : public Segment {
 public:
  explicit Inner(Var w) : w_(std::move(w)) {}
  std::vector<Var> run(Tape& tape, std::span<const Var> v) const override {
    return tape.at("inner", [&] { return std::vector<Var>{join(tape, square(tape, w_), v[0])}; });
  }

 private:
  Var w_;
};

class Observer : public ::testing::Test {
 protected:
  std::vector<double> numbers(const Var& v) { return v.grad().to_vector<double>(); }
  Tensor seed() { return random(context_, {2}, 9); }

  Context context_ = poisoned();
  Diary diary_;
  Var w_ = diary_.named("w", random(context_, {2}, 1)), x_ = diary_.named("x", random(context_, {2}, 2));
};

TEST_F(Observer, SeesEveryValueAndGradientOnceInOrder) {
  Tape tape(context_, {.observer = &diary_});
  const Var y = tape.at("layer", [&] { return join(tape, square(tape, w_), x_); });
  EXPECT_EQ(diary_.taken(), (Lines{"begin", "value layer square", "value layer join"}));
  const Tensor g = seed();
  tape.backward(y, g);
  EXPECT_EQ(diary_.taken(), (Lines{"gradient layer join", "complete x", "gradient layer square", "complete w"}));
  for (const auto& [value, times] : diary_.seen) EXPECT_EQ(times, 1);
  EXPECT_EQ(diary_.gradients, (std::vector{g.to_vector<double>(), g.to_vector<double>()}));
}

TEST_F(Observer, SharedLeavesAreCompleteAfterTheLastOfTheirUses) {
  Tape tape(context_, {.observer = &diary_});
  const Var squared = square(tape, w_), both = join(tape, w_, squared), other = join(tape, x_, w_);
  const Var y = join(tape, both, other);
  diary_.taken();
  tape.backward(y, seed());
  EXPECT_EQ(diary_.taken(),
            (Lines{"gradient join", "gradient join", "complete x", "gradient join", "gradient square", "complete w"}));
  EXPECT_EQ(diary_.at_completion[w_.slot().get()], numbers(w_));
  EXPECT_EQ(diary_.at_completion[x_.slot().get()], numbers(x_));
}

TEST_F(Observer, ALeafThatNothingReachesIsCompleteToo) {
  Tape tape(context_, {.observer = &diary_});
  const Var y = square(tape, x_);
  square(tape, w_);
  diary_.taken();
  tape.backward(y, seed());
  EXPECT_EQ(diary_.taken(), (Lines{"complete w", "gradient square", "complete x"}));
  EXPECT_TRUE(diary_.at_completion[w_.slot().get()].empty());
}

TEST_F(Observer, ALeafThatIsTheOutputIsCompleteWithItsSeedUnlessUsed) {
  Tape tape(context_, {.observer = &diary_});
  const Var outputs[] = {square(tape, w_), w_, x_};
  diary_.taken();
  const Tensor seeds[] = {seed(), seed(), seed()};
  tape.backward(outputs, seeds);
  EXPECT_EQ(diary_.taken(), (Lines{"complete x", "gradient square", "complete w"}));
  EXPECT_EQ(diary_.at_completion[w_.slot().get()], numbers(w_));
}

// The inside of a segment is seen in place of the segment, its second run as such; its leaves are complete with it, and
// one that is also used before the segment only then.
TEST_F(Observer, SeesTheInsideOfSegments) {
  const Var v = diary_.named("v", random(context_, {2}, 3));
  Tape tape(context_, {.observer = &diary_});
  const Var first = join(tape, square(tape, w_), x_);
  const Var y = recompute(tape, std::make_shared<Inner>(v), std::span(&first, 1)).front();
  const Var z = recompute(tape, std::make_shared<Inner>(w_), std::span(&y, 1)).front();
  EXPECT_EQ(diary_.taken(), (Lines{"begin", "value square", "value join", "value inner square", "value inner join",
                                   "value inner square", "value inner join"}));
  for (const auto& [value, times] : diary_.seen) EXPECT_EQ(times, 1);
  tape.backward(z, seed());
  const Lines segment{"again inner square", "again inner join", "gradient inner join", "gradient inner square"};
  Lines want = segment;  // of w, which is used once more
  want.insert(want.end(), segment.begin(), segment.end());
  for (const char* line : {"complete v", "gradient join", "complete x", "gradient square", "complete w"})
    want.push_back(line);
  EXPECT_EQ(diary_.taken(), want);
  for (const Var& leaf : {w_, x_, v}) {
    EXPECT_EQ(diary_.completed[leaf.slot().get()], 1);
    EXPECT_EQ(diary_.at_completion[leaf.slot().get()], numbers(leaf));
  }
}

// A segment in a segment: the leaf of the inner one is known to the outermost tape.
TEST_F(Observer, SeesSegmentsInSegments) {
  class Outer : public Segment {
   public:
    explicit Outer(Var w) : inner_(std::make_shared<Inner>(std::move(w))) {}
    std::vector<Var> run(Tape& tape, std::span<const Var> v) const override { return recompute(tape, inner_, v); }

   private:
    std::shared_ptr<const Inner> inner_;
  };
  Tape tape(context_, {.observer = &diary_});
  const Var squared = square(tape, w_);
  const Var y = recompute(tape, std::make_shared<Outer>(w_), std::span(&squared, 1)).front();
  tape.backward(y, seed());
  EXPECT_EQ(diary_.lines.back(), "complete w");
  EXPECT_EQ(diary_.completed[w_.slot().get()], 1);
  EXPECT_EQ(diary_.at_completion[w_.slot().get()], numbers(w_));
}

TEST_F(Observer, CountsEachBackwardAnew) {
  for (int round = 1; round <= 2; ++round) {
    Tape tape(context_, {.observer = &diary_});
    tape.backward(square(tape, w_), seed());
    EXPECT_EQ(diary_.completed[w_.slot().get()], round);
  }
}

TEST_F(Observer, ParametersOfASegmentLearnAlsoWhereItsInputsDoNot) {
  Tape tape(context_);
  const Var constant(random(context_, {2}, 3));
  const Tensor g = seed();
  tape.backward(recompute(tape, std::make_shared<Inner>(w_), std::span(&constant, 1)).front(), g);
  for (std::int64_t i = 0; i < 2; ++i)
    EXPECT_DOUBLE_EQ(w_.grad().data<double>()[i], 2.0 * w_.value().data<double>()[i] * g.data<double>()[i]);
}

TEST_F(Observer, AWatchNamesPlaceAndOperationOfTheFirstBadNumber) {
  FiniteWatch watch;
  Tape tape(context_, {.observer = &watch});
  const Var bad = Var::leaf(Tensor::zeros(context_, {2}, DType::f64));
  bad.value().fill(1e200);
  const auto forward = [&] { return recompute(tape, std::make_shared<Inner>(bad), std::span(&x_, 1)); };
  EXPECT_ERROR(tape.at("model", forward), ErrorCode::diverged, "the result of square, shape (2,)", "model.inner", "");
  const Var y = tape.at("model", [&] { return square(tape, w_); });
  const Tensor nothing = seed();
  nothing.fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_ERROR(tape.backward(y, nothing), ErrorCode::diverged, "a gradient of square", "model", "");
}

}  // namespace
}  // namespace fovea::testing
