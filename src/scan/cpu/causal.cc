#include <atomic>
#include <cstring>
#include <vector>

#include "scan/cpu/decay.h"
#include "scan/cpu/driver.h"
#include "scan/cpu/forms.h"
#include "scan/cpu/rows.h"

namespace fovea::scan {
namespace {

// The state each segment of a wave starts with; the kernels let it run along, so that afterwards it is that of the
// other end. Gradients start on the right. Segments that others wait for are first summed up on their own.
template <class R>
class RunningStates {
 public:
  enum class Start { left, right };

  RunningStates(const Context& context, const Driver<R>& driver, const Problem& problem, const SegmentDecays<R>& decays,
                const Wave& wave)
      : driver_(driver),
        decays_(decays),
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
  // The sweep from the left comes first and sums up the decays for both.
  template <class Add>
  void start(Start side, const void* outside, Add&& add) {
    driver_.each(cuts_.size(), [&](std::size_t i, Room scratch) {
      std::fill_n(of(i), size_, R{0});
      const std::size_t p = cuts_[i].piece - wave_.first;
      const bool is_last = side == Start::left ? i + 1 == first_[p + 1] : i == first_[p];
      if (!is_last) add(driver_.task(cuts_[i], driver_.all_heads(), scratch), of(i));
      if (side == Start::left) decays_.sum_up(i);
    });
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t begin = first_[piece - wave_.first], end = first_[piece - wave_.first + 1];
      Scan scan(*this, driver_.outside(outside, piece, g), g);
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t cut = side == Start::left ? i : begin + end - 1 - i;
        scan.start(cut);
        if (i + 1 < end) scan.pass(cut);
      }
    });
  }

  // Gives the caller what has arrived at the end of every piece; null: not wanted.
  void save(Start side, void* outside) const {
    if (outside == nullptr) return;
    each_end(side, [&](std::size_t piece, std::size_t g, const R* state) {
      save_state(driver_.layout, state, driver_.outside(outside, piece, g));
    });
  }
  // f(piece, kv head, state that has arrived at the end)
  template <class F>
  void each_end(Start side, const F& f) const {
    driver_.each_state(wave_, [&](std::size_t piece, std::size_t g) {
      const std::size_t p = piece - wave_.first;
      const std::size_t last = side == Start::left ? first_[p + 1] - 1 : first_[p];
      f(piece, g, of(last) + g * driver_.layout.state_size());
    });
  }

 private:
  // One head along the segments of a piece: puts the sum of those before in place of each segment's own.
  class Scan {
   public:
    Scan(RunningStates& all, const R* outside, std::size_t g)
        : all_(all), head_(g), carried_(layout().state_size()), own_(carried_.size()) {
      load_state(layout(), outside, carried_.data());
    }
    void start(std::size_t i) {
      R* state = all_.of(i) + head_ * carried_.size();
      std::copy_n(state, own_.size(), own_.data());
      std::copy_n(carried_.data(), carried_.size(), state);
    }
    // Over to the next segment.
    void pass(std::size_t i) {
      const R* decay = all_.decays_.of(i, head_);
      for (std::size_t w = 0; w < layout().width; ++w)
        for (std::size_t a = 0; a < layout().d_k; ++a) {
          const std::size_t e = w * layout().ld_k + a;
          carried_[e] = decay[a] * carried_[e] + own_[e];
        }
    }

   private:
    const StateLayout<R>& layout() const { return all_.driver_.layout; }

    RunningStates& all_;
    std::size_t head_;
    std::vector<R> carried_, own_;
  };

  const Driver<R>& driver_;
  const SegmentDecays<R>& decays_;
  Wave wave_;
  std::vector<Cut> cuts_;
  std::size_t size_;
  Scratch<R> states_;               // [cuts][kv_heads]
  std::vector<std::size_t> first_;  // first cut of each piece
};

