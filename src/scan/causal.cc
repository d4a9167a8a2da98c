#include <cmath>
#include <cstring>
#include <vector>

#include "scan/driver.h"
#include "scan/forms.h"
#include "scan/progress.h"

namespace fovea::scan {
namespace {

// The state each segment of a wave starts with; the kernels let it run along, so that afterwards it is that of the
// other end. Gradients start on the right. Segments that others wait for are first summed up on their own.
template <class R>
class RunningStates {
 public:
  enum class Start { left, right };

  RunningStates(const Context& context, const Driver<R>& driver, const Problem& problem, const Wave& wave)
      : driver_(driver),
        problem_(problem),
        wave_(wave),
        cuts_(cut_for_scan(problem, wave.first, wave.last)),
        size_(driver.layout.states_size()),
        states_(context, cuts_.size() * size_) {
    for (std::size_t i = 0; i < cuts_.size(); ++i)
      if (cuts_[i].begin == 0) first_.push_back(i);
    first_.push_back(cuts_.size());
  }

  const std::vector<Cut>& cuts() const { return cuts_; }
  R* of(std::size_t cut) const { return states_.data() + cut * size_; }

  // add(task, states): what a segment gives to those behind it. `outside`: what the first starts with; null: zero.
  template <class Add>
  void start(Start side, const void* outside, Add&& add) {
    driver_.each(cuts_.size(), [&](std::size_t i, R* scratch) {
      std::fill_n(of(i), size_, R{0});
      const std::size_t p = cuts_[i].piece - wave_.first;
      const bool is_last = side == Start::left ? i + 1 == first_[p + 1] : i == first_[p];
      if (!is_last) add(driver_.task(cuts_[i], driver_.all_heads(), scratch), of(i));
    });
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t begin = first_[piece - wave_.first], end = first_[piece - wave_.first + 1];
      Scan scan(*this, driver_.outside(outside, piece, g), g);
      for (std::size_t i = begin; i < end; ++i) scan.pass(side == Start::left ? i : begin + end - 1 - i);
    });
  }

  // Gives the caller what has arrived at the end of every piece; null: not wanted.
  void save(Start side, void* outside) const {
    if (outside == nullptr) return;
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t p = piece - wave_.first;
      const std::size_t last = side == Start::left ? first_[p + 1] - 1 : first_[p];
      save_state(driver_.layout, of(last) + g * driver_.layout.state_size(), driver_.outside(outside, piece, g));
    });
  }

 private:
  // One head along the segments of a piece: puts the sum of those before in place of each segment's own.
  class Scan {
   public:
    Scan(RunningStates& all, const R* outside, std::size_t g) : all_(all), head_(g), carried_(layout().state_size()) {
      load_state(layout(), outside, carried_.data());
    }
    void pass(std::size_t i) {
      R* state = all_.of(i) + head_ * carried_.size();
      const R decay = all_.decay_over(all_.cuts_[i], head_);
      for (std::size_t e = 0; e < carried_.size(); ++e) {
        const R own = state[e];
        state[e] = carried_[e];
        carried_[e] = decay * carried_[e] + own;
      }
    }

   private:
    const StateLayout<R>& layout() const { return all_.driver_.layout; }

    RunningStates& all_;
    std::size_t head_;
    std::vector<R> carried_;
  };

  R decay_over(const Cut& cut, std::size_t g) const {
    if (problem_.log_decay == nullptr) return 1;
    return static_cast<R>(std::exp(static_cast<double>(cut.end - cut.begin) * problem_.log_decay[g]));
  }

  const Driver<R>& driver_;
  const Problem& problem_;
  Wave wave_;
  std::vector<Cut> cuts_;
  std::size_t size_;
  Scratch<R> states_;               // [cuts][kv_heads]
  std::vector<std::size_t> first_;  // first cut of each piece
};

