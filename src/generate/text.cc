#include <fmt/format.h>

#include <algorithm>

#include "fovea/generate.h"

namespace fovea {
namespace {

// Bytes at the end of `text` that are the beginning of `wanted`.
std::size_t overlap(std::string_view text, std::string_view wanted) {
  for (std::size_t size = std::min(text.size(), wanted.size() - 1); size > 0; --size)
    if (text.ends_with(wanted.substr(0, size))) return size;
  return 0;
}

void check_vocabulary(const Tokenizer& tokenizer, const Model& model) {
  if (tokenizer.vocabulary() > model.config().vocabulary)
    fail(ErrorCode::bad_input,
         fmt::format("the tokeniser has {} tokens, the model {}", tokenizer.vocabulary(), model.config().vocabulary),
         "tokenizer", "the tokeniser that the model was trained with");
}

// An encoder reads a text as the tokeniser finishes it; a prompt goes on, so that nothing may close it. Without a text
// there is still the beginning of one.
Tokens encode(const Tokenizer& tokenizer, const std::string& text, bool closed) {
  Encoding encoding = tokenizer.encode(text);
  if (!closed)
    while (!encoding.ids.empty() && encoding.special.back() == 1 && encoding.ids.size() > 1) {
      encoding.ids.pop_back();
      encoding.special.pop_back();
    }
  const SpecialIds roles = tokenizer.special_ids();
  if (const auto first = roles.bos ? roles.bos : roles.eos; encoding.ids.empty() && first) return {*first};
  return std::move(encoding.ids);
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before, std::vector<std::string> stop)
    : stream_(tokenizer.decode_stream()), stop_(std::move(stop)) {
  for (const std::int32_t id : before) stream_.next(id);
}

std::string TextStream::next(std::int32_t id) { return stopped_ ? std::string() : release(stream_.next(id), false); }
std::string TextStream::finish() { return stopped_ ? std::string() : release(stream_.finish(), true); }

std::string TextStream::release(std::string_view fresh, bool all) {
  held_ += fresh;
  std::size_t end = held_.size(), kept = 0;
  for (const std::string& text : stop_) {
    const std::size_t at = held_.find(text);
    stopped_ = stopped_ || at != std::string::npos;
    end = std::min(end, at);
    kept = std::max(kept, overlap(held_, text));
  }
  if (!stopped_ && !all) end -= kept;
  std::string said = held_.substr(0, end);
  held_.erase(0, stopped_ ? held_.size() : end);
  return said;
}

GenerateOptions with_roles(GenerateOptions options, const Tokenizer& tokenizer, const Model& model) {
  const SpecialIds roles = tokenizer.special_ids();
  if (const auto eos = roles.eos ? roles.eos : roles.sep) options.stop_ids.push_back(*eos);
  if (model.config().task == Task::seq2seq && !options.start)
    options.start = roles.bos ? roles.bos : roles.pad ? roles.pad : roles.cls;
  return options;
}

std::vector<Generated> generate_text(Generator& generator, const Tokenizer& tokenizer,
                                     std::span<const std::string> prompts, const GenerateOptions& options,
                                     const TextWatch& watch, const std::atomic<bool>* stop) {
  check_vocabulary(tokenizer, generator.model());
  const GenerateOptions full = with_roles(options, tokenizer, generator.model());
  const bool translates = generator.model().config().task == Task::seq2seq;
  std::vector<Tokens> tokens;
  std::vector<TextStream> streams;
  for (const std::string& prompt : prompts) {
    tokens.push_back(encode(tokenizer, prompt, translates));
    streams.emplace_back(tokenizer, translates ? Tokens{} : tokens.back(), options.stop);
  }
  std::vector<std::string> texts(prompts.size());
  const auto say = [&](std::size_t prompt, const std::string& piece) {
    texts[prompt] += piece;
    if (watch.piece && !piece.empty()) watch.piece(static_cast<std::int64_t>(prompt), piece);
  };
  const auto hear = [&](std::int64_t prompt, std::int32_t id) {
    if (std::find(full.stop_ids.begin(), full.stop_ids.end(), id) != full.stop_ids.end()) return true;
    TextStream& stream = streams[static_cast<std::size_t>(prompt)];
    say(static_cast<std::size_t>(prompt), stream.next(id));
    return !stream.stopped();
  };
  std::vector<Generated> results(prompts.size());
  const auto end = [&](std::int64_t prompt, const Generated& made) {
    const auto i = static_cast<std::size_t>(prompt);
    say(i, streams[i].finish());
    results[i] = made;
    if (streams[i].stopped()) results[i].end = GenerateEnd::stop_text;
    results[i].text = std::move(texts[i]);
    if (watch.done) watch.done(prompt, results[i]);
  };
  generator.run(tokens, full, {hear, end}, stop);
  return results;
}

}  // namespace fovea
