#include "place.h"

namespace fovea::python {

Turn::Turn(const std::shared_ptr<Memory>& memory, const Place& place)
    : memory_(memory), place_(place), chosen_(with_streams(*memory, []<Device D>() { return Streams<D>::current(); })) {
  if (place_.stream != 0) with_streams(*memory_, [&]<Device D>() { Streams<D>::follow(*memory_, place_.stream); });
}

void Turn::end() {
  ended_ = true;
  with_streams(*memory_, [&]<Device D>() {
    if (place_.stream != 0)
      Streams<D>::precede(*memory_, place_.stream);
    else
      Streams<D>::finish(*memory_);
  });
}

Turn::~Turn() {
  with_streams(*memory_, [&]<Device D>() {
    try {
      if (!ended_) Streams<D>::finish(*memory_);  // its arrays may go as soon as the error is told
    } catch (const Error&) {                      // the error that ended the turn is on its way
    }
    Streams<D>::select(chosen_);
  });
}

}  // namespace fovea::python