// Queries in front of all keys read nothing.
void clear_rows(const Problem& problem, const Piece& piece, const Out& array, std::int64_t dim, DType dtype) {
  if (array.data == nullptr) return;
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
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

// What the tasks of a wave that share heads leave for each other; see NormExchange.
template <class R>
class Exchanges {
 public:
  Exchanges(const Context& context, const Driver<R>& driver, const Problem& problem, const std::vector<Cut>& cuts,
            int lanes)
      : problem_(problem),
        lanes_(problem.rms_norm ? lanes : 1),
        chunk_(driver.chunk()),
        squares_of_chunk_(driver.layout.heads * padded<R>(static_cast<std::size_t>(chunk_))),
        offsets_(count(cuts)),
        arrived_(offsets_.back().chunks),
        squares_(context, offsets_.back().chunks * squares_of_chunk_),
        rows_(context, problem.output_type() == dtype_of<R> ? 0 : offsets_.back().rows * row_size()) {}

  cpu::NormExchange<R> of(const std::vector<Cut>& cuts, std::size_t cut, const Out& o) {
    if (lanes_ == 1) return {};
    const Offset& at = offsets_[cut];
    return {lanes_, &arrived_[at.chunks], squares_.data() + at.chunks * squares_of_chunk_, rows_of(cuts[cut], at, o)};
  }

 private:
  struct Offset {
    std::size_t chunks = 0, rows = 0;
  };

  // Chunks and positions before each cut, and of all.
  std::vector<Offset> count(const std::vector<Cut>& cuts) const {
    std::vector<Offset> out(1);
    for (const Cut& cut : cuts) {
      const Offset& last = out.back();
      const Piece& piece = problem_.pieces[cut.piece];
      const auto chunks = static_cast<std::size_t>(cpu::Chunks(piece, cut.begin, cut.end, chunk_).count());
      out.push_back(lanes_ == 1
                        ? Offset{}
                        : Offset{last.chunks + chunks, last.rows + static_cast<std::size_t>(cut.end - cut.begin)});
    }
    return out;
  }
  std::size_t row_size() const { return static_cast<std::size_t>(problem_.heads * problem_.d_v); }

  // Unfinished rows, addressed like the queries of the piece.
  Out rows_of(const Cut& cut, const Offset& at, const Out& o) const {
    const Piece& piece = problem_.pieces[cut.piece];
    if (problem_.output_type() == dtype_of<R>)
      return {static_cast<R*>(o.data) + piece.batch * o.batch + piece.q0 * o.row, 0, o.row, o.head};
    const std::int64_t first_query = cut.begin - (piece.nk - piece.nq), row = problem_.heads * problem_.d_v;
    return {rows_.data() + static_cast<std::int64_t>(at.rows) * row - first_query * row, 0, row, problem_.d_v};
  }

  const Problem& problem_;
  int lanes_;
  std::int64_t chunk_;
  std::size_t squares_of_chunk_;
  std::vector<Offset> offsets_;
  std::vector<std::atomic<int>> arrived_;
  Scratch<R> squares_, rows_;
};

// Runs body(task, cut) for every segment, its heads divided among `lanes` tasks so that all threads have work.
template <class R, class Body>
void each_segment(const Driver<R>& driver, const Problem& problem, const std::vector<Cut>& cuts, int lanes,
                  const Body& body) {
  driver.each(cuts.size() * static_cast<std::size_t>(lanes), [&](std::size_t i, Room scratch) {
    const std::size_t cut = i / static_cast<std::size_t>(lanes);
    const int lane = static_cast<int>(i % static_cast<std::size_t>(lanes));
    body(driver.task(cuts[cut], heads_of_lane(problem.kv_heads, lane, lanes), scratch), cut);
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
  const auto kernels = cpu::causal_forward_kernels<R>();
  const Driver<R> driver(context, problem);
  using States = RunningStates<R>;
  for (const Piece& piece : problem.pieces) {
    for (const Out* array : {&io.o, &io.rest}) clear_rows(problem, piece, *array, problem.d_v, problem.output_type());
    clear_statistic<R>(problem, piece, io.statistic);
  }
  for (const Wave& wave : make_waves(problem, driver.layout.states_size() * sizeof(R))) {
    const SegmentDecays<R> decays(context, problem, io.log_decay, wave);
    States states(context, driver, problem, decays, wave);
    states.start(States::Start::left, io.initial_state, [&](const cpu::Task<R>& task, R* sum) {
      kernels.add_keys(task, {io.k, io.v, io.log_decay}, sum);
    });
    const int lanes = choose_lanes(states.cuts().size(), problem.kv_heads, context.threads());
    Exchanges<R> exchanges(context, driver, problem, states.cuts(), lanes);
    each_segment(driver, problem, states.cuts(), lanes, [&](const cpu::Task<R>& task, std::size_t cut) {
      kernels.forward(task, io, states.of(cut), exchanges.of(states.cuts(), cut, io.o));
    });
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
  const auto lanes = [&](const States& states) {
    return choose_lanes(states.cuts().size(), problem.kv_heads, context.threads());
  };
  for (const Piece& piece : problem.pieces) clear_rows(problem, piece, io.dq, problem.d_k, problem.dtype);
  for (const Wave& wave : make_waves(problem, driver.layout.states_size() * sizeof(R))) {
    const RowDots<R> all_dots(context, problem, wave);
    const SegmentDecays<R> decays(context, problem, io.log_decay, wave);
    DecayGradient<R> decay(context, problem, io, wave);
    const auto dots = [&](const cpu::Task<R>& task) {
      const auto piece = static_cast<std::size_t>(task.piece - problem.pieces.data());
      return problem.rms_norm ? all_dots.of(piece) : nullptr;
    };
    if (problem.rms_norm) {
      const std::vector<Cut> rows = cut_for_rows(problem, wave.first, wave.last, Side::queries);
      driver.each(rows.size(), [&](std::size_t i, Room scratch) {
        const cpu::Task<R> task = driver.task(rows[i], driver.all_heads(), scratch);
        kernels.row_dots(task, io, dots(task));
      });
    }
    {
      States states(context, driver, problem, decays, wave);
      states.start(States::Start::left, io.initial_state, [&](const cpu::Task<R>& task, R* sum) {
        kernels.add_keys(task, {io.k, io.v, io.log_decay}, sum);
      });
      each_segment(driver, problem, states.cuts(), lanes(states), [&](const cpu::Task<R>& task, std::size_t cut) {
        kernels.vjp_queries(task, io, states.of(cut), dots(task));
      });
      if (decay.wanted())
        states.each_end(States::Start::left, [&](std::size_t piece, std::size_t g, const R* state) {
          decay.start(driver.layout, piece, g, state);
        });
    }
    States d_states(context, driver, problem, decays, wave);
    d_states.start(States::Start::right, io.d_final_state,
                   [&](const cpu::Task<R>& task, R* sum) { kernels.add_queries(task, io, sum, dots(task)); });
    each_segment(driver, problem, d_states.cuts(), lanes(d_states), [&](const cpu::Task<R>& task, std::size_t cut) {
      kernels.vjp_keys(task, io, d_states.of(cut), dots(task), decay.sums(cut));
    });
    d_states.save(States::Start::right, io.d_initial_state);
    if (decay.wanted()) driver.each_state(wave, [&](std::size_t piece, std::size_t g) { decay.join(piece, g); });
  }
}

template void causal_forward<float>(const Context&, const Problem&, const Forward&);
template void causal_forward<double>(const Context&, const Problem&, const Forward&);
template void causal_backward<float>(const Context&, const Problem&, const Backward&);
template void causal_backward<double>(const Context&, const Problem&, const Backward&);

}  // namespace fovea::scan
