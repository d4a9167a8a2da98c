#pragma once

#include <string>

#include "data/files.h"
#include "fovea/data.h"

namespace fovea {

// Measurements at equal distances of time.
struct TimeSeries {
  std::vector<std::string> names = {};  // of the channels
  std::int64_t marks = 0;
  std::int64_t steps_per_day = 24;
  std::vector<double> values = {};  // (rows, channels)
  std::vector<float> times = {};    // (rows, marks): month, day, weekday, hour (and minute), in [-0.5, 0.5]
  std::string source = {};          // the file, for errors

  std::int64_t channels() const { return std::ssize(names); }
  std::int64_t rows() const { return names.empty() ? 0 : std::ssize(values) / channels(); }
};

// A table whose first column, "date", is a time ("2016-07-01 00:00:00") and whose others are numbers.
TimeSeries read_series(const Path& path, std::size_t cap = kTextCap);
TimeSeries last_channel(const TimeSeries& series);  // the one that is foretold from itself alone

// Mean and deviation of each channel over the first rows.
struct SeriesScale {
  std::vector<double> mean = {}, deviation = {};

  // Refuses a channel whose values are so large that either is not finite.
  static SeriesScale of(const TimeSeries& series, std::int64_t rows);
};

// An example reads `input` rows and foretells the `horizon` rows after them; the decoder reads the last `label` of the
// former and zeros.
struct SeriesWindow {
  std::int64_t input = 96, label = 48, horizon = 24;
};

// The rows [begin, end): what is foretold lies in them, what is read may lie before. Values f32 (b, n, channels),
// scaled, and marks (b, n, marks).
struct SeriesRows {
  std::int64_t begin = 0, end = 0;
};
std::shared_ptr<const Split> series_split(const TimeSeries& series, const SeriesScale& scale,
                                          const SeriesWindow& window, const SeriesRows& rows);

// Informer's split: 12, 4 and 4 months of 30 days, or the same shares of what is shorter.
struct SeriesParts {
  SeriesRows train, validation, test;
};
SeriesParts informer_parts(const TimeSeries& series);

}  // namespace fovea
