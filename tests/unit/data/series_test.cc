#include "data/series/series.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2, .memory = {.poison = true}});

// Row i has the values i and 100 + 2 i.
TimeSeries counted(std::int64_t rows) {
  TimeSeries series;
  series.names = {"a", "b"};
  series.marks = 4;
  for (std::int64_t i = 0; i < rows; ++i) {
    series.values.push_back(static_cast<double>(i));
    series.values.push_back(100.0 + 2.0 * static_cast<double>(i));
    for (int m = 0; m < 4; ++m) series.times.push_back(static_cast<float>(10 * i + m));
  }
  return series;
}

const SeriesScale kPlain{{0.0, 100.0}, {1.0, 2.0}};  // makes both channels the number of the row

TEST(Series, WindowsOverlapAndTargetsFollow) {
  const auto split = series_split(counted(10), kPlain, {.input = 4, .label = 2, .horizon = 3}, {0, 10});
  ASSERT_EQ(split->size(), 4);
  const Batch batch = split->batch(kContext, std::vector<std::int64_t>{3, 0}, 0);
  EXPECT_EQ(batch.input.values.shape(), (Shape{2, 4, 2}));
  EXPECT_EQ(batch.input.marks.shape(), (Shape{2, 4, 4}));
  EXPECT_EQ(batch.second.values.shape(), (Shape{2, 5, 2}));
  EXPECT_EQ(batch.second.marks.shape(), (Shape{2, 5, 4}));
  EXPECT_EQ(batch.targets.shape(), (Shape{2, 3, 2}));
  const std::vector<float> input = batch.input.values.to_vector<float>();
  EXPECT_EQ((std::vector<float>{input.begin(), input.begin() + 8}), (std::vector<float>{3, 3, 4, 4, 5, 5, 6, 6}));
  const std::vector<float> second = batch.second.values.to_vector<float>();
  EXPECT_EQ((std::vector<float>{second.begin() + 10, second.end()}),
            (std::vector<float>{2, 2, 3, 3, 0, 0, 0, 0, 0, 0}));
  const std::vector<float> targets = batch.targets.to_vector<float>();
  EXPECT_EQ((std::vector<float>{targets.begin(), targets.begin() + 6}), (std::vector<float>{7, 7, 8, 8, 9, 9}));
  EXPECT_EQ(batch.second.marks.to_vector<float>()[20], 20.0f);  // of row 2
}

// What is foretold lies in the part; what is read may lie before it.
TEST(Series, LaterPartsReadBackIntoEarlierOnes) {
  const auto split = series_split(counted(20), kPlain, {.input = 4, .label = 2, .horizon = 3}, {10, 16});
  ASSERT_EQ(split->size(), 4);
  const Batch batch = split->batch(kContext, std::vector<std::int64_t>{0}, 0);
  EXPECT_EQ(batch.input.values.to_vector<float>()[0], 6.0f);
  EXPECT_EQ(batch.targets.to_vector<float>()[0], 10.0f);
  EXPECT_EQ(series_split(counted(20), kPlain, {.input = 4, .label = 2, .horizon = 3}, {0, 5})->size(), 0);
  EXPECT_ERROR(series_split(counted(9), kPlain, {.input = 4, .label = 5, .horizon = 3}, {0, 9}), ErrorCode::usage,
               "a window of 4 rows", "label_length", "");
}

TEST(Series, PartsAreInformers) {
  const SeriesParts parts = informer_parts(counted(17420));
  EXPECT_EQ(parts.train.end, 8640);
  EXPECT_EQ(parts.validation.begin, 8640);
  EXPECT_EQ(parts.validation.end, 11520);
  EXPECT_EQ(parts.test.end, 14400);
  const SeriesParts few = informer_parts(counted(100));
  EXPECT_EQ(few.train.end, 60);
  EXPECT_EQ(few.validation.end, 80);
  EXPECT_EQ(few.test.end, 100);
}

