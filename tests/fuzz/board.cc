#include "fuzz/board.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <new>

#include "fovea/error.h"

namespace fovea::fuzz {
namespace {

constexpr std::array<std::string_view, 4> kPrecisions{"f64", "f32", "bf16", "f16"};

std::size_t place_of(const Spec& spec) {
  const std::vector<std::string_view> names = mechanism_names();
  const std::string_view name = std::string_view(spec.mechanism).substr(0, spec.mechanism.find(':'));
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

void Worst::add(double x, std::uint64_t i) {
  for (double seen = value; x > seen;)
    if (value.compare_exchange_weak(seen, x)) {
      index = i;
      return;
    }
}

void Board::count(const Spec& spec, const Verdict& verdict, std::uint64_t index) {
  Tally& tally = mechanisms[place_of(spec)];
  ++done;
  ++tally.cases;
  if (!verdict.failure.empty()) {
    ++tally.failed;
    return;
  }
  if (verdict.refused) ++tally.refused;
  if (verdict.blunt) ++tally.blunt;
  const auto precision =
      static_cast<std::size_t>(std::find(kPrecisions.begin(), kPrecisions.end(), spec.dtype) - kPrecisions.begin());
  tally.forward[precision].add(verdict.forward, index);
  tally.backward[precision].add(verdict.backward, index);
}

Board* new_board() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorCode::out_of_memory, "no memory that processes share");
  return new (memory) Board();
}

void print_table(const Board& board, double seconds, const Draw& draw) {
  fmt::print("\n{:<16}{:>9}{:>9}{:>7}{:>7}   largest error / tolerance, forward | backward\n{:48}", "mechanism",
             "cases", "refused", "blunt", "failed", "");
  for (std::string_view precision : kPrecisions) fmt::print("   {:<13}", precision);
  fmt::print("\n");
  const std::vector<std::string_view> names = mechanism_names();
  std::uint64_t cases = 0, failed = 0;
  for (std::size_t m = 0; m < names.size(); ++m) {
    const Tally& t = board.mechanisms[m];
    if (t.cases == 0) continue;
    cases += t.cases, failed += t.failed;
    fmt::print("{:<16}{:>9}{:>9}{:>7}{:>7}", names[m], t.cases.load(), t.refused.load(), t.blunt.load(),
               t.failed.load());
    for (std::size_t p = 0; p < kPrecisions.size(); ++p)
      fmt::print("   {:.2f} | {:<6.2f}", t.forward[p].value.load(), t.backward[p].value.load());
    fmt::print("\n");
  }
  fmt::print("{} cases of seed {} in {:.0f} s, {} failed\n", cases, draw.seed, seconds, failed);
}

}  // namespace fovea::fuzz
