#include "data/text/bleu.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace fovea {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> translations, references;
  double score;
  std::array<double, 4> precisions;
  double brevity, chrf;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases = {
#include "fixtures/bleu.inc"
  };
  return cases;
}

TEST(Bleu, AgreesWithSacrebleu) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Bleu bleu = corpus_bleu(c.translations, c.references);
    EXPECT_NEAR(bleu.score, c.score, 1e-9);
    EXPECT_NEAR(bleu.brevity, c.brevity, 1e-12);
    for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(bleu.precisions[n], c.precisions[n], 1e-9) << n;
  }
}

TEST(Chrf, AgreesWithSacrebleu) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_NEAR(corpus_chrf(c.translations, c.references), c.chrf, 1e-9);
  }
}

TEST(Bleu, RefusesListsOfDifferentLengths) {
  const std::vector<std::string> one{"a"}, two{"a", "b"};
  EXPECT_ERROR(corpus_bleu(one, two), ErrorCode::usage, "1 translations for 2", "references", "");
}

}  // namespace
}  // namespace fovea
