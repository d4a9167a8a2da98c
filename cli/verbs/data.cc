#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "data/listops/listops.h"
#include "data/pathfinder/pathfinder.h"
#include "io/json.h"
#include "measure/stopwatch.h"

// fovea data: writes generated data sets as files.
namespace fovea::cli {
namespace {

struct DataOptions {
  MachineOptions machine;
  std::int64_t train = 0, validation = 0, test = 0;
  std::int64_t size = 32;  // of pictures
  std::uint64_t seed = 0;
  std::string out;
};

// What was written.
struct Written {
  std::int64_t train, validation, test;
  double majority;  // share of the most frequent class in the test part
};

Written write_listops(const Context& context, const DataOptions& options) {
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const LabelledData data =
      listops::generate(context, options.seed, {size(options.train), size(options.validation), size(options.test)});
  listops::write(context, data, options.out);
  return {std::ssize(data.train), std::ssize(data.validation), std::ssize(data.test), majority_share(data.test)};
}

Written write_pathfinder(const Context& context, const DataOptions& options) {
  const pathfinder::Parts parts = pathfinder::generate(context, options.seed, pathfinder::scene_of(options.size),
                                                       {options.train, options.validation, options.test});
  const auto write = [&](const Pictures& part, const std::string& name) {
    const Path folder = options.out;
    write_idx(part, folder / (name + "-images-idx3-ubyte"), folder / (name + "-labels-idx1-ubyte"));
  };
  std::filesystem::create_directories(options.out);
  write(parts.train, "train");
  write(parts.validation, "valid");
  write(parts.test, "test");
  std::int64_t connected = 0;
  for (const std::uint8_t label : parts.test.labels) connected += label;
  const double share = static_cast<double>(connected) / static_cast<double>(parts.test.count());
  return {parts.train.count(), parts.validation.count(), parts.test.count(), std::max(share, 1.0 - share)};
}

void run(const DataOptions& options, Written (*write)(const Context&, const DataOptions&), const Console& console) {
  const Path folder = options.out;
  if (is_there(folder) && !entries_of(folder).empty())
    fail(ErrorCode::usage, fmt::format("the folder \"{}\" is not empty", options.out), "--out",
         "a new folder: nothing is overwritten");
  const Context context(options.machine.context(console));
  const Stopwatch watch;
  const Written written = write(context, options);
  console.print(fmt::format("{}: {} train, {} validation, {} test examples in {:.1f} s", options.out, written.train,
                            written.validation, written.test, watch.seconds()));
  console.document({{"folder", options.out},
                    {"train", written.train},
                    {"validation", written.validation},
                    {"test", written.test},
                    {"majority_share", written.majority}});
}

DataOptions sizes(std::int64_t train, std::int64_t others) {
  DataOptions options;
  options.train = train;
  options.validation = options.test = others;
  return options;
}

using Writer = Written (*)(const Context&, const DataOptions&);

Arguments add_set(Program& program, const Arguments& group, const VerbText& text, Writer write,
                  const std::shared_ptr<DataOptions>& options) {
  const Arguments verb = program.add(
      text, [options, write](const Console& console) { run(*options, write, console); }, &group);
  verb.add_option("--out", options->out, "folder to write to, new or empty").type_name("FOLDER").required();
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    verb.add_option(name, value, help).type_name("N").check(in_range(1, 100e6)).show_default();
  };
  count("--train", options->train, "training examples");
  count("--validation", options->validation, "validation examples");
  count("--test", options->test, "test examples");
  verb.add_option("--seed", options->seed, "of the generator").type_name("N").show_default();
  add_machine_options(verb, options->machine);
  return verb;
}

}  // namespace

void add_data(Program& program) {
  const Arguments group = program.add_group({"data",
                                             "Writes generated data sets as files.",
                                             {"fovea data listops --out listops", "fovea data pathfinder --help"}});
  add_set(program, group,
          {"listops",
           "Generates ListOps as in the Long-Range Arena and writes basic_train.tsv, basic_val.tsv "
           "and basic_test.tsv.",
           {"fovea data listops --out listops", "fovea data listops --out small --train 5000 --seed 7"}},
          write_listops, std::make_shared<DataOptions>(sizes(96000, 2000)));
  const auto pictures = std::make_shared<DataOptions>(sizes(160000, 20000));
  add_set(program, group,
          {"pathfinder",
           "Draws Pathfinder as in the Long-Range Arena (are two dots on one dashed contour?) and writes idx files "
           "{train,valid,test}-images-idx3-ubyte and -labels-idx1-ubyte.",
           {"fovea data pathfinder --out pathfinder", "fovea data pathfinder --out large --size 64 --train 5000"}},
          write_pathfinder, pictures)
      .add_option("--size", pictures->size, "pixels on a side: 32 or 64")
      .type_name("N")
      .show_default();
}

}  // namespace fovea::cli
