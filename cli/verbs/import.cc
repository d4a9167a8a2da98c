#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "core/nearest.h"
#include "experiment/run_folder.h"
#include "fovea/pretrained.h"
#include "io/json.h"

// fovea import and fovea export: models between other libraries and this one.
namespace fovea::cli {
namespace {

struct ImportVerb {
  MachineOptions machine;
  std::string folder, out, ignore, pooling;
};

struct ExportVerb {
  MachineOptions machine;
  std::string model, out, format;
};

std::optional<Pooling> parse_pooling(const std::string& text) {
  if (text.empty()) return {};
  return static_cast<Pooling>(place_of_name(text, pooling_names(), "pooling", "--pooling"));
}

std::string describe(const ModelConfig& config, std::int64_t parameters) {
  return fmt::format("{}, {} layers, width {}, {} parameters", task_names()[static_cast<std::size_t>(config.task)],
                     config.layers.size(), config.width, parameters);
}

void run_import(const ImportVerb& verb, const Console& console) {
  ImportOptions options{.pooling = parse_pooling(verb.pooling)};
  if (!verb.ignore.empty()) options.ignore = split_names(verb.ignore, "--ignore");
  require_new_folder(verb.out);
  Context context(verb.machine.context(console));
  const Imported imported = import_model(context, verb.folder, options);
  const Model& model = imported.model;
  if (imported.tokenizer)
    save_model(model, *imported.tokenizer, verb.out);
  else
    save_model(model, verb.out);
  if (!imported.tokenizer && !model.config().image) console.note("no tokeniser in the folder: ids only");
  if (!imported.left_out.empty())
    console.note(fmt::format("left out, as the model does not need them: {}", fmt::join(imported.left_out, ", ")));
  console.print(
      fmt::format("{}: {} ({})", verb.out, imported.architecture, describe(model.config(), model.parameter_count())));
  console.document({{"folder", verb.out},
                    {"architecture", imported.architecture},
                    {"parameters", model.parameter_count()},
                    {"tokenizer", imported.tokenizer.has_value()},
                    {"left_out", imported.left_out}});
}

void run_export(const ExportVerb& verb, const Console& console) {
  require_new_folder(verb.out);
  Context context(verb.machine.context(console));
  const std::string folder = checkpoint_of(verb.model, "fovea export").string();
  const Model model = load_model(context, folder);
  const std::optional<Tokenizer> tokenizer = load_tokenizer(model, folder);
  export_model(model, verb.out, {.format = verb.format, .tokenizer = tokenizer ? &*tokenizer : nullptr});
  console.print(fmt::format("{}: {}", verb.out, describe(model.config(), model.parameter_count())));
  console.document(
      {{"folder", verb.out}, {"parameters", model.parameter_count()}, {"tokenizer", tokenizer.has_value()}});
}

}  // namespace

void add_import(Program& program) {
  const auto options = std::make_shared<ImportVerb>();
  const Arguments verb =
      program.add({"import",
                   "Reads a model that another library has written.",
                   {"fovea import all-MiniLM-L6-v2 --out minilm", "fovea import stories260K.bin --out stories"}},
                  [options](const Console& console) { run_import(*options, console); });
  verb.add_option("folder", options->folder, "Hugging Face folder, or model file of llama2.c").required();
  verb.add_option("--out", options->out, "folder to write to, new or empty").type_name("FOLDER").required();
  verb.add_option("--ignore", options->ignore, "fields of config.json that do not matter").type_name("NAMES");
  verb.add_option("--pooling", options->pooling, "of an encoder: mean, first or last row [as its folder says]")
      .type_name("NAME");
  add_machine_options(verb, options->machine);
}

void add_export(Program& program) {
  const auto options = std::make_shared<ExportVerb>();
  const Arguments verb = program.add(
      {"export",
       "Writes a model as the library transformers reads it.",
       {"fovea export runs/first --out for-transformers", "fovea export stories --out llama --format llama"}},
      [options](const Console& console) { run_export(*options, console); });
  verb.add_option("model", options->model, "folder of a run or of a model").required();
  verb.add_option("--out", options->out, "folder to write to, new or empty").type_name("FOLDER").required();
  verb.add_option("--format", options->format, fmt::format("{} [the one that fits]", fmt::join(model_formats(), ", ")))
      .type_name("NAME");
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
