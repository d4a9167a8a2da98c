#include <gtest/gtest.h>
#include <png.h>

#include "data/kinds.h"
#include "data/pictures/pictures.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2, .seed = 5, .memory = {.poison = true}});

void write_png(const Path& path, int width, const std::vector<std::uint8_t>& bytes, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(bytes.size() / (PNG_IMAGE_PIXEL_SIZE(format) * image.width));
  image.format = format;
  ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr), 0) << image.message;
}

// Pixels 0xRRGGBB, row by row.
void put_png(const Path& path, int width, const std::vector<std::uint32_t>& pixels) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t pixel : pixels)
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(pixel >> shift));
  write_png(path, width, bytes, PNG_FORMAT_RGB);
}

DataSettings in(const TemporaryFolder& folder) {
  DataSettings settings;
  settings.source = folder.path().string();
  settings.vocabulary = 280;
  return settings;
}

// Twelve pictures of two colours and their names.
void put_colours(const TemporaryFolder& folder) {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    put_png(folder / name, 4, std::vector<std::uint32_t>(16, i % 2 == 0 ? 0xff0000u : 0x0000ffu));
    lines += name + "\ta " + (i % 2 == 0 ? "red" : "blue") + " square\n";
  }
  put(folder / "train.captions", lines);
  put(folder / "test.captions", "p0.png\tred\n");
}

TEST(Captions, ReadsPngExactlyAndDrawsItSmaller) {
  const TemporaryFolder folder;
  put_png(folder / "x.png", 3, {0xff0000, 0x00ff00, 0x0000ff, 0x010203, 0x040506, 0x070809});
  EXPECT_EQ(png_size(folder / "x.png").width, 3);
  EXPECT_EQ(png_size(folder / "x.png").height, 2);
  std::vector<std::uint8_t> out(18);
  read_png(folder / "x.png", {2, 3}, out);
  EXPECT_EQ(out, (std::vector<std::uint8_t>{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  put_png(folder / "grey.png", 8, std::vector<std::uint32_t>(64, 0x808080));
  std::vector<std::uint8_t> small(12);
  read_png(folder / "grey.png", {2, 2}, small);
  EXPECT_EQ(small, std::vector<std::uint8_t>(12, 0x80));
}

TEST(Captions, ShrinksByMeansEnlargesBetweenAndLaysOverWhite) {
  const TemporaryFolder folder;
  write_png(folder / "grey.png", 4, {0, 100, 200, 40, 20, 80, 0, 0}, PNG_FORMAT_GRAY);
  std::vector<std::uint8_t> small(6);
  read_png(folder / "grey.png", {1, 2}, small);
  EXPECT_EQ(small, (std::vector<std::uint8_t>{50, 50, 50, 60, 60, 60}));
  std::vector<std::uint8_t> three(9);  // a third of a column is shared between neighbours
  read_png(folder / "grey.png", {1, 3}, three);
  EXPECT_EQ(three, (std::vector<std::uint8_t>{30, 30, 30, 95, 95, 95, 40, 40, 40}));
  write_png(folder / "two.png", 2, {0, 80}, PNG_FORMAT_GRAY);
  std::vector<std::uint8_t> large(12);
  read_png(folder / "two.png", {1, 4}, large);
  EXPECT_EQ(large, (std::vector<std::uint8_t>{0, 0, 0, 20, 20, 20, 60, 60, 60, 80, 80, 80}));
  write_png(folder / "glass.png", 2, {255, 0, 0, 0, 0, 0, 0, 51}, PNG_FORMAT_RGBA);
  std::vector<std::uint8_t> over(6);
  read_png(folder / "glass.png", {1, 2}, over);
  EXPECT_EQ(over, (std::vector<std::uint8_t>{255, 255, 255, 204, 204, 204}));
}

TEST(Captions, PutsPicturesAndTheirTextsIntoABatch) {
  const TemporaryFolder folder;
  put_colours(folder);
  EXPECT_EQ(data_kind(in(folder)), "captions");
  const Dataset data = load_data(kContext, in(folder));
  EXPECT_EQ(data.task, Task::image_text);
  EXPECT_EQ(data.train->size() + data.validation->size(), 12);
  EXPECT_EQ(data.test->size(), 1);
  EXPECT_EQ(data.height * 100 + data.width * 10 + data.channels, 443);
  const std::int64_t picks[] = {1, 0};
  const Batch batch = data.train->batch(kContext, picks, 0);
  EXPECT_FALSE(batch.targets.defined());
  EXPECT_EQ(batch.input.values.shape(), Shape({2, 4, 4, 3}));
  ASSERT_EQ(batch.second.rows.cu_seqlens.size(), 3u);
  const std::int32_t last = batch.second.rows.cu_seqlens[1] - 1;
  EXPECT_EQ(batch.second.ids.data<std::int32_t>()[last], data.tokenizer->special_ids().eos);
  const float* values = batch.input.values.data<float>();
  EXPECT_NE(values[0] > 0, values[48] > 0);  // one is red, the other is not
  EXPECT_NE(data.train->hash(), data.validation->hash());
}

TEST(Captions, CutsTextsAndDrawsPicturesAsSet) {
  const TemporaryFolder folder;
  put_colours(folder);
  DataSettings settings = in(folder);
  settings.size = 2;
  settings.length = 3;
  const Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.height, 2);
  EXPECT_EQ(data.max_length, 3);
}

TEST(Captions, RefusesWhatIsNotThereOrNotAPicture) {
  const TemporaryFolder folder;
  put_colours(folder);
  const auto load = [&](const std::string& lines) {
    put(folder / "train.captions", lines);
    return load_data(kContext, in(folder));
  };
  EXPECT_ERROR(load("p0.png\n"), kBad, "a picture and a text", "train.captions:1", "tab");
  EXPECT_ERROR(load("p0.png\tx\np99.png\tx\n"), kBad, "p99.png", "train.captions:2", "");
  put(folder / "bad.png", "JFIF");
  EXPECT_ERROR(load("bad.png\tx\n"), kBad, "not a PNG file", "bad.png", "converted");
  put(folder / "cut.png", get(folder / "p0.png").substr(0, 40));
  EXPECT_ERROR(load("cut.png\tx\n"), kBad, "damaged or cut short", "cut.png", "again");
  std::string huge = get(folder / "p0.png");
  huge[16] = '\x7f';
  put(folder / "huge.png", huge);
  EXPECT_ERROR(load("huge.png\tx\n"), kBad, "pixels", "huge.png", "at most");
  std::string broken = get(folder / "p0.png");
  const std::size_t data = broken.find("IDAT") + 6;
  broken[data] = static_cast<char>(~broken[data]);
  put(folder / "broken.png", broken);
  EXPECT_ERROR(load("broken.png\tx\n"), kBad, "damaged", "broken.png", "again");
  std::string wide = get(folder / "p0.png");
  wide[18] = wide[22] = '\x10';  // 4100 on a side
  put(folder / "wide.png", wide);
  EXPECT_ERROR(load("wide.png\tx\n"), kBad, "4100 x 4100 pixels in", "wide.png", "100 times");
  EXPECT_ERROR(load(""), kBad, "no training pictures", "", "");
}

}  // namespace
}  // namespace fovea
