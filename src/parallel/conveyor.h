#pragma once

#include <string>

#include "dist/group.h"
#include "dist/worker.h"

namespace fovea::divided {

// What goes round the ranks of a group in one direction: each gives to the one beside it, which takes in the same
// order. Giving is done on a thread of its own, so that a rank never waits for one that is not ready to take.
class Conveyor {
 public:
  enum class Direction : std::uint8_t { up, down };  // to the rank after this one, before it; the ends are neighbours
  Conveyor(const dist::Group& ranks, Direction direction, const std::string& name);  // a call of all of them

  void give(const Tensor& t);                      // nobody may write to it any more
  void take(const Tensor& room) const;             // in place
  void settle();                                   // until all has been taken; throws what went wrong
  void abandon() noexcept;                         // the same after an error, which was told
  const dist::Group& out() const { return out_; }  // counts what was given

 private:
  dist::Group out_, in_;  // with the rank that takes, with the one that gives
  dist::Worker worker_;   // the last: it uses the others
};

}  // namespace fovea::divided
