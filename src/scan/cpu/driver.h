#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/parallel.h"
#include "core/scratch.h"
#include "scan/cpu/buffers.h"
#include "scan/cpu/plan.h"
#include "scan/feature_source.h"

namespace fovea::scan {

using cpu::StateLayout;

// Takes over the state of one head from the caller, (d_k, width), or zero; see cpu/kernels.h for the form inside.
template <class R>
void load_state(const StateLayout<R>& layout, const R* outside, R* state) {
  std::fill_n(state, layout.state_size(), R{0});
  if (outside == nullptr) return;
  for (std::size_t a = 0; a < layout.d_k; ++a)
    for (std::size_t w = 0; w < layout.width; ++w) state[w * layout.ld_k + a] = outside[a * layout.width + w];
}
template <class R>
void save_state(const StateLayout<R>& layout, const R* state, R* outside) {
  for (std::size_t a = 0; a < layout.d_k; ++a)
    for (std::size_t w = 0; w < layout.width; ++w) outside[a * layout.width + w] = state[w * layout.ld_k + a];
}

// What the drivers share: sizes, scratch for every thread, and the loop over tasks.
template <class R>
class Driver {
 public:
  Driver(const Context& context, const Problem& problem) : Driver(context, problem, nullptr, nullptr) {}
  Driver(const Context& context, const Problem& problem, const FeatureSource* q, const FeatureSource* k)
      : layout(problem),
        context_(context),
        problem_(problem),
        chunk_(choose_chunk(problem)),
        buffer_bytes_(cpu::scratch_bytes<R>(problem, chunk_)),
        scratch_bytes_(buffer_bytes_ + std::max(room_of(q), room_of(k))),
        scratch_(context, scratch_bytes_ * static_cast<std::size_t>(context.threads())) {}

  // Runs f(i, scratch of the thread) for i in [0, count).
  template <class F>
  void each(std::size_t count, F&& f) const {
    const auto end = static_cast<std::int64_t>(count);
    parallel(threads(count), [&](const Team& team) {
      for (std::int64_t i = team.take(); i < end; i = team.take()) f(static_cast<std::size_t>(i), scratch_of(team));
    });
  }
  // The same for every kv head of every piece: f(piece, kv head).
  template <class F>
  void each_state(const Wave& wave, F&& f) const {
    each((wave.last - wave.first) * layout.kv_heads,
         [&](std::size_t i, Room) { f(wave.first + i / layout.kv_heads, i % layout.kv_heads); });
  }

  cpu::Task<R> task(const Cut& cut, HeadRange heads, Room scratch) const {
    return {&problem_,
            &problem_.pieces[cut.piece],
            cut.begin,
            cut.end,
            heads.first,
            heads.last,
            chunk_,
            scratch.first(buffer_bytes_),
            scratch.subspan(buffer_bytes_)};
  }
  HeadRange all_heads() const { return {0, problem_.kv_heads}; }
  int threads(std::size_t tasks) const {
    return static_cast<int>(std::clamp<std::size_t>(tasks, 1, static_cast<std::size_t>(context_.threads())));
  }
  Room scratch_of(const Team& team) const {
    return scratch_.part(static_cast<std::size_t>(team.rank()), scratch_bytes_);
  }
  std::int64_t chunk() const { return chunk_; }

  // One head of one piece in an array of the caller; null stays null.
  template <class Void>
  auto outside(Void* states, std::size_t piece, std::size_t kv_head) const {
    using Pointer = std::conditional_t<std::is_const_v<Void>, const R*, R*>;
    const std::size_t offset = (piece * layout.kv_heads + kv_head) * layout.d_k * layout.width;
    return states == nullptr ? Pointer{nullptr} : static_cast<Pointer>(states) + offset;
  }

  const StateLayout<R> layout;

 private:
  static std::size_t room_of(const FeatureSource* source) { return source == nullptr ? 0 : source->room_bytes(); }

  const Context& context_;
  const Problem& problem_;
  std::int64_t chunk_;
  std::size_t buffer_bytes_, scratch_bytes_;
  Scratch<std::byte> scratch_;
};

}  // namespace fovea::scan
