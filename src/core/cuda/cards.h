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

// What the driver of this machine says.
struct Cards {
  int driver = 0, runtime = 0;  // 13000: CUDA 13.0; 0: none
  std::vector<Card> list;
  std::string trouble;  // why none can be used: no driver, one that is too old, no card, no kernels for any
};
Cards look_at_cards();
const Cards& cards();  // the same, asked once

const Card& card_at(const Cards& cards, int index);  // refuses what names none, or one that has no kernels here

}  // namespace fovea::device
