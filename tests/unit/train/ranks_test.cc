#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "dist/mesh.h"
#include "dist/threads.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tiny_run.h"
#include "train/shared_adamw.h"

// Training by several ranks, which are threads here, beside training by one.
namespace fovea {
namespace {

using tiny::quick;
using tiny::TinyRun;

TrainConfig in_parts(const std::string& out = {}) {
  TrainConfig config = quick(out);
  config.batch = 8;
  config.accumulation = 4;
  config.clip_norm = 1.0;
  return config;
}

// What each rank saw.
struct Seen {
  std::vector<double> losses, validations, norms;
  std::vector<std::int64_t> tokens;
  std::vector<std::vector<float>> parameters;
  std::vector<std::string> checkpoints;
  StopReason reason = StopReason::steps;
};

struct Job {
  TrainConfig config = in_parts();
  std::string model = "transnormer-t2", resume = {};
  std::int64_t stop_after = -1;  // on the last rank
  bool divides_state = false;
  std::int64_t compare_every = 0;
  std::string mesh = {};
  std::function<void(TinyRun&, int rank)> before = {};
};

std::vector<Seen> train(int ranks, const Job& job) {
  std::vector<Seen> all(static_cast<std::size_t>(ranks));
  dist::run_threads(ranks, [&](const dist::Group& group) {
    TrainConfig config = job.config;
    TinyRun run(config, tiny::config(job.model));
    if (group.rank() == ranks - 1) run.stop_after = job.stop_after;
    if (job.before) job.before(run, group.rank());
    dist::MeshShape shape = dist::MeshShape::parse(job.mesh, ranks);
    shape.divides_state = job.divides_state;
    shape.compare_every = job.compare_every;
    run.trainer.set_mesh(dist::Mesh(group, shape));
    if (!job.resume.empty()) run.trainer.resume(job.resume);
    Seen& seen = all[static_cast<std::size_t>(group.rank())];
    seen.reason = run.go().reason;
    seen.losses = run.losses;
    for (const StepReport& step : run.steps) {
      seen.norms.push_back(step.gradient_norm);
      seen.tokens.push_back(step.tokens);
    }
    for (const EvalReport& report : run.evaluations) seen.validations.push_back(report.loss);
    seen.parameters = run.parameters();
    seen.checkpoints = run.checkpoints;
  });
  return all;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * std::fabs(b[i])) << i;
}

// Dropout is on. The sums of gradients have another order: 1e-5 of the loss after ten steps, and nothing in the first.
TEST(Ranks, TrainAsOneDoes) {
  for (const char* model : {"transnormer-t2", "transformer"}) {
    const Job job{.model = model};
    TinyRun alone(job.config, tiny::config(job.model));
    alone.go();
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(model) + " on " + std::to_string(ranks));
      const std::vector<Seen> seen = train(ranks, job);
      EXPECT_EQ(seen[0].losses[0], alone.losses[0]);
      expect_near(seen[0].losses, alone.losses, ranks == 1 ? 0.0 : 1e-5);
      for (std::size_t i = 0; i < alone.steps.size(); ++i) {
        EXPECT_EQ(seen[0].tokens[i], alone.steps[i].tokens);
        EXPECT_NEAR(seen[0].norms[i], alone.steps[i].gradient_norm, 1e-4 * alone.steps[i].gradient_norm);
      }
      ASSERT_EQ(seen[0].validations.size(), 2u);
      EXPECT_NEAR(seen[0].validations[1], alone.evaluations[1].loss, 1e-5);
      for (const Seen& other : seen) {
        EXPECT_EQ(other.losses, seen[0].losses);
        EXPECT_EQ(other.validations, seen[0].validations);
        EXPECT_EQ(other.parameters, seen[0].parameters);
      }
    }
  }
}

