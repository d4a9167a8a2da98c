#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <algorithm>

#include "arrays.h"
#include "bindings.h"
#include "core/nearest.h"
#include "data/labelled.h"
#include "data/listops/listops.h"
#include "engine.h"
#include "fovea/tokenizer.h"
#include "fovea/train.h"
#include "model.h"
#include "read_arguments.h"

namespace fovea::python {
namespace {

// Hands reports to a Python function, and looks for Ctrl-C between steps. What either raises is kept until the trainer
// has saved and returned.
class Watcher final : public TrainObserver {
 public:
  explicit Watcher(nb::object report) : report_(std::move(report)) {}

  void on_step(const StepReport& r) override {
    const nb::gil_scoped_acquire gil;
    nb::dict out;
    out["step"] = r.step;
    out["epoch"] = r.epoch;
    out["loss"] = r.loss;
    out["accuracy"] = r.accuracy;
    out["rate"] = r.rate;
    out["gradient_norm"] = r.gradient_norm;
    out["tokens"] = r.tokens;
    out["seconds"] = r.seconds;
    out["train_seconds"] = r.train_seconds;
    out["progress"] = r.progress;
    tell("step", out);
    if (PyErr_CheckSignals() != 0) keep(nb::python_error());
  }
  void on_eval(const EvalReport& r) override {
    const nb::gil_scoped_acquire gil;
    tell("eval", eval_dict(r));
  }
  void on_checkpoint(const std::string& folder) override {
    const nb::gil_scoped_acquire gil;
    nb::dict out;
    out["folder"] = folder;
    tell("checkpoint", out);
  }

  static nb::dict eval_dict(const EvalReport& r) {
    nb::dict out;
    out["step"] = r.step;
    out["split"] = r.split;
    out["loss"] = r.loss;
    out["accuracy"] = r.accuracy;
    out["deviation"] = r.deviation;
    out["examples"] = r.examples;
    out["asked"] = r.asked;
    out["seconds"] = r.seconds;
    out["best"] = r.best;
    return out;
  }

  const std::atomic<bool>& stop() const { return stop_; }
  void rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  void tell(const char* kind, const nb::dict& report) {
    try {
      report_(kind, report);
    } catch (const nb::python_error& error) {
      keep(error);
    }
  }
  void keep(const nb::python_error& error) {
    if (!raised_) raised_ = std::make_exception_ptr(error);
    stop_ = true;
  }

