#include "io/checksums.h"

#include <gtest/gtest.h>

#include <set>

#include "fovea/safetensors.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

std::uint64_t sum_of(const std::string& text) { return checksum(std::as_bytes(std::span(text))); }

TEST(Checksum, ChangesWithEveryBitAndWithTheLength) {
  for (const std::size_t length : {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 100u}) {
    std::string text(length, 'a');
    std::set<std::uint64_t> sums{sum_of(text), sum_of(text + std::string(1, '\0'))};
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      sums.insert(sum_of(flipped));
    }
    EXPECT_EQ(sums.size(), 2 + 8 * length);
  }
}

class Checksums : public testing::Test {
 protected:
  Checksums() {
    const Context context;
    const Tensor a = Tensor::zeros(context, {5}), b = Tensor::zeros(context, {3});
    write_safetensors((folder_ / "m.safetensors").string(), std::vector<NamedTensor>{{"first", a}, {"other", b}});
    put(folder_ / "s.json", "{}\n");
    write_checksums(folder_.path());
  }
  // Flips one bit, counted from the end.
  void flip(const char* name, std::size_t from_end) {
    std::string bytes = get(folder_ / name);
    bytes[bytes.size() - from_end] ^= 0x40;
    put(folder_ / name, bytes);
  }

  TemporaryFolder folder_;
};

TEST_F(Checksums, FindTheTensorThatChanged) {
  check_checksum(folder_ / "m.safetensors");
  check_checksums(folder_.path());
  flip("m.safetensors", 1);
  EXPECT_ERROR(check_checksum(folder_ / "m.safetensors"), ErrorCode::bad_input, "\"other\"", "m.safetensors",
               "checksums");
  flip("m.safetensors", 1);
  flip("m.safetensors", 32);
  EXPECT_ERROR(check_checksums(folder_.path()), ErrorCode::bad_input, "\"first\"", "m.safetensors", "");
}

TEST_F(Checksums, FindOtherFiles) {
  put(folder_ / "s.json", "{ }\n");
  EXPECT_ERROR(check_checksum(folder_ / "s.json"), ErrorCode::bad_input, "not what was written", "s.json", "");
  std::filesystem::remove(folder_ / "s.json");
  EXPECT_ERROR(check_checksums(folder_.path()), ErrorCode::bad_input, "no such file", "s.json", "");
}

TEST_F(Checksums, AreNotAskedForWhereThereAreNone) {
  put(folder_ / "new.json", "{}");
  check_checksum(folder_ / "new.json");
  std::filesystem::remove(folder_ / kChecksumsFile);
  flip("m.safetensors", 1);
  check_checksums(folder_.path());
}

TEST_F(Checksums, ThatAreNoneAreRefused) {
  for (const char* text : {"", "[]", "{\"s.json\": 3}", "{\"s.json\": {\"file\": \"0\", \"tensors\": []}}"}) {
    put(folder_ / kChecksumsFile, text);
    EXPECT_ERROR(check_checksum(folder_ / "s.json"), ErrorCode::bad_input, "", "checksums.json", "");
  }
}

}  // namespace
}  // namespace fovea
