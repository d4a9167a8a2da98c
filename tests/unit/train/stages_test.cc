#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"
#include "unit/train/rank_jobs.h"

// Training by ranks that have the layers of a model in stages, beside training by one.
namespace fovea {
namespace {

using namespace rank_jobs;

struct Way {
  int ranks;
  const char* mesh;
  std::int64_t chunks = 1;
};

// Dropout and the clipping of gradients are on. Only sums of gradients have another order.
TEST(Stages, TrainAsOneDoes) {
  for (const char* model : {"transnormer-t2", "transformer"}) {
    const Job job{.model = model, .heads = 4, .layers = 4};
    TinyRun alone(job.config, model_of(job));
    alone.go();
    for (const auto& [ranks, mesh, chunks] : std::vector<Way>{{2, "pipeline=2"},
                                                              {4, "pipeline=4"},
                                                              {2, "pipeline=2", 2},
                                                              {4, "data=2,pipeline=2"},
                                                              {4, "tensor=2,pipeline=2"},
                                                              {4, "sequence=2,pipeline=2", 2}}) {
      if (model == std::string("transformer") && chunks > 1) continue;  // the others do
      SCOPED_TRACE(std::string(model) + " on " + mesh);
      const std::vector<Seen> seen =
          train(ranks, {.model = model, .compare_every = 5, .mesh = mesh, .heads = 4, .layers = 4, .chunks = chunks});
      EXPECT_NEAR(seen[0].losses[0], alone.losses[0], 1e-6 * alone.losses[0]);
      expect_near(seen[0].losses, alone.losses, 1e-4);
      for (std::size_t i = 0; i < alone.steps.size(); ++i) {
        EXPECT_EQ(seen[0].tokens[i], alone.steps[i].tokens);
        EXPECT_NEAR(seen[0].norms[i], alone.steps[i].gradient_norm, 1e-3 * alone.steps[i].gradient_norm);
      }
      ASSERT_EQ(seen[0].validations.size(), 2u);
      EXPECT_NEAR(seen[0].validations[1], alone.evaluations[1].loss, 1e-4);
      for (const Seen& other : seen) {
        EXPECT_EQ(other.losses, seen[0].losses);
        EXPECT_EQ(other.norms, seen[0].norms);
        EXPECT_EQ(other.validations, seen[0].validations);
      }
    }
  }
}

// The whole model in files, whoever had what of it: averages and divided moments as well.
TEST(Stages, GoOnAnywhere) {
  const TemporaryFolder folder;
  const auto job = [&](const std::string& name, const Way& way) {
    Job made{.config = in_parts(folder / name), .mesh = way.mesh, .heads = 4, .layers = 4, .chunks = way.chunks};
    made.config.average = Averaging::exponential;
    made.config.average_decay = 0.5;
    return made;
  };
  const std::vector<Seen> whole = train(1, job("whole", {1, ""}));
  const Way staged{4, "data=2,pipeline=2", 2};
  const std::vector<Seen> same = train(4, job("same", staged));
  Job begin = job("run", staged), alone = job("alone", {1, ""});
  begin.stop_after = alone.stop_after = 4;
  begin.divide = dist::Divide::state;
  const std::vector<Seen> begun = train(4, begin);
  train(1, alone);
  for (const char* file : {"last/optimizer.safetensors", "last/average.safetensors", "last/model.safetensors"})
    EXPECT_EQ(read_file(folder / ("run/" + std::string(file)), 1 << 26).size(),
              read_file(folder / ("alone/" + std::string(file)), 1 << 26).size())
        << file;
  for (const char* from : {"run", "alone"})
    for (const Way& way :
         std::vector<Way>{{1, ""}, {2, "pipeline=2"}, {4, "tensor=2,pipeline=2"}, {2, "sequence=2"}, staged}) {
      SCOPED_TRACE(std::string(way.mesh) + " from " + from);
      Job rest = job(std::string(from) + " on " + way.mesh, way);
      rest.resume = folder / from;
      const std::vector<Seen> seen = train(way.ranks, rest);
      std::vector<double> losses = begun[0].losses;
      losses.insert(losses.end(), seen[0].losses.begin(), seen[0].losses.end());
      expect_near(losses, whole[0].losses, 1e-4);
      EXPECT_NEAR(seen[0].validations.back(), whole[0].validations.back(), 1e-4);
      if (from == std::string("run") && way.mesh == staged.mesh) {
        EXPECT_EQ(seen[0].parameters, same[0].parameters);  // the same bits as a run that nobody stopped
      }
    }
}

const Tensor& tokens_of(const Model& model) {
  const auto& all = model.parameters();
  return std::find_if(all.begin(), all.end(), [](const Parameter& p) { return p.name == "embedding.tokens"; })
      ->var.value();
}

// Both ends of a language model have the vectors of its tokens: the same bits after every step.
TEST(Stages, KeepTiedEmbeddingsAlike) {
  ModelConfig config = families::family("gpt", DType::f32);
  TrainConfig training = quick();
  training.accumulation = 1;
  training.clip_norm = 0.5;
  Context context({.threads = 1, .seed = 9});
  Model model(context, config);
  const std::vector<double> expected = ten_steps(context, model, training, {});
  dist::run_threads(2, [&](const dist::Group& group) {
    Context own({.threads = 1, .seed = 9});
    Model part(own, config);
    expect_near(ten_steps(own, part, training, dist::Mesh(group, {.pipeline = 2})), expected, 1e-4);
    const std::vector<float> here = tokens_of(part).to_vector<float>();
    const Tensor first = tokens_of(part).clone(own);
    group.broadcast(first, 0);
    EXPECT_EQ(first.to_vector<float>(), here);
    EXPECT_LT(testing::relative_error(tokens_of(part), tokens_of(model)), 1e-3);
  });
}

// Raises an error in the middle of a step, while others wait for rows and gradients.
class Breaks : public TapeObserver {
 public:
  void on_gradients(const Tape&, const Node&) override {
    if (++seen_ == 30) fail(ErrorCode::out_of_memory, "no room on this rank");
  }

 private:
  int seen_ = 0;
};

TEST(Stages, OneThatFailsEndsAll) {
  for (const int bad : {0, 1, 2}) {
    Breaks breaks;
    Job job{.mesh = "pipeline=3", .layers = 4};
    job.before = [&](TinyRun& run, int rank) {
      if (rank == bad) run.trainer.set_tape_observer(breaks);
    };
    EXPECT_ERROR(train(3, job), ErrorCode::out_of_memory, "no room on this rank", "", "");
  }
}

}  // namespace
}  // namespace fovea
