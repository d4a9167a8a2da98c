#pragma once

#include <string>

#include "fovea/train.h"
#include "io/fields.h"
#include "report/table.h"

namespace fovea {

// How good a model is, in the numbers of its task.
struct Scores {
  Task task = Task::classify;
  double loss = 0.0;                  // of numbers the mean squared error
  double accuracy = 0.0;              // where there are classes
  double deviation = 0.0;             // of numbers the mean absolute error
  double pearson = 0.0;               // of regress: correlation of what was given and what is right
  double spearman = 0.0;              // the same of their ranks
  double majority = 0.0;              // accuracy of always giving the most frequent answer
  double characters_per_token = 0.0;  // of the text, where it is known
  std::int64_t examples = 0;          // that they were measured on; 0: unknown
  double loss_margin = 0.0;           // half of the 95% interval of the loss; 0: unknown

  bool classes() const { return task == Task::classify || task == Task::match || task == Task::vision; }
  bool numbers() const { return task == Task::forecast || task == Task::regress; }
  bool tokens() const { return !classes() && !numbers() && task != Task::image_text; }
  double interval() const;  // half of the 95% interval of the accuracy (Wilson's); 0: unknown
  double perplexity() const;
  double bits_per_character() const;  // NaN: unknown
  void fields(FieldVisitor& v);
};

Scores scores_of(Task task, const EvalReport& report, const Split& split);

// "accuracy 97.20% (majority class 11.3%), loss 0.0912"
std::string scores_text(const Scores& scores);
Json scores_json(const Scores& scores);

// A column of a table of results.
struct ScoreColumn {
  TableColumn column;
  double (*value)(const Scores&);
  double (*margin)(const Scores&);  // half of the 95% interval, by the examples that were tested; 0: unknown
};
// Those of a task, the one that models are judged by first.
std::vector<ScoreColumn> score_columns(const Scores& scores);
TableCell score_cell(double value, double margin);

}  // namespace fovea
