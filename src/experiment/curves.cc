#include "experiment/curves.h"

#include <algorithm>

#include "fovea/error.h"
#include "io/csv.h"

namespace fovea {

Curve read_curve(const Path& run, std::string_view split) {
  const CsvTable table = read_csv(run / "metrics.csv");
  const std::size_t column =
      static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), "split") - table.columns.begin());
  if (column == table.columns.size()) fail(ErrorCode::bad_input, "no column \"split\"", (run / "metrics.csv").string());
  const std::vector<double> step = table.numbers("step"), seconds = table.numbers("train_seconds"),
                            loss = table.numbers("loss"), accuracy = table.numbers("accuracy");
  Curve curve;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i][column] != split) continue;
    curve.step.push_back(step[i]);
    curve.seconds.push_back(seconds[i]);
    curve.loss.push_back(loss[i]);
    curve.accuracy.push_back(100.0 * accuracy[i]);
  }
  return curve;
}

}  // namespace fovea
