#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"
#include "data/pathfinder/pathfinder.h"
#include "fovea/error.h"

namespace fovea::pathfinder {
namespace {

constexpr std::uint64_t kStream = std::uint64_t{0x70617468}
                                  << 32;  // keeps these draws apart from other users of the seed

Pictures draw_part(const Context& context, const Painter& painter, std::uint64_t seed, const Scene& scene,
                   std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kGrain = 64;
  Pictures out{.height = scene.side, .width = scene.side, .channels = 1};
  out.values.resize(static_cast<std::size_t>(count * out.size()));
  out.labels.resize(static_cast<std::size_t>(count));
  parallel_ranges(context, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Drawing drawing = painter.draw(Random(seed, kStream + static_cast<std::uint64_t>(first + i)));
      std::copy(drawing.pixels.begin(), drawing.pixels.end(), out.values.begin() + i * out.size());
      out.labels[static_cast<std::size_t>(i)] = drawing.label;
    }
  });
  return out;
}

}  // namespace

Scene scene_of(std::int64_t side) {
  Scene scene;
  if (side == 32) return scene;
  if (side != 64)
    fail(ErrorCode::usage, fmt::format("pictures of {} x {} pixels", side, side), "pathfinder", "32 or 64");
  scene.side *= 2, scene.contour *= 2, scene.distractor *= 2, scene.crowd *= 2, scene.apart *= 2;
  return scene;
}

Parts generate(const Context& context, std::uint64_t seed, const Scene& scene, const Sizes& sizes) {
  const Sizes published;
  if (sizes.validation > published.validation || sizes.test > published.test)
    fail(ErrorCode::usage,
         fmt::format("the validation and the test set have at most {} pictures", published.validation), "pathfinder");
  const Painter painter(scene);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return draw_part(context, painter, seed, scene, first, count);
  };
  return {.train = part(published.validation + published.test, sizes.train),
          .validation = part(0, sizes.validation),
          .test = part(published.validation, sizes.test)};
}

}  // namespace fovea::pathfinder
