#include "text/text_file.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;

std::string text_of(const std::string& bytes) {
  const TemporaryFolder folder;
  put(folder / "a.txt", bytes);
  return read_text(folder / "a.txt");
}

TEST(TextFile, ReadsUtf8WithoutItsMark) {
  EXPECT_EQ(text_of(""), "");
  EXPECT_EQ(text_of("one\ntwo\r\n"), "one\ntwo\r\n");
  EXPECT_EQ(text_of("\xef\xbb\xbfGr\xc3\xbc\xc3\x9f"), "Gr\xc3\xbc\xc3\x9f");
}

TEST(TextFile, RefusesUtf16ByName) {
  using namespace std::string_literals;
  EXPECT_ERROR(text_of("\xff\xfeh\0i\0"s), kBad, "UTF-16", "a.txt", "iconv");
  EXPECT_ERROR(text_of("\xfe\xff\0h\0i"s), kBad, "UTF-16", "a.txt", "iconv");
  EXPECT_ERROR(text_of("\xff\xfe\0\0h\0\0\0"s), kBad, "UTF-16", "a.txt", "iconv");
  EXPECT_ERROR(text_of("h\0i\0"s), kBad, "byte 1 is zero", "a.txt", "iconv");
}

TEST(TextFile, RefusesBinaryFilesAndOtherEncodings) {
  EXPECT_ERROR(text_of("Gr\xfc\xdf"), kBad, "2 of 4 bytes are not UTF-8", "a.txt", "iconv");
  const std::string plain(200, 'x');
  EXPECT_EQ(text_of(plain + "\xfc\xfc"), plain + "\xfc\xfc");  // a hundredth is let through
  EXPECT_ERROR(text_of(plain + "\xfc\xfc\xfc"), kBad, "3 of 203 bytes", "a.txt", "");
}

}  // namespace
}  // namespace fovea
