#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "data/kinds.h"
#include "data/pictures/pictures.h"

// Pictures for vision, or as sequences of their values for classify.
namespace fovea {
namespace {

constexpr std::string_view kTrainImages[] = {"train-images-idx3-ubyte", "train-grey-images-idx3-ubyte"};
constexpr std::string_view kTestImages[] = {"t10k-images-idx3-ubyte", "test-images-idx3-ubyte",
                                            "test-grey-images-idx3-ubyte"};
constexpr std::string_view kValidationImages[] = {"valid-images-idx3-ubyte"};
constexpr std::string_view kTrainLabels[] = {"train-labels-idx1-ubyte"};
constexpr std::string_view kValidationLabels[] = {"valid-labels-idx1-ubyte"};
constexpr std::string_view kTestLabels[] = {"t10k-labels-idx1-ubyte", "test-labels-idx1-ubyte"};
constexpr std::string_view kTrainBatches[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                              "data_batch_4.bin", "data_batch_5.bin"};
constexpr std::string_view kTrainBin[] = {"train.bin", "train-colour-subset.bin"};
constexpr std::string_view kTestBin[] = {"test_batch.bin", "test.bin", "test-colour-subset.bin"};

bool has_idx(const Path& folder) { return find_file(folder, kTrainImages).has_value(); }

Pictures read_batches(const Path& folder, std::size_t cap) {
  if (const auto one = find_file(folder, kTrainBin)) return read_cifar(*one, cap);
  Pictures all;
  for (const std::string_view name : kTrainBatches) {
    const Pictures part = read_cifar(require_file(folder, std::span(&name, 1)), cap);
    all.height = part.height, all.width = part.width, all.channels = part.channels;
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

// The pictures with these numbers.
std::shared_ptr<const Pictures> chosen(const Pictures& all, const std::vector<std::int64_t>& picks) {
  auto out = std::make_shared<Pictures>();
  out->height = all.height, out->width = all.width, out->channels = all.channels;
  out->values.reserve(static_cast<std::size_t>(std::ssize(picks) * all.size()));
  for (const std::int64_t pick : picks) {
    const auto begin = all.values.begin() + pick * all.size();
    out->values.insert(out->values.end(), begin, begin + all.size());
    out->labels.push_back(all.labels[static_cast<std::size_t>(pick)]);
  }
  return out;
}

PictureParts read_parts(const DataSettings& settings, std::size_t cap) {
  const Path folder = settings.source;
  const bool idx = has_idx(folder);
  const Pictures train = idx ? read_idx(*find_file(folder, kTrainImages), require_file(folder, kTrainLabels), cap)
                             : read_batches(folder, cap);
  const Pictures test = idx ? read_idx(require_file(folder, kTestImages), require_file(folder, kTestLabels), cap)
                            : read_cifar(require_file(folder, kTestBin), cap);
  const auto check_size = [&](const Pictures& part, std::string_view name) {
    if (train.height != part.height || train.width != part.width)
      fail(ErrorCode::bad_input,
           fmt::format("training pictures are {} x {}, {} pictures {} x {}", train.height, train.width, name,
                       part.height, part.width),
           settings.source);
  };
  check_size(test, "test");
  const auto all = [](const Pictures& part) {
    std::vector<std::int64_t> picks(static_cast<std::size_t>(part.count()));
    std::iota(picks.begin(), picks.end(), 0);
    return picks;
  };
  std::vector<std::int64_t> first = all(train), held, last = all(test);
  const auto images = find_file(folder, kValidationImages);
  const Pictures validation = images ? read_idx(*images, require_file(folder, kValidationLabels), cap) : Pictures();
  if (images) {
    check_size(validation, "validation");
    held = all(validation);
  } else {
    hold_out(first, held);
  }
  keep_first(first, settings.train);
  keep_first(held, settings.validation);
  keep_first(last, settings.test);
  return {chosen(train, first), chosen(images ? validation : train, held), chosen(test, last)};
}

void check_labels(const Pictures& pictures, std::int64_t classes, const std::string& source) {
  for (const std::uint8_t label : pictures.labels)
    if (label >= classes)
      fail(ErrorCode::bad_input, fmt::format("the label {} does not occur in the training pictures", label), source,
           fmt::format("labels are 0 to {}", classes - 1));
}

}  // namespace

bool is_pictures(const Path& folder) {
  return has_idx(folder) || find_file(folder, std::span(kTrainBatches).first(1)) || find_file(folder, kTrainBin);
}

Dataset pixel_data(const PictureParts& parts, const DataSettings& settings) {
  Dataset data;
  data.name = data_name(settings);
  data.classes = 1 + *std::max_element(parts.train->labels.begin(), parts.train->labels.end());
  check_labels(*parts.validation, data.classes, settings.source);
  check_labels(*parts.test, data.classes, settings.source);
  data.vocabulary = 256;
  data.max_length = parts.train->size();
  data.train = pixel_split(parts.train);
  data.validation = pixel_split(parts.validation);
  data.test = pixel_split(parts.test);
  return data;
}

Dataset load_pictures(const Context& context, const DataSettings& settings, const DataUse& use) {
  const PictureParts parts = read_parts(settings, within_memory(kArrayCap, context));
  if (parts.train->count() == 0) fail(ErrorCode::bad_input, "there are no training pictures", settings.source);
  Dataset data = pixel_data(parts, settings);
  if (use.task == Task::classify) return data;
  data.task = Task::vision;
  data.vocabulary = data.max_length = 0;
  const PictureScale scale = PictureScale::chosen(settings, *parts.train);
  data.height = parts.train->height, data.width = parts.train->width, data.channels = parts.train->channels;
  data.mean = scale.mean, data.deviation = scale.deviation;
  data.train = picture_split(parts.train, scale, {settings.shift, settings.flip});
  data.validation = picture_split(parts.validation, scale);
  data.test = picture_split(parts.test, scale);
  return data;
}

}  // namespace fovea
