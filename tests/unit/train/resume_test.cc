#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/safetensors.h"
#include "io/csv.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tiny_run.h"

namespace fovea {
namespace {

using tiny::quick;
using tiny::TinyRun;

std::vector<std::string> text_of(const CsvTable& table, std::string_view column) {
  const auto at =
      static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), column) - table.columns.begin());
  std::vector<std::string> texts;
  for (const std::vector<std::string>& row : table.rows) texts.push_back(row.at(at));
  return texts;
}

// Ten steps at once against five, a new process' worth of objects, and five more. Dropout is on.
void expect_same_as_uninterrupted(const ModelConfig& model, Averaging average = Averaging::none) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "straight");
  config.accumulation = 2;
  config.average = average;
  TinyRun straight(config, model);
  straight.go();

  config.out = folder / "pieces";
  TinyRun first(config, model);
  first.stop_after = 5;
  const TrainResult stopped = first.go();
  EXPECT_EQ(stopped.reason, StopReason::interrupted);
  EXPECT_EQ(stopped.steps, 5);

  const RunConfig stored = load_run_config(stopped.resume_from);
  TinyRun second(stored.train, stored.model);
  second.trainer.resume(folder / "pieces");
  const TrainResult result = second.go();
  EXPECT_EQ(result.steps, 10);

  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, straight.losses);
  EXPECT_EQ(second.parameters(), straight.parameters());
  for (const char* file : {"last/model.safetensors", "last/optimizer.safetensors"})
    EXPECT_EQ(get(folder / "pieces" / file), get(folder / "straight" / file)) << file;
  // A row of means over steps before and after the stop is the same as well.
  for (const char* column : {"step", "loss", "gradient_norm"})
    EXPECT_EQ(text_of(read_csv(folder / "pieces/metrics.csv"), column),
              text_of(read_csv(folder / "straight/metrics.csv"), column));
  // The evaluation due at step 5 was cut short by the stop and made after the resume.
  ASSERT_EQ(second.evaluations.size(), 2u);
  EXPECT_EQ(second.evaluations[0].loss, straight.evaluations[0].loss);
}

TEST(Resume, ContinuesATransformerBitForBit) { expect_same_as_uninterrupted(tiny::config("transformer")); }
TEST(Resume, ContinuesTransNormerT1BitForBit) { expect_same_as_uninterrupted(tiny::config("transnormer-t1")); }
TEST(Resume, ContinuesTransNormerT2BitForBit) { expect_same_as_uninterrupted(tiny::config("transnormer-t2")); }

// Stopped in an evaluation, and again in the same one when it is made up for: it is not lost.
TEST(Resume, AnEvaluationThatIsStoppedTwiceIsMade) {
  struct StopsInIt final : TrainObserver {
    explicit StopsInIt(std::atomic<bool>& stop) : stop(stop) {}
    void on_eval_progress(std::int64_t done, std::int64_t all) override { stop = stop || done < all; }
    std::atomic<bool>& stop;
  };
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.eval_batch = 2;
  for (int attempt = 0; attempt < 2; ++attempt) {
    TinyRun run(config);
    StopsInIt stops(run.stop);
    run.trainer.add(stops);
    if (attempt > 0) run.trainer.resume(folder / "run");
    const TrainResult result = run.go();
    EXPECT_EQ(result.reason, StopReason::interrupted);
    EXPECT_EQ(result.steps, 5);
    EXPECT_TRUE(run.evaluations.empty());
  }
  TinyRun last(config);
  last.trainer.resume(folder / "run");
  EXPECT_EQ(last.go().steps, 10);
  ASSERT_EQ(last.evaluations.size(), 2u);
  EXPECT_EQ(last.evaluations[0].step, 5);
}

// The loss scale, halved by the first steps, is part of the state.
TEST(Resume, ContinuesF16BitForBit) {
  ModelConfig model = tiny::config("transformer");
  model.dtype = DType::f16;
  expect_same_as_uninterrupted(model);
}

