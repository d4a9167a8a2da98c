#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "data/pictures/pictures.h"
#include "fovea/context.h"

// Pathfinder of the Long-Range Arena: two dashed contours among shorter ones, and two dots, each on an end of a
// contour. The class is 1 where both dots are on the same contour.
namespace fovea::pathfinder {

// How a picture is drawn; lengths in pixels. The defaults are those of the arena's task (contours of 14 dashes).
struct Scene {
  std::int32_t side = 32;
  std::int32_t border = 1;  // kept free
  std::int32_t dash = 2, margin = 1;
  double thickness = 0.5, dot = 1.5;                      // dot: its radius
  std::int32_t contour = 14, distractor = 4, crowd = 5;   // dashes of a contour, of a distractor; distractors
  std::int32_t apart = 7;                                 // from one contour's begin to the other's
  double continuity = 1.0;                                // how fast turns become unlikely
  double target_contrast = 1.5, distractor_contrast = 2;  // of dashes; a dot has 1
};
Scene scene_of(std::int64_t side);  // 32, or 64 with all but the dashes twice as large; refuses others

// A value for each pixel, row by row.
using Field = std::vector<float>;

struct Point {
  std::int32_t y = 0, x = 0;
  bool operator==(const Point&) const = default;
};

struct Drawing {
  std::vector<std::uint8_t> pixels;
  std::uint8_t label = 0;
  std::array<Point, 2> dots = {};
  std::array<Field, 2> contours = {};  // what each covers with its margin, 0 to 1
};

// Draws pictures of one kind: everything that is the same for all of them is made once.
class Painter {
 public:
  explicit Painter(const Scene& scene);
  Drawing draw(Random random) const;

 private:
  struct Stencil {
    Field ink, room;  // (2 reach + 1)^2: the dash, and what it covers with its margin
  };
  struct Dash {
    Point middle;
    std::int32_t degrees = 0;
  };
  struct Contour;
  class Sheet;

  void make_stencils();

  Scene scene_;
  std::int32_t reach_;
  std::vector<Stencil> stencils_;  // for each degree
  Field dot_;                      // (2 reach + 1)^2
};

// At most the published sizes of validation and test set. Picture i is the same however many are asked for, and however
// many threads work; validation comes first, then test, then training.
struct Sizes {
  std::int64_t train = 160000, validation = 20000, test = 20000;
};
struct Parts {
  Pictures train, validation, test;
};
Parts generate(const Context& context, std::uint64_t seed, const Scene& scene, const Sizes& sizes);

}  // namespace fovea::pathfinder
