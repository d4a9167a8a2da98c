#include "cli/kit/console.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/json.h"
#include "report/terminal.h"

namespace fovea::cli {
namespace {

void put(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  if (!text.ends_with('\n')) std::fputc('\n', file);
}

// A terminal would break lines within words. A file has them whole.
void tell(std::FILE* file, std::string_view text) {
  const Terminal terminal = Terminal::of(fileno(file));
  put(file, terminal.interactive ? folded(text, static_cast<std::size_t>(terminal.width)) : std::string(text));
}

// Bytes of a UTF-8 character that starts here; 0 when none does.
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

// Errors quote files from outside: what is no text, or would steer a terminal, is shown as "?".
std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const bool control = static_cast<unsigned char>(text[0]) < 0x20 && text[0] != '\n';
    out += length == 0 || control || text[0] == 0x7f ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace

void Console::print(std::string_view text) const {
  if (!json && !silent) put(stdout, text);
}

void Console::sentence(std::string_view text) const {
  if (!json && !silent) tell(stdout, text);
}

void Console::document(const Json& result) const {
  if (json && !silent) put(stdout, json_text(result));
}

void Console::note(std::string_view text) const {
  if (!quiet && !silent) tell(stderr, text);
}

void Console::detail(std::string_view text) const {
  if (verbose) note(text);
}

void Console::event(const Json& line) const {
  if (!quiet && !silent) put(stderr, line.dump());
}

void Console::finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(ErrorCode::io, std::string("cannot write the result: ") + std::strerror(errno), "standard output");
}

void print_error(const Error& error) {
  std::fflush(stdout);
  tell(stderr, std::string("fovea: ") + printable(error.what()));
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace fovea::cli
