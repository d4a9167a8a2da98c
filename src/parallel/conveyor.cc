#include "parallel/conveyor.h"

#include <exception>

namespace fovea::divided {
namespace {

// Pairs of neighbours on a ring, in rounds: in a round no rank is in two of them. Pair i is that of i and the next.
int round_of(int pair, int ranks) { return ranks % 2 == 1 && pair == ranks - 1 ? 2 : pair % 2; }

int other(const dist::Group& pair) { return 1 - pair.rank(); }

}  // namespace

Conveyor::Conveyor(const dist::Group& ranks, Direction direction, const std::string& name) {
  const int p = ranks.size(), rank = ranks.rank(), before = (rank + p - 1) % p;
  if (p == 1) return;
  const int out = direction == Direction::up ? rank : before, in = direction == Direction::up ? before : rank;
  for (int round = 0; round < 3; ++round) {
    const int pair = round_of(rank, p) == round ? rank : round_of(before, p) == round ? before : p + rank;
    const dist::Group group = ranks.split(pair, name);
    if (pair == out) out_ = group;
    if (pair == in) in_ = group;
  }
}

void Conveyor::give(const Tensor& t) {
  worker_.submit([this, t] { out_.send(t, other(out_)); });
}

void Conveyor::take(const Tensor& room) const { in_.receive(room, other(in_)); }

void Conveyor::settle() { worker_.wait(); }

void Conveyor::abandon() noexcept {
  try {
    worker_.wait();
  } catch (const std::exception&) {  // the error that came first is told
  }
}

}  // namespace fovea::divided
