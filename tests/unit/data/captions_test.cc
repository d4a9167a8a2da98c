#include <cairo.h>
#include <gtest/gtest.h>

#include "data/kinds.h"
#include "data/pictures/pictures.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2, .seed = 5, .memory = {.poison = true}});

// Pixels 0xRRGGBB, row by row.
void put_png(const Path& path, int width, const std::vector<std::uint32_t>& pixels) {
  const int height = static_cast<int>(pixels.size()) / width;
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  const std::ptrdiff_t stride = cairo_image_surface_get_stride(surface);
  for (int y = 0; y < height; ++y)
    std::copy_n(pixels.begin() + y * width, width,
                reinterpret_cast<std::uint32_t*>(cairo_image_surface_get_data(surface) + y * stride));
  cairo_surface_mark_dirty(surface);
  ASSERT_EQ(cairo_surface_write_to_png(surface, path.c_str()), CAIRO_STATUS_SUCCESS);
  cairo_surface_destroy(surface);
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