TEST(Resume, ContinuesAnAverageBitForBit) {
  expect_same_as_uninterrupted(tiny::config("norm*1"), Averaging::exponential);
  expect_same_as_uninterrupted(tiny::config("norm*1"), Averaging::mean);
}

// A best checkpoint holds the average as its model; a run that continues from it has the parameters again.
TEST(Resume, FromABestCheckpointWithAnAverage) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.average = Averaging::exponential;
  config.eval_every = 10;  // at the end only: the best state is the last one
  TinyRun first(config);
  first.go();
  config.out = {};
  TinyRun second(config);
  second.trainer.resume(folder / "run/best");
  EXPECT_EQ(second.parameters(), first.parameters());
}

TEST(Resume, FromTheBestCheckpointToo) {
  const TemporaryFolder folder;
  TinyRun first(quick(folder / "run"));
  const TrainResult result = first.go();
  TrainConfig config = quick(folder / "other");
  config.steps = 12;
  TinyRun second(config);
  second.trainer.resume(folder / "run/best");
  EXPECT_EQ(second.go().steps, 12);
  EXPECT_EQ(std::ssize(second.losses), 12 - result.best.step);
}

double sum_of(const std::vector<ZoneTime>& zones) {
  double sum = 0.0;
  for (const ZoneTime& zone : zones) sum += zone.seconds;
  return sum;
}

// What was measured before the stop counts, even where nothing is left to do.
TEST(Resume, KeepsWhatWasMeasured) {
  const TemporaryFolder folder;
  const TrainConfig config = quick(folder / "run");
  TinyRun first(config);
  const TrainResult before = first.go();
  EXPECT_GT(before.tokens, 0);
  TinyRun second(config);
  EXPECT_FALSE(second.trainer.finished());
  second.trainer.resume(folder / "run");
  EXPECT_TRUE(second.trainer.finished());
  const TrainResult after = second.go();
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.steps, before.steps);
  EXPECT_GE(after.peak_memory, before.peak_memory);
  EXPECT_GT(before.peak_memory, second.context.allocator()->total().peak);
  EXPECT_DOUBLE_EQ(sum_of(after.zones), sum_of(before.zones));
  EXPECT_EQ(after.train_seconds, before.train_seconds);
}

// Killed before the first checkpoint: begun anew, with the rows of the first try dropped.
TEST(Resume, BeginsAgainWhereNothingWasSaved) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  TinyRun(config).go();
  for (const char* name : {"last", "best"}) std::filesystem::remove_all(folder / "run" / name);
  TinyRun again(config);
  again.trainer.resume(folder / "run");
  EXPECT_EQ(again.go().steps, 10);
  EXPECT_EQ(read_csv(folder / "run/metrics.csv").rows.size(), 7u);  // 5 of training, 2 evaluations
  config.out = folder / "nowhere";
  TinyRun none(config);
  EXPECT_THROW(none.trainer.resume(folder / "nowhere"), Error);
}

TEST(Checkpoints, AreMadeByTimeToo) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.eval_every = 0;
  TinyRun rare(config);
  rare.go();
  EXPECT_EQ(rare.checkpoints, (std::vector<std::string>{"best", "last"}));
  config.out = folder / "often";
  config.checkpoint_minutes = 1e-9;
  TinyRun often(config);
  often.go();
  EXPECT_EQ(std::count(often.checkpoints.begin(), often.checkpoints.end(), "last"), 11);
}

TEST(Checkpoints, SomeOfThemAreKept) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.checkpoint_every = 2;
  config.keep = 3;
  TinyRun(config).go();
  for (const char* name : {"step-6", "step-8", "last"})
    EXPECT_TRUE(std::filesystem::exists(folder / "run" / name)) << name;
  for (const char* name : {"step-4", "step-10"}) EXPECT_FALSE(std::filesystem::exists(folder / "run" / name)) << name;
  TinyRun second(config);
  second.trainer.resume(folder / "run/step-6");
  EXPECT_EQ(second.go().steps, 10);
  EXPECT_EQ(second.losses.size(), 4u);
}

