#include "core/isa.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Isa, PortableIsAlwaysThereAndTheBestIsChosen) {
  ASSERT_FALSE(available_isas().empty());
  EXPECT_EQ(available_isas().front(), Isa::portable);
  for (Isa isa : available_isas()) {
    force_isa(isa);
    EXPECT_EQ(chosen_isa(), isa);
    EXPECT_EQ(use_avx512_bf16(), isa == Isa::avx512_bf16);
  }
  EXPECT_EQ(name_of(Isa::avx512_bf16), "avx512-bf16");
}

}  // namespace
}  // namespace fovea
