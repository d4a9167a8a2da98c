#include "cli/console.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace fovea::cli {
namespace {

void put(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  if (!text.ends_with('\n')) std::fputc('\n', file);
}

}  // namespace

void Console::print(std::string_view text) const {
  if (!json) put(stdout, text);
}

void Console::document(const Json& document) const {
  if (json) put(stdout, json_text(document));
}

void Console::note(std::string_view text) const {
  if (!quiet) put(stderr, text);
}

void Console::detail(std::string_view text) const {
  if (verbose && !quiet) put(stderr, text);
}

void Console::finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(ErrorCode::io, std::string("cannot write the result: ") + std::strerror(errno), "standard output");
}

void print_error(const Error& error) {
  std::fflush(stdout);
  put(stderr, std::string("fovea: ") + error.what());
}

}  // namespace fovea::cli
