#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "fovea/data.h"
#include "fovea/train.h"
#include "io/fields.h"
#include "io/file.h"

namespace fovea::cli {

// Everything that decides a run: the file given with --config, and run.json in the folder of a run.
struct RunSettings {
  std::string preset;     // what `model` starts from ("gpt"); empty: told by `attention`
  std::string attention;  // the mechanism of its layers; without a preset also the name of one
  ModelConfig model;
  TrainConfig train;
  DataSettings data;
  bool keep_train =
      false;  // `train` is what the command chose, not to be replaced by what suits the model; not in files

  std::string name() const;  // "gpt", "gpt norm", "transnormer-t2"
  void fields(FieldVisitor& v);
};

// The examples as the model of the run reads them. The tokeniser in the folder, where it has one, is used again.
Dataset load_data(const Context& context, const RunSettings& settings, const Path& folder, const Console& console);

// Steps of a run that only the clock ends.
inline constexpr std::int64_t kNoStepLimit = 1'000'000'000;

// The options of a run that have a name of their own on the command line; the rest is --set.
struct RunOptions {
  MachineOptions machine;
  std::string config;
  std::vector<std::string> set;
  std::optional<std::string> model, attention, data, out, dtype;
  std::optional<std::int64_t> steps, batch;
  std::optional<double> minutes, lr;
  std::optional<std::uint64_t> seed;
};
void add_run_options(const Arguments& verb, RunOptions& options);

// `start`, changed by the config file, then by --set, then by the options that have a name. Where nothing names a
// model, the data's usual task chooses it.
RunSettings resolve(const RunSettings& start, const RunOptions& options);

// Fills in what the data set decides and checks the rest.
void fit_to_data(RunSettings& settings, const Dataset& data);

}  // namespace fovea::cli
