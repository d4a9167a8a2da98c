#include "data/series/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/hash.h"
#include "fovea/error.h"

namespace fovea {
namespace {

class SeriesSplit final : public Split {
 public:
  SeriesSplit(const TimeSeries& series, const SeriesScale& scale, const SeriesWindow& window, const SeriesRows& rows)
      : window_(window), channels_(series.channels()), marks_(series.marks) {
    if (std::ssize(scale.mean) != channels_ || std::ssize(scale.deviation) != channels_)
      fail(ErrorCode::usage, "mean and deviation need one number for each channel", "data.mean, data.deviation");
    const std::int64_t begin = std::max<std::int64_t>(0, rows.begin - window.input);
    count_ = std::max<std::int64_t>(0, rows.end - begin - window.input - window.horizon + 1);
    for (std::int64_t i = begin * channels_; i < rows.end * channels_; ++i) {
      const auto c = static_cast<std::size_t>(i % channels_);
      const double scaled = (series.values[static_cast<std::size_t>(i)] - scale.mean[c]) / scale.deviation[c];
      if (!(std::abs(scaled) <= std::numeric_limits<float>::max()))
        fail(ErrorCode::bad_input, fmt::format("{} is too large", series.values[static_cast<std::size_t>(i)]),
             fmt::format("{}:{}, column {}", series.source, i / channels_ + 2, series.names[c]),
             "values of the order of the training rows");
      values_.push_back(static_cast<float>(scaled));
    }
    times_.assign(series.times.begin() + begin * marks_, series.times.begin() + rows.end * marks_);
  }

  std::int64_t size() const override { return count_; }
  std::int64_t length(std::int64_t) const override { return window_.input; }
  std::uint64_t hash() const override {
    Hash hash;
    hash.add_all<float>(values_);
    hash.add_all<float>(times_);
    return hash.value();
  }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t /*draw*/) const override {
    const std::int64_t known = window_.input - window_.label;  // rows before those the decoder reads
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.input = inputs(context, picks, 0, window_.input);
    batch.second = inputs(context, picks, known, window_.label + window_.horizon);
    batch.targets = copied(context, values_, channels_, picks, {window_.input, window_.horizon});
    const std::int64_t size = (window_.label + window_.horizon) * channels_, head = window_.label * channels_;
    for (std::int64_t i = 0; i < std::ssize(picks); ++i) {
      float* values = batch.second.values.data<float>() + i * size;
      std::fill(values + head, values + size, 0.0f);
    }
    return batch;
  }

 private:
  struct Part {
    std::int64_t begin, count;  // rows of a window
  };

  // (b, count, features) of a table (rows, features).
  static Tensor copied(const Context& context, const std::vector<float>& table, std::int64_t features,
                       std::span<const std::int64_t> picks, Part part) {
    const Tensor out = Tensor::empty(context, {std::ssize(picks), part.count, features}, DType::f32);
    float* to = out.data<float>();
    for (const std::int64_t pick : picks)
      to = std::copy_n(table.begin() + (pick + part.begin) * features, part.count * features, to);
    return out;
  }

  Input inputs(const Context& context, std::span<const std::int64_t> picks, std::int64_t begin,
               std::int64_t count) const {
    Input input;
    input.values = copied(context, values_, channels_, picks, {begin, count});
    input.marks = copied(context, times_, marks_, picks, {begin, count});
    return input;
  }

  SeriesWindow window_;
  std::int64_t channels_, marks_, count_ = 0;
  std::vector<float> values_, times_;
};

}  // namespace

SeriesScale SeriesScale::of(const TimeSeries& series, std::int64_t rows) {
  SeriesScale scale;
  const std::int64_t channels = series.channels();
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto mean_of = [&](auto f) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < rows; ++i) sum += f(series.values[static_cast<std::size_t>(i * channels + c)]);
      return sum / static_cast<double>(std::max<std::int64_t>(1, rows));
    };
    const double mean = mean_of([](double v) { return v; });
    const double variance = mean_of([&](double v) { return (v - mean) * (v - mean); });
    if (!std::isfinite(mean) || !std::isfinite(variance))
      fail(ErrorCode::bad_input, "the values are so large that their deviation is not finite",
           fmt::format("{}, column {}", series.source, series.names[static_cast<std::size_t>(c)]),
           "smaller units, or without the column");
    scale.mean.push_back(mean);
    scale.deviation.push_back(variance > 0.0 ? std::sqrt(variance) : 1.0);
  }
  return scale;
}

std::shared_ptr<const Split> series_split(const TimeSeries& series, const SeriesScale& scale,
                                          const SeriesWindow& window, const SeriesRows& rows) {
  if (window.input < 1 || window.horizon < 1 || window.label < 0 || window.label > window.input)
    fail(ErrorCode::usage,
         fmt::format("a window of {} rows, {} of them for the decoder, and {} to foretell", window.input, window.label,
                     window.horizon),
         "data.label_length", "at most data.input_length");
  return std::make_shared<SeriesSplit>(series, scale, window, rows);
}

SeriesParts informer_parts(const TimeSeries& series) {
  const std::int64_t month = 30 * series.steps_per_day, rows = series.rows();
  const bool whole = rows >= 20 * month;
  const std::int64_t train = whole ? 12 * month : rows * 12 / 20, validation = whole ? 16 * month : rows * 16 / 20;
  return {{0, train}, {train, validation}, {validation, whole ? 20 * month : rows}};
}

}  // namespace fovea
