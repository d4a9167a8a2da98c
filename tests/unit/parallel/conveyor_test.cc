#include "parallel/conveyor.h"

#include <gtest/gtest.h>

#include "dist/threads.h"
#include "support/expect_error.h"

namespace fovea::divided {
namespace {

Tensor number(double value) { return Tensor::from<double>(Context({.threads = 1}), {1}, std::vector<double>{value}); }

// Everybody gives all first and takes then: a ring of ranks that waited for each other would stand still.
TEST(Conveyor, BringsWhatNeighboursGiveInTheirOrder) {
  for (const int ranks : {2, 3, 4, 5})
    for (const auto direction : {Conveyor::Direction::up, Conveyor::Direction::down})
      dist::run_threads(ranks, [&](const dist::Group& group) {
        Conveyor conveyor(group, direction, "things");
        const int step = direction == Conveyor::Direction::up ? 1 : ranks - 1;
        for (int i = 0; i < 5; ++i) conveyor.give(number(10 * group.rank() + i));
        for (int i = 0; i < 5; ++i) {
          const Tensor got = number(-1.0);
          conveyor.take(got);
          EXPECT_EQ(got.item(), 10 * ((group.rank() + ranks - step) % ranks) + i);
        }
        conveyor.settle();
        EXPECT_EQ(conveyor.out().traffic().at("send").sent, 5 * sizeof(double));
      });
}

TEST(Conveyor, TellsWhoFailed) {
  EXPECT_ERROR(dist::run_threads(2,
                                 [](const dist::Group& group) {
                                   Conveyor conveyor(group, Conveyor::Direction::up, "things");
                                   if (group.rank() == 1) fail(ErrorCode::out_of_memory, "no room", "here", "less");
                                   conveyor.take(number(0.0));
                                 }),
               ErrorCode::out_of_memory, "no room", "here", "less");
}

}  // namespace
}  // namespace fovea::divided
