// What is chosen and sorted on a card, against the host: the same rows, whatever is equal or no number.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu/support/card.h"
#include "ops/index_kernels.h"
#include "ops/sequence.h"

namespace fovea::testing {
namespace {

class CardOrder : public ::testing::Test {
 protected:
  Context host_{{.threads = 2, .seed = 7}};
  Context card_ = poisoned_card();
};

const Sequences kLists[] = {{}, {.lengths = {700, 0, 333}}, {.lengths = {1, 699, 700}}};

// Few values, so that many are equal; infinities, both zeros and NaN among them.
Tensor crowded(const Context& context, const Shape& shape, DType dtype) {
  constexpr double kStrange[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0.0,
                                 -0.0, std::nan("")};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t mixed = i * 2654435761u % 1000003u;
    values[i] = mixed % 7 == 0 ? kStrange[mixed / 7 % 5] : static_cast<double>(mixed % 41) - 20.0;
  }
  return Tensor::from<double>(context, shape, values).to(context, dtype);
}

TEST_F(CardOrder, TopIndicesAreThoseOfTheHost) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const Sequences& rows : kLists)
      for (const std::int64_t count : {1, 17, 800}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(count));
        const Tensor scores = crowded(host_, {3, 700, 5}, dtype);
        EXPECT_EQ(top_indices(card_, scores.clone(card_), count, rows).to_vector<std::int32_t>(),
                  top_indices(host_, scores, count, rows).to_vector<std::int32_t>());
      }
}

TEST_F(CardOrder, PackedSequencesAreSortedEachByItself) {
  const Sequences packed{.cu_seqlens = {0, 40, 40, 1000, 1001}};
  const Tensor scores = crowded(host_, {1, 1001, 3}, DType::f32);
  EXPECT_EQ(top_indices(card_, scores.clone(card_), 30, packed).to_vector<std::int32_t>(),
            top_indices(host_, scores, 30, packed).to_vector<std::int32_t>());
}

TEST_F(CardOrder, ArgsortIsThatOfTheHost) {
  std::vector<std::int64_t> values(3 * 700 * 5);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<std::int64_t>(i * 2654435761u % 1000003u) % 23 - 11) * (std::int64_t{1} << 40);
  const Tensor keys = Tensor::from<std::int64_t>(host_, {3, 700, 5}, values);
  for (const Sequences& rows : kLists)
    EXPECT_EQ(argsort(card_, keys.clone(card_), rows).to_vector<std::int32_t>(),
              argsort(host_, keys, rows).to_vector<std::int32_t>());
}

TEST_F(CardOrder, TheFirstWrongEntryIsFound) {
  std::vector<std::int32_t> values(2 * 900 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i / 3 % 900);
  const auto places = [&]() {
    const Tensor index = Tensor::from<std::int32_t>(card_, {2, 900, 3}, values);
    const Tensor outside = Tensor::empty(card_, {}, DType::i64), repeated = Tensor::empty(card_, {}, DType::i64);
    kernels::first_outside<Device::cuda>(card_, {index, -1, 900, outside});
    kernels::first_repeated<Device::cuda>(card_, {index, 900, repeated});
    return std::pair(outside.to_vector<std::int64_t>().front(), repeated.to_vector<std::int64_t>().front());
  };
  EXPECT_EQ(places(), (std::pair<std::int64_t, std::int64_t>(-1, -1)));
  for (const std::size_t i : {1200, 2700, 5000}) values[i] = values[i - 300];
  EXPECT_EQ(places(), (std::pair<std::int64_t, std::int64_t>(-1, 1200)));
  for (const std::size_t i : {1203, 1209}) values[i] = -1;
  EXPECT_EQ(places(), (std::pair<std::int64_t, std::int64_t>(-1, 1200)));
  for (const std::size_t i : {4001, 4004}) values[i] = -2;
  EXPECT_EQ(places().first, 4001);
}

}  // namespace
}  // namespace fovea::testing
