#include "experiment/reproduce/study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "experiment/reproduce/plan.h"
#include "experiment/reproduce/trials.h"
#include "fovea/mechanism.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(Studies, AreThoseOfThePaperAndTheOthers) {
  std::set<std::string> names;
  for (const Study& study : studies()) EXPECT_TRUE(names.insert(study.name).second) << study.name << " is there twice";
  for (int i = 1; i <= 13; ++i) EXPECT_TRUE(names.contains("table-" + std::to_string(i))) << i;
  for (const char* name : {"figure-1", "figure-2", "softmax-variants", "positions", "norm-placement", "equal-time",
                           "forecasts", "arena-rest", "arena-modern"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(studies().front().name, "table-1");
  EXPECT_ERROR(study_named("tabel-6"), ErrorCode::usage, "tabel-6", "reproduce", "table-6");
}

TEST(Studies, AreWhole) {
  for (const Study& study : studies()) {
    SCOPED_TRACE(study.name);
    EXPECT_FALSE(study.title.empty());
    EXPECT_FALSE(study.source.empty());
    std::set<std::string> rows, columns, trials;
    for (const Trial& trial : study.trials) {
      EXPECT_TRUE(trials.insert(trial.name).second) << trial.name;
      for (const std::string& set : trial.data) EXPECT_NO_THROW(known_set(set));
      EXPECT_TRUE(trial.start.empty() || trials.contains(trial.start)) << trial.start << " comes later";
    }
    for (const StudyColumn& column : study.columns) {
      EXPECT_TRUE(columns.insert(column.name).second) << column.name;
      EXPECT_LT(column.trial, study.trials.size());
    }
    for (const StudyRow& row : study.rows) {
      EXPECT_TRUE(rows.insert(row.name).second) << row.name;
      EXPECT_LE(row.published.size(), study.columns.size());
    }
    for (const StudyFigure& figure : study.figures) EXPECT_LT(std::max(figure.x, figure.y), study.columns.size());
  }
}

// Every known file, of a size that --parts takes.
void put_all_sets(const TemporaryFolder& folder) {
  for (const KnownSet& set : known_sets()) {
    std::filesystem::create_directories(folder.path() / set.folders.front());
    for (const KnownFile& file : set.layouts.front())
      put(folder.path() / set.folders.front() / file.name, "1\tsome text\n0\tother text\n");
  }
}

// What a cell is run with can be run: with and without --quick, every setting has a name and a range.
TEST(Studies, CellsHaveSettings) {
  const TemporaryFolder folder;
  put_all_sets(folder);
  for (const Study& study : studies())
    for (const bool quick : {false, true}) {
      SCOPED_TRACE(study.name + (quick ? " --quick" : ""));
      StudyChoices choices{.study = study.name, .quick = quick, .parts = true, .data = folder.path().string()};
      const StudyPlan plan(choices, folder / (study.name + (quick ? "-quick" : "")));
      for (const StudyCell& cell : plan.cells()) {
        if (study.trials[cell.trial].kind == TrialKind::tuning) continue;  // its model is that of its weights
        RunSettings settings;
        EXPECT_NO_THROW(settings = plan.settings(cell)) << plan.name(cell);
        EXPECT_EQ(settings.train.seed, cell.seed);
        const Feature way = settings.model.task == Task::lm ? Feature::causal : Feature::bidirectional;
        for (const std::string& layer : settings.model.layers)
          EXPECT_TRUE(Mechanism::parse(layer).supports(way)) << plan.name(cell) << ": " << layer;
        if (quick && study.trials[cell.trial].kind != TrialKind::size) {
          EXPECT_LE(settings.train.steps, settings.train.minutes > 0.0 ? kNoStepLimit : 500) << plan.name(cell);
        }
      }
    }
}

TEST(Studies, PublishedValuesOfThePaper) {
  const Study& table = study_named("table-6");
  const std::size_t row = table.row_named("TransNormer T2"), column = table.column_named("Text");
  EXPECT_EQ(table.published(row, column), 0.7220);
  EXPECT_TRUE(std::isnan(table.published(row, table.column_named("acl-pairs"))));  // a stand-in has none
  EXPECT_TRUE(std::isnan(table.published(table.row_named("local only"), column)));
  EXPECT_EQ(study_named("table-7").published(10, 9), 10.16);
  EXPECT_ERROR(table.row_named("TransNormer T3"), ErrorCode::usage, "T3", "--rows", "TransNormer");
  EXPECT_ERROR(table.column_named("Txt"), ErrorCode::usage, "Txt", "--columns", "Text");
}

TEST(Studies, SettingsOfThePaper) {
  const TemporaryFolder folder;
  const StudyPlan plan({.study = "table-6", .columns = {"listops"}}, folder / "t6");
  const RunSettings run = plan.settings({plan.study().row_named("TransNormer T2"), 0, 2});
  EXPECT_EQ(run.train.steps, 50000);
  EXPECT_EQ(run.train.batch, 32);
  EXPECT_EQ(run.train.seed, 2u);
  EXPECT_EQ(run.model.width, 64);
  EXPECT_EQ(plan.cells().size(), 3 * plan.study().rows.size());
}

// Words of a row's layers are those of the column.
TEST(Studies, LayersOfARow) {
  const TemporaryFolder folder;
  put_all_sets(folder);
  const StudyPlan plan({.study = "table-8", .quick = true, .parts = true, .data = folder.path().string()},
                       folder / "t8");
  const std::vector<std::string> first = plan.settings({1, 0, 1}).model.layers,
                                 second = plan.settings({1, 1, 1}).model.layers;
  ASSERT_EQ(first.size(), 4u);
  EXPECT_NE(first[0].find("rela"), std::string::npos) << first[0];
  EXPECT_NE(second[0].find("softmax"), std::string::npos) << second[0];
  EXPECT_EQ(first[1], first[3]);
  EXPECT_NE(first[0], first[1]);
}

// Some names have commas of their own.
TEST(Studies, RowsByName) {
  using Names = std::vector<std::string>;
  const Study& halves = study_named("table-3");
  EXPECT_EQ(halves.split_rows("1 + elu, softmax"), Names{"1 + elu, softmax"});
  EXPECT_EQ(halves.split_rows("softmax, 1 + elu,1 + elu, 1 + elu"), (Names{"softmax, 1 + elu", "1 + elu, 1 + elu"}));
  EXPECT_EQ(halves.split_rows("linear*6/softmax*6"), Names{"linear*6/softmax*6"});
  EXPECT_EQ(study_named("table-1").split_rows("1 + elu,NormAttention, rotary positions,NormAttention"),
            (Names{"1 + elu", "NormAttention, rotary positions", "NormAttention"}));
  EXPECT_EQ(study_named("table-6").split_columns("text,ListOps"), (Names{"text", "ListOps"}));
  for (const Study& study : studies())
    for (std::size_t row = 0; row < study.rows.size(); ++row)
      EXPECT_EQ(study.split_rows(study.rows[row].name), Names{study.rows[row].name});
  EXPECT_ERROR(halves.split_rows("softmax,"), ErrorCode::usage, "empty", "--rows", "--rows A,B");
}

// A published row that cannot be run is shown and has no cells.
TEST(Studies, RowsThatAreMissing) {
  const TemporaryFolder folder;
  put_all_sets(folder);
  const StudyPlan plan({.study = "table-12", .parts = true, .data = folder.path().string()}, folder / "t12");
  const std::size_t row = plan.study().row_named("parallel");
  EXPECT_FALSE(plan.has(row, 0));
  EXPECT_TRUE(plan.shows(row, 0));
  for (const StudyCell& cell : plan.cells()) EXPECT_NE(cell.row, row);
  EXPECT_ERROR(StudyPlan({.study = "table-12", .parts = true, .data = folder.path().string(), .rows = {"parallel"}},
                         folder / "none"),
               ErrorCode::bad_input, "nothing of table-12 can be run", "--data", "a layer runs one mechanism");
}

TEST(Seeds, AreACountOrAList) {
  EXPECT_EQ(parse_seeds("3"), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(parse_seeds("4,7"), (std::vector<std::uint64_t>{4, 7}));
  for (const char* wrong : {"", "x", "1,x", "1,", "-1", "1.5", "3,3", "0", "99999"})
    EXPECT_ERROR(parse_seeds(wrong), ErrorCode::usage, "", "--seeds", "");
}

// Deviation over mean of 1, 2, 3, 4: sqrt(1.25) / 2.5.
TEST(GradientDeviation, IsRelativeToTheMean) {
  const TemporaryFolder folder;
  put(folder / "metrics.csv",
      "step,split,gradient_norm\n1,train,1\n2,train,2\n2,validation,\n3,train,3\n4,train,4\n5,train,inf\n");
  EXPECT_NEAR(gradient_deviation(folder.path()), std::sqrt(1.25) / 2.5, 1e-12);
  put(folder / "metrics.csv", "step,split,gradient_norm\n");
  EXPECT_TRUE(std::isnan(gradient_deviation(folder.path())));
}

}  // namespace
}  // namespace fovea
