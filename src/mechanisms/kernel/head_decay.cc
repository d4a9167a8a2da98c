#include "mechanisms/kernel/head_decay.h"

#include <fmt/format.h>

#include "mechanisms/compose.h"
#include "mechanisms/scanned.h"

namespace fovea {

AttentionResult run_with_decays(const Call& call, const Scanned& scanned) {
  Tape& tape = call.tape;
  const std::int64_t sequences = std::ssize(call.queries), heads = call.q.dim(2), kv_heads = call.k.dim(2),
                     d_k = call.q.dim(3), d_v = call.v.dim(3);
  const std::int64_t rows = heads / kv_heads * d_k;  // of a kv head's state
  AttentionOptions options = call.options;
  if (options.initial_state.defined()) {
    const Shape expected{sequences, kv_heads, rows, d_v};
    if (options.initial_state.shape() != expected)
      fail(ErrorCode::shape,
           fmt::format("initial_state is {}, expected {}", options.initial_state.shape().text(), expected.text()),
           "initial_state");
    options.initial_state = reshape(tape, options.initial_state, {sequences, heads, d_k, d_v});
  }
  AttentionResult result =
      run_scanned({tape, call.q, repeat_heads(tape, call.k, heads), repeat_heads(tape, call.v, heads), call.mechanism,
                   options, call.queries, call.keys},
                  scanned);
  if (result.final_state.defined())
    result.final_state = reshape(tape, result.final_state, {sequences, kv_heads, rows, d_v});
  return result;
}

}  // namespace fovea
