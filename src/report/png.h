#pragma once

#include <memory>

#include "report/canvas.h"

namespace fovea {

// Draws pixels through Cairo, at twice the nominal size so that lines stay sharp.
class PngCanvas : public Canvas {
 public:
  PngCanvas(Size size, Theme theme);
  ~PngCanvas() override;

  void polyline(std::span<const Point> points, const Stroke& stroke) override;
  void polygon(std::span<const Point> points, Ink fill, double opacity = 1) override;
  void circle(Point centre, double radius, Ink fill, double opacity = 1) override;
  void text(Point place, std::string_view words, const TextStyle& style) override;
  void tip(Point, double, std::string_view) override {}

  static bool works();  // is there a Cairo?

  std::string png() const;  // the bytes of the file

 private:
  struct Surface;
  std::unique_ptr<Surface> surface_;
};

}  // namespace fovea