TEST(Ranks, TheFirstWritesAndAnyNumberGoesOn) {
  const TemporaryFolder folder;
  const std::vector<Seen> whole = train(4, {.config = in_parts(folder / "whole")});
  Job stopped{.config = in_parts(folder / "run"), .stop_after = 4};
  const std::vector<Seen> begun = train(4, stopped);
  for (const Seen& seen : begun) EXPECT_EQ(seen.reason, StopReason::interrupted);
  EXPECT_FALSE(begun[0].checkpoints.empty());
  EXPECT_TRUE(begun[1].checkpoints.empty());
  for (const int ranks : {4, 2, 1}) {
    SCOPED_TRACE(ranks);
    const std::string out = folder / ("on-" + std::to_string(ranks));
    const std::vector<Seen> rest = train(ranks, {.config = in_parts(out), .resume = folder / "run"});
    std::vector<double> losses = begun[0].losses;
    losses.insert(losses.end(), rest[0].losses.begin(), rest[0].losses.end());
    EXPECT_EQ(losses[4], whole[0].losses[4]);  // from the same weights, on the same examples, with the same dropout
    expect_near(losses, whole[0].losses, ranks == 4 ? 0.0 : 1e-5);
    if (ranks == 4) {
      EXPECT_EQ(rest[0].parameters, whole[0].parameters);
    }
  }
}

// Sums over rows have another order as well: f32 rounding, which ten steps make larger.
TEST(Ranks, DivideSequencesAndBatches) {
  for (const char* model : {"transnormer-t2", "transformer"}) {
    const Job job{.model = model};
    TinyRun alone(job.config, tiny::config(job.model));
    alone.go();
    for (const auto& [ranks, mesh] : std::vector<std::pair<int, const char*>>{
             {2, "sequence=2"}, {3, "sequence=3"}, {4, "sequence=4"}, {4, "data=2,sequence=2"}}) {
      SCOPED_TRACE(std::string(model) + " on " + mesh);
      const std::vector<Seen> seen = train(ranks, {.model = model, .mesh = mesh});
      EXPECT_NEAR(seen[0].losses[0], alone.losses[0], 1e-6 * alone.losses[0]);
      expect_near(seen[0].losses, alone.losses, 1e-4);
      for (std::size_t i = 0; i < alone.steps.size(); ++i) {
        EXPECT_EQ(seen[0].tokens[i], alone.steps[i].tokens);
        EXPECT_NEAR(seen[0].norms[i], alone.steps[i].gradient_norm, 1e-3 * alone.steps[i].gradient_norm);
      }
      EXPECT_NEAR(seen[0].validations[1], alone.evaluations[1].loss, 1e-4);
      for (const Seen& other : seen) {
        EXPECT_EQ(other.losses, seen[0].losses);
        EXPECT_EQ(other.validations, seen[0].validations);
        EXPECT_EQ(other.parameters, seen[0].parameters);
      }
    }
  }
}

TEST(Ranks, AnyMeshGoesOnWithARun) {
  const TemporaryFolder folder;
  const std::vector<Seen> whole = train(1, {.config = in_parts(folder / "whole")});
  const std::vector<Seen> begun =
      train(4, {.config = in_parts(folder / "run"), .stop_after = 4, .mesh = "data=2,sequence=2"});
  for (const auto& [ranks, mesh] :
       std::vector<std::pair<int, const char*>>{{2, "sequence=2"}, {2, "data=2"}, {4, "data=2,sequence=2"}, {1, ""}}) {
    SCOPED_TRACE(mesh);
    const std::vector<Seen> rest = train(
        ranks,
        {.config = in_parts(folder / ("on-" + std::to_string(ranks) + mesh)), .resume = folder / "run", .mesh = mesh});
    std::vector<double> losses = begun[0].losses;
    losses.insert(losses.end(), rest[0].losses.begin(), rest[0].losses.end());
    expect_near(losses, whole[0].losses, 1e-4);
  }
}

