#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/settings.h"
#include "report/table.h"

// Published tables as data: what was compared, how, and what came out. One engine (runner.h) runs any of them.
namespace fovea {

inline constexpr double kUnpublished = std::numeric_limits<double>::quiet_NaN();

// What is done with a model to fill cells.
enum class TrialKind : std::uint8_t {
  training,  // trained and judged on validation and test part
  tuning,    // the same from the weights of another trial of the row
  speed,     // timed on random tokens, data.length at a time: training and inference, with their memory
  locality,  // trained, then asked how far from itself a token attends
  size,      // only built
};

// What --quick changes: the same comparison in minutes on two cores.
struct Quick {
  std::vector<std::string> set = {};  // as RunChoices has it
  std::int64_t depth = 0;             // layers; 0: as many as published
  bool all_rows = true;               // else only those that a StudyRow marks
  bool left_out = false;              // nothing of it can be learned in minutes
};

// One thing that is done with each row. It fills all columns that refer to it.
struct Trial {
  // What stands for {name} in the attention of a row.
  struct Word {
    std::string name, text;
  };

  std::string name;  // "listops"; also of its folder
  TrialKind kind = TrialKind::training;
  std::vector<std::string> data =
      {};                  // known sets (known_sets.h) below --data, the first that is there; generated, or none
  std::string start = {};  // of tuning: the trial of the same row whose best weights it begins with
  Protocol protocol = {};
  std::vector<Word> words = {};
  Quick quick = {};
  std::string note = {};  // what people should know of it
};

struct StudyRow {
  std::string name;            // "TransNormer T2"
  std::string model = {};      // preset; empty: told by the attention
  std::string attention = {};  // as RunChoices has it, with words
  std::vector<std::string> set = {};
  std::vector<double> published = {};   // for each column; what is missing was not published
  std::vector<std::string> quick = {};  // further settings with --quick
  bool main = true;                     // one of those that --quick keeps where not all fit
  std::string missing = {};             // why it is shown and not run; empty: it is run
};

struct StudyColumn {
  std::string name;   // "ListOps"
  std::size_t trial;  // among those of the study
  std::string value;  // of the outcome: "accuracy"
  Quantity quantity = Quantity::number;
  Best best = Best::none;
};

// What a picture of a study shows: a point for each row, or a curve.
struct StudyFigure {
  std::size_t x, y;  // columns
  std::size_t size;  // column that is said beside a point; as many as columns: none
  std::string title, caption;
};

struct Study {
  std::string name;    // "table-6"
  std::string title;   // what is compared
  std::string source;  // of the published values
  std::string note = {};
  std::vector<Trial> trials = {};
  std::vector<StudyColumn> columns = {};
  std::vector<StudyRow> rows = {};
  std::int64_t seeds = 3;  // unless told otherwise; 1 with --quick
  std::vector<StudyFigure> figures = {};

  double published(std::size_t row, std::size_t column) const;
  std::size_t row_named(std::string_view name) const;     // by name or attention; refuses others
  std::size_t column_named(std::string_view name) const;  // by name or trial; refuses others
  // Names separated by commas, of which some have commas of their own: "1 + elu,softmax, 1 + elu".
  std::vector<std::string> split_rows(std::string_view text) const;
  std::vector<std::string> split_columns(std::string_view text) const;
};

std::span<const Study> studies();
const Study& study_named(std::string_view name);  // refuses others

// The parts of the list.
std::vector<Study> arena_studies();     // Long-Range Arena: accuracy, speed, memory
std::vector<Study> language_studies();  // WikiText and GLUE
std::vector<Study> design_studies();    // softmax variants, positions, norms, equal time, forecasts

}  // namespace fovea
