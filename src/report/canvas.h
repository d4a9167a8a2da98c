#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/palette.h"

namespace fovea {

struct Point {
  double x, y;  // pixels from the left and from the top
};

struct Stroke {
  Ink ink = Ink::text;
  double width = 1;
  double opacity = 1;
  bool dashed = false;
};

enum class Anchor : std::uint8_t { start, middle, end };

struct TextStyle {
  Ink ink = Ink::text;
  double size = 12;
  Anchor anchor = Anchor::start;
  bool bold = false;
};

// The few things a plot is drawn with. Positions of text are on its baseline.
class Canvas {
 public:
  virtual ~Canvas() = default;

  virtual void polyline(std::span<const Point> points, const Stroke& stroke) = 0;
  virtual void polygon(std::span<const Point> points, Ink fill, double opacity = 1) = 0;
  virtual void circle(Point centre, double radius, Ink fill, double opacity = 1) = 0;
  virtual void text(Point place, std::string_view words, const TextStyle& style) = 0;
  // What a reader sees who rests the pointer here; lost on paper.
  virtual void tip(Point centre, double radius, std::string_view words) = 0;
};

struct Size {
  double width, height;
};

// Width of a text in the sans-serif font all canvases use, near enough for placing things beside it.
double drawn_width(std::string_view words, double size);

}  // namespace fovea
