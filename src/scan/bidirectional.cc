#include <vector>

#include "scan/driver.h"
#include "scan/forms.h"

namespace fovea::scan {
namespace {

// Sums per segment of a wave, added up in order, and their transposes.
template <class R>
class SegmentSums {
 public:
  SegmentSums(const Context& context, const Driver<R>& driver, std::vector<Cut> cuts, const Wave& wave)
      : driver_(driver),
        cuts_(std::move(cuts)),
        wave_(wave),
        size_(driver.layout.states_size()),
        sums_(context, cuts_.size() * size_),
        turned_(context, (wave.last - wave.first) * size_) {
    for (std::size_t i = 0; i < cuts_.size(); ++i)
      if (cuts_[i].begin == 0) start_.push_back(i);
    start_.push_back(cuts_.size());
  }

  // add(task, states): what one segment contributes.
  template <class Add>
  void fill(Add&& add) {
    driver_.each(cuts_.size(), [&](std::size_t i, R* scratch) {
      R* states = sums_.data() + i * size_;
      std::fill_n(states, size_, R{0});
      add(driver_.task(cuts_[i], driver_.all_heads(), scratch), states);
    });
  }

  // Adds the segments to `before`, keeps the total, gives it to `after` and turns it. Null: zero; not wanted.
  template <class Turn>
  void total(const void* before, void* after, const Turn& turn) {
    const auto& layout = driver_.layout;
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t p = piece - wave_.first, head = g * layout.state_size();
      R* sum = sums_.data() + start_[p] * size_ + head;
      for (std::size_t i = start_[p] + 1; i < start_[p + 1]; ++i) add_into(sum, sums_.data() + i * size_ + head);
      if (const R* start = driver_.outside(before, piece, g)) add_outside(start, sum);
      if (R* end = driver_.outside(after, piece, g)) save_state(layout, sum, end);
      turn(sum, turned_.data() + p * size_ + head);
    });
  }

  R* states(std::size_t piece) const { return sums_.data() + start_[piece - wave_.first] * size_; }
  const R* turned(std::size_t piece) const { return turned_.data() + (piece - wave_.first) * size_; }

 private:
  void add_into(R* sum, const R* other) const {
    for (std::size_t e = 0; e < driver_.layout.state_size(); ++e) sum[e] += other[e];
  }
  void add_outside(const R* outside, R* state) const {
    const auto& layout = driver_.layout;
    for (std::size_t a = 0; a < layout.d_k; ++a)
      for (std::size_t w = 0; w < layout.width; ++w) state[w * layout.ld_k + a] += outside[a * layout.width + w];
  }

  const Driver<R>& driver_;
  std::vector<Cut> cuts_;
  Wave wave_;
  std::size_t size_;
  Scratch<R> sums_, turned_;        // [cuts][kv_heads] and [pieces][kv_heads] states
  std::vector<std::size_t> start_;  // first cut of each piece
};

}  // namespace

template <class R>
void bidirectional_forward(const Context& context, const Problem& problem, const Forward& io) {
  const auto kernels = cpu::bidirectional_kernels<R>();
  const Driver<R> driver(context, problem);
  const auto turn = [&](const R* state, R* matrix) { kernels.turn(problem, state, matrix); };
  for (const Wave& wave : make_waves(problem, driver.layout.states_size() * sizeof(R))) {
    SegmentSums<R> sums(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::keys), wave);
    sums.fill([&](const cpu::Task<R>& task, R* states) { kernels.add_keys(task, io.k, io.v, states); });
    sums.total(io.initial_state, io.final_state, turn);

    const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::queries);
    driver.each(rows.size(), [&](std::size_t i, R* scratch) {
      kernels.read_states(driver.task(rows[i], driver.all_heads(), scratch), io, sums.states(rows[i].piece),
                          sums.turned(rows[i].piece));
    });
  }
}

// Gradients need the total state for dq and the total gradient of the state for dk and dv: two passes, or three when
// forward's final state is not at hand.
template <class R>
void bidirectional_backward(const Context& context, const Problem& problem, const Backward& io) {
  const auto kernels = cpu::bidirectional_kernels<R>();
  const Driver<R> driver(context, problem);
  const auto turn = [&](const R* state, R* matrix) { kernels.turn(problem, state, matrix); };
  for (const Wave& wave : make_waves(problem, 2 * driver.layout.states_size() * sizeof(R))) {
    SegmentSums<R> sums(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::keys), wave);
    sums.fill([&](const cpu::Task<R>& task, R* states) { kernels.add_keys(task, io.k, io.v, states); });
    sums.total(io.initial_state, nullptr, turn);

    SegmentSums<R> gradients(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::queries), wave);
    gradients.fill([&](const cpu::Task<R>& task, R* d_states) {
      const auto piece = static_cast<std::size_t>(task.piece - problem.pieces.data());
      kernels.pull_queries(task, io, sums.states(piece), d_states);
    });
    gradients.total(io.d_final_state, io.d_initial_state, turn);

    const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::keys);
    driver.each(rows.size(), [&](std::size_t i, R* scratch) {
      kernels.pull_keys(driver.task(rows[i], driver.all_heads(), scratch), io, gradients.states(rows[i].piece),
                        gradients.turned(rows[i].piece));
    });
  }
}

template void bidirectional_forward<float>(const Context&, const Problem&, const Forward&);
template void bidirectional_forward<double>(const Context&, const Problem&, const Forward&);
template void bidirectional_backward<float>(const Context&, const Problem&, const Backward&);
template void bidirectional_backward<double>(const Context&, const Problem&, const Backward&);

}  // namespace fovea::scan
