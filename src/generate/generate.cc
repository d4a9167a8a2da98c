#include "fovea/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"
#include "generate/beam.h"
#include "generate/sampler.h"
#include "io/fields.h"
#include "tensor/views.h"

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

// The next token of each sequence, by its row of the logits.
std::vector<std::int32_t> choose_next(const Run& run, std::span<Sequence* const> sequences, const Tensor& logits) {
  const std::int64_t width = logits.dim(1);
  const Tensor rows = on_host(logits);
  std::vector<std::int32_t> chosen(sequences.size());
  parallel_for(run.decoder.context(), std::ssize(sequences), [&](std::int64_t i) {
    const Sequence& s = *sequences[static_cast<std::size_t>(i)];
    const std::span<float> row{rows.data<float>() + i * width, static_cast<std::size_t>(width)};
    check_logits(row);
    penalize(row, s.seen, run.options.repetition_penalty);
    chosen[static_cast<std::size_t>(i)] = choose(row, run.options, {run.options.seed, s.number, std::ssize(s.out.ids)});
  });
  return chosen;
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

// Every sequence reads on and takes its next token: what it starts from, or the last token that it took.
void step(const Run& run, std::span<Sequence* const> sequences) {
  std::vector<Reading> readings;
  for (Sequence* s : sequences) {
    if (s->out.ids.empty())
      readings.push_back({&s->past, s->start.tokens, s->start.source});
    else
      readings.push_back({&s->past, std::span<const std::int32_t>(s->out.ids).last(1)});
  }
  const Tensor logits = run.decoder.step(readings);
  const std::vector<std::int32_t> chosen = choose_next(run, sequences, logits);
  for (std::size_t i = 0; i < sequences.size(); ++i) take(run, *sequences[i], chosen[i]);
}

// Prompts side by side. One that is done leaves its place to the next that waits.
void run_together(const Run& run, std::span<Sequence> sequences) {
  std::vector<Sequence*> open;
  auto waiting = sequences.begin();
  while (!open.empty() || waiting != sequences.end()) {
    std::vector<Sequence*> fresh;
    for (; waiting != sequences.end() && std::ssize(open) + std::ssize(fresh) < run.options.batch; ++waiting) {
      if (run.interrupted())
        finish(run, *waiting, GenerateEnd::interrupted);
      else
        fresh.push_back(&*waiting);
    }
    if (!open.empty()) step(run, open);
    if (!fresh.empty()) step(run, fresh);
    open.insert(open.end(), fresh.begin(), fresh.end());
    std::erase_if(open, [](const Sequence* s) { return s->done; });
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

void run_beams(const Run& run, std::span<Sequence> sequences) {
  const auto batch = static_cast<std::size_t>(run.options.batch);
  for (; !sequences.empty(); sequences = sequences.subspan(std::min(batch, sequences.size()))) {
    const std::span<Sequence> group = sequences.first(std::min(batch, sequences.size()));
    if (run.interrupted()) {
      for (Sequence& s : group) finish(run, s, GenerateEnd::interrupted);
      continue;
    }
    std::vector<BeamTask> tasks;
    for (const Sequence& s : group) tasks.push_back({s.start, s.most});
    std::vector<Generated> found = beam_search(run.decoder, tasks, run.options, run.stop);
    for (std::size_t i = 0; i < group.size(); ++i) {
      group[i].out = std::move(found[i]);
      show(run, group[i]);
    }
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
  if (options.beams > 1)
    run_beams(run, sequences);
  else
    run_together(run, sequences);
  std::vector<Generated> results;
  for (Sequence& s : sequences) results.push_back(std::move(s.out));
  return results;
}

}  // namespace fovea
