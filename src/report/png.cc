#include "report/png.h"

#include <cairo.h>

#include <numbers>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr double kZoom = 2;
constexpr double kLargest = 16000;  // pixels on a side; Cairo stops at 32767

cairo_status_t collect(void* into, const unsigned char* data, unsigned int count) {
  static_cast<std::string*>(into)->append(reinterpret_cast<const char*>(data), count);
  return CAIRO_STATUS_SUCCESS;
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::internal, std::string("cannot draw: ") + cairo_status_to_string(status));
}

}  // namespace

struct PngCanvas::Surface {
  Surface(Size size, Theme used)
      : theme(used),
        image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(size.width * kZoom),
                                         static_cast<int>(size.height * kZoom))),
        pen(cairo_create(image)) {
    cairo_scale(pen, kZoom, kZoom);
  }
  ~Surface() {
    cairo_destroy(pen);
    cairo_surface_destroy(image);
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  void set(Ink ink, double opacity) {
    const Rgb c = colour(ink, theme);
    cairo_set_source_rgba(pen, c.red / 255.0, c.green / 255.0, c.blue / 255.0, opacity);
  }
  void path(std::span<const Point> points) {
    for (const Point& point : points) cairo_line_to(pen, point.x, point.y);
  }

  Theme theme;
  cairo_surface_t* image;
  cairo_t* pen;
};

PngCanvas::PngCanvas(Size size, Theme theme) {
  if (!(size.width >= 1 && size.height >= 1 && size.width * kZoom <= kLargest && size.height * kZoom <= kLargest))
    fail(ErrorCode::usage, "a picture must be between 1 and 8000 points wide and high");
  surface_ = std::make_unique<Surface>(size, theme);
  check(cairo_status(surface_->pen));
  surface_->set(Ink::paper, 1);
  cairo_paint(surface_->pen);
}

PngCanvas::~PngCanvas() = default;

void PngCanvas::polyline(std::span<const Point> points, const Stroke& stroke) {
  cairo_t* pen = surface_->pen;
  const double dashes[] = {5, 4};
  cairo_set_dash(pen, dashes, stroke.dashed ? 2 : 0, 0);
  cairo_set_line_width(pen, stroke.width);
  cairo_set_line_join(pen, CAIRO_LINE_JOIN_ROUND);
  surface_->set(stroke.ink, stroke.opacity);
  surface_->path(points);
  cairo_stroke(pen);
}

void PngCanvas::polygon(std::span<const Point> points, Ink fill, double opacity) {
  surface_->set(fill, opacity);
  surface_->path(points);
  cairo_close_path(surface_->pen);
  cairo_fill(surface_->pen);
}

void PngCanvas::circle(Point centre, double radius, Ink fill) {
  surface_->set(fill, 1);
  cairo_arc(surface_->pen, centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(surface_->pen);
}

void PngCanvas::text(Point place, std::string_view words, const TextStyle& style) {
  cairo_t* pen = surface_->pen;
  const std::string copy(words);
  cairo_select_font_face(pen, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(pen, style.size * 0.92);  // DejaVu is larger than other fonts of its size
  cairo_text_extents_t extents{};
  cairo_text_extents(pen, copy.c_str(), &extents);
  const double shift = style.anchor == Anchor::start ? 0 : style.anchor == Anchor::middle ? 0.5 : 1;
  cairo_move_to(pen, place.x - shift * extents.x_advance, place.y);
  surface_->set(style.ink, 1);
  cairo_show_text(pen, copy.c_str());
  cairo_new_path(pen);
}

std::string PngCanvas::png() const {
  std::string bytes;
  check(cairo_status(surface_->pen));
  cairo_surface_flush(surface_->image);
  check(cairo_surface_write_to_png_stream(surface_->image, collect, &bytes));
  return bytes;
}

}  // namespace fovea
