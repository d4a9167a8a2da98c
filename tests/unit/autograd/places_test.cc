#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gradcheck.h"
#include "unit/autograd/small_ops.h"

namespace fovea::testing {
namespace {

[[noreturn]] Var refuse() { fail(ErrorCode::usage, "no", "", ""); }

// Squares its input at a place of its own, and fails there in the run that is asked for.
class Placed : public Segment {
 public:
  explicit Placed(bool fails_again = false) : fails_again_(fails_again) {}
  std::vector<Var> run(Tape& tape, std::span<const Var> v) const override {
    return tape.at("inner", [&] {
      const Tape::Stay stay = tape.enter("deep");
      paths.push_back(tape.path(tape.place()));
      ids.push_back(tape.place());
      if (fails_again_ && tape.replaying()) refuse();
      return std::vector<Var>{square(tape, v[0])};
    });
  }
  mutable std::vector<std::string> paths;
  mutable std::vector<PlaceId> ids;

 private:
  bool fails_again_;
};

class Places : public ::testing::Test {
 protected:
  Context context_ = poisoned();
  Tape tape_{context_};
  Var x_ = Var::leaf(random(context_, {2}, 1));
};

TEST_F(Places, Nest) {
  EXPECT_EQ(tape_.path(tape_.place()), "");
  PlaceId first = 0;
  {
    const Tape::Stay model = tape_.enter("model");
    {
      const Tape::Stay layer = tape_.enter("layers[0]");
      first = tape_.place();
      EXPECT_EQ(tape_.path(first), "model.layers[0]");
    }
    const Tape::Stay layer = tape_.enter("layers[1]");
    EXPECT_EQ(tape_.path(tape_.place()), "model.layers[1]");
    EXPECT_NE(tape_.place(), first);
  }
  EXPECT_EQ(tape_.place(), 0u);
  const Tape::Stay model = tape_.enter("model"), again = tape_.enter("layers[0]");
  EXPECT_EQ(tape_.place(), first);  // the same place has one number
}

TEST_F(Places, StandBesideTheNodesTheyAreOf) {
  const Var y = tape_.at("a", [&] { return square(tape_, x_); });
  square(tape_, y);
  EXPECT_EQ(tape_.text(), "square (2,) saved (2,) at a\nsquare (2,) saved (2,)\n");
}

TEST_F(Places, AnErrorNamesTheInnermost) {
  const auto deep = [&] {
    const Tape::Stay stay = tape_.enter("attention");
    return refuse();
  };
  EXPECT_ERROR(tape_.at("layers[1]", deep), ErrorCode::usage, "no", "layers[1].attention", "");
  EXPECT_ERROR(tape_.at("model", [&] { return tape_.at("layers[1]", deep); }), ErrorCode::usage, "no",
               "model.layers[1].attention", "");
  EXPECT_EQ(tape_.place(), 0u);
  EXPECT_THROW(deep(), Error);  // nobody names it, and the tape is back nevertheless
  EXPECT_EQ(tape_.place(), 0u);
}

TEST_F(Places, AnErrorThatWasCaughtInsideLeavesNoTrace) {
  const auto body = [&] {
    try {
      const Tape::Stay stay = tape_.enter("tried");
      refuse();
    } catch (const Error&) {
    }
    const Tape::Stay stay = tape_.enter("other");
    return refuse();
  };
  try {
    tape_.at("model", body);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "model.other");
  }
  EXPECT_EQ(tape_.place(), 0u);
}

// Also when backward itself runs at a place.
class PlacesInBackward : public Places, public ::testing::WithParamInterface<bool> {};
TEST_P(PlacesInBackward, AnErrorNamesThePlaceOfItsNode) {
  static constexpr Op kRefuses{"refuses", [](Tape&, Node&) { refuse(); }};
  const Var y = tape_.at("model", [&] {
    const Tape::Stay stay = tape_.enter("head");
    return tape_.record(kRefuses, {x_}, x_.value(), {});
  });
  const auto backward = [&] { tape_.backward(y, random(context_, {2}, 2)); };
  try {
    if (GetParam())
      tape_.at("around", backward);
    else
      backward();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "model.head");
  }
  EXPECT_EQ(tape_.place(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Around, PlacesInBackward, ::testing::Bool());

TEST_F(Places, SurviveRecomputing) {
  const auto segment = std::make_shared<Placed>();
  const Var y = tape_.at("model", [&] { return recompute(tape_, segment, std::span(&x_, 1)).front(); });
  tape_.backward(y, random(context_, {2}, 2));
  EXPECT_EQ(segment->paths, (std::vector<std::string>{"model.inner.deep", "model.inner.deep"}));
  EXPECT_EQ(segment->ids[0], segment->ids[1]);
}

TEST_F(Places, AnErrorWhileRecomputingNamesItsPlaceOnce) {
  const auto segment = std::make_shared<Placed>(true);
  const Var y = tape_.at("model", [&] { return recompute(tape_, segment, std::span(&x_, 1)).front(); });
  try {
    tape_.backward(y, random(context_, {2}, 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "model.inner.deep");
  }
}

}  // namespace
}  // namespace fovea::testing
