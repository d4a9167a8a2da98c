#include "data/pictures/pictures.h"

#include <gtest/gtest.h>

#include <set>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2, .seed = 5, .memory = {.poison = true}});

std::string big_endian(std::initializer_list<std::uint32_t> values) {
  std::string out;
  for (const std::uint32_t v : values)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(v >> shift);
  return out;
}

Pictures small() {
  Pictures pictures{2, 3, 1, {}, {1, 0}};
  for (int i = 0; i < 12; ++i) pictures.values.push_back(static_cast<std::uint8_t>(20 * i));
  return pictures;
}

std::shared_ptr<const Pictures> shared(Pictures pictures) {
  return std::make_shared<const Pictures>(std::move(pictures));
}

TEST(Pictures, ReadsIdxFiles) {
  const TemporaryFolder folder;
  const Pictures wanted = small();
  put(folder / "i", big_endian({2051, 2, 2, 3}) + std::string(wanted.values.begin(), wanted.values.end()));
  put(folder / "l", big_endian({2049, 2}) + std::string("\1\0", 2));
  const Pictures got = read_idx(folder / "i", folder / "l");
  EXPECT_EQ(got.height, 2);
  EXPECT_EQ(got.width, 3);
  EXPECT_EQ(got.channels, 1);
  EXPECT_EQ(got.values, wanted.values);
  EXPECT_EQ(got.labels, wanted.labels);
}

TEST(Pictures, RefusesIdxFilesThatLie) {
  const TemporaryFolder folder;
  const std::string labels = big_endian({2049, 2}) + "ab", images = big_endian({2051, 2, 1, 1}) + "ab";
  const auto read = [&](const std::string& i, const std::string& l) {
    put(folder / "i", i);
    put(folder / "l", l);
    return read_idx(folder / "i", folder / "l");
  };
  EXPECT_NO_THROW(read(images, labels));
  EXPECT_ERROR(read("", labels), kBad, "too few", "/i", "");
  EXPECT_ERROR(read(labels + std::string(20, 'x'), labels), kBad, "not an idx file of bytes with 3 axes", "/i", "");
  EXPECT_ERROR(read(images, images), kBad, "not an idx file of bytes with 1 axis", "/l", "");
  EXPECT_ERROR(read(images + "c", labels), kBad, "should have 2 bytes", "/i", "");
  EXPECT_ERROR(read(images.substr(0, images.size() - 1), labels), kBad, "should have 2 bytes", "/i", "copy it again");
  EXPECT_ERROR(read(big_endian({2051, 0xffffffff, 0xffffffff, 0xffffffff}), labels), kBad, "says it holds", "/i", "");
  EXPECT_ERROR(read(big_endian({2051, 0, 0xffffffff, 0xffffffff}), big_endian({2049, 0})), kBad, "pictures of", "/i",
               "");
  EXPECT_ERROR(read(images, big_endian({2049, 1}) + "a"), kBad, "1 labels for the 2 pictures", "/l", "");
}

TEST(Pictures, ReadsCifar) {
  const TemporaryFolder folder;
  std::string record(3073, '\0');
  record[0] = 7;
  record[1] = 1, record[1 + 1024] = 2, record[1 + 2048] = 3;  // the first pixel
  put(folder / "c.bin", record + record);
  const Pictures got = read_cifar(folder / "c.bin");
  EXPECT_EQ(got.count(), 2);
  EXPECT_EQ(got.labels[1], 7);
  EXPECT_EQ((std::vector<std::uint8_t>{got.values.begin(), got.values.begin() + 4}),
            (std::vector<std::uint8_t>{1, 2, 3, 0}));
  put(folder / "c.bin", record + "x");
  EXPECT_ERROR(read_cifar(folder / "c.bin"), kBad, "whole number of records", "c.bin", "");
  record[0] = 10;
  put(folder / "c.bin", record);
  EXPECT_ERROR(read_cifar(folder / "c.bin"), kBad, "record 0 has the label 10", "c.bin", "");
}

TEST(Pictures, ScalesValues) {
  const auto pictures = shared(small());
  const PictureScale scale = PictureScale::of(*pictures);
  const auto split = picture_split(pictures, scale);
  const Batch batch = split->batch(kContext, std::vector<std::int64_t>{1, 0}, 4);
  EXPECT_EQ(batch.input.values.shape(), (Shape{2, 2, 3, 1}));
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1}));
  const auto values = batch.input.values.to_vector<double>();
  double sum = 0.0, squares = 0.0;
  for (const double v : values) sum += v, squares += v * v;
  EXPECT_NEAR(sum, 0.0, 1e-5);
  EXPECT_NEAR(squares / 12.0, 1.0, 1e-5);
  EXPECT_NEAR(values[0], (120.0 / 255.0 - scale.mean[0]) / scale.deviation[0], 1e-6);
  EXPECT_EQ(split->majority(), 0.5);
  EXPECT_ERROR(picture_split(pictures, {}), ErrorCode::usage, "one number for each channel", "data.mean", "");
}

TEST(Pictures, AConstantChannelStaysFinite) {
  const auto pictures = shared({1, 2, 1, {9, 9}, {0}});
  const auto split = picture_split(pictures, PictureScale::of(*pictures));
  for (const double v : split->batch(kContext, std::vector<std::int64_t>{0}, 0).input.values.to_vector<double>())
    EXPECT_NEAR(v, 0.0, 1e-6);
}

TEST(Pictures, AreMovedAndMirrored) {
  const auto pictures = shared({1, 3, 1, {10, 20, 30}, {0}});
  const PictureScale plain{{0.0}, {1.0 / 255.0}};  // leaves bytes as they are
  const auto split = picture_split(pictures, plain, {.shift = 1, .flip = true});
  std::set<std::vector<int>> seen;
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    const auto row = split->batch(kContext, std::vector<std::int64_t>{0}, draw).input.values.to_vector<double>();
    std::vector<int> rounded;
    for (const double v : row) rounded.push_back(static_cast<int>(v + 0.5));
    seen.insert(rounded);
  }
  const std::set<std::vector<int>> wanted = {{0, 0, 0},    {10, 20, 30}, {0, 10, 20}, {20, 30, 0},
                                             {30, 20, 10}, {0, 30, 20},  {20, 10, 0}};
  EXPECT_EQ(seen, wanted);
}

TEST(Pictures, AsPixelTokens) {
  const auto split = pixel_split(shared(small()));
  const Batch batch = split->batch(kContext, std::vector<std::int64_t>{1}, 0);
  EXPECT_EQ(batch.input.ids.shape(), (Shape{1, 6}));
  EXPECT_EQ(batch.input.ids.to_vector<std::int32_t>(), (std::vector<std::int32_t>{120, 140, 160, 180, 200, 220}));
  EXPECT_TRUE(batch.input.rows.empty());
}

}  // namespace
}  // namespace fovea
