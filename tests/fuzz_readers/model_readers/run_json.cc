#include "fovea/train.h"
#include "fuzz_readers/harness.h"
#include "io/fields.h"
#include "train/checkpoint.h"

namespace fovea::fuzz {
namespace {

// As the program's run.json has them.
struct Run {
  std::string preset, attention;
  ModelConfig model;
  TrainConfig train;
  DataSettings data;

  void fields(FieldVisitor& v) {
    v("preset", preset, "");
    v("attention", attention, "");
    v("model", model, "");
    v("train", train, "");
    v("data", data, "");
  }
};

// run.json and the state.json of a checkpoint.
void try_run_json(const Input& input) {
  const auto parts = input.parts(2);
  const Run run = load_fields<Run>(input.put("run.json", parts[0]));
  write_fields(run);
  load_fields<TrainState>(input.put("state.json", parts[1]));
}

const Known kRunJson({"run_json", try_run_json});

}  // namespace
}  // namespace fovea::fuzz
