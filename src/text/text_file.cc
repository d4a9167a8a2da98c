#include "text/text_file.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "io/xz.h"
#include "text/utf8.h"

namespace fovea {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";
constexpr const char* kFromUtf16 = "text in UTF-8; iconv -f UTF-16 -t UTF-8 converts it";

std::size_t wrong_bytes(std::string_view text) {
  if (text::is_ascii(text)) return 0;
  std::size_t wrong = 0;
  text::for_characters(text, [&](const text::Character& c, std::size_t) { wrong += c.valid ? 0 : 1; });
  return wrong;
}

}  // namespace

void check_text(std::string_view text, const Path& path) {
  constexpr std::size_t kShare = 100;
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    fail(ErrorCode::bad_input, "begins with the mark of UTF-16: not UTF-8", path.string(), kFromUtf16);
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail(ErrorCode::bad_input, fmt::format("byte {} is zero: a binary file, or UTF-16", zero), path.string(),
         kFromUtf16);
  if (const std::size_t wrong = wrong_bytes(text); wrong > text.size() / kShare)
    fail(ErrorCode::bad_input, fmt::format("{} of {} bytes are not UTF-8", wrong, text.size()), path.string(),
         "text in UTF-8; iconv -f LATIN1 -t UTF-8 converts it, or what it is in");
}

std::string read_text(const Path& path, std::size_t cap) {
  std::string text = read_maybe_xz(path, cap);
  check_text(text, path);
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  return text;
}

}  // namespace fovea
