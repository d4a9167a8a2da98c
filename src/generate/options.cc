#include <fmt/format.h>

#include "fovea/generate.h"
#include "io/fields.h"

namespace fovea {

std::string_view name_of(GenerateEnd end) {
  constexpr std::string_view kNames[] = {"max_tokens", "stop_id", "stop_text", "context", "interrupted"};
  return kNames[static_cast<std::size_t>(end)];
}

std::vector<std::string_view> beam_stop_names() { return {"enough", "likely", "certain"}; }
std::vector<std::string_view> weight_form_names() { return {"f32", "bf16", "int8"}; }

void GenerateOptions::check() const {
  if (beams > 1 && temperature > 0.0)
    fail(ErrorCode::usage, fmt::format("beam search draws nothing: a temperature of {} has no meaning", temperature),
         "temperature", "temperature 0, or one beam");
  if (temperature == 0.0 && (top_k > 0 || top_p < 1.0))
    fail(ErrorCode::usage, "at temperature 0 the most likely token is always taken", top_k > 0 ? "top_k" : "top_p",
         "a temperature, such as 0.8");
  for (const std::string& text : stop)
    if (text.empty()) fail(ErrorCode::usage, "an empty text to stop at", "stop", "leave it out");
}

void GenerateOptions::fields(FieldVisitor& v) {
  v("max_tokens", max_tokens, "new tokens at most", between(1, 1e9));
  v("temperature", temperature, "0: the most likely token; above: draw, the higher the freer", between(0, 1e3));
  v("top_k", top_k, "draw among so many of the most likely tokens; 0: all", between(0, 1e9));
  v("top_p", top_p, "draw among the fewest tokens that have this probability together",
    Allowed{.low = 0, .high = 1, .open_low = true});
  v("repetition_penalty", repetition_penalty, "above 1: tokens that were there become less likely", between(0.01, 100));
  v("beams", beams, "beginnings that beam search follows; 1: no search", between(1, 4096));
  v("length_penalty", length_penalty, "beams are compared by log-probability / length^penalty", between(-10, 10));
  v("beam_stop", beam_stop, "when a search is over", one_of(beam_stop_names()));
  v("seed", seed, "of the draws");
  v("stop_ids", stop_ids, "tokens that end a sequence", at_least(0));
  v("stop", stop, "texts that end a sequence");
  v("start", start, "what the decoder of a seq2seq model reads first", at_least(0));
  v("batch", batch, "prompts that run together", between(1, 4096));
}

}  // namespace fovea
