#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>

#include "data/files.h"
#include "data/pictures/pictures.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostSide = 1 << 14;

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Pen = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

void check_drawing(cairo_surface_t* surface, const Path& path) {
  const cairo_status_t status = cairo_surface_status(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::out_of_memory, fmt::format("cannot draw the picture: {}", cairo_status_to_string(status)),
         path.string());
}

// From the head, before anything is made of the rest: a small file may claim any size.
PictureSize size_of(std::string_view png, const Path& path) {
  constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
  if (!png.starts_with(kSignature) || png.size() < kSignature.size() + 8)
    fail(ErrorCode::bad_input, "not a PNG file", path.string(), "other formats have to be converted");
  const PictureSize size{big_endian(png.substr(kSignature.size() + 4)), big_endian(png.substr(kSignature.size()))};
  if (size.height < 1 || size.width < 1 || size.height > kMostSide || size.width > kMostSide)
    fail(ErrorCode::bad_input, fmt::format("a picture of {} x {} pixels", size.height, size.width), path.string(),
         fmt::format("at most {} on a side", kMostSide));
  if (static_cast<std::size_t>(4 * size.height * size.width) > memory_for(png.size()))
    fail(ErrorCode::bad_input,
         fmt::format("a picture of {} x {} pixels in {} bytes", size.height, size.width, png.size()), path.string(),
         fmt::format("at most {} times the file's size and {} MB, at four bytes a pixel", kMemoryFactor,
                     kMemoryFloor >> 20));
  return size;
}

// Of a file that breaks off or is wrong inside libpng tells no more than that, and cairo calls all of it "out of
// memory"; size_of() has looked after memory.
Surface decoded(std::string_view png, const Path& path) {
  const auto read = [](void* rest, unsigned char* out, unsigned int bytes) {
    auto& left = *static_cast<std::string_view*>(rest);
    if (bytes > left.size()) return CAIRO_STATUS_READ_ERROR;
    std::copy_n(left.begin(), bytes, out);
    left.remove_prefix(bytes);
    return CAIRO_STATUS_SUCCESS;
  };
  std::string_view rest = png;
  Surface picture(cairo_image_surface_create_from_png_stream(read, &rest), cairo_surface_destroy);
  if (cairo_surface_status(picture.get()) != CAIRO_STATUS_SUCCESS)
    fail(ErrorCode::bad_input, "the PNG file is damaged or cut short", path.string(), "copy or convert it again");
  return picture;
}

// Drawn over white, smaller or larger as wanted.
Surface resized(cairo_surface_t* picture, PictureSize from, PictureSize to, const Path& path) {
  Surface out(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(to.width), static_cast<int>(to.height)),
              cairo_surface_destroy);
  check_drawing(out.get(), path);
  const Pen pen(cairo_create(out.get()), cairo_destroy);
  cairo_set_source_rgb(pen.get(), 1, 1, 1);
  cairo_paint(pen.get());
  cairo_scale(pen.get(), static_cast<double>(to.width) / static_cast<double>(from.width),
              static_cast<double>(to.height) / static_cast<double>(from.height));
  cairo_set_source_surface(pen.get(), picture, 0, 0);
  cairo_pattern_set_extend(cairo_get_source(pen.get()), CAIRO_EXTEND_PAD);  // what lies outside does not shine in
  cairo_paint(pen.get());
  cairo_surface_flush(out.get());
  check_drawing(out.get(), path);
  return out;
}

}  // namespace

PictureSize png_size(const Path& path) {
  const MappedFile file(path);
  return size_of({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

void read_png(const Path& path, PictureSize wanted, std::span<std::uint8_t> out) {
  const std::string png = read_file(path);
  const PictureSize own = size_of(png, path);
  const Surface picture = decoded(png, path);
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
