#include "io/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(Npy, WritesWhatNumpyReads) {
  const TemporaryFolder folder;
  const Context context({.threads = 1});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from<float>(context, {2, 3}, values);
  write_npy(folder / "x.npy", tensor.transpose(0, 1));
  const std::string bytes = get(folder / "x.npy");
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + length) % 64, 0u);
  EXPECT_EQ(bytes.size(), 10 + length + 24);
  EXPECT_TRUE(bytes.substr(10).starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, ), }"));
  EXPECT_EQ(bytes[9 + length], '\n');
  float stored[6];
  std::memcpy(stored, bytes.data() + 10 + length, sizeof(stored));
  EXPECT_EQ(std::vector<float>(stored, stored + 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Npy, RefusesOtherTypes) {
  const TemporaryFolder folder;
  const Context context({.threads = 1});
  EXPECT_ERROR(write_npy(folder / "x.npy", Tensor::zeros(context, {2}, DType::f64)), ErrorCode::usage, "f64", "x.npy",
               "");
  EXPECT_EQ(folder.files(), 0u);
}

}  // namespace
}  // namespace fovea
