#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "data/listops/listops.h"
#include "io/json.h"
#include "measure/stopwatch.h"

// fovea data: writes generated data sets as files.
namespace fovea::cli {
namespace {

struct DataOptions {
  MachineOptions machine;
  std::int64_t train = 96000, validation = 2000, test = 2000;
  std::uint64_t seed = 0;
  std::string out;
};

void run_listops(const DataOptions& options, const Console& console) {
  const Path folder = options.out;
  if (is_there(folder) && !entries_of(folder).empty())
    fail(ErrorCode::usage, fmt::format("the folder \"{}\" is not empty", options.out), "--out",
         "a new folder: nothing is overwritten");
  const Context context(options.machine.context(console));
  const Stopwatch watch;
  const LabelledData data =
      listops::generate(context, options.seed,
                        {static_cast<std::size_t>(options.train), static_cast<std::size_t>(options.validation),
                         static_cast<std::size_t>(options.test)});
  listops::write(context, data, folder);
  console.print(fmt::format("{}: {} train, {} validation, {} test examples in {:.1f} s", options.out, data.train.size(),
                            data.validation.size(), data.test.size(), watch.seconds()));
  console.document({{"folder", options.out},
                    {"train", data.train.size()},
                    {"validation", data.validation.size()},
                    {"test", data.test.size()},
                    {"majority_share", majority_share(data.test, data.classes)}});
}

}  // namespace

void add_data(Program& program) {
  const Arguments group = program.add_group({"data",
                                             "Writes generated data sets as files.",
                                             {"fovea data listops --out listops", "fovea data listops --help"}});
  const auto options = std::make_shared<DataOptions>();
  const Arguments verb = program.add(
      {"listops",
       "Generates ListOps as in the Long-Range Arena and writes basic_train.tsv, basic_val.tsv "
       "and basic_test.tsv.",
       {"fovea data listops --out listops", "fovea data listops --out small --train 5000 --seed 7"}},
      [options](const Console& console) { run_listops(*options, console); }, &group);
  verb.add_option("--out", options->out, "folder to write to, new or empty").type_name("FOLDER").required();
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    verb.add_option(name, value, help).type_name("N").check(in_range(1, 100e6)).show_default();
  };
  count("--train", options->train, "training examples");
  count("--validation", options->validation, "validation examples");
  count("--test", options->test, "test examples");
  verb.add_option("--seed", options->seed, "of the generator").type_name("N").show_default();
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
