#pragma once

#include "report/canvas.h"

namespace fovea {

// Draws SVG text. Colours are CSS classes, so the picture follows the reader's light or dark preference.
class SvgCanvas : public Canvas {
 public:
  // `title` is read out by screen readers. A picture inside a page leaves the style to the page.
  enum class Style : std::uint8_t { own, of_page };
  SvgCanvas(Size size, std::string_view title, Style style);

  void polyline(std::span<const Point> points, const Stroke& stroke) override;
  void polygon(std::span<const Point> points, Ink fill, double opacity = 1) override;
  void circle(Point centre, double radius, Ink fill, double opacity = 1) override;
  void text(Point place, std::string_view words, const TextStyle& style) override;
  void tip(Point centre, double radius, std::string_view words) override;

  std::string svg() const { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

inline constexpr std::string_view kFonts = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif";

}  // namespace fovea
