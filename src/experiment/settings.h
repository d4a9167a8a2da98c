#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/observer.h"
#include "fovea/data.h"
#include "fovea/dtype.h"
#include "fovea/train.h"
#include "io/fields.h"
#include "io/file.h"

namespace fovea {

// Everything that decides a run: the file given with --config, and run.json in the folder of a run.
struct RunSettings {
  std::string preset;     // what `model` starts from ("gpt"); empty: told by `attention` or `from`
  std::string attention;  // the mechanism of its layers; without a preset also the name of one
  std::string from;       // folder of a model whose weights the run begins with; empty: drawn ones
  ModelConfig model;
  TrainConfig train;
  DataSettings data;

  std::string name() const;  // "gpt", "gpt norm", "transnormer-t2"; of a run that goes on from "minilm": "minilm"
  void fields(FieldVisitor& v);
};

// Steps of a run that only the clock ends.
inline constexpr std::int64_t kNoStepLimit = 1'000'000'000;

// What a new run starts from.
struct Protocol {
  DataSettings data = {};
  std::optional<TrainConfig> train = {};  // none: what usually suits the model
  std::vector<std::string> set = {};      // changes of the model, as RunChoices has them; a config file decides itself
  std::int64_t depth = 0;                 // layers, the preset's drawn out; 0: as many as it has
  std::optional<Task> task = {};          // what models are asked; none: what is usual for the data
};

// What is chosen for a run: a config file, then single settings, then those that have a name of their own.
struct RunChoices {
  std::string config = {};            // JSON file as run.json; empty: none
  std::vector<std::string> set = {};  // "train.warmup=200"
  std::optional<std::string> model = {}, attention = {}, from = {}, data = {}, out = {};
  std::optional<DType> dtype = {};
  std::optional<std::int64_t> steps = {}, tokens = {}, batch = {};
  std::optional<std::int64_t> lora = {};  // rank of adapters, which alone are trained
  std::vector<std::string> freeze = {};   // parts that are not trained
  std::optional<double> minutes = {}, lr = {};
  std::optional<std::uint64_t> seed = {};
  bool compared = false;  // with others, by curves of validation: ten evaluations at least

  bool names_data() const;  // by option, setting or file
  // The mechanism that a verb's first word names; refused beside --attention.
  void name_attention(const std::string& name, const std::string& verb);
};

// Where nothing names a model, the data's usual task chooses it.
RunSettings new_run(const Protocol& protocol, const RunChoices& choices);
// A run that goes on. Its training settings stay, whatever model is chosen.
RunSettings changed_run(const RunSettings& before, const RunChoices& choices);

// The examples as the model of the run reads them. The tokeniser in the folder, where it has one, is used again.
Dataset load_data(const Context& context, const RunSettings& settings, const Path& folder, RunObserver& observer);

// Fills in what the data set decides and checks the rest.
void fit_to_data(RunSettings& settings, const Dataset& data);

}  // namespace fovea
