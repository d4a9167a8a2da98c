#include "io/xz.h"

#include <gtest/gtest.h>
#include <lzma.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

std::string packed(const std::string& content) {
  std::string out(lzma_stream_buffer_bound(content.size()), '\0');
  std::size_t size = 0;
  const auto* in = reinterpret_cast<const std::uint8_t*>(content.data());
  auto* to = reinterpret_cast<std::uint8_t*>(out.data());
  EXPECT_EQ(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, in, content.size(), to, &size, out.size()), LZMA_OK);
  out.resize(size);
  return out;
}

TEST(Xz, UnpacksByName) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 50000; ++i) content += std::to_string(i * 7919 % 10007) + "\n";
  put(folder / "a.txt", content);
  put(folder / "a.txt.xz", packed(content));
  put(folder / "two.xz", packed("one, ") + packed("two"));
  put(folder / "none.xz", packed(""));
  EXPECT_EQ(read_maybe_xz(folder / "a.txt"), content);
  EXPECT_EQ(read_maybe_xz(folder / "a.txt.xz"), content);
  EXPECT_EQ(read_maybe_xz(folder / "two.xz"), "one, two");
  EXPECT_EQ(read_maybe_xz(folder / "none.xz"), "");
}

TEST(Xz, RefusesBombs) {
  const TemporaryFolder folder;
  put(folder / "bomb.xz", packed(std::string(10 << 20, 'x')));
  EXPECT_EQ(read_maybe_xz(folder / "bomb.xz", 10 << 20).size(), 10u << 20);
  EXPECT_ERROR(read_maybe_xz(folder / "bomb.xz", (10 << 20) - 1), ErrorCode::bad_input, "unpacks to more than",
               "bomb.xz", "");
  EXPECT_ERROR(read_maybe_xz(folder / "bomb.xz", 100), ErrorCode::bad_input, "larger than the 100 bytes", "bomb.xz",
               "");
}

TEST(Xz, RefusesDamagedFiles) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 20000; ++i) content += std::to_string(i * 7919 % 10007);
  const std::string good = packed(content);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{40}, good.size() / 2, good.size() - 1}) {
    put(folder / "short.xz", good.substr(0, size));
    EXPECT_ERROR(read_maybe_xz(folder / "short.xz"), ErrorCode::bad_input, "cut short", "short.xz", "copy it again");
  }
  std::string broken = good;
  broken[good.size() / 2] = static_cast<char>(~broken[good.size() / 2]);
  put(folder / "broken.xz", broken);
  EXPECT_ERROR(read_maybe_xz(folder / "broken.xz"), ErrorCode::bad_input, "damaged", "broken.xz", "xz -t");
  put(folder / "plain.xz", "just some text, not packed at all");
  EXPECT_ERROR(read_maybe_xz(folder / "plain.xz"), ErrorCode::bad_input, "not an xz file", "plain.xz", "");
  EXPECT_ERROR(read_maybe_xz(folder / "absent.xz"), ErrorCode::bad_input, "no such file", "absent.xz", "");
}

}  // namespace
}  // namespace fovea
