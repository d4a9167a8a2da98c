#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "data/pathfinder/stencil.h"

namespace fovea::pathfinder {
namespace {

constexpr std::int32_t kDegrees = 360, kTriesOfDash = 3, kTriesOfDistractor = 5;
constexpr float kMostOverlap = 1.8f;  // of what is taken and what a new dash wants, at any pixel

double radians_of(std::int32_t degrees) { return degrees * std::numbers::pi / 180.0; }
std::int32_t degrees_of(double radians) {
  return (static_cast<std::int32_t>(std::lround(radians * 180.0 / std::numbers::pi)) + kDegrees) % kDegrees;
}

Point moved(Point from, double distance, std::int32_t degrees) {
  constexpr double kHair = 1e-9;  // so that 3 + 1e-16 is 3
  const double angle = radians_of(degrees);
  return {static_cast<std::int32_t>(std::ceil(from.y + distance * std::sin(angle) - kHair)),
          static_cast<std::int32_t>(std::ceil(from.x + distance * std::cos(angle) - kHair))};
}

// The pixels on a circle, each once, in order.
std::vector<Point> circle(Point middle, double radius) {
  std::vector<Point> out;
  const auto steps = static_cast<std::int32_t>(std::ceil(2.0 * std::numbers::pi * radius));
  for (std::int32_t i = 0; i < steps; ++i) {
    const double angle = 2.0 * std::numbers::pi * i / steps;
    const Point p{static_cast<std::int32_t>(middle.y + radius * std::sin(angle)),
                  static_cast<std::int32_t>(middle.x + radius * std::cos(angle))};
    if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  }
  return out;
}

// One of them, as likely as its weight. None: all are 0.
std::optional<std::size_t> draw_weighted(Random& random, const std::vector<double>& weights) {
  double total = 0.0;
  for (const double weight : weights) total += weight;
  if (total <= 0.0) return {};
  double left = random.uniform_double() * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0 && left < weights[i]) return i;
    left -= weights[i];
  }
  return weights.size() - 1;
}

}  // namespace

// A contour as it grows.
struct Painter::Contour {
  std::vector<Dash> dashes = {};
  Point begin = {}, end = {};  // tips
  Point pivot = {};            // a margin before the last dash
  Field room = {};             // what its dashes cover, the last one too
};

// What is taken, and how contours are put into what is free.
class Painter::Sheet {
 public:
  explicit Sheet(const Painter& painter)
      : painter_(painter), scene_(painter.scene_), taken_(pixels(), 0.0f), ink_(pixels(), 0.0f) {
    for (std::int32_t y = 0; y < scene_.side; ++y)
      for (std::int32_t x = 0; x < scene_.side; ++x)
        if (distance_to_edge({y, x}) < scene_.border) taken_[index({y, x})] = 1.0f;
  }

  // `other`: a contour that grows beside it, whose last dash is not taken down yet.
  std::optional<Contour> begin_contour(Point tail, std::int32_t degrees, const Contour* other = nullptr) {
    Contour contour{.begin = tail, .room = Field(pixels(), 0.0f)};
    contour.pivot = moved(tail, -scene_.margin, degrees);
    if (!add(contour, moved(tail, scene_.dash, degrees), degrees, other)) return {};
    return contour;
  }

  // One dash more; false: there is no room for it.
  bool grow(Random& random, Contour& contour, const Contour* other = nullptr) {
    const std::int32_t before = contour.dashes.back().degrees;
    const Point pivot = moved(contour.pivot, scene_.dash + 2 * scene_.margin, before);
    const std::vector<Point> tips = circle(pivot, scene_.dash + scene_.margin);
    std::vector<double> weights;
    for (const Point tip : tips) weights.push_back(weight_of(pivot, tip, before));
    for (std::int32_t i = 0; i < kTriesOfDash; ++i) {
      const auto pick = draw_weighted(random, weights);
      if (!pick) return false;
      const Point tip = tips[*pick];
      const Dash last = contour.dashes.back();
      if (add(contour, tip, degrees_of(std::atan2(tip.y - pivot.y, tip.x - pivot.x)), other)) {
        stamp(last, &Stencil::room, [&](std::size_t at, float value) { taken_[at] = std::max(taken_[at], value); });
        contour.pivot = pivot;
        return true;
      }
    }
    return false;
  }

