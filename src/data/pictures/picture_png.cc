#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "data/files.h"
#include "data/pictures/pictures.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostSide = 1 << 14;

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

void give_bytes(png_structp png, png_bytep out, std::size_t bytes) {
  auto& left = *static_cast<std::string_view*>(png_get_io_ptr(png));
  if (bytes > left.size()) png_error(png, "cut short");
  std::copy_n(left.begin(), bytes, out);
  left.remove_prefix(bytes);
}

// Whatever the file holds becomes red, green, blue and opacity, a byte each. False: it is damaged. libpng leaves then
// by a jump, so nothing here has a destructor.
bool decode(std::string_view file, std::span<png_bytep> rows) {
  png_structp png = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, nullptr, [](png_structp png, png_const_charp) { png_longjmp(png, 1); },
      [](png_structp, png_const_charp) {});
  if (png == nullptr) return false;
  png_infop info = png_create_info_struct(png);
  if (info == nullptr || setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, &file, give_bytes);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
  png_set_interlace_handling(png);
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
  return true;
}

// (height, width, 3), over white.
std::vector<float> decoded(std::string_view png, PictureSize size, const Path& path) {
  const auto pixels = static_cast<std::size_t>(size.height * size.width);
  std::vector<png_byte> all(4 * pixels);
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < size.height; ++y) rows.push_back(all.data() + 4 * y * size.width);
  if (!decode(png, rows))  // size_of() has looked after memory
    fail(ErrorCode::bad_input, "the PNG file is damaged or cut short", path.string(), "copy or convert it again");
  std::vector<float> out;
  out.reserve(3 * pixels);
  for (const png_byte* pixel = all.data(); pixel != all.data() + all.size(); pixel += 4)
    for (int colour = 0; colour < 3; ++colour)
      out.push_back(255.0f + static_cast<float>(pixel[colour] - 255) * static_cast<float>(pixel[3]) / 255.0f);
  return out;
}

// What goes into one of `to` places along an axis of `from`: the mean of what it covers, or, enlarging, between two.
struct Share {
  std::int64_t first = 0;
  std::vector<float> weights;
};
Share share_of(std::int64_t place, std::int64_t from, std::int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double middle = (static_cast<double>(place) + 0.5) * step, half = std::max(step, 1.0) / 2;
  const double begin = std::max(middle - half, 0.0), end = std::min(middle + half, static_cast<double>(from));
  Share share{.first = static_cast<std::int64_t>(begin), .weights = {}};
  for (std::int64_t i = share.first; i < from && static_cast<double>(i) < end; ++i) {
    const double covered = std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
    share.weights.push_back(static_cast<float>(covered / (end - begin)));
  }
  return share;
}

// (outer, from, inner) to (outer, to, inner).
std::vector<float> resized(std::vector<float> in, std::int64_t from, std::int64_t to, std::int64_t inner) {
  if (from == to) return in;
  std::vector<float> out(in.size() / static_cast<std::size_t>(from) * static_cast<std::size_t>(to), 0.0f);
  const std::int64_t outer = static_cast<std::int64_t>(in.size()) / (from * inner);
  for (std::int64_t place = 0; place < to; ++place) {
    const Share share = share_of(place, from, to);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::size_t k = 0; k < share.weights.size(); ++k) {
        const float* source = in.data() + (o * from + share.first + static_cast<std::int64_t>(k)) * inner;
        float* target = out.data() + (o * to + place) * inner;
        for (std::int64_t i = 0; i < inner; ++i) target[i] += share.weights[k] * source[i];
      }
  }
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
  std::vector<float> drawn = decoded(png, own, path);
  drawn = resized(std::move(drawn), own.width, wanted.width, 3);
  drawn = resized(std::move(drawn), own.height, wanted.height, 3 * wanted.width);
  std::transform(drawn.begin(), drawn.end(), out.begin(),
                 [](float value) { return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0f, 255.0f))); });
}

}  // namespace fovea
