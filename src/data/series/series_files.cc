#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "data/series/series.h"
#include "fovea/error.h"
#include "io/csv.h"
#include "text/text_file.h"

namespace fovea {
namespace {

// A moment of a calendar.
struct Moment {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;

  // Days since 1 March of the year 0.
  std::int64_t days() const {
    const int y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return 365LL * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
  }
  std::int64_t minutes() const { return (days() * 24 + hour) * 60 + minute; }
  int weekday() const { return static_cast<int>((days() + 2) % 7); }  // from Monday on: 1 March of 0 was a Wednesday
};

// "2016-07-01 00:00:00"; the seconds may be missing, and nothing finer is kept.
std::optional<Moment> parse_moment(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00 00:00";
  if (text.size() < kForm.size()) return {};
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : (text[i] != kForm[i] && !(i == 10 && text[i] == 'T'))) return {};
  }
  const auto number = [&](std::size_t at, std::size_t count) {
    int value = 0;
    std::from_chars(text.data() + at, text.data() + at + count, value);
    return value;
  };
  const Moment moment{number(0, 4), number(5, 2), number(8, 2), number(11, 2), number(14, 2)};
  const bool good = moment.month >= 1 && moment.month <= 12 && moment.day >= 1 && moment.day <= 31 &&
                    moment.hour <= 23 && moment.minute <= 59;
  return good ? std::optional(moment) : std::nullopt;
}

class SeriesReader {
 public:
  SeriesReader(const Path& path, std::size_t cap) : path_(path.string()) {
    std::string text = read_text(path, cap);
    if (!text.empty() && text.back() != '\n') text += '\n';
    table_ = parse_csv(text, path_);
    if (table_.columns.size() < 2 || table_.columns[0] != "date")
      fail(ErrorCode::bad_input, "the first line is not the header of a series", path_ + ":1",
           "the columns are date and at least one of numbers");
    if (table_.rows.size() < 2) fail(ErrorCode::bad_input, "a series needs at least two rows", path_);
  }

  TimeSeries read() const {
    TimeSeries series;
    series.source = path_;
    series.names.assign(table_.columns.begin() + 1, table_.columns.end());
    const std::int64_t step = moment(1).minutes() - moment(0).minutes();
    constexpr std::int64_t kDay = 24 * 60;
    if (step < 1 || step > kDay) refuse(1, "does not follow the row before it by a minute to a day");
    series.steps_per_day = kDay / step;
    series.marks = step % 60 == 0 ? 4 : 5;
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      add_time(moment(row), series);
      for (std::size_t c = 1; c < table_.columns.size(); ++c) series.values.push_back(number(row, c));
    }
    return series;
  }

 private:
  [[noreturn]] void refuse(std::size_t row, const std::string& what) const {
    fail(ErrorCode::bad_input, what, fmt::format("{}:{}", path_, row + 2));
  }

  Moment moment(std::size_t row) const {
    const std::string& text = table_.rows[row][0];
    if (const auto moment = parse_moment(text)) return *moment;
    refuse(row, fmt::format("\"{}\" is not a time such as 2016-07-01 00:00:00", text.substr(0, 40)));
  }

  double number(std::size_t row, std::size_t column) const {
    const std::string& text = table_.rows[row][column];
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
      refuse(row,
             fmt::format("\"{}\" in column {} is not a finite number", text.substr(0, 40), table_.columns[column]));
    return value;
  }

  static void add_time(const Moment& moment, TimeSeries& series) {
    const auto mark = [&](int value, int most) {
      series.times.push_back(static_cast<float>(value) / static_cast<float>(most) - 0.5f);
    };
    mark(moment.month - 1, 11);
    mark(moment.day - 1, 30);
    mark(moment.weekday(), 6);
    mark(moment.hour, 23);
    if (series.marks == 5) mark(moment.minute, 59);
  }

  std::string path_;
  CsvTable table_;
};

}  // namespace

TimeSeries read_series(const Path& path, std::size_t cap) { return SeriesReader(path, cap).read(); }

TimeSeries last_channel(const TimeSeries& series) {
  TimeSeries out = series;
  const auto channels = static_cast<std::size_t>(series.channels());
  out.names = {series.names.back()};
  out.values.clear();
  for (std::size_t i = channels - 1; i < series.values.size(); i += channels) out.values.push_back(series.values[i]);
  return out;
}

}  // namespace fovea
