#include "text/state.h"
#include "text/utf8.h"

namespace fovea {

// Decoders look at neighbours, so a token alone may give another text than in its place. Hence a window of tokens is
// decoded again each time: those of the last text said, whose text is known, and the new ones.
struct Tokenizer::Stream::State {
  std::shared_ptr<const Tokenizer::State> tokenizer;
  bool skip_special = true;
  std::vector<std::int32_t> window;
  std::size_t said = 0;  // tokens of the window whose text is out

  std::string text(std::size_t count) const {
    return tokenizer->pipeline.decode(std::span(window).first(count), skip_special);
  }

  std::string take(std::string text, std::size_t from) {
    window.erase(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(said));
    said = window.size();
    return text.substr(from);
  }
};

Tokenizer::Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Stream::Stream(Stream&&) noexcept = default;
Tokenizer::Stream& Tokenizer::Stream::operator=(Stream&&) noexcept = default;
Tokenizer::Stream::~Stream() = default;

std::string Tokenizer::Stream::next(std::int32_t id) {
  State& s = *state_;
  s.window.push_back(id);
  const std::string before = s.text(s.said);
  std::string now = s.text(s.window.size());
  constexpr std::size_t kLongestWait = 4;  // tokens: a character has four bytes, and a token at least one
  const bool unfinished = now.ends_with(text::kReplacementUtf8) && s.window.size() - s.said < kLongestWait;
  if (now.size() <= before.size() || unfinished) return {};
  return s.take(std::move(now), before.size());
}

std::string Tokenizer::Stream::finish() {
  State& s = *state_;
  const std::string before = s.text(s.said);
  std::string now = s.text(s.window.size());
  const std::size_t from = std::min(before.size(), now.size());
  std::string rest = s.take(std::move(now), from);
  s.window.clear();
  s.said = 0;
  return rest;
}

Tokenizer::Stream Tokenizer::decode_stream(bool skip_special) const {
  return Stream(std::make_unique<Stream::State>(Stream::State{state_, skip_special, {}, 0}));
}

}  // namespace fovea
