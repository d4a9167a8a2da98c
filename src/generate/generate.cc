#include "fovea/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "generate/beam.h"
#include "generate/sampler.h"
#include "io/fields.h"

namespace fovea {
namespace {

// One prompt and what has become of it.
struct Sequence {
  std::int64_t number;  // of the prompt
  Start start;
  std::int64_t most;  // new tokens
  nn::Past past;
  Tokens seen;  // what the penalty counts: the tokens read, and the new ones
  Generated out;
  bool done = false;
};

// What all sequences of a call have in common.
struct Run {
  const Decoder& decoder;
  const GenerateOptions& options;
  const TokenWatch& watch;
  const std::atomic<bool>* stop;

  bool interrupted() const { return stop != nullptr && stop->load(); }
  bool ends(std::int32_t id) const {
    return std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
  }
};

// What fields() allows, also of options that were never in a file.
void check_ranges(GenerateOptions options) {
  fields_detail::read(&options, fields_detail::visit_of<GenerateOptions>, write_fields(options), "options",
                      ErrorCode::usage);
}

void check_length(std::int64_t length, std::int64_t positions, const std::string& where) {
  if (length == 0) fail(ErrorCode::usage, "a prompt without tokens", where, "at least one token to start from");
  if (length > positions)
    fail(ErrorCode::bad_input, fmt::format("a prompt of {} tokens, but the model takes {}", length, positions), where,
         "a shorter prompt");
}

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary, const std::string& where) {
  const auto wrong = std::find_if(ids.begin(), ids.end(), [&](auto id) { return id < 0 || id >= vocabulary; });
  if (wrong != ids.end())
    fail(ErrorCode::bad_input, fmt::format("token {} is outside the vocabulary 0 .. {}", *wrong, vocabulary - 1), where,
         "the tokeniser that the model was trained with");
}

std::vector<Sequence> make_sequences(const Run& run, std::span<const Tokens> prompts) {
  const Decoder& decoder = run.decoder;
  const ModelConfig& config = decoder.model().config();
  const bool table = config.positions == Positions::learned || config.positions == Positions::sinusoidal;
  const std::int64_t readable = table ? config.max_length : kUnlimited;
  check_ids(run.options.stop_ids, decoder.vocabulary(), "stop_ids");
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string where = fmt::format("prompts[{}]", i);
    check_length(std::ssize(prompts[i]), readable, where);
    check_ids(prompts[i], config.vocabulary, where);
    Start start{prompts[i], {}};
    if (decoder.translates()) start = {std::span<const std::int32_t>(&*run.options.start, 1), prompts[i]};
    // The last token made is not read any more: it needs no position.
    const std::int64_t room =
        decoder.positions() == kUnlimited ? kUnlimited : decoder.positions() - std::ssize(start.tokens) + 1;
    sequences.push_back({static_cast<std::int64_t>(i),
                         start,
                         std::min(run.options.max_tokens, room),
                         decoder.new_past(),
                         Tokens(start.tokens.begin(), start.tokens.end()),
                         {}});
  }
  return sequences;
}

GenerateEnd limit_of(const Run& run, const Sequence& sequence) {
  return sequence.most < run.options.max_tokens ? GenerateEnd::context : GenerateEnd::max_tokens;
}

void finish(const Run& run, Sequence& sequence, GenerateEnd end) {
  sequence.out.end = end;
  sequence.done = true;
  sequence.past = {};
  if (run.watch.done) run.watch.done(sequence.number, sequence.out);
}

// Takes a new token in; the sequence may end with it.
void take(const Run& run, Sequence& sequence, std::int32_t id) {
  sequence.out.ids.push_back(id);
  sequence.seen.push_back(id);
  const bool wanted = !run.watch.token || run.watch.token(sequence.number, id);
  if (run.ends(id))
    finish(run, sequence, GenerateEnd::stop_id);
  else if (!wanted)
    finish(run, sequence, GenerateEnd::stop_text);
  else if (std::ssize(sequence.out.ids) == sequence.most)
    finish(run, sequence, limit_of(run, sequence));
  else if (run.interrupted())
    finish(run, sequence, GenerateEnd::interrupted);
}

