#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fovea::device {

struct Card {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int processors = 0;
  std::size_t bytes = 0;
  bool served = false;  // has this build kernels for it?
};

// What the driver of this machine says, asked once.
struct Cards {
  int driver = 0, runtime = 0;  // 13000: CUDA 13.0; 0: none
  std::vector<Card> list;
  std::string trouble;  // why there are none: no driver, one that is too old, no card
};
const Cards& cards();

const Card& card_at(int index);  // refuses what names none

}  // namespace fovea::device
