#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>

#include "models/mesh.h"
#include "models/weight_shares.h"
#include "parallel/cut.h"
#include "support/expect_error.h"
#include "support/families.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"
#include "train/gradient_shares.h"
#include "train/shared_adamw.h"
#include "train/stepper.h"
#include "unit/train/rank_jobs.h"

// Training by several ranks, which are threads here, beside training by one.
namespace fovea {
namespace {

using namespace rank_jobs;

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

// Heads, columns and tokens of the weights are divided: sums over ranks have another order, as above.
TEST(Ranks, ShareWeights) {
  for (const char* model : {"transnormer-t2", "transnormer-t1", "transformer"}) {
    const Job job{.model = model, .heads = 4};
    TinyRun alone(job.config, model_of(job));
    alone.go();
    for (const auto& [ranks, mesh] : std::vector<std::pair<int, const char*>>{
             {2, "tensor=2"}, {4, "tensor=4"}, {4, "data=2,tensor=2"}, {4, "sequence=2,tensor=2"}}) {
      SCOPED_TRACE(std::string(model) + " on " + mesh);
      const std::vector<Seen> seen = train(ranks, {.model = model, .mesh = mesh, .heads = 4});
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
      }
    }
  }
}

// Files have whole weights, whoever wrote them: averages and divided moments as well.
TEST(Ranks, SharedWeightsGoOnAnywhere) {
  const TemporaryFolder folder;
  const auto config = [&](const std::string& name) {
    TrainConfig config = in_parts(folder / name);
    config.average = Averaging::exponential;
    config.average_decay = 0.5;
    return config;
  };
  const auto job = [&](const std::string& name, const char* mesh) {
    return Job{.config = config(name), .mesh = mesh, .heads = 4};
  };
  const std::vector<Seen> whole = train(1, job("whole", ""));
  const std::vector<Seen> same = train(4, job("same", "data=2,tensor=2"));
  Job begin = job("run", "data=2,tensor=2");
  begin.stop_after = 4;
  begin.divide = dist::Divide::state;
  const std::vector<Seen> begun = train(4, begin);
  Job alone = job("alone", "");
  alone.stop_after = 4;
  train(1, alone);
  for (const char* from : {"run", "alone"})
    for (const auto& [ranks, mesh] : std::vector<std::pair<int, const char*>>{
             {1, ""}, {2, "tensor=2"}, {2, "sequence=2"}, {4, "data=2,tensor=2"}, {4, "tensor=4"}}) {
      SCOPED_TRACE(std::string(mesh) + " from " + from);
      Job rest = job(std::string(from) + " on " + mesh, mesh);
      rest.resume = folder / from;
      const std::vector<Seen> seen = train(ranks, rest);
      std::vector<double> losses = begun[0].losses;
      losses.insert(losses.end(), seen[0].losses.begin(), seen[0].losses.end());
      expect_near(losses, whole[0].losses, 1e-4);
      EXPECT_NEAR(seen[0].validations.back(), whole[0].validations.back(), 1e-4);
      if (from == std::string("run") && mesh == std::string("data=2,tensor=2")) {
        EXPECT_EQ(seen[0].parameters, same[0].parameters);  // the same bits as a run that nobody stopped
      }
    }
}

// Ten steps of every kind of token model, and what became of each weight.
TEST(Ranks, ShareWeightsOfModelsOfTokens) {
  for (const char* name : {"gpt", "llama", "transnormer-t2-lm", "roberta", "seq2seq", "t5"}) {
    ModelConfig config = families::family(name, DType::f32);
    config.dropout = config.inner_dropout = config.attention_dropout = name == std::string("llama") ? 0.0 : 0.1;
    TrainConfig training = quick();
    training.accumulation = 1;
    training.clip_norm = 1.0;
    Context context({.threads = 1, .seed = 9});
    Model model(context, config);
    const std::vector<double> expected = ten_steps(context, model, training, {});
    dist::run_threads(2, [&](const dist::Group& group) {
      SCOPED_TRACE(name);
      Context own({.threads = 1, .seed = 9});
      Model part(own, config);
      const dist::Mesh mesh(group, {.tensor = 2});
      expect_near(ten_steps(own, part, training, mesh), expected, 1e-4);
      for (std::size_t i = 0; i < part.parameters().size(); ++i) {
        const Parameter& p = part.parameters()[i];
        const Tensor all = divided::whole_of(own, p.var.value(), p.cut, mesh.tensor);
        EXPECT_LT(testing::relative_error(all, model.parameters()[i].var.value()), 0.02) << p.name;
      }
    });
  }
}

// Moments and weights of a number depend on no other: the same bits, also through checkpoints.
TEST(Ranks, DivideTheStateOfTheOptimiser) {
  const TemporaryFolder folder;
  const std::vector<Seen> whole = train(3, {.config = in_parts(folder / "whole")});
  const std::vector<Seen> divided = train(3, {.config = in_parts(folder / "divided"), .divide = dist::Divide::state});
  for (const Seen& seen : divided) {
    EXPECT_EQ(seen.losses, whole[0].losses);
    EXPECT_EQ(seen.parameters, whole[0].parameters);
  }
  for (const char* file : {"last/optimizer.safetensors", "best/optimizer.safetensors", "last/model.safetensors"})
    EXPECT_EQ(read_file(folder / ("divided/" + std::string(file)), 1 << 26),
              read_file(folder / ("whole/" + std::string(file)), 1 << 26))
        << file;
  const std::vector<Seen> begun =
      train(3, {.config = in_parts(folder / "run"), .stop_after = 4, .divide = dist::Divide::state});
  for (const bool divides : {true, false}) {
    const std::vector<Seen> rest = train(3, {.config = in_parts(folder / (divides ? "a" : "b")),
                                             .resume = folder / "run",
                                             .divide = divides ? dist::Divide::state : dist::Divide::nothing});
    EXPECT_EQ(rest[0].parameters, whole[0].parameters);
  }
}

// The same sums, of which each rank keeps a share: the same bits, where each rank has one part of a batch.
TEST(Ranks, DivideTheGradients) {
  const TemporaryFolder folder;
  const auto config = [&](const char* name, double clip) {
    TrainConfig made = in_parts(folder / name);
    made.clip_norm = clip;
    return made;
  };
  const std::vector<Seen> whole = train(4, {.config = config("whole", 0.0)});
  const std::vector<Seen> divided =
      train(4, {.config = config("divided", 0.0), .divide = dist::Divide::gradients, .compare_every = 3});
  for (const Seen& seen : divided) {
    EXPECT_EQ(seen.losses, whole[0].losses);
    EXPECT_EQ(seen.parameters, whole[0].parameters);
  }
  for (const char* file : {"last/optimizer.safetensors", "last/model.safetensors"})
    EXPECT_EQ(read_file(folder / ("divided/" + std::string(file)), 1 << 26),
              read_file(folder / ("whole/" + std::string(file)), 1 << 26))
        << file;
  const std::vector<Seen> clipped = train(1, {.config = config("clipped", 1.0)});
  for (const auto& [ranks, mesh] : std::vector<std::pair<int, const char*>>{{3, "data=3"}, {4, "data=2,sequence=2"}}) {
    SCOPED_TRACE(mesh);  // some ranks have two parts, and some one
    const std::vector<Seen> seen =
        train(ranks, {.config = config(mesh, 1.0), .divide = dist::Divide::gradients, .mesh = mesh});
    expect_near(seen[0].losses, clipped[0].losses, 1e-4);
    for (std::size_t i = 0; i < clipped[0].norms.size(); ++i)
      EXPECT_NEAR(seen[0].norms[i], clipped[0].norms[i], 1e-3 * clipped[0].norms[i]);
    for (const Seen& other : seen) EXPECT_EQ(other.parameters, seen[0].parameters);
  }
  Job resumed{.config = config("resumed", 0.0), .resume = folder / "divided"};
  resumed.config.steps = 12;
  EXPECT_EQ(train(2, resumed)[0].losses.size(), 2u);
}

TEST(Ranks, DivideGradientsOfWholeModelsAlone) {
  for (const char* axis : {"tensor", "pipeline"})
    EXPECT_ERROR(train(2, {.divide = dist::Divide::gradients, .mesh = std::string(axis) + "=2"}),
                 ErrorCode::unsupported, "ranks that have all weights", axis, "--divide state");
  EXPECT_ERROR(train(4, {.divide = dist::Divide::weights, .mesh = "data=2,tensor=2"}), ErrorCode::unsupported,
               "among ranks that have all of them", "divided weights x tensor", "--divide gradients");
}

// Weights are whole while their layer is used: the same bits as ranks that have all of them.
TEST(Ranks, DivideTheWeights) {
  const TemporaryFolder folder;
  const auto config = [&](const char* name) {
    TrainConfig made = in_parts(folder / name);
    made.clip_norm = 0.0;
    return made;
  };
  const std::vector<Seen> whole = train(4, {.config = config("whole")});
  const std::vector<Seen> divided =
      train(4, {.config = config("divided"), .divide = dist::Divide::weights, .compare_every = 3});
  for (const Seen& seen : divided) {
    EXPECT_EQ(seen.losses, whole[0].losses);
    EXPECT_EQ(seen.validations, whole[0].validations);
    EXPECT_EQ(seen.parameters, whole[0].parameters);
  }
  for (const char* file : {"last/optimizer.safetensors", "last/model.safetensors", "best/model.safetensors"})
    EXPECT_EQ(read_file(folder / ("divided/" + std::string(file)), 1 << 26),
              read_file(folder / ("whole/" + std::string(file)), 1 << 26))
        << file;
  Job begin{.config = config("run"), .stop_after = 4, .divide = dist::Divide::weights};
  train(4, begin);
  for (const auto divide : {dist::Divide::weights, dist::Divide::nothing}) {
    Job rest{
        .config = config(divide == dist::Divide::nothing ? "on" : "off"), .resume = folder / "run", .divide = divide};
    EXPECT_EQ(train(4, rest)[0].parameters, whole[0].parameters);
  }
  EXPECT_ERROR(train(3, {.divide = dist::Divide::weights}), ErrorCode::usage,
               "4 parts of a batch are not as many for each of 3 ranks", "train.accumulation", "multiple");
  Job average{.divide = dist::Divide::weights};
  average.config.average = Averaging::mean;
  EXPECT_ERROR(train(2, average), ErrorCode::unsupported, "averages are of whole weights", "average x divided weights",
               "--divide gradients");
}

TEST(WeightShares, AreWholeOneLayerAtATime) {
  dist::run_threads(4, [](const dist::Group& group) {
    ModelConfig config = families::family("gpt", DType::f32);
    config.layers.resize(8, config.layers.back());
    config.checkpointing = true;
    Context context({.threads = 1, .seed = 9});
    Model model(context, config);
    const dist::Mesh mesh(group, {.data = 4, .divide = dist::Divide::weights});
    set_mesh(model, mesh);
    TrainConfig training = quick();
    training.accumulation = 4;
    training.batch = 4;
    Stepper stepper(context, model, training, RecordedSteps::When::never);
    stepper.set_mesh(mesh);
    WeightShares& shares = *weight_shares_of(model);
    const auto layers = static_cast<double>(shares.whole_bytes());
    EXPECT_LE(static_cast<double>(shares.share_bytes()), 0.2501 * layers + 64);
    shares.close_all();
    for (std::int64_t step = 1; step <= 2; ++step) {
      const Batch batch = families::random_batch(context, config, 1);
      StepReport report;
      report.step = step;
      stepper.step(std::span(&batch, 1), 1e-3, report);
    }
    EXPECT_EQ(shares.whole_bytes(), 0u);
    EXPECT_LE(static_cast<double>(shares.most()), layers / 8 + 1);
  });
}

// A weight that no part of the batch reached is left alone, as one rank leaves it.
TEST(GradientShares, KeepAShareAndNothingElse) {
  dist::run_threads(4, [&](const dist::Group& group) {
    Context context({.threads = 1, .seed = 9});
    const Model model(context, tiny::config("transformer"));
    SharedAdamW adamw(context, model.parameters(), {});
    adamw.divide(group, true);
    GradientShares shares(context, adamw, group);
    EXPECT_LE(static_cast<double>(shares.bytes()), 0.2501 * 4.0 * static_cast<double>(model.parameter_count()));
    std::int64_t of = 0;
    for (int part = 0; part < 2; ++part) {
      const auto& all = model.parameters();
      for (std::size_t i = 1; i < all.size(); ++i) {
        const Tensor gradient = Tensor::empty(context, all[i].var.shape());
        gradient.fill(static_cast<double>(1 + group.rank()));
        all[i].var.slot()->grad = gradient;
      }
      shares.end_part(part == 1);
    }
    shares.finish(3);
    for (const Parameter& p : model.parameters()) EXPECT_FALSE(p.var.grad().defined());
    for (const Parameter& p : adamw.held()) {
      if (p.name == model.parameters()[0].name) {
        EXPECT_FALSE(p.var.grad().defined());
        continue;
      }
      for (const double g : p.var.grad().to_vector<double>()) EXPECT_EQ(g, 2.0 * (1 + 2 + 3 + 4));
      ++of;
    }
    EXPECT_GT(of, 0);
  });
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
               "same layers", "checkpoint");
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
               "same layers", "checkpoint");
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