  void finish(const Contour& contour, double contrast) {
    for (std::size_t i = 0; i < taken_.size(); ++i) taken_[i] = std::max(taken_[i], contour.room[i]);
    for (const Dash& dash : contour.dashes)
      stamp(dash, &Stencil::ink,
            [&](std::size_t at, float value) { ink_[at] = std::max(ink_[at], static_cast<float>(contrast) * value); });
  }

  void put_dot(Point middle) {
    stamp_field(painter_.dot_, middle, [&](std::size_t at, float value) { ink_[at] = std::max(ink_[at], value); });
  }

  // A free pixel at least `from_edge` away from it. None: there is none.
  std::optional<Point> draw_free(Random& random, std::int32_t from_edge) const {
    std::vector<Point> free;
    for (std::int32_t y = from_edge; y < scene_.side - from_edge; ++y)
      for (std::int32_t x = from_edge; x < scene_.side - from_edge; ++x)
        if (crowding({y, x}) == 0.0f) free.push_back({y, x});
    if (free.empty()) return {};
    return free[random.below(static_cast<std::uint32_t>(free.size()))];
  }

  // 0 to 255, the brightest 255.
  std::vector<std::uint8_t> bytes() const {
    const float most = *std::max_element(ink_.begin(), ink_.end());
    std::vector<std::uint8_t> out;
    for (const float value : ink_) out.push_back(static_cast<std::uint8_t>(std::lround(255.0f * value / most)));
    return out;
  }

 private:
  std::size_t pixels() const { return static_cast<std::size_t>(scene_.side * scene_.side); }
  std::size_t index(Point p) const { return static_cast<std::size_t>(p.y * scene_.side + p.x); }
  std::int32_t distance_to_edge(Point p) const {
    return std::min({p.y, p.x, scene_.side - 1 - p.y, scene_.side - 1 - p.x});
  }

  // The most that is taken within a margin.
  float crowding(Point p) const {
    float most = 0.0f;
    for (std::int32_t dy = -scene_.margin; dy <= scene_.margin; ++dy)
      for (std::int32_t dx = -scene_.margin; dx <= scene_.margin; ++dx) {
        const Point at{p.y + dy, p.x + dx};
        if (std::hypot(dy, dx) > scene_.margin) continue;
        most = std::max(most, distance_to_edge(at) < 0 ? 1.0f : taken_[index(at)]);
      }
    return most;
  }

  double weight_of(Point pivot, Point tip, std::int32_t before) const {
    const double turn = std::atan2(tip.y - pivot.y, tip.x - pivot.x) - radians_of(before);
    const double angle = std::abs(std::remainder(turn, 2.0 * std::numbers::pi)) * scene_.continuity;
    const double straight = std::max(std::cos(std::min(angle, std::numbers::pi / 2)), 0.0);
    return (1.0 - crowding(tip)) * straight * straight;
  }

  template <class Put>
  void stamp_field(const Field& field, Point middle, const Put& put) const {
    const std::int32_t reach = painter_.reach_;
    const float* value = field.data();
    for (std::int32_t y = middle.y - reach; y <= middle.y + reach; ++y)
      for (std::int32_t x = middle.x - reach; x <= middle.x + reach; ++x, ++value)
        if (*value > 0.0f && distance_to_edge({y, x}) >= 0) put(index({y, x}), *value);
  }
  template <class Put>
  void stamp(const Dash& dash, Field Stencil::*field, const Put& put) const {
    stamp_field(painter_.stencils_[static_cast<std::size_t>(dash.degrees)].*field, dash.middle, put);
  }