// Queries in front of all keys read nothing.
void clear_rows(const Problem& problem, const Piece& piece, const Out& array, std::int64_t dim) {
  const auto bytes = static_cast<std::int64_t>(size_of(problem.dtype));
  char* base = static_cast<char*>(array.data) + piece.batch * array.batch * bytes;
  for (std::int64_t i = 0; i < piece.nq - piece.nk; ++i)
    for (std::int64_t h = 0; h < problem.heads; ++h)
      std::memset(base + ((piece.q0 + i) * array.row + h * array.head) * bytes, 0,
                  static_cast<std::size_t>(dim * bytes));
}

template <class R>
void clear_statistic(const Problem& problem, const Piece& piece, const Out& array) {
  const std::int64_t columns = statistic_columns(problem);
  if (array.data == nullptr) return;
  for (std::int64_t i = 0; i < piece.nq - piece.nk; ++i)
    std::fill_n(static_cast<R*>(array.data) + piece.batch * array.batch + (piece.q0 + i) * array.row, columns, R{0});
}

// Sums of squares that the lanes of a team show each other, and how far each has come.
template <class R>
class Exchanges {
 public:
  Exchanges(const Context& context, const Driver<R>& driver, const Problem& problem)
      : size_(2 * cpu::kNormSlots * driver.layout.heads * padded<R>(static_cast<std::size_t>(driver.chunk()))),
        squares_(context, problem.rms_norm ? size_ * threads(context) : 0),
        progress_(threads(context)) {}

  cpu::NormExchange<R> of(int rank, int lanes, std::size_t heads_of_lane) {
    const auto first = static_cast<std::size_t>(rank / lanes * lanes);  // of the team
    return {squares_.data() + first * size_, cpu::norm_slots(heads_of_lane, lanes), &progress_[first], rank % lanes,
            lanes};
  }

 private:
  static std::size_t threads(const Context& context) { return static_cast<std::size_t>(context.threads()); }

  std::size_t size_;
  Scratch<R> squares_;
  std::vector<Progress> progress_;  // of every thread
};

// Threads form teams; a team takes segments and its members share the heads. Where nobody shares, segments are handed
// out as threads become free.
template <class R>
void forward_segments(const Context& context, const Driver<R>& driver, const Problem& problem, const Forward& io,
                      const RunningStates<R>& states) {
  const auto kernel = cpu::causal_forward_kernels<R>().forward;
  const std::vector<Cut>& cuts = states.cuts();
  Exchanges<R> exchanges(context, driver, problem);
  parallel(driver.threads(cuts.size() * driver.layout.kv_heads), [&](const Team& team) {
    const auto [lanes, teams] = choose_lanes(cuts.size(), problem.kv_heads, team.size());
    const int own_team = team.rank() / lanes;
    if (own_team >= teams) return;
    const auto most_heads = static_cast<std::size_t>((problem.kv_heads + lanes - 1) / lanes) * driver.layout.group;
    const cpu::NormExchange<R> exchange = exchanges.of(team.rank(), lanes, most_heads);
    const HeadRange heads = heads_of_lane(problem.kv_heads, exchange.lane, lanes);
    std::size_t i = lanes == 1 ? static_cast<std::size_t>(team.take()) : static_cast<std::size_t>(own_team);
    while (i < cuts.size()) {
      kernel(driver.task(cuts[i], heads, driver.scratch_of(team)), io, states.of(i), exchange);
      i = lanes == 1 ? static_cast<std::size_t>(team.take()) : i + static_cast<std::size_t>(teams);
    }
  });
}

// Runs kernel(task, states) for every segment, its heads divided so that all threads have work.
template <class R, class Kernel>
void each_segment(const Context& context, const Driver<R>& driver, const Problem& problem,
                  const RunningStates<R>& states, const Kernel& kernel) {
  const std::vector<Cut>& cuts = states.cuts();
  const int lanes = choose_lanes(cuts.size(), problem.kv_heads, context.threads()).lanes;
  driver.each(cuts.size() * static_cast<std::size_t>(lanes), [&](std::size_t task, R* scratch) {
    const std::size_t i = task / static_cast<std::size_t>(lanes);
    const int lane = static_cast<int>(task % static_cast<std::size_t>(lanes));
    kernel(driver.task(cuts[i], heads_of_lane(problem.kv_heads, lane, lanes), scratch), states.of(i));
  });
}

