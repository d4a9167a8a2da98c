#include "train/profile.h"

#include <gtest/gtest.h>

#include <set>

#include "io/fields.h"
#include "support/tiny_run.h"

namespace fovea {
namespace {

using tiny::quick;
using tiny::TinyRun;

ProfileReport profiled(const ModelConfig& model, std::vector<double>* losses = nullptr) {
  TinyRun run(quick(), model);
  Profile profile(run.context);
  run.trainer.add(profile);
  run.trainer.set_tape_observer(profile);
  run.go();
  if (losses != nullptr) *losses = run.losses;
  return profile.report();
}

TEST(Profile, AddsUpToTheTimeOfTheSteps) {
  const ProfileReport report = profiled(tiny::config("transnormer-t2"));
  EXPECT_EQ(report.steps, 10);
  double rows = 0.0;
  for (const ProfileRow& row : report.rows) {
    EXPECT_GT(row.forward_seconds, 0.0) << row.place << row.operation;
    EXPECT_GE(row.backward_seconds, 0.0);
    rows += row.forward_seconds + row.backward_seconds;
  }
  EXPECT_LE(rows, report.seconds);
  EXPECT_GT(rows, 0.3 * report.seconds);  // update and input have the rest
  EXPECT_NEAR(rows + report.update_seconds + report.input_seconds, report.seconds, 1e-9 + 1e-3 * report.seconds);
}

TEST(Profile, NamesLayersAndOperations) {
  const ProfileReport report = profiled(tiny::config("transformer"));
  std::set<std::string> places;
  double memory = 0.0;
  for (const ProfileRow& row : report.rows) {
    places.insert(row.place);
    memory += row.memory;
    if (row.operation == "linear") {
      EXPECT_GT(row.backward_seconds, 0.0) << row.place;
    }
    EXPECT_EQ(row.calls % report.steps, 0) << row.place << row.operation;
  }
  for (const char* place : {"model.embedding", "model.layers[0].attention", "model.layers[1].feed_forward", "model"})
    EXPECT_TRUE(places.contains(place)) << place;
  EXPECT_GT(memory, 0.0);
}

// What is recomputed is backward's time; forward's calls and the losses stay what they were, and less is kept.
TEST(Profile, TellsRecomputedFromForward) {
  ModelConfig model = tiny::config("transformer");
  std::vector<double> plain_losses, losses;
  const ProfileReport plain = profiled(model, &plain_losses);
  model.checkpointing = true;
  const ProfileReport again = profiled(model, &losses);
  EXPECT_EQ(losses, plain_losses);
  const auto kept = [](const ProfileReport& report) {
    double bytes = 0.0;
    for (const ProfileRow& row : report.rows) bytes += row.memory;
    return bytes;
  };
  const auto calls = [](const ProfileReport& report) {
    std::map<std::string, std::int64_t> by_place;
    for (const ProfileRow& row : report.rows) by_place[row.place] += row.calls;
    return by_place;
  };
  EXPECT_EQ(calls(again), calls(plain));
  EXPECT_LT(kept(again), kept(plain));
}

TEST(Profile, GoesThroughJson) {
  ProfileReport report = profiled(tiny::config("transformer"));
  ProfileReport back;
  read_fields(back, write_fields(report), "profile");
  ASSERT_EQ(back.rows.size(), report.rows.size());
  EXPECT_EQ(back.rows.front().place, report.rows.front().place);
  EXPECT_DOUBLE_EQ(back.update_seconds, report.update_seconds);
}

}  // namespace
}  // namespace fovea
