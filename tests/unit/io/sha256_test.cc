#include "io/sha256.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace fovea {
namespace {

// The examples of FIPS 180-4, and lengths around the end of a block.
TEST(Sha256, IsTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsTheSameInAnyPortions) {
  for (const std::size_t size : {55, 56, 63, 64, 65, 119, 120, 200}) {
    const std::string text(size, 'x');
    Sha256 hash;
    for (std::size_t at = 0; at < size; at += 7) hash.add(std::string_view(text).substr(at, 7));
    EXPECT_EQ(hash.text(), sha256(text)) << size;
  }
}

TEST(Sha256, ReadsFiles) {
  const TemporaryFolder folder;
  put(folder / "abc", "abc");
  EXPECT_EQ(sha256_of_file(folder / "abc"), sha256("abc"));
}

}  // namespace
}  // namespace fovea
