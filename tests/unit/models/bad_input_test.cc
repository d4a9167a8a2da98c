#include <gtest/gtest.h>

#include "fovea/model.h"
#include "support/expect_error.h"
#include "support/tiny.h"

namespace fovea {
namespace {

class BadInput : public testing::Test {
 protected:
  Tensor ids(const Shape& shape, std::vector<std::int32_t> values) const {
    return Tensor::from<std::int32_t>(context_, shape, values);
  }
  Var forward(const Tensor& ids, const Sequences& rows) {
    Tape tape(context_, {.record = false});
    return model_.forward(tape, ids, rows);
  }

  Context context_{{.threads = 2, .seed = 5, .memory = {.poison = true}}};
  Model model_{context_, tiny::config("transformer")};
};

TEST_F(BadInput, NamesTheTokenOutsideTheVocabulary) {
  EXPECT_ERROR(forward(ids({1, 5}, {1, 2, 3, 16, 5}), {.cu_seqlens = {0, 2, 5}}), ErrorCode::bad_input,
               "token 16 outside the vocabulary 0 .. 15", "model.batch.sequences[1], position 1", "");
  EXPECT_THROW(forward(ids({1, 1}, {-1}), {}), Error);
}

TEST_F(BadInput, NamesTheEmptySequence) {
  EXPECT_ERROR(forward(ids({1, 2}, {1, 2}), {.cu_seqlens = {0, 2, 2}}), ErrorCode::shape, "length 0",
               "model.batch.sequences[1]", "");
}

TEST_F(BadInput, NamesTheSequenceThatIsTooLong) {
  EXPECT_ERROR(forward(Tensor::zeros(context_, {1, 91}, DType::i32), {}), ErrorCode::shape, "91 tokens",
               "model.batch.sequences[0]", "max_length");
}

TEST_F(BadInput, RefusesIdsOfAnotherKind) {
  EXPECT_THROW(forward(Tensor::zeros(context_, {2, 3}, DType::f32), {}), Error);
  EXPECT_THROW(forward(Tensor::zeros(context_, {3}, DType::i32), {}), Error);
  EXPECT_THROW(forward(Tensor::zeros(context_, {2, 3}, DType::i32), {.cu_seqlens = {0, 3}}), Error);
}

TEST_F(BadInput, RefusesModelsThatCannotBeBuilt) {
  ModelConfig config = tiny::config("transformer");
  config.heads = 5;
  EXPECT_ERROR(Model(context_, config), ErrorCode::usage, "do not divide", "model.heads", "");
  config = tiny::config("transformer");
  config.layers[1] = "sofmtax";
  EXPECT_ERROR(Model(context_, config), ErrorCode::usage, "sofmtax", "model.layers[1]", "softmax");
  config = tiny::config("transformer");
  config.vocabulary = 0;
  EXPECT_ERROR(Model(context_, config), ErrorCode::usage, "vocabulary", "model.vocabulary", "");
}

}  // namespace
}  // namespace fovea
