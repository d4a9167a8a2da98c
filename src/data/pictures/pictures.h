#pragma once

#include <array>
#include <string>

#include "data/files.h"
#include "fovea/data.h"

namespace fovea {

// Pictures of one size, one byte for each value, with their labels.
struct Pictures {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> values = {};  // (count, height, width, channels)
  std::vector<std::uint8_t> labels = {};

  std::int64_t count() const { return std::ssize(labels); }
  std::int64_t size() const { return height * width * channels; }  // of one
};

// Mean and deviation of each channel, of values scaled to [0, 1]. A channel that never changes has deviation 1.
struct PictureScale {
  std::vector<double> mean = {}, deviation = {};

  static PictureScale of(const Pictures& pictures);
  // As the settings say, else of the training pictures.
  static PictureScale chosen(const DataSettings& settings, const Pictures& train);
};

// How pictures are changed while training: moved by up to `shift` pixels either way (what comes in is 0), and mirrored.
struct Augmentation {
  std::int64_t shift = 0;
  bool flip = false;
};

// Values f32 (b, height, width, channels), scaled; targets (b).
std::shared_ptr<const Split> picture_split(std::shared_ptr<const Pictures> pictures, const PictureScale& scale,
                                           const Augmentation& augmentation = {});

// Each picture as the sequence of its values, row by row: ids (b, height width channels) below 256.
std::shared_ptr<const Split> pixel_split(std::shared_ptr<const Pictures> pictures);

struct PictureParts {
  std::shared_ptr<const Pictures> train, validation, test;
};

struct PictureSize {
  std::int64_t height = 0, width = 0;
};
PictureSize png_size(const Path& path);
// The PNG file drawn to the wanted size over white: (height, width, 3), red, green and blue.
void read_png(const Path& path, PictureSize wanted, std::span<std::uint8_t> out);

// MNIST's layout, also packed: big-endian sizes and one byte a value. Refuses files that are not as long as they say.
Pictures read_idx(const Path& images, const Path& labels, std::size_t cap = kArrayCap);
void write_idx(const Pictures& pictures, const Path& images, const Path& labels);
// CIFAR-10's binary layout: a label, then 32 x 32 values of red, of green, of blue.
Pictures read_cifar(const Path& path, std::size_t cap = kArrayCap);

}  // namespace fovea
