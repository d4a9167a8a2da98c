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

// What zeros are packed into is a seven-thousandth of them.
TEST(Xz, UnpacksNoMoreThanItsSizeAllows) {
  const TemporaryFolder folder;
  const std::string small = packed(std::string(70 << 20, '\0'));
  ASSERT_LT(memory_for(small.size()), std::size_t{70} << 20);
  put(folder / "bomb.xz", small);
  EXPECT_ERROR(read_maybe_xz(folder / "bomb.xz", std::size_t{4} << 30), ErrorCode::bad_input,
               "more than 100 times its size and 64 MB", "bomb.xz", "xz -d");
  EXPECT_EQ(read_head(folder / "bomb.xz", 1000), std::string(1000, '\0'));
  std::string more;  // the same and enough that does not pack
  for (std::uint64_t i = 1; more.size() < std::size_t{200} << 10; i = i * 6364136223846793005u + 1442695040888963407u)
    more += static_cast<char>(i >> 56);
  put(folder / "good.xz", small + packed(more));
  EXPECT_EQ(read_maybe_xz(folder / "good.xz").size(), (std::size_t{70} << 20) + more.size());
}

// The dictionary is taken as the file asks for it, whatever is in it.
TEST(Xz, RefusesLargeDictionaries) {
  const TemporaryFolder folder;
  const auto with_dictionary = [&](std::uint32_t bytes) {
    lzma_options_lzma options;
    EXPECT_FALSE(lzma_lzma_preset(&options, 0));
    options.dict_size = bytes;
    const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
    std::string out(1000, '\0');
    std::size_t size = 0;
    const std::uint8_t in[] = {'x'};
    auto* to = reinterpret_cast<std::uint8_t*>(out.data());
    EXPECT_EQ(lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC32, nullptr, in, 1, to, &size,
                                        out.size()),
              LZMA_OK);
    out.resize(size);
    put(folder / "d.xz", out);
    return read_maybe_xz(folder / "d.xz");
  };
  EXPECT_EQ(with_dictionary(64u << 20), "x");  // xz -9
  EXPECT_ERROR(with_dictionary(128u << 20), ErrorCode::bad_input, "more than 80 MB", "d.xz", "xz -6");
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