// The logits that follow on every sequence of the group that is not done, in order.
Tensor step(const Run& run, std::span<Sequence> group, bool first) {
  std::vector<std::span<const std::int32_t>> tokens, sources;
  std::vector<nn::Past*> pasts;
  for (Sequence& s : group) {
    if (s.done) continue;
    tokens.push_back(first ? s.start.tokens : std::span<const std::int32_t>(s.out.ids).last(1));
    sources.push_back(s.start.source);
    pasts.push_back(&s.past);
  }
  return first && run.decoder.translates() ? run.decoder.step(tokens, pasts, sources) : run.decoder.step(tokens, pasts);
}

// Prompts side by side, until all are done.
void run_group(const Run& run, std::span<Sequence> group) {
  const auto open = [&] { return std::any_of(group.begin(), group.end(), [](const auto& s) { return !s.done; }); };
  for (bool first = true; open(); first = false) {
    const Tensor logits = step(run, group, first);
    const auto width = static_cast<std::size_t>(logits.dim(1));
    float* row = logits.data<float>();
    for (Sequence& s : group) {
      if (s.done) continue;
      const std::span<float> values{row, width};
      check_logits(values);
      penalize(values, s.seen, run.options.repetition_penalty);
      take(run, s, choose(values, run.options, {run.options.seed, s.number, std::ssize(s.out.ids)}));
      row += width;
    }
  }
}

// Gives the watch what beams found; it may end the text earlier.
void show(const Run& run, Sequence& sequence) {
  if (sequence.out.end == GenerateEnd::max_tokens) sequence.out.end = limit_of(run, sequence);
  Tokens& ids = sequence.out.ids;
  for (std::size_t i = 0; run.watch.token && i < ids.size(); ++i) {
    if (run.watch.token(sequence.number, ids[i]) || run.ends(ids[i])) continue;
    ids.resize(i + 1);
    sequence.out.end = GenerateEnd::stop_text;
  }
  finish(run, sequence, sequence.out.end);
}

// Beams of several prompts run together while packed weights serve them all: so a text stays the same in any company.
std::int64_t prompts_together(const GenerateOptions& options) {
  if (options.beams == 1) return options.batch;
  return std::clamp<std::int64_t>(gemm::kPackedRows / options.beams, 1, options.batch);
}

void run_beams(const Run& run, std::span<Sequence> group) {
  std::vector<BeamTask> tasks;
  for (const Sequence& s : group) tasks.push_back({s.start, s.most});
  std::vector<Generated> found = beam_search(run.decoder, tasks, run.options, run.stop);
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i].out = std::move(found[i]);
    show(run, group[i]);
  }
}

}  // namespace

struct Generator::Impl {
  Decoder decoder;
};

Generator::Generator(Context& context, const Model& model, WeightForm weights)
    : impl_(std::make_unique<Impl>(Impl{Decoder(context, model, weights)})) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

const Model& Generator::model() const { return impl_->decoder.model(); }
Context& Generator::context() const { return impl_->decoder.context(); }

std::vector<Generated> Generator::run(std::span<const Tokens> prompts, const GenerateOptions& options,
                                      const TokenWatch& watch, const std::atomic<bool>* stop) {
  check_ranges(options);
  const Run run{impl_->decoder, options, watch, stop};
  if (run.decoder.translates()) {
    if (!options.start)
      fail(ErrorCode::usage, "no token for the decoder to start from", "start",
           "--start ID: the token its training began with");
    check_ids({&*options.start, 1}, run.decoder.vocabulary(), "start");
  }
  std::vector<Sequence> sequences = make_sequences(run, prompts);
  const auto batch = static_cast<std::size_t>(prompts_together(options));
  for (std::size_t begin = 0; begin < sequences.size(); begin += batch) {
    const std::span group = std::span(sequences).subspan(begin, std::min(batch, sequences.size() - begin));
    if (run.interrupted())
      for (Sequence& s : group) finish(run, s, GenerateEnd::interrupted);
    else if (options.beams > 1)
      run_beams(run, group);
    else
      run_group(run, group);
  }
  std::vector<Generated> results;
  for (Sequence& s : sequences) results.push_back(std::move(s.out));
  return results;
}

}  // namespace fovea
