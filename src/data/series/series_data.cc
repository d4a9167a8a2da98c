#include <fmt/format.h>

#include "data/kinds.h"
#include "data/series/series.h"

// Tables of measurements for forecast.
namespace fovea {
namespace {

Path table_of(const DataSettings& settings) {
  if (!is_folder(settings.source)) return settings.source;
  std::vector<std::string> found;
  for (const Path& entry : entries_of(settings.source)) {
    Path name = entry.filename();
    if (name.extension() == ".xz") name.replace_extension();
    if (name.extension() == ".csv") found.push_back(entry.string());
  }
  if (found.size() == 1) return found[0];
  fail(ErrorCode::usage, fmt::format("{} tables in this folder", found.size()), settings.source,
       found.empty() ? "a .csv" : fmt::format("give one: {}", found[0]));
}

}  // namespace

Dataset load_series(const Context& context, const DataSettings& settings, const DataUse&) {
  const Path path = table_of(settings);
  const TimeSeries all = read_series(path, within_memory(kTextCap, context));
  const TimeSeries series = settings.univariate ? last_channel(all) : all;
  const SeriesParts parts = informer_parts(series);
  SeriesScale scale{settings.mean, settings.deviation};
  if (scale.mean.empty() || scale.deviation.empty()) scale = SeriesScale::of(series, parts.train.end);
  const SeriesWindow window{settings.input_length, settings.label_length, settings.horizon};
  const auto split = [&](SeriesRows rows, std::int64_t most) {
    // Windows overlap but for one row: the first `most` of them end here.
    if (most > 0) rows.end = std::min(rows.end, std::max(rows.begin, window.input) + most + window.horizon - 1);
    return series_split(series, scale, window, rows);
  };
  Dataset data;
  data.name = data_name(settings);
  data.task = Task::forecast;
  data.max_length = window.input;
  data.second_max_length = window.label + window.horizon;
  data.channels = series.channels();
  data.horizon = window.horizon;
  data.marks = series.marks;
  data.mean = scale.mean, data.deviation = scale.deviation;
  data.train = split(parts.train, settings.train);
  data.validation = split(parts.validation, settings.validation);
  data.test = split(parts.test, settings.test);
  if (empty(data.train))
    fail(ErrorCode::bad_input,
         fmt::format("{} rows of training data are too few for windows of {} and {} rows", parts.train.end,
                     window.input, window.horizon),
         path.string(), "shorter data.input_length or data.horizon");
  return data;
}

}  // namespace fovea