TEST(Checkpoints, OneTrainerAtATimeWritesThem) {
  const TemporaryFolder folder;
  TinyRun first(quick(folder / "run")), second(quick(folder / "run"));
  first.trainer.claim();
  EXPECT_ERROR(second.go(), ErrorCode::usage, "process", "run", "Ctrl-C");
  EXPECT_ERROR(second.trainer.resume(folder / "run"), ErrorCode::usage, "process", "run", "");
  first.go();
  second.trainer.resume(folder / "run");
}

class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() {
    TrainConfig config = quick(folder_ / "run");
    config.steps = 2;
    TinyRun(config, tiny::config("transformer")).go();
  }
  // Tries to resume and expects that it fails with nothing changed.
  void expect_refused(TinyRun& run, const char* message, const char* where) {
    const auto before = run.parameters();
    EXPECT_ERROR(run.trainer.resume(last_), ErrorCode::bad_input, message, where, "");
    EXPECT_EQ(run.parameters(), before);
  }

  TemporaryFolder folder_;
  Path last_ = folder_ / "run/last";
};

TEST_F(BadCheckpoint, OfAnotherArchitecture) {
  TinyRun other(quick(), tiny::config("diag/softmax"));  // the same shapes
  expect_refused(other, "layers", "config.json");
  ModelConfig wider = tiny::config("transformer");
  wider.inner = 130;
  TinyRun wide(quick(), wider);
  expect_refused(wide, "inner = 128", "config.json");
}

TEST_F(BadCheckpoint, WithTensorsThatItsConfigDoesNotDescribe) {
  Context context({.seed = 9});
  ModelConfig wider = tiny::config("transformer");
  wider.inner = 130;
  save_model(Model(context, wider), folder_ / "wide");
  std::filesystem::copy_file(folder_ / "wide/model.safetensors", last_ / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  TinyRun run(quick(), tiny::config("transformer"));
  expect_refused(run, "feed_forward.in.weight", "model.safetensors");
  EXPECT_ERROR(load_model(context, last_), ErrorCode::bad_input, "(64, 130) in the file", "model.safetensors", "");
}

TEST_F(BadCheckpoint, OfAnotherSeedOrOtherData) {
  TrainConfig config = quick();
  config.seed = 10;
  TinyRun seeded(config, tiny::config("transformer"));
  expect_refused(seeded, "seed 9, not 10", "state.json");
  TinyRun run(quick(), tiny::config("transformer"));
  std::vector<Example> changed = labelled_examples(*run.data.train);
  changed[3].tokens[0] ^= 1;
  run.data.train = labelled_split(changed);
  Trainer trainer(run.context, run.model, run.data, quick());
  EXPECT_ERROR(trainer.resume(last_), ErrorCode::bad_input, "trained on tiny", "state.json", "");
}

TEST_F(BadCheckpoint, WithAFileMissing) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"}) {
    const std::string kept = get(last_ / name);
    std::filesystem::remove(last_ / name);
    TinyRun run(quick(), tiny::config("transformer"));
    const auto before = run.parameters();
    EXPECT_THROW(run.trainer.resume(last_), Error) << name;
    EXPECT_EQ(run.parameters(), before);
    put(last_ / name, kept);
  }
}

void flip_last_exponent(const Path& file) {
  std::string bytes = get(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 0x40);
  put(file, bytes);
}

// One bit of an exponent: still finite, still a number.
TEST_F(BadCheckpoint, WithOneBitFlipped) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string kept = get(last_ / name);
    flip_last_exponent(last_ / name);
    TinyRun run(quick(), tiny::config("transformer"));
    expect_refused(run, "damaged: \"", name);
    put(last_ / name, kept);
  }
  put(last_ / "state.json", get(last_ / "state.json") + " ");
  TinyRun run(quick(), tiny::config("transformer"));
  expect_refused(run, "damaged", "state.json");
}

