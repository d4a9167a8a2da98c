#include <fmt/format.h>

#include <cmath>
#include <map>

#include "experiment/reproduce/study_report.h"
#include "fovea/error.h"
#include "io/html_text.h"
#include "io/json.h"
#include "report/html.h"

// The page of all studies that ran.
namespace fovea {
namespace {

constexpr const char* kTitle = "Published tables, run again";
constexpr std::size_t kCap = std::size_t{64} << 20;

double number(const Json& object, const char* key) {
  return object.contains(key) && object.at(key).is_number() ? object.at(key).get<double>() : kUnpublished;
}

struct Ran {
  std::string folder;
  Json results;
};

std::vector<Ran> all_that_ran(const Path& folder) {
  std::vector<Ran> out;
  for (const Path& entry : entries_of(folder)) {
    if (!is_folder(entry) || !is_there(entry / kStudyFile) || !is_there(entry / kResultsFile)) continue;
    const Path file = entry / kResultsFile;
    out.push_back({entry.filename().string(), parse_json(read_file(file, kCap), file.string())});
  }
  return out;
}

// Score, speed and memory of each row, over the columns that have them.
struct Standing {
  double score = 0.0, speed = 0.0, memory = 0.0;
  int scores = 0;
};

// Accuracy above that of the most frequent class, as a share of what could be gained.
Figure which_attention(const Ran& ran) {
  std::map<std::string, Standing> rows;
  const Json& baselines = ran.results.at("most_frequent_class");
  for (const Json& cell : ran.results.at("results")) {
    const std::string column = cell.value("column", "");
    const double mean = number(cell, "mean"), seconds = number(cell, "seconds");
    if (cell.value("value", "") != "accuracy" || !std::isfinite(mean) || !baselines.contains(column) || seconds <= 0.0)
      continue;
    const double base = baselines.at(column).get<double>();
    Standing& row = rows[cell.value("row", "")];
    row.score += (mean - base) / (1.0 - base);
    row.speed += number(cell, "tokens") / seconds;
    row.memory = std::max(row.memory, number(cell, "peak_memory"));
    ++row.scores;
  }
  Plot plot;
  plot.title = "Which attention: score against speed against memory";
  plot.x = {"training speed, mean over the tasks", "tokens/s", Scale::log};
  plot.y = {"accuracy over that of the most frequent class, mean over the tasks", "% of what is to be gained"};
  for (const auto& [name, row] : rows)
    plot.series.push_back({fmt::format("{}, {}", name, quantity_text(Quantity::bytes, row.memory)),
                           {row.speed / row.scores},
                           {100.0 * row.score / row.scores}});
  return {std::move(plot),
          "Up is better, right is faster; beside each name its largest peak memory. From " + ran.folder + "."};
}

bool has_scores(const Ran& ran) {
  return ran.results.contains("most_frequent_class") && !ran.results.at("most_frequent_class").empty();
}

Page front_page(const std::vector<Ran>& all) {
  Page page{
      .title = kTitle,
      .sentence = fmt::format("{} tables ran in this folder.", all.size()),
      .command = "fovea reproduce",
      .table = Table({{"cells", Quantity::text}, {"budget", Quantity::text}, {"machine", Quantity::text}}, "table")};
  for (const Ran& ran : all) {
    const Json& results = ran.results;
    page.table.add(fmt::format("{}: {}", ran.folder, results.value("title", "")),
                   {fmt::format("{}/{}", results.value("cells_done", 0), results.value("cells", 0)),
                    results.value("quick", false) ? "--quick" : "as in its cells", results.value("machine", "")});
    page.links.push_back({fmt::format("{}: {}", ran.folder, results.value("title", "")), ran.folder + "/report.html"});
    if (has_scores(ran)) page.figures.push_back(which_attention(ran));
  }
  return page;
}

}  // namespace

void write_front_page(const Path& folder) {
  const Path file = folder / "index.html";
  if (is_there(file) && read_file(file, kCap).find(escape_html(kTitle)) == std::string::npos) return;  // another's
  try {
    write_file(file, page_html(front_page(all_that_ran(folder))));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_input, error.what(), (folder / "*" / kResultsFile).string(),
         "results that fovea reproduce wrote");
  }
}

}  // namespace fovea
