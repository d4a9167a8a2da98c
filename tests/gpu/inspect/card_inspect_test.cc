// Inspecting calls that lie on a card: records and rectangles beside those of the host.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fovea/inspect.h"
#include "gpu/support/card.h"
#include "inspect/card_map.h"
#include "inspect/layer.h"
#include "inspect/source.h"

namespace fovea {
namespace {

struct Setting {
  std::string mechanism;
  bool causal = false;
  bool by_kernels = true;  // else rows are made on the host
  DType dtype = DType::f32;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.mechanism; }

void expect_near(const auto& ours, const auto& want, double limit, const char* what) {
  ASSERT_EQ(ours.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto a = static_cast<double>(ours[i]), b = static_cast<double>(want[i]);
    ASSERT_TRUE(a == b || std::abs(a - b) <= limit || (std::isnan(a) && std::isnan(b)))
        << what << " " << i << ": " << a << " and " << b;
  }
}

class InspectOnCard : public ::testing::TestWithParam<Setting> {
 protected:
  Tensor draw(const Context& context, std::uint64_t seed) const {
    return testing::random(context, {1, 200, 2, 16}, seed, GetParam().dtype, 2.0);
  }
  LayerRecord record(Context& context, const InspectOptions& options = {}) const {
    return inspect_attention(context, draw(context, 1), draw(context, 2), draw(context, 3), mechanism_, call(),
                             options);
  }
  AttentionOptions call() const { return {.causal = GetParam().causal}; }

  Mechanism mechanism_ = Mechanism::parse(GetParam().mechanism);
};

TEST_P(InspectOnCard, AgreesWithTheHost) {
  Context card = testing::poisoned_card(), host({.threads = 2, .seed = 7});
  for (const InspectOptions& options : {InspectOptions{}, InspectOptions{.top = 3, .cells = 50, .curve_points = 20}}) {
    const LayerRecord ours = record(card, options), want = record(host, options);
    ASSERT_EQ(ours.heads.size(), want.heads.size());
    for (std::size_t h = 0; h < want.heads.size(); ++h) {
      const HeadRecord &a = ours.heads[h], &b = want.heads[h];
      expect_near(a.entropy, b.entropy, 1e-4, "entropy");
      expect_near(a.largest, b.largest, 5e-5, "largest");
      expect_near(a.top_weights, b.top_weights, 5e-5, "top_weights");
      expect_near(a.max_logit, b.max_logit, 1e-3, "max_logit");
      expect_near(a.received, b.received, 1e-3, "received");
      expect_near(a.distance, b.distance, 1e-4, "distance");
      expect_near(a.curve, b.curve, 1e-4, "curve");
      ASSERT_EQ(a.pyramid.size(), b.pyramid.size());
      for (std::size_t l = 0; l < a.pyramid.size(); ++l) {
        expect_near(a.pyramid[l].mean, b.pyramid[l].mean, 5e-5, "mean");
        expect_near(a.pyramid[l].largest, b.pyramid[l].largest, 5e-5, "largest of cells");
      }
      EXPECT_NEAR(a.verdict.block_mass, b.verdict.block_mass, 1e-4);
    }
  }
}

TEST_P(InspectOnCard, RectanglesAgreeWithTheHost) {
  Context card = testing::poisoned_card(), host({.threads = 2, .seed = 7});
  const MapRequest part{.head = 1, .row_begin = 70, .row_end = 190, .key_begin = 3, .key_end = 150};
  const auto cut = [&](Context& context) {
    return map_rectangle(context, draw(context, 1), draw(context, 2), draw(context, 3), mechanism_, call(), part);
  };
  const MapRectangle ours = cut(card), want = cut(host);
  double most = 1e-3;
  for (const float w : want.weights) most = std::max(most, static_cast<double>(std::abs(w)));
  expect_near(ours.weights, want.weights, 1e-4 * most, "weights");
}

// What is said to be measured by kernels is.
TEST_P(InspectOnCard, IsMadeByKernelsWhereThereAreSome) {
  Context card = testing::poisoned_card();
  const inspection::SequenceCall one{draw(card, 1), draw(card, 2), draw(card, 3), mechanism_, call()};
  EXPECT_EQ(inspection::source_of(card, one)->scored().has_value(), GetParam().by_kernels);
}

INSTANTIATE_TEST_SUITE_P(Forms, InspectOnCard,
                         ::testing::Values(Setting{"softmax"}, Setting{"softmax", true},
                                           Setting{"softmax", true, true, DType::bf16},
                                           Setting{"window:left=9,right=4"}, Setting{"dilated", true},
                                           Setting{"diag:block=32"}, Setting{"bigbird"}, Setting{"sigmoid"},
                                           Setting{"relu2", true}, Setting{"sa-softmax"}, Setting{"norm"},
                                           Setting{"linear", true}, Setting{"retnet", true}, Setting{"lightning", true},
                                           Setting{"topk:k=9", true, false}, Setting{"nystrom", false, false}),
                         [](const auto& info) {
                           std::string name = std::to_string(info.index) + "_" + info.param.mechanism;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace fovea
