#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "data/labelled.h"
#include "fovea/data.h"
#include "fovea/train.h"
#include "io/fields.h"

namespace fovea::cli {

// Where examples come from.
struct DataSettings {
  std::string source = "listops";  // the generator, or a folder with train, validation and test files
  std::int64_t train = 96000, validation = 2000, test = 2000;  // of each, at most
  std::uint64_t seed = 0;                                      // of the generator

  void fields(FieldVisitor& v);
};
LabelledData load_listops(const Context& context, const DataSettings& settings, const Console& console);
Dataset load_data(const Context& context, const DataSettings& settings, const Console& console);

// Everything that decides a run: the file given with --config, and run.json in the folder of a run.
struct RunSettings {
  std::string attention = "transnormer-t2";  // the preset that `model` starts from
  ModelConfig model;
  TrainConfig train;
  DataSettings data;

  void fields(FieldVisitor& v);
};

// Steps of a run that only the clock ends.
inline constexpr std::int64_t kNoStepLimit = 1'000'000'000;

// The options of a run that have a name of their own on the command line; the rest is --set.
struct RunOptions {
  MachineOptions machine;
  std::string config;
  std::vector<std::string> set;
  std::optional<std::string> data, out, dtype;
  std::optional<std::int64_t> steps, batch;
  std::optional<double> minutes, lr;
  std::optional<std::uint64_t> seed;
};
void add_run_options(const Arguments& verb, RunOptions& options);

// `start`, changed by the config file, then by --set, then by the options that have a name.
RunSettings resolve(const RunSettings& start, const RunOptions& options, const std::optional<std::string>& attention);

// Fills in what the data set decides and checks the rest.
void fit_to_data(ModelConfig& model, const Dataset& data);

}  // namespace fovea::cli
