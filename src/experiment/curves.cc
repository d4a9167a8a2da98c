#include "experiment/curves.h"

#include <algorithm>
#include <cmath>

#include "core/statistics.h"
#include "fovea/error.h"
#include "io/csv.h"

namespace fovea {
namespace {

// Runs of older versions have no such column.
std::vector<double> numbers_if_there(const CsvTable& table, std::string_view column) {
  const bool there = std::find(table.columns.begin(), table.columns.end(), column) != table.columns.end();
  return there ? table.numbers(column) : std::vector<double>(table.rows.size(), NAN);
}

// On the straight line between the points around it; x grows.
double value_at(const Line& line, double x) {
  const auto after = std::lower_bound(line.x.begin(), line.x.end(), x);
  const auto i = static_cast<std::size_t>(after - line.x.begin());
  if (i == 0) return line.y.front();
  if (i == line.x.size()) return line.y.back();
  const double share = (x - line.x[i - 1]) / (line.x[i] - line.x[i - 1]);
  return line.y[i - 1] + share * (line.y[i] - line.y[i - 1]);
}

// Point by point, where all have as many: evaluations of equal steps, or shares of a budget.
Line mean_of_points(const std::vector<Line>& lines) {
  const auto count = static_cast<double>(lines.size());
  Line mean{std::vector<double>(lines.front().x.size()), std::vector<double>(lines.front().x.size())};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      mean.x[i] += line.x[i] / count;
      mean.y[i] += line.y[i] / count;
    }
  return mean;
}

}  // namespace

Curve read_curve(const Path& run, std::string_view split) {
  const CsvTable table = read_csv(run / "metrics.csv");
  const std::size_t column =
      static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), "split") - table.columns.begin());
  if (column == table.columns.size()) fail(ErrorCode::bad_input, "no column \"split\"", (run / "metrics.csv").string());
  const std::vector<double> step = table.numbers("step"), seconds = table.numbers("train_seconds"),
                            loss = table.numbers("loss"), accuracy = table.numbers("accuracy");
  const std::vector<double> tokens = numbers_if_there(table, "tokens"),
                            rate = numbers_if_there(table, "steps_per_second");
  Curve curve;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i][column] != split) continue;
    curve.step.push_back(step[i]);
    curve.seconds.push_back(seconds[i]);
    curve.tokens.push_back(tokens[i]);
    curve.rate.push_back(rate[i]);
    curve.loss.push_back(loss[i]);
    curve.accuracy.push_back(100.0 * accuracy[i]);
  }
  return curve;
}

Line mean_line(const std::vector<Line>& lines) {
  if (lines.size() == 1) return lines.front();
  Line mean;
  if (lines.empty()) return mean;
  const auto as_many = [&](const Line& line) { return line.x.size() == lines.front().x.size(); };
  if (std::all_of(lines.begin(), lines.end(), as_many)) return mean_of_points(lines);
  double from = -INFINITY, to = INFINITY;
  for (const Line& line : lines) {
    if (line.x.empty()) return mean;
    from = std::max(from, line.x.front());
    to = std::min(to, line.x.back());
  }
  // The ends of all belong to it: seeds differ there by less than anyone sees.
  const double slack = 0.02 * (to - from);
  for (const double x : lines.front().x) {
    if (x < from - slack || x > to + slack) continue;
    double sum = 0.0;
    for (const Line& line : lines) sum += value_at(line, x);
    mean.x.push_back(x);
    mean.y.push_back(sum / static_cast<double>(lines.size()));
  }
  return mean;
}

double reached(const Line& line, double level, bool from_below) {
  const auto there = [&](double y) { return from_below ? y >= level : y <= level; };
  for (std::size_t i = 0; i < line.y.size(); ++i) {
    if (!there(line.y[i])) continue;
    if (i == 0) return line.x[0];
    const double share = (level - line.y[i - 1]) / (line.y[i] - line.y[i - 1]);
    return line.x[i - 1] + share * (line.x[i] - line.x[i - 1]);
  }
  return NAN;
}

double drift_margin(const std::vector<double>& values) {
  constexpr std::size_t kStretches = 8;
  const std::size_t count = std::min(kStretches, values.size());
  std::vector<double> means;
  for (std::size_t s = 0; s < count; ++s) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(s * values.size() / count),
               end = values.begin() + static_cast<std::ptrdiff_t>((s + 1) * values.size() / count);
    means.push_back(describe(std::span(begin, end)).mean);
  }
  return describe(means).margin();
}

}  // namespace fovea
