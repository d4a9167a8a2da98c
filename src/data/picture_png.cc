#include <cairo.h>
#include <fmt/format.h>

#include "data/files.h"
#include "data/pictures.h"
#include "io/xz.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostSide = 1 << 14;

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Pen = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

void check_surface(cairo_surface_t* surface, const Path& path) {
  const cairo_status_t status = cairo_surface_status(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::bad_input, fmt::format("cannot read the picture: {}", cairo_status_to_string(status)),
         path.string(), "a whole PNG file; other formats have to be converted");
}

// Drawn over white, smaller or larger as wanted.
Surface resized(cairo_surface_t* picture, PictureSize from, PictureSize to, const Path& path) {
  Surface out(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(to.width), static_cast<int>(to.height)),
              cairo_surface_destroy);
  check_surface(out.get(), path);
  const Pen pen(cairo_create(out.get()), cairo_destroy);
  cairo_set_source_rgb(pen.get(), 1, 1, 1);
  cairo_paint(pen.get());
  cairo_scale(pen.get(), static_cast<double>(to.width) / static_cast<double>(from.width),
              static_cast<double>(to.height) / static_cast<double>(from.height));
  cairo_set_source_surface(pen.get(), picture, 0, 0);
  cairo_pattern_set_extend(cairo_get_source(pen.get()), CAIRO_EXTEND_PAD);  // what lies outside does not shine in
  cairo_paint(pen.get());
  cairo_surface_flush(out.get());
  check_surface(out.get(), path);
  return out;
}

}  // namespace

// The head is read first: a small file may claim any size.
PictureSize png_size(const Path& path) {
  constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
  const std::string head = read_head(path, kSignature.size() + 8);
  if (!head.starts_with(kSignature) || head.size() < kSignature.size() + 8)
    fail(ErrorCode::bad_input, "not a PNG file", path.string(), "other formats have to be converted");
  const PictureSize size{big_endian(head.substr(kSignature.size() + 4)), big_endian(head.substr(kSignature.size()))};
  if (size.height < 1 || size.width < 1 || size.height > kMostSide || size.width > kMostSide)
    fail(ErrorCode::bad_input, fmt::format("a picture of {} x {} pixels", size.height, size.width), path.string(),
         fmt::format("at most {} on a side", kMostSide));
  return size;
}

void read_png(const Path& path, PictureSize wanted, std::span<std::uint8_t> out) {
  const PictureSize own = png_size(path);
  const Surface picture(cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy);
  check_surface(picture.get(), path);
  const Surface drawn = resized(picture.get(), own, wanted, path);
  const unsigned char* rows = cairo_image_surface_get_data(drawn.get());
  const std::ptrdiff_t stride = cairo_image_surface_get_stride(drawn.get());
  std::uint8_t* next = out.data();
  for (std::int64_t y = 0; y < wanted.height; ++y) {
    const auto* pixels = reinterpret_cast<const std::uint32_t*>(rows + y * stride);  // 0x00RRGGBB
    for (std::int64_t x = 0; x < wanted.width; ++x)
      for (const int shift : {16, 8, 0}) *next++ = static_cast<std::uint8_t>(pixels[x] >> shift);
  }
}

}  // namespace fovea