// Moments and weights of a number depend on no other: the same bits, also through checkpoints.
TEST(Ranks, DivideTheStateOfTheOptimiser) {
  const TemporaryFolder folder;
  const std::vector<Seen> whole = train(3, {.config = in_parts(folder / "whole")});
  const std::vector<Seen> divided = train(3, {.config = in_parts(folder / "divided"), .divides_state = true});
  for (const Seen& seen : divided) {
    EXPECT_EQ(seen.losses, whole[0].losses);
    EXPECT_EQ(seen.parameters, whole[0].parameters);
  }
  for (const char* file : {"last/optimizer.safetensors", "best/optimizer.safetensors", "last/model.safetensors"})
    EXPECT_EQ(read_file(folder / ("divided/" + std::string(file)), 1 << 26),
              read_file(folder / ("whole/" + std::string(file)), 1 << 26))
        << file;
  const std::vector<Seen> begun =
      train(3, {.config = in_parts(folder / "run"), .stop_after = 4, .divides_state = true});
  for (const bool divides : {true, false}) {
    const std::vector<Seen> rest = train(
        3, {.config = in_parts(folder / (divides ? "a" : "b")), .resume = folder / "run", .divides_state = divides});
    EXPECT_EQ(rest[0].parameters, whole[0].parameters);
  }
}

TEST(SharedAdamW, KeepsAShareOfTheState) {
  Context alone({.threads = 1, .seed = 9});
  const Model model(alone, tiny::config("transformer"));
  const SharedAdamW all(alone, model.parameters(), {});
  dist::run_threads(4, [&](const dist::Group& group) {
    Context context({.threads = 1, .seed = 9});
    const Model own(context, tiny::config("transformer"));
    SharedAdamW share(context, own.parameters(), {});
    share.divide(group);
    EXPECT_LE(static_cast<double>(share.bytes()), 0.2501 * static_cast<double>(all.bytes()));
  });
}

TEST(Ranks, ThatDifferAreFoundBeforeTheFirstStep) {
  EXPECT_ERROR(dist::run_threads(2,
                                 [](const dist::Group& group) {
                                   TrainConfig config = in_parts();
                                   if (group.rank() == 1) config.schedule.peak = 0.5;
                                   TinyRun run(config);
                                   run.trainer.set_mesh(dist::Mesh(group, dist::MeshShape::parse("", 2)));
                                 }),
               ErrorCode::usage, "the training differs: rank 1 has \"lr\": 0.5, rank 0 has \"lr\": 0.002", "all ranks",
               "the same command");
  Job job;
  job.before = [](TinyRun& run, int rank) {
    if (rank == 1) run.model.parameters()[0].var.value().select(0, 0).fill(0.25);
  };
  EXPECT_ERROR(train(2, job), ErrorCode::internal, "the weights after step 0 are not those of rank 0 on rank 1",
               "all ranks", "checkpoint");
}

// Spoils a weight on its rank, as a machine that computes wrongly would.
class Spoils : public TrainObserver {
 public:
  explicit Spoils(const Model& model) : model_(&model) {}
  void on_step(const StepReport& report) override {
    if (report.step == 3) model_->parameters()[1].var.value().select(0, 0).fill(0.125);
  }

 private:
  const Model* model_;
};

TEST(Ranks, WeightsThatBecomeDifferentEndTheRun) {
  std::optional<Spoils> spoils;
  Job job;
  job.compare_every = 2;
  job.before = [&](TinyRun& run, int rank) {
    if (rank == 1) run.trainer.add(spoils.emplace(run.model));
  };
  EXPECT_ERROR(train(2, job), ErrorCode::internal, "the weights after step 4 are not those of rank 0 on rank 1",
               "all ranks", "checkpoint");
}

TEST(Ranks, MoreThanPartsAreRefused) {
  EXPECT_ERROR(train(5, {}), ErrorCode::usage, "5 ranks share 4 parts of a batch", "train.accumulation", "=5");
}

// Raises an error in the middle of backward, when some of the buckets have gone.
class Breaks : public TapeObserver {
 public:
  void on_complete(const Tape&, const std::shared_ptr<Slot>&) override {
    if (++complete_ == 10) fail(ErrorCode::out_of_memory, "no room on this rank");
  }

 private:
  int complete_ = 0;
};

TEST(Ranks, OneThatFailsEndsAll) {
  Breaks breaks;
  Job job;
  job.before = [&](TinyRun& run, int rank) {
    if (rank == 2) run.trainer.set_tape_observer(breaks);
  };
  EXPECT_ERROR(train(3, job), ErrorCode::out_of_memory, "no room on this rank", "", "");
}

}  // namespace
}  // namespace fovea