TEST_F(BadCheckpoint, IsFollowedByAGoodOne) {
  TrainConfig config = quick(folder_ / "more");
  config.checkpoint_every = 2;
  TinyRun(config, tiny::config("transformer")).go();
  flip_last_exponent(folder_ / "more/last/model.safetensors");
  TinyRun run(config, tiny::config("transformer"));
  EXPECT_ERROR(run.trainer.resume(folder_ / "more"), ErrorCode::bad_input, "damaged", "last", "more/step-8");
  flip_last_exponent(folder_ / "more/step-8/model.safetensors");
  EXPECT_ERROR(run.trainer.resume(folder_ / "more"), ErrorCode::bad_input, "damaged", "last", "more/best");
}

TEST_F(BadCheckpoint, WithNumbersThatAreNotFinite) {
  TinyRun run(quick(), tiny::config("transformer"));
  std::vector<NamedTensor> tensors;
  for (const Parameter& p : run.model.parameters()) tensors.push_back({p.name, p.var.value()});
  const auto before = run.parameters();
  tensors[3].tensor.fill(std::nan(""));
  write_safetensors((last_ / "model.safetensors").string(), tensors);
  std::filesystem::remove(last_ / "checksums.json");
  tensors[3].tensor.fill(0.0);
  EXPECT_ERROR(run.trainer.resume(last_), ErrorCode::bad_input, tensors[3].name, "model.safetensors", "");
  EXPECT_ERROR(load_model(run.context, last_), ErrorCode::bad_input, "not finite", "model.safetensors", "");
}

TEST_F(BadCheckpoint, IsNotWritten) {
  TrainConfig config = quick(folder_ / "new");
  config.steps = 1;
  TinyRun run(config, tiny::config("transformer"));
  run.stop = true;
  run.model.parameters()[0].var.value().fill(INFINITY);
  EXPECT_ERROR(run.go(), ErrorCode::diverged, run.model.parameters()[0].name, "step 0", "train.lr");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new/last"));
}

TEST_F(BadCheckpoint, CutOffAnywhere) {
  TinyRun run(quick(), tiny::config("transformer"));
  const auto before = run.parameters();
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"}) {
    const std::string kept = get(last_ / name);
    for (std::size_t part = 0; part < 16; ++part) {
      put(last_ / name, kept.substr(0, kept.size() * part / 16));
      EXPECT_THROW(run.trainer.resume(last_), Error) << name << " " << part;
    }
    put(last_ / name, kept);
  }
  EXPECT_EQ(run.parameters(), before);
  run.trainer.resume(last_);  // whole again
  EXPECT_NE(run.parameters(), before);
}

TEST_F(BadCheckpoint, ThatDoesNotExist) {
  TinyRun run(quick(), tiny::config("transformer"));
  EXPECT_THROW(run.trainer.resume(folder_ / "nowhere"), Error);
  EXPECT_THROW(load_run_config(folder_ / "nowhere"), Error);
}

TEST(SaveModel, RoundTrips) {
  const TemporaryFolder folder;
  TinyRun run(quick());
  save_model(run.model, folder / "model");
  Context other({.seed = 77});
  const Model loaded = load_model(other, folder / "model");
  EXPECT_EQ(loaded.config().layers, run.model.config().layers);
  ASSERT_EQ(loaded.parameters().size(), run.model.parameters().size());
  for (std::size_t i = 0; i < loaded.parameters().size(); ++i)
    EXPECT_EQ(loaded.parameters()[i].var.value().to_vector<float>(), run.parameters()[i]);
  EXPECT_EQ(evaluate(other, loaded, *run.data.validation).loss,
            evaluate(run.context, run.model, *run.data.validation).loss);
}

}  // namespace
}  // namespace fovea
