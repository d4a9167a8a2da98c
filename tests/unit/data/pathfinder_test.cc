#include "data/pathfinder/pathfinder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/kinds.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea::pathfinder {
namespace {

const Context kContext({.threads = 2});

// The pixels of a field above a level, in connected parts; 0: in none.
std::vector<int> parts_of(const Field& field, std::int32_t side, float level) {
  std::vector<int> part(field.size(), 0);
  int parts = 0;
  for (std::size_t start = 0; start < field.size(); ++start) {
    if (field[start] <= level || part[start] != 0) continue;
    std::vector<std::size_t> open{start};
    part[start] = ++parts;
    while (!open.empty()) {
      const auto at = static_cast<std::int32_t>(open.back());
      open.pop_back();
      for (const std::int32_t dy : {-1, 0, 1})
        for (const std::int32_t dx : {-1, 0, 1}) {
          const std::int32_t y = at / side + dy, x = at % side + dx;
          if (y < 0 || x < 0 || y >= side || x >= side) continue;
          const auto next = static_cast<std::size_t>(y * side + x);
          if (field[next] > level && part[next] == 0) part[next] = parts, open.push_back(next);
        }
    }
  }
  return part;
}

bool touches(const Field& field, Point dot, std::int32_t side) {
  for (const std::int32_t dy : {-1, 0, 1})
    for (const std::int32_t dx : {-1, 0, 1}) {
      const std::int32_t y = dot.y + dy, x = dot.x + dx;
      if (y >= 0 && x >= 0 && y < side && x < side && field[static_cast<std::size_t>(y * side + x)] > 0.1f) return true;
    }
  return false;
}

TEST(Pathfinder, TheLabelSaysWhetherBothDotsAreOnOneContour) {
  for (const std::int64_t side : {32, 64}) {
    const Scene scene = scene_of(side);
    const Painter painter(scene);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const Drawing drawing = painter.draw(Random(3, i));
      bool together = false, apart = false;
      for (std::size_t c = 0; c < 2; ++c) {
        const bool first = touches(drawing.contours[c], drawing.dots[0], scene.side),
                   second = touches(drawing.contours[c], drawing.dots[1], scene.side);
        together |= first && second;
        apart |= first && touches(drawing.contours[1 - c], drawing.dots[1], scene.side);
      }
      EXPECT_TRUE(drawing.label == 1 ? together : apart) << side << " " << i;
    }
  }
}

TEST(Pathfinder, ContoursAreWholeAndKeepApart) {
  const Scene scene;
  const Painter painter(scene);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Drawing drawing = painter.draw(Random(4, i));
    for (const Field& contour : drawing.contours) {
      const std::vector<int> parts = parts_of(contour, scene.side, 0.05f);
      EXPECT_EQ(*std::max_element(parts.begin(), parts.end()), 1) << i;
    }
    float overlap = 0.0f;
    for (std::size_t p = 0; p < drawing.pixels.size(); ++p)
      overlap = std::max(overlap, std::min(drawing.contours[0][p], drawing.contours[1][p]));
    EXPECT_LT(overlap, 0.91f) << i;  // two that cover a pixel to 0.9 each make up the 1.8 that are allowed
  }
}

TEST(Pathfinder, HasAsManyOfEachClassAndBordersStayDark) {
  constexpr std::int64_t kCount = 2000;
  const Parts parts = generate(kContext, 5, {}, {.train = kCount, .validation = 10, .test = 10});
  const double ones = std::accumulate(parts.train.labels.begin(), parts.train.labels.end(), 0.0);
  EXPECT_LT(std::abs(ones - kCount / 2.0), 3.0 * std::sqrt(kCount / 4.0));
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto* pixels = parts.train.values.data() + i * parts.train.size();
    EXPECT_EQ(*std::max_element(pixels, pixels + parts.train.size()), 255);
  }
}

TEST(Pathfinder, IsTheSameForAnyNumberOfThreadsAndExamples) {
  const Parts few = generate(Context({.threads = 1}), 7, {}, {.train = 70, .validation = 3, .test = 5});
  const Parts more = generate(Context({.threads = 3}), 7, {}, {.train = 90, .validation = 9, .test = 5});
  const auto begins_with = [](const Pictures& all, const Pictures& first) {
    return std::equal(first.values.begin(), first.values.end(), all.values.begin()) &&
           std::equal(first.labels.begin(), first.labels.end(), all.labels.begin());
  };
  EXPECT_TRUE(begins_with(more.train, few.train));
  EXPECT_TRUE(begins_with(more.validation, few.validation));
  EXPECT_EQ(more.test.values, few.test.values);
  EXPECT_NE(few.test.values, generate(kContext, 8, {}, {.train = 1, .validation = 1, .test = 5}).test.values);
}

TEST(Pathfinder, IsADataSetGeneratedOrFromItsFiles) {
  DataSettings settings;
  settings.source = "pathfinder";
  settings.train = 12, settings.validation = 4, settings.test = 6, settings.seed = 9;
  const Dataset made = load_data(kContext, settings);
  EXPECT_EQ(made.task, Task::classify);
  EXPECT_EQ(made.classes, 2);
  EXPECT_EQ(made.max_length, 1024);
  const Parts parts = generate(kContext, 9, {}, {.train = 12, .validation = 4, .test = 6});
  const TemporaryFolder folder;
  for (const auto& [part, name] :
       {std::pair(&parts.train, "train"), {&parts.validation, "valid"}, {&parts.test, "test"}})
    write_idx(*part, folder / (std::string(name) + "-images-idx3-ubyte"),
              folder / (std::string(name) + "-labels-idx1-ubyte"));
  DataSettings files;
  files.source = folder.path().string();
  const Dataset read = load_data(kContext, files, {.task = Task::classify});
  EXPECT_EQ(read.train->hash(), made.train->hash());
  EXPECT_EQ(read.validation->hash(), made.validation->hash());
  EXPECT_EQ(read.test->hash(), made.test->hash());
}

TEST(Pathfinder, RefusesOtherSizes) {
  EXPECT_ERROR(scene_of(48), ErrorCode::usage, "48 x 48", "pathfinder", "32 or 64");
  EXPECT_ERROR(generate(kContext, 1, {}, {.train = 1, .validation = 20001, .test = 1}), ErrorCode::usage, "20000",
               "pathfinder", "");
}

}  // namespace
}  // namespace fovea::pathfinder
