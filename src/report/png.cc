#include "report/png.h"

#include <cairo.h>
#include <dlfcn.h>

#include <numbers>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr double kZoom = 2;
constexpr double kLargest = 16000;  // pixels on a side; Cairo stops at 32767

// Cairo, opened when the first picture is drawn: a machine that draws none needs none.
struct Cairo {
  decltype(&cairo_arc) arc;
  decltype(&cairo_close_path) close_path;
  decltype(&cairo_create) create;
  decltype(&cairo_destroy) destroy;
  decltype(&cairo_fill) fill;
  decltype(&cairo_image_surface_create) image_surface_create;
  decltype(&cairo_line_to) line_to;
  decltype(&cairo_move_to) move_to;
  decltype(&cairo_new_path) new_path;
  decltype(&cairo_paint) paint;
  decltype(&cairo_scale) scale;
  decltype(&cairo_select_font_face) select_font_face;
  decltype(&cairo_set_dash) set_dash;
  decltype(&cairo_set_font_size) set_font_size;
  decltype(&cairo_set_line_join) set_line_join;
  decltype(&cairo_set_line_width) set_line_width;
  decltype(&cairo_set_source_rgba) set_source_rgba;
  decltype(&cairo_show_text) show_text;
  decltype(&cairo_status) status;
  decltype(&cairo_status_to_string) status_to_string;
  decltype(&cairo_stroke) stroke;
  decltype(&cairo_surface_destroy) surface_destroy;
  decltype(&cairo_surface_flush) surface_flush;
  decltype(&cairo_surface_write_to_png_stream) surface_write_to_png_stream;
  decltype(&cairo_text_extents) text_extents;
};

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

const Cairo* open_cairo() {
  static Cairo found;
  void* const library = ::dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const bool whole =
      look_up(library, "cairo_arc", found.arc) && look_up(library, "cairo_close_path", found.close_path) &&
      look_up(library, "cairo_create", found.create) && look_up(library, "cairo_destroy", found.destroy) &&
      look_up(library, "cairo_fill", found.fill) &&
      look_up(library, "cairo_image_surface_create", found.image_surface_create) &&
      look_up(library, "cairo_line_to", found.line_to) && look_up(library, "cairo_move_to", found.move_to) &&
      look_up(library, "cairo_new_path", found.new_path) && look_up(library, "cairo_paint", found.paint) &&
      look_up(library, "cairo_scale", found.scale) &&
      look_up(library, "cairo_select_font_face", found.select_font_face) &&
      look_up(library, "cairo_set_dash", found.set_dash) &&
      look_up(library, "cairo_set_font_size", found.set_font_size) &&
      look_up(library, "cairo_set_line_join", found.set_line_join) &&
      look_up(library, "cairo_set_line_width", found.set_line_width) &&
      look_up(library, "cairo_set_source_rgba", found.set_source_rgba) &&
      look_up(library, "cairo_show_text", found.show_text) && look_up(library, "cairo_status", found.status) &&
      look_up(library, "cairo_status_to_string", found.status_to_string) &&
      look_up(library, "cairo_stroke", found.stroke) &&
      look_up(library, "cairo_surface_destroy", found.surface_destroy) &&
      look_up(library, "cairo_surface_flush", found.surface_flush) &&
      look_up(library, "cairo_surface_write_to_png_stream", found.surface_write_to_png_stream) &&
      look_up(library, "cairo_text_extents", found.text_extents);
  return whole ? &found : nullptr;
}

const Cairo* cairo_here() {
  static const Cairo* const here = open_cairo();
  return here;
}

const Cairo& cairo() {
  if (cairo_here() == nullptr)
    fail(ErrorCode::unsupported, "no Cairo to draw a picture as PNG with", "libcairo.so.2",
         "apt-get install libcairo2");
  return *cairo_here();
}

cairo_status_t collect(void* into, const unsigned char* data, unsigned int count) {
  static_cast<std::string*>(into)->append(reinterpret_cast<const char*>(data), count);
  return CAIRO_STATUS_SUCCESS;
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::internal, std::string("cannot draw: ") + cairo().status_to_string(status));
}

}  // namespace

bool PngCanvas::works() { return cairo_here() != nullptr; }

struct PngCanvas::Surface {
  Surface(Size size, Theme used)
      : theme(used),
        image(cairo().image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(size.width * kZoom),
                                           static_cast<int>(size.height * kZoom))),
        pen(cairo().create(image)) {
    cairo().scale(pen, kZoom, kZoom);
  }
  ~Surface() {
    cairo().destroy(pen);
    cairo().surface_destroy(image);
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  void set(Ink ink, double opacity) {
    const Rgb c = colour(ink, theme);
    cairo().set_source_rgba(pen, c.red / 255.0, c.green / 255.0, c.blue / 255.0, opacity);
  }
  void path(std::span<const Point> points) {
    for (const Point& point : points) cairo().line_to(pen, point.x, point.y);
  }

  Theme theme;
  cairo_surface_t* image;
  cairo_t* pen;
};

PngCanvas::PngCanvas(Size size, Theme theme) {
  if (!(size.width >= 1 && size.height >= 1 && size.width * kZoom <= kLargest && size.height * kZoom <= kLargest))
    fail(ErrorCode::usage, "a picture must be between 1 and 8000 points wide and high");
  surface_ = std::make_unique<Surface>(size, theme);
  check(cairo().status(surface_->pen));
  surface_->set(Ink::paper, 1);
  cairo().paint(surface_->pen);
}

PngCanvas::~PngCanvas() = default;

void PngCanvas::polyline(std::span<const Point> points, const Stroke& stroke) {
  cairo_t* pen = surface_->pen;
  const double dashes[] = {5, 4};
  cairo().set_dash(pen, dashes, stroke.dashed ? 2 : 0, 0);
  cairo().set_line_width(pen, stroke.width);
  cairo().set_line_join(pen, CAIRO_LINE_JOIN_ROUND);
  surface_->set(stroke.ink, stroke.opacity);
  surface_->path(points);
  cairo().stroke(pen);
}

void PngCanvas::polygon(std::span<const Point> points, Ink fill, double opacity) {
  surface_->set(fill, opacity);
  surface_->path(points);
  cairo().close_path(surface_->pen);
  cairo().fill(surface_->pen);
}

void PngCanvas::circle(Point centre, double radius, Ink fill, double opacity) {
  surface_->set(fill, opacity);
  cairo().arc(surface_->pen, centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo().fill(surface_->pen);
}

void PngCanvas::text(Point place, std::string_view words, const TextStyle& style) {
  cairo_t* pen = surface_->pen;
  const std::string copy(words);
  cairo().select_font_face(pen, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo().set_font_size(pen, style.size * 0.92);  // DejaVu is larger than other fonts of its size
  cairo_text_extents_t extents{};
  cairo().text_extents(pen, copy.c_str(), &extents);
  const double shift = style.anchor == Anchor::start ? 0 : style.anchor == Anchor::middle ? 0.5 : 1;
  cairo().move_to(pen, place.x - shift * extents.x_advance, place.y);
  surface_->set(style.ink, 1);
  cairo().show_text(pen, copy.c_str());
  cairo().new_path(pen);
}

std::string PngCanvas::png() const {
  std::string bytes;
  check(cairo().status(surface_->pen));
  cairo().surface_flush(surface_->image);
  check(cairo().surface_write_to_png_stream(surface_->image, collect, &bytes));
  return bytes;
}

}  // namespace fovea