// d_o . o over all heads, of every query of a wave.
template <class R>
class RowDots {
 public:
  RowDots(const Context& context, const Problem& problem, const Wave& wave)
      : first_(wave.first), offsets_(make_offsets(problem, wave)), dots_(context, offsets_.back()) {}

  R* of(std::size_t piece) const { return dots_.data() + offsets_[piece - first_]; }

 private:
  static std::vector<std::size_t> make_offsets(const Problem& problem, const Wave& wave) {
    std::vector<std::size_t> offsets = {0};
    for (std::size_t p = wave.first; p < wave.last; ++p)
      offsets.push_back(offsets.back() + (problem.rms_norm ? static_cast<std::size_t>(problem.pieces[p].nq) : 0));
    return offsets;
  }

  std::size_t first_;
  std::vector<std::size_t> offsets_;
  Scratch<R> dots_;
};

}  // namespace

template <class R>
void causal_forward(const Context& context, const Problem& problem, const Forward& io) {
  const auto add_keys = cpu::causal_forward_kernels<R>().add_keys;
  const Driver<R> driver(context, problem);
  using States = RunningStates<R>;
  for (const Piece& piece : problem.pieces) {
    clear_rows(problem, piece, io.o, problem.d_v);
    clear_statistic<R>(problem, piece, io.statistic);
  }
  for (const Wave& wave : make_waves(problem, driver.layout.states_size() * sizeof(R))) {
    States states(context, driver, problem, wave);
    states.start(States::Start::left, io.initial_state,
                 [&](const cpu::Task<R>& task, R* sum) { add_keys(task, io.k, io.v, sum); });
    forward_segments(context, driver, problem, io, states);
    states.save(States::Start::left, io.final_state);
  }
}

// Two sweeps: dq from the left with the states rebuilt, dk and dv from the right with the gradient of the states.
// Storing a state per chunk instead costs more than computing it again (59 against 52 ms at n 16384).
template <class R>
void causal_backward(const Context& context, const Problem& problem, const Backward& io) {
  const auto kernels = cpu::causal_backward_kernels<R>();
  const Driver<R> driver(context, problem);
  using States = RunningStates<R>;
  for (const Piece& piece : problem.pieces) clear_rows(problem, piece, io.dq, problem.d_k);
  for (const Wave& wave : make_waves(problem, driver.layout.states_size() * sizeof(R))) {
    const RowDots<R> all_dots(context, problem, wave);
    const auto dots = [&](const cpu::Task<R>& task) {
      const auto piece = static_cast<std::size_t>(task.piece - problem.pieces.data());
      return problem.rms_norm ? all_dots.of(piece) : nullptr;
    };
    if (problem.rms_norm) {
      const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::queries);
      driver.each(rows.size(), [&](std::size_t i, R* scratch) {
        const cpu::Task<R> task = driver.task(rows[i], driver.all_heads(), scratch);
        kernels.row_dots(task, io, dots(task));
      });
    }
    {
      States states(context, driver, problem, wave);
      states.start(States::Start::left, io.initial_state,
                   [&](const cpu::Task<R>& task, R* sum) { kernels.add_keys(task, io.k, io.v, sum); });
      each_segment(context, driver, problem, states,
                   [&](const cpu::Task<R>& task, R* running) { kernels.pull_queries(task, io, running, dots(task)); });
    }
    States d_states(context, driver, problem, wave);
    d_states.start(States::Start::right, io.d_final_state,
                   [&](const cpu::Task<R>& task, R* sum) { kernels.add_queries(task, io, sum, dots(task)); });
    each_segment(context, driver, problem, d_states,
                 [&](const cpu::Task<R>& task, R* running) { kernels.pull_keys(task, io, running, dots(task)); });
    d_states.save(States::Start::right, io.d_initial_state);
  }
}

template void causal_forward<float>(const Context&, const Problem&, const Forward&);
template void causal_forward<double>(const Context&, const Problem&, const Forward&);
template void causal_backward<float>(const Context&, const Problem&, const Backward&);
template void causal_backward<double>(const Context&, const Problem&, const Backward&);

}  // namespace fovea::scan