  nb::object report_;
  std::exception_ptr raised_;
  std::atomic<bool> stop_{false};
};

nb::dict result_dict(const TrainResult& r) {
  constexpr const char* kReasons[] = {"steps", "minutes", "interrupted", "patience", "tokens"};
  nb::dict out, zones;
  for (const ZoneTime& zone : r.zones) zones[zone.name.c_str()] = zone.seconds;
  out["reason"] = kReasons[static_cast<std::size_t>(r.reason)];
  out["steps"] = r.steps;
  out["train_seconds"] = r.train_seconds;
  out["eval_seconds"] = r.eval_seconds;
  out["input_seconds"] = r.input_seconds;
  out["skipped"] = r.skipped;
  out["last"] = Watcher::eval_dict(r.last);
  out["best"] = Watcher::eval_dict(r.best);
  out["peak_memory"] = r.peak_memory;
  out["zones"] = zones;
  out["resume_from"] = r.resume_from;
  return out;
}

// Ids of one tokeniser mean nothing to a model that learned those of another.
void check_tokenizer(const OwnedModel& owned, const Dataset& data) {
  if (!owned.tokenizer || !data.tokenizer || owned.tokenizer->fingerprint() == data.tokenizer->fingerprint()) return;
  fail(ErrorCode::bad_input,
       fmt::format("the data \"{}\" has another tokeniser ({} ids) than the model ({} ids)", data.name,
                   data.tokenizer->vocabulary(), owned.tokenizer->vocabulary()),
       "tokenizer", "fovea.load_data(..., tokenizer=model.tokenizer)");
}

nb::dict train_model(OwnedModel& owned, const Dataset& data, const std::string& settings, const std::string& resume,
                     nb::object report) {
  TrainConfig config = TrainConfig::usual(owned.model.config());
  config.seed = owned.context->seed();
  read_arguments(config, settings, "fovea.train");
  check_tokenizer(owned, data);
  if (data.tokenizer) owned.tokenizer = *data.tokenizer;
  Watcher watcher(std::move(report));
  TrainResult result;
  {
    const nb::gil_scoped_release no_gil;
    Trainer trainer(*owned.context, owned.model, data, config);
    trainer.add(watcher);
    if (!resume.empty()) trainer.resume(resume);
    result = trainer.run(&watcher.stop());
  }
  watcher.rethrow();
  return result_dict(result);
}

const std::shared_ptr<const Split>& split_of(const Dataset& data, const std::string& name) {
  return name == "train" ? data.train : name == "validation" ? data.validation : data.test;
}

nb::dict evaluate_model(const OwnedModel& owned, const Dataset& data, const std::string& split, std::int64_t batch) {
  check_tokenizer(owned, data);
  EvalReport report;
  {
    const Running running;
    report = evaluate(*owned.context, owned.model, *split_of(data, split), {.batch = batch});
  }
  report.split = split;
  return Watcher::eval_dict(report);
}

// Sequences of token ids (bytes) with their labels.
std::vector<Example> examples_from(const nb::sequence& pairs) {
  std::vector<Example> out;
  for (nb::handle pair : pairs) {
    const auto bytes = nb::cast<nb::bytes>(pair[0]);
    const auto* first = static_cast<const std::uint8_t*>(bytes.data());
    out.push_back({{first, first + bytes.size()}, nb::cast<int>(pair[1])});
  }
  return out;
}

void check(const LabelledData& data, const std::vector<Example>& examples, const char* split) {
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& example = examples[i];
    for (const std::uint8_t token : example.tokens)
      if (token == 0 || token >= data.vocabulary)
        fail(ErrorCode::usage,
             fmt::format("token {} of {} example {}: ids are 1 to {}", token, split, i, data.vocabulary - 1), split,
             "0 is padding");
    if (example.label < 0 || example.label >= data.classes)
      fail(ErrorCode::usage,
           fmt::format("label {} of {} example {}: there are {} classes", example.label, split, i, data.classes),
           split);
  }
}

std::unique_ptr<Dataset> make_dataset(const nb::dict& given) {
  LabelledData data;
  data.name = nb::cast<std::string>(given["name"]);
  data.classes = nb::cast<int>(given["classes"]);
  data.vocabulary = nb::cast<int>(given["vocabulary"]);
  data.max_length = nb::cast<int>(given["max_length"]);
  data.train = examples_from(nb::cast<nb::sequence>(given["train"]));
  data.validation = examples_from(nb::cast<nb::sequence>(given["validation"]));
  data.test = examples_from(nb::cast<nb::sequence>(given["test"]));
  check(data, data.train, "train");
  check(data, data.validation, "validation");
  check(data, data.test, "test");
  for (const auto* split : {&data.train, &data.validation, &data.test})
    for (const Example& example : *split)
      data.max_length = std::max(data.max_length, static_cast<int>(example.tokens.size()));
  return std::make_unique<Dataset>(dataset_of(std::move(data)));
}

std::unique_ptr<Dataset> make_listops(std::uint64_t seed, std::size_t train, std::size_t validation, std::size_t test) {
  const nb::gil_scoped_release no_gil;
  const Context context({.threads = threads()});
  return std::make_unique<Dataset>(
      dataset_of(listops::generate(context, seed, {.train = train, .validation = validation, .test = test})));
}

// What files hold, for a model of this task ("": what is usual), longest sequence and tokeniser (null: by the data).
std::unique_ptr<Dataset> load_files(const std::string& settings, const std::string& task, std::int64_t max_length,
                                    const Tokenizer* tokenizer) {
  DataSettings wanted;
  read_arguments(wanted, settings, "fovea.load_data");
  DataUse use{.task = {}, .max_length = max_length, .tokenizer = {}};
  if (tokenizer != nullptr) use.tokenizer = std::make_shared<const Tokenizer>(*tokenizer);
  if (!task.empty()) use.task = static_cast<Task>(place_of_name(task, task_names(), "task", "task"));
  const nb::gil_scoped_release no_gil;
  const Context context({.threads = threads()});
  return std::make_unique<Dataset>(load_data(context, wanted, use));
}

std::int64_t size_of(const Dataset& data, const std::string& split) {
  const std::shared_ptr<const Split>& examples = split_of(data, split);
  return examples ? examples->size() : 0;
}

// The same for data sets with the same contents.
nb::tuple mark_of(const Dataset& data) {
  nb::list splits;
  for (const auto* split : {&data.train, &data.validation, &data.test})
    splits.append(empty(*split) ? nb::object(nb::none()) : nb::cast((*split)->hash()));
  return nb::make_tuple(std::string(task_names()[static_cast<std::size_t>(data.task)]), data.vocabulary, data.classes,
                        data.max_length, nb::tuple(splits), data.tokenizer ? data.tokenizer->fingerprint() : "");
}

nb::list examples_of(const Dataset& data, const std::string& split) {
  nb::list out;
  for (const Example& example : labelled_examples(*split_of(data, split)))
    out.append(nb::make_tuple(nb::bytes(example.tokens.data(), example.tokens.size()), example.label));
  return out;
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<Dataset>(module, "Dataset")
      .def_ro("name", &Dataset::name)
      .def_ro("classes", &Dataset::classes)
      .def_ro("vocabulary", &Dataset::vocabulary)
      .def_ro("max_length", &Dataset::max_length)
      .def_prop_ro("task", [](const Dataset& d) { return std::string(task_names()[static_cast<std::size_t>(d.task)]); })
      .def_prop_ro("mark", mark_of)
      .def_prop_ro("tokenizer",
                   [](const Dataset& d) { return d.tokenizer ? std::optional(*d.tokenizer) : std::nullopt; })
      .def("size", size_of)
      .def("save_tokenizer",
           [](const Dataset& d, const std::string& folder) {
             if (!d.tokenizer) fail(ErrorCode::usage, "this data set has no tokeniser", d.name);
             d.tokenizer->save(folder);
           })
      .def("examples", examples_of);
  module.def("make_dataset", make_dataset);
  module.def("make_listops", make_listops);
  module.def("load_data", load_files, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("train", train_model);
  module.def("evaluate", evaluate_model);
}

}  // namespace fovea::python
