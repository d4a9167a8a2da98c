#include <fmt/format.h>

#include "data/files.h"
#include "data/pictures/pictures.h"
#include "fovea/error.h"
#include "io/file.h"
#include "io/xz.h"

namespace fovea {
namespace {

constexpr std::int64_t kMostIdxSide = 1 << 12;

[[noreturn]] void refuse(const Path& path, const std::string& what, const std::string& hint = {}) {
  fail(ErrorCode::bad_input, what, path.string(), hint);
}

// An idx file of bytes: the sizes of its axes, and what follows them.
struct Idx {
  std::vector<std::int64_t> sizes;
  std::string_view values;
};

Idx parse_idx(const Path& path, std::string_view content, std::size_t axes) {
  constexpr std::uint32_t kBytes = 0x800;  // the code for unsigned bytes, then the number of axes
  const std::size_t head = 4 * (axes + 1);
  if (content.size() < head) refuse(path, fmt::format("{} bytes are too few for an idx file", content.size()));
  const std::uint32_t magic = big_endian(content);
  if (magic != kBytes + axes)
    refuse(path,
           fmt::format("begins with {}, not with {}: this is not an idx file of bytes with {} ax{}", magic,
                       kBytes + axes, axes, axes == 1 ? "is" : "es"),
           "images have three axes, labels one");
  Idx idx;
  std::uint64_t total = 1;  // at most 2^32 times the content's size before it is refused
  for (std::size_t i = 1; i <= axes; ++i) {
    idx.sizes.push_back(big_endian(content.substr(4 * i)));
    total *= static_cast<std::uint64_t>(idx.sizes.back());
    if (total > content.size())
      refuse(path,
             fmt::format("says it holds {} values, but has {} bytes", fmt::join(idx.sizes, " x "), content.size()),
             "copy it again: it is cut short or damaged");
  }
  if (total != content.size() - head)
    refuse(path, fmt::format("should have {} bytes after its head, has {}", total, content.size() - head),
           "copy it again: it is cut short or damaged");
  idx.values = content.substr(head);
  return idx;
}

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

Pictures read_idx(const Path& images, const Path& labels, std::size_t cap) {
  const std::string image_bytes = read_maybe_xz(images, cap), label_bytes = read_maybe_xz(labels, cap);
  const Idx values = parse_idx(images, image_bytes, 3), classes = parse_idx(labels, label_bytes, 1);
  if (values.sizes[0] != classes.sizes[0])
    refuse(labels,
           fmt::format("{} labels for the {} pictures of {}", classes.sizes[0], values.sizes[0], images.string()));
  const std::int64_t height = values.sizes[1], width = values.sizes[2];
  if (height < 1 || width < 1 || height > kMostIdxSide || width > kMostIdxSide)
    refuse(images, fmt::format("pictures of {} x {} pixels", height, width));
  return {height, width, 1, bytes_of(values.values), bytes_of(classes.values)};
}

void write_idx(const Pictures& pictures, const Path& images, const Path& labels) {
  const auto head = [](std::initializer_list<std::int64_t> sizes) {
    std::string out;
    const auto put = [&](std::int64_t value) {
      for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(value >> shift & 0xff));
    };
    put(0x800 + static_cast<std::int64_t>(sizes.size()));
    for (const std::int64_t size : sizes) put(size);
    return out;
  };
  const auto text = [](const std::vector<std::uint8_t>& bytes) { return std::string(bytes.begin(), bytes.end()); };
  write_file(images, head({pictures.count(), pictures.height, pictures.width}) + text(pictures.values));
  write_file(labels, head({pictures.count()}) + text(pictures.labels));
}

Pictures read_cifar(const Path& path, std::size_t cap) {
  constexpr std::size_t kSide = 32, kPixels = kSide * kSide, kRecord = 1 + 3 * kPixels;
  constexpr std::uint8_t kClasses = 10;
  const std::string content = read_maybe_xz(path, cap);
  if (content.empty() || content.size() % kRecord != 0)
    refuse(path, fmt::format("{} bytes are not a whole number of records of {} bytes", content.size(), kRecord),
           "CIFAR-10's binary version: a label, then 1024 values of red, of green, of blue");
  Pictures out{kSide, kSide, 3, {}, {}};
  out.values.reserve(content.size());
  for (std::size_t record = 0; record < content.size(); record += kRecord) {
    const auto label = static_cast<std::uint8_t>(content[record]);
    if (label >= kClasses)
      refuse(path, fmt::format("record {} has the label {}, but there are 10 classes", record / kRecord, label));
    out.labels.push_back(label);
    for (std::size_t pixel = 0; pixel < kPixels; ++pixel)
      for (std::size_t c = 0; c < 3; ++c)
        out.values.push_back(static_cast<std::uint8_t>(content[record + 1 + c * kPixels + pixel]));
  }
  return out;
}

}  // namespace fovea