  // A dash that ends at the tip; false: it would be too near to others.
  bool add(Contour& contour, Point tip, std::int32_t degrees, const Contour* other) {
    if (distance_to_edge(tip) < scene_.border) return false;
    const Dash dash{moved(tip, -scene_.dash / 2.0, degrees), degrees};
    bool fits = true;
    stamp(dash, &Stencil::room, [&](std::size_t at, float value) {
      const float theirs = other == nullptr ? 0.0f : other->room[at];
      fits &= std::max(taken_[at], theirs) + value < kMostOverlap;
    });
    if (!fits) return false;
    stamp(dash, &Stencil::room,
          [&](std::size_t at, float value) { contour.room[at] = std::max(contour.room[at], value); });
    contour.dashes.push_back(dash);
    contour.end = tip;
    return true;
  }

  const Painter& painter_;
  const Scene& scene_;
  Field taken_, ink_;
};

Painter::Painter(const Scene& scene)
    : scene_(scene), reach_(scene.dash + static_cast<std::int32_t>(std::ceil(scene.thickness)) + scene.margin) {
  make_stencils();
}

void Painter::make_stencils() {
  for (std::int32_t degrees = 0; degrees < kDegrees; ++degrees) {
    FineSquare square(reach_);
    square.line(scene_.dash, radians_of(degrees));
    Stencil stencil{square.reduced(), {}};
    square.widen(scene_.margin);
    stencil.room = square.reduced();
    stencils_.push_back(std::move(stencil));
  }
  FineSquare square(reach_);
  square.disc(scene_.dot);
  dot_ = square.reduced();
}

Drawing Painter::draw(Random random) const {
  const auto any_direction = [&] { return static_cast<std::int32_t>(random.below(kDegrees)); };
  // Both contours, dash by dash in turn; where one finds no room, everything begins anew.
  const auto draw_contours = [&](Sheet& sheet, std::array<Contour, 2>& contours) {
    const auto first = sheet.draw_free(random, 2 * scene_.apart);
    if (!first) return false;
    const Point tails[] = {*first, moved(*first, scene_.apart, any_direction())};
    for (std::size_t i = 0; i < 2; ++i) {
      auto contour = sheet.begin_contour(tails[i], any_direction(), i == 1 ? &contours[0] : nullptr);
      if (!contour) return false;
      contours[i] = std::move(*contour);
    }
    for (std::int32_t dash = 1; dash < scene_.contour; ++dash)
      for (std::size_t i = 0; i < 2; ++i)
        if (!sheet.grow(random, contours[i], &contours[1 - i])) return false;
    return true;
  };
  std::array<Contour, 2> contours;
  std::optional<Sheet> sheet;
  do sheet.emplace(*this);
  while (!draw_contours(*sheet, contours));
  for (const Contour& contour : contours) sheet->finish(contour, scene_.target_contrast);
  for (std::int32_t i = 0; i < scene_.crowd; ++i)
    for (std::int32_t attempt = 0; attempt < kTriesOfDistractor; ++attempt) {
      const auto tail = sheet->draw_free(random, scene_.border);
      auto contour = tail ? sheet->begin_contour(*tail, any_direction()) : std::nullopt;
      bool whole = contour.has_value();
      for (std::int32_t dash = 1; whole && dash < scene_.distractor; ++dash) whole = sheet->grow(random, *contour);
      if (!whole) continue;
      sheet->finish(*contour, scene_.distractor_contrast);
      break;
    }
  Drawing drawing;
  drawing.label = static_cast<std::uint8_t>(random.below(2));
  const std::size_t from = random.below(2), to = drawing.label == 1 ? from : 1 - from;
  drawing.dots = {contours[from].begin, contours[to].end};
  for (const Point dot : drawing.dots) sheet->put_dot(dot);
  drawing.pixels = sheet->bytes();
  for (std::size_t i = 0; i < 2; ++i) drawing.contours[i] = std::move(contours[i].room);
  return drawing;
}

}  // namespace fovea::pathfinder
