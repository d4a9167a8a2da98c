#include "text/state.h"
#include "text/utf8.h"

namespace fovea {

namespace {

// Tokens that may wait for the end of a character; so many bytes are no character any more.
constexpr std::size_t kLongestWait = 32;

// Bytes of a text that later tokens leave as they are: all but replacement characters at its end. Decoders show an
// unfinished character so, some of them the whole run of bytes before it too.
std::size_t settled(std::string_view text) {
  while (text.ends_with(text::kReplacementUtf8)) text.remove_suffix(text::kReplacementUtf8.size());
  return text.size();
}

}  // namespace

// Decoders look at neighbours, so a token alone may give another text than in its place. Hence a window of tokens is
// decoded again each time: those of the last whole text, and the new ones.
struct Tokenizer::Stream::State {
  std::shared_ptr<const Tokenizer::State> tokenizer;
  bool skip_special = true;
  std::vector<std::int32_t> window;
  std::size_t whole = 0;  // tokens of the window whose text is out, to its end
  std::size_t said = 0;   // bytes of the window's text that are out

  std::string text() const { return tokenizer->pipeline.decode(window, skip_special); }

  // Forgets the tokens before the last text that was whole.
  void move_on() {
    window.erase(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(whole));
    whole = window.size();
    said = text().size();
  }
};

Tokenizer::Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Stream::Stream(Stream&&) noexcept = default;
Tokenizer::Stream& Tokenizer::Stream::operator=(Stream&&) noexcept = default;
Tokenizer::Stream::~Stream() = default;

std::string Tokenizer::Stream::next(std::int32_t id) {
  State& s = *state_;
  s.window.push_back(id);
  const std::string now = s.text();
  const std::size_t end = s.window.size() - s.whole > kLongestWait ? now.size() : settled(now);
  if (end <= s.said) return {};
  std::string piece = now.substr(s.said, end - s.said);
  s.said = end;
  if (end == now.size()) s.move_on();
  return piece;
}

std::string Tokenizer::Stream::finish() {
  State& s = *state_;
  const std::string now = s.text();
  std::string rest = now.substr(std::min(s.said, now.size()));
  s.window.clear();
  s.whole = s.said = 0;
  return rest;
}

Tokenizer::Stream Tokenizer::decode_stream(bool skip_special) const {
  return Stream(std::make_unique<Stream::State>(Stream::State{state_, skip_special, {}, 0, 0}));
}

}  // namespace fovea
