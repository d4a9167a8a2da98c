#include <algorithm>

#include "core/parallel.h"
#include "core/scratch.h"
#include "scan/cpu/buffers.h"
#include "scan/cpu/forms.h"

namespace fovea::scan {
namespace {

// Elements of state that make another thread worth waking: some 10 us of work.
constexpr std::int64_t kThreadWork = 1 << 16;

}  // namespace

template <class R>
void step_forward(const Context& context, const Problem& problem, const Forward& io) {
  const auto kernel = cpu::step_kernel<R>();
  const std::size_t bytes = cpu::step_scratch_bytes<R>(problem);
  const auto pieces = static_cast<std::int64_t>(problem.pieces.size());
  const std::int64_t work = pieces * problem.kv_heads * problem.d_k * problem.d_v;
  const auto threads = static_cast<int>(std::min<std::int64_t>({context.threads(), pieces, 1 + work / kThreadWork}));
  const Scratch<std::byte> scratch(context, bytes * static_cast<std::size_t>(threads));
  parallel(threads, [&](const Team& team) {
    const Room own = scratch.part(static_cast<std::size_t>(team.rank()), bytes);
    for (std::int64_t p = team.take(); p < pieces; p = team.take())
      kernel(problem, io, static_cast<std::size_t>(p), own);
  });
}

template void step_forward<float>(const Context&, const Problem&, const Forward&);
template void step_forward<double>(const Context&, const Problem&, const Forward&);

}  // namespace fovea::scan
