#include "experiment/profile_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"

namespace fovea {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// What rows of one name have together.
struct Sum {
  std::string name;
  double forward = 0.0, backward = 0.0, memory = 0.0;

  double seconds() const { return forward + backward; }
};

std::vector<Sum> sums(const ProfileReport& report, std::string ProfileRow::*name) {
  std::vector<Sum> out;
  for (const ProfileRow& row : report.rows) {
    auto at = std::find_if(out.begin(), out.end(), [&](const Sum& sum) { return sum.name == row.*name; });
    if (at == out.end()) at = out.insert(out.end(), Sum{row.*name});
    at->forward += row.forward_seconds;
    at->backward += row.backward_seconds;
    at->memory += row.memory;
  }
  return out;
}

Table table_of(const ProfileReport& report, const std::vector<Sum>& sums, const std::string& title) {
  Table table({{"time", Quantity::seconds},
               {"forward", Quantity::seconds},
               {"backward", Quantity::seconds},
               {"share", Quantity::percent},
               {"memory kept", Quantity::bytes}},
              title);
  const double steps = static_cast<double>(std::max<std::int64_t>(1, report.steps));
  const auto share = [&](double seconds) { return report.seconds > 0.0 ? seconds / report.seconds : kNothing; };
  for (const Sum& sum : sums)
    table.add(
        sum.name.empty() ? "(no layer)" : sum.name,
        {sum.seconds() / steps, sum.forward / steps, sum.backward / steps, share(sum.seconds()), sum.memory / steps});
  for (const auto& [name, seconds] : {std::pair("(update)", report.update_seconds), {"(input)", report.input_seconds}})
    table.add(name, {seconds / steps, kNothing, kNothing, share(seconds), kNothing});
  return table;
}

}  // namespace

std::string profile_text(const ProfileReport& report, const Terminal& terminal) {
  std::vector<Sum> operations = sums(report, &ProfileRow::operation);
  std::stable_sort(operations.begin(), operations.end(),
                   [](const Sum& a, const Sum& b) { return a.seconds() > b.seconds(); });
  const double step = report.steps > 0 ? report.seconds / static_cast<double>(report.steps) : kNothing;
  return fmt::format("one step of {}: {}\n{}\n{}", report.steps, quantity_text(Quantity::seconds, step),
                     table_of(report, sums(report, &ProfileRow::place), "layer").text(terminal),
                     table_of(report, operations, "operation").text(terminal));
}

std::string profile_csv(const ProfileReport& report) {
  Table table({{"operation", Quantity::text},
               {"calls", Quantity::number},
               {"forward", Quantity::seconds},
               {"backward", Quantity::seconds},
               {"memory kept", Quantity::bytes}},
              "layer");
  const double steps = static_cast<double>(std::max<std::int64_t>(1, report.steps));
  for (const ProfileRow& row : report.rows)
    table.add(row.place, {row.operation, static_cast<double>(row.calls) / steps, row.forward_seconds / steps,
                          row.backward_seconds / steps, row.memory / steps});
  return table.csv();
}

}  // namespace fovea
