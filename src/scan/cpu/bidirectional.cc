#include <vector>

#include "scan/cpu/driver.h"
#include "scan/cpu/forms.h"

namespace fovea::scan {
namespace {

// A state per kv head and piece of a wave, as the sum of what segments of the rows contribute.
template <class R>
class SegmentSums {
 public:
  SegmentSums(const Context& context, const Driver<R>& driver, std::vector<Cut> cuts, const Wave& wave)
      : driver_(driver),
        cuts_(std::move(cuts)),
        wave_(wave),
        size_(driver.layout.states_size()),
        sums_(context, cuts_.size() * size_) {
    for (std::size_t i = 0; i < cuts_.size(); ++i)
      if (cuts_[i].begin == 0) first_.push_back(i);
    first_.push_back(cuts_.size());
  }

  // add(task, states): what one segment contributes.
  template <class Add>
  void fill(const Add& add) {
    driver_.each(cuts_.size(), [&](std::size_t i, Room scratch) {
      R* states = sums_.data() + i * size_;
      std::fill_n(states, size_, R{0});
      add(driver_.task(cuts_[i], driver_.all_heads(), scratch), states);
    });
  }
  // Adds the segments to `before`, in order, and gives the total to `after`. Null: zero; not wanted.
  void total(const void* before, void* after) {
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t p = piece - wave_.first, head = g * driver_.layout.state_size();
      R* sum = states(piece) + head;
      for (std::size_t i = first_[p] + 1; i < first_[p + 1]; ++i) add_into(sum, sums_.data() + i * size_ + head);
      if (const R* start = driver_.outside(before, piece, g)) add_outside(start, sum);
      if (R* end = driver_.outside(after, piece, g)) save_state(driver_.layout, sum, end);
    });
  }
  // Takes totals that the caller has kept.
  void take(const void* totals) {
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      load_state(driver_.layout, driver_.outside(totals, piece, g), states(piece) + g * driver_.layout.state_size());
    });
  }

  R* states(std::size_t piece) const { return sums_.data() + first_[piece - wave_.first] * size_; }

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
  Scratch<R> sums_;                 // [cuts][kv_heads]
  std::vector<std::size_t> first_;  // first cut of each piece
};

// Writes the states of a wave the right way round, [pieces][kv_heads][d_k][d_v].
template <class R>
void transpose_states(const Driver<R>& driver, const Problem& problem, const Wave& wave, const SegmentSums<R>& sums,
                      R* transposed) {
  const auto transpose = cpu::bidirectional_kernels<R>().transpose_state;
  driver.each_state(wave, [&](std::size_t piece, std::size_t g) {
    const std::size_t head = g * driver.layout.state_size();
    transpose(problem, sums.states(piece) + head,
              transposed + (piece - wave.first) * driver.layout.states_size() + head);
  });
}

}  // namespace

template <class R>
void bidirectional_forward(const Context& context, const Problem& problem, const Forward& io) {
  const auto kernels = cpu::bidirectional_kernels<R>();
  const Driver<R> driver(context, problem, io.q_source, io.k_source);
  const std::size_t size = driver.layout.states_size();
  for (const Wave& wave : make_waves(problem, size * sizeof(R))) {
    SegmentSums<R> sums(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::keys), wave);
    const cpu::Keys keys{io.k, io.v, {}, io.k_source};
    sums.fill([&](const cpu::Task<R>& task, R* states) { kernels.add_keys(task, keys, states); });
    sums.total(io.initial_state, io.final_state);
    const Scratch<R> transposed(context, (wave.last - wave.first) * size);
    transpose_states(driver, problem, wave, sums, transposed.data());

    const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::queries);
    driver.each(rows.size(), [&](std::size_t i, Room scratch) {
      const std::size_t piece = rows[i].piece;
      kernels.read_states(driver.task(rows[i], driver.all_heads(), scratch), io, sums.states(piece),
                          transposed.data() + (piece - wave.first) * size);
    });
  }
}

// Gradients need the total state for dq and the total gradient of the state for dk and dv: two passes, or three when
// forward's final state is not at hand.
template <class R>
void bidirectional_backward(const Context& context, const Problem& problem, const Backward& io) {
  const auto kernels = cpu::bidirectional_kernels<R>();
  const Driver<R> driver(context, problem, io.q_source, io.k_source);
  const std::size_t size = driver.layout.states_size();
  for (const Wave& wave : make_waves(problem, 2 * size * sizeof(R))) {
    SegmentSums<R> sums(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::keys), wave);
    if (io.final_state != nullptr) {
      sums.take(io.final_state);
    } else {
      const cpu::Keys keys{io.k, io.v, {}, io.k_source};
      sums.fill([&](const cpu::Task<R>& task, R* states) { kernels.add_keys(task, keys, states); });
      sums.total(io.initial_state, nullptr);
    }
    SegmentSums<R> gradients(context, driver, cut_for_sums(problem, wave.first, wave.last, Side::queries), wave);
    gradients.fill([&](const cpu::Task<R>& task, R* d_states) {
      const auto piece = static_cast<std::size_t>(task.piece - problem.pieces.data());
      kernels.vjp_queries(task, io, sums.states(piece), d_states);
    });
    gradients.total(io.d_final_state, io.d_initial_state);
    const Scratch<R> transposed(context, (wave.last - wave.first) * size);
    transpose_states(driver, problem, wave, gradients, transposed.data());

    const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::keys);
    driver.each(rows.size(), [&](std::size_t i, Room scratch) {
      const std::size_t piece = rows[i].piece;
      kernels.vjp_keys(driver.task(rows[i], driver.all_heads(), scratch), io, gradients.states(piece),
                       transposed.data() + (piece - wave.first) * size);
    });
  }
}

template void bidirectional_forward<float>(const Context&, const Problem&, const Forward&);
template void bidirectional_forward<double>(const Context&, const Problem&, const Forward&);
template void bidirectional_backward<float>(const Context&, const Problem&, const Backward&);
template void bidirectional_backward<double>(const Context&, const Problem&, const Backward&);

}  // namespace fovea::scan