TEST(Series, ScaleIsOfTheFirstRows) {
  const SeriesScale scale = SeriesScale::of(counted(10), 3);
  EXPECT_NEAR(scale.mean[0], 1.0, 1e-12);
  EXPECT_NEAR(scale.deviation[0], std::sqrt(2.0 / 3.0), 1e-12);
  EXPECT_NEAR(scale.mean[1], 102.0, 1e-12);
}

std::string table(const std::string& rows) { return "date,x,OT\n" + rows; }

TEST(Series, RefusesValuesWhoseScaleIsNotFinite) {
  TimeSeries series = counted(10);
  series.source = "a.csv";
  series.values[3] = 1e308;  // its square is not
  EXPECT_ERROR(SeriesScale::of(series, 3), kBad, "deviation is not finite", "a.csv, column b", "smaller");
  const SeriesScale scale = SeriesScale::of(series, 1);
  EXPECT_ERROR(series_split(series, scale, {.input = 4, .label = 2, .horizon = 3}, {0, 10}), kBad,
               "1e+308 is too large", "a.csv:3, column b", "");
}

TEST(SeriesFiles, ReadsTimesAndNumbers) {
  const TemporaryFolder folder;
  put(folder / "a.csv", table("2016-07-01 00:00:00,1.5,-2e3\n2016-12-31 23:00:00,0,4"));
  EXPECT_ERROR(read_series(folder / "a.csv"), kBad, "a minute to a day", "a.csv:3", "");
  put(folder / "a.csv", table("2016-12-31 22:00:00,1.5,-2e3\n2016-12-31 23:00:00,0,4\n2017-01-01 00:00:00,7,8"));
  const TimeSeries series = read_series(folder / "a.csv");
  EXPECT_EQ(series.names, (std::vector<std::string>{"x", "OT"}));
  EXPECT_EQ(series.values, (std::vector<double>{1.5, -2000, 0, 4, 7, 8}));
  EXPECT_EQ(series.steps_per_day, 24);
  ASSERT_EQ(series.marks, 4);
  // A Saturday at the end of a year, then a Sunday at the beginning of one.
  const std::vector<float> wanted = {0.5f, 0.5f, 5.0f / 6 - 0.5f, 0.5f, -0.5f, -0.5f, 0.5f, -0.5f};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(series.times[4 + i], wanted[i], 1e-6) << i;
  EXPECT_EQ(last_channel(series).values, (std::vector<double>{-2000, 4, 8}));
}

TEST(SeriesFiles, QuartersOfHoursHaveAMarkMore) {
  const TemporaryFolder folder;
  put(folder / "a.csv", table("2016-07-01 00:00:00,1,2\n2016-07-01 00:15:00,1,2\n"));
  const TimeSeries series = read_series(folder / "a.csv");
  EXPECT_EQ(series.marks, 5);
  EXPECT_EQ(series.steps_per_day, 96);
  EXPECT_NEAR(series.times[9], 15.0 / 59 - 0.5, 1e-6);
}

TEST(SeriesFiles, RefusesWhatIsNoSeries) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    put(folder / "a.csv", text);
    return read_series(folder / "a.csv");
  };
  const std::string good = "2016-07-01 00:00:00,1,2\n";
  EXPECT_ERROR(read("x,date\n1,2\n"), kBad, "not the header of a series", "a.csv:1", "");
  EXPECT_ERROR(read(table(good)), kBad, "at least two rows", "a.csv", "");
  for (const std::string cell : {"nan", "inf", "", "x", "1 ", "0x10", "1e999"})
    EXPECT_ERROR(read(table(good + fmt::format("2016-07-01 01:00:00,{},2\n", cell))), kBad, "is not a finite number",
                 "a.csv:3", "");
  for (const std::string time :
       {"2016-13-01 00:00", "2016-07-32 00:00", "yesterday", "2016-07-01 24:00", "2016/07/01 01:00"})
    EXPECT_ERROR(read(table(good + time + ",1,2\n")), kBad, "is not a time", "a.csv:3", "");
  EXPECT_ERROR(read(table(good + "2016-07-01 01:00:00,1\n")), kBad, "", "a.csv", "");
}

}  // namespace
}  // namespace fovea
