#include <fmt/format.h>

#include <array>
#include <charconv>

#include "core/parallel.h"
#include "data/files.h"
#include "data/listops/listops.h"
#include "fovea/error.h"

namespace fovea::listops {
namespace {

constexpr std::array<std::string_view, 2> kColumns = {"Source", "Target"};
constexpr const char* kColumnsHint = "the columns are Source, Target, separated by tabs";
constexpr const char *kTrain = "basic_train.tsv", *kValidation = "basic_val.tsv", *kTest = "basic_test.tsv";

int label_of(std::string_view text) {
  int label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0 || label >= kClasses)
    fail(ErrorCode::bad_input, fmt::format("expected a digit, got \"{}\"", text.substr(0, 40)), "column Target");
  return label;
}

void check_header(const TextLines& file) {
  const std::string header = fmt::format("{}", fmt::join(kColumns, "\t"));
  if (file.size() == 0 || file[0] != header)
    fail(ErrorCode::bad_input, "the first line is not the header of this kind of file", file.where(0), kColumnsHint);
}

Example example_of(std::string_view line) {
  const std::vector<std::string_view> fields = tab_fields(line);
  if (fields.size() != kColumns.size())
    fail(ErrorCode::bad_input,
         fmt::format("expected {} fields, got {}", kColumns.size(), line.empty() ? 0 : fields.size()), {},
         kColumnsHint);
  Example example{parse(fields[0]), label_of(fields[1])};
  const int value = evaluate(example.tokens);
  if (value != example.label)
    fail(ErrorCode::bad_input, fmt::format("the expression is {}, but Target says {}", value, example.label));
  return example;
}

int longest(const std::vector<Example>& examples) {
  std::size_t most = 0;
  for (const Example& example : examples) most = std::max(most, example.tokens.size());
  return static_cast<int>(most);
}

}  // namespace

std::vector<Example> read_examples(const Context& context, const Path& path) {
  const TextLines file(path, within_memory(kTextCap, context));
  check_header(file);
  std::vector<Example> examples(file.size() - 1);
  parallel_for(context, std::ssize(examples), [&](std::int64_t i) {
    const std::size_t line = static_cast<std::size_t>(i) + 1;
    try {
      examples[line - 1] = example_of(file[line]);
    } catch (const Error& error) {
      const std::string inner = error.where().empty() ? "" : ", " + error.where();
      throw Error(error.code(), error.message(), file.where(line) + inner, error.hint());
    }
  });
  return examples;
}

void write_examples(const Context& context, const std::vector<Example>& examples, const Path& path) {
  constexpr std::int64_t kBlock = 1024;  // of lines printed side by side; some 8 MB of text
  AtomicFile file(path);
  file.write("Source\tTarget\n");
  const auto count = static_cast<std::int64_t>(examples.size());
  for (std::int64_t first = 0; first < count; first += kBlock) {
    std::vector<std::string> lines(static_cast<std::size_t>(std::min(kBlock, count - first)));
    parallel_for(context, static_cast<std::int64_t>(lines.size()), [&](std::int64_t i) {
      const Example& example = examples[static_cast<std::size_t>(first + i)];
      lines[static_cast<std::size_t>(i)] = fmt::format("{}\t{}\n", print(example.tokens), example.label);
    });
    for (const std::string& line : lines) file.write(line);
  }
  file.commit();
}

void write(const Context& context, const LabelledData& dataset, const Path& folder) {
  make_folder(folder);
  write_examples(context, dataset.train, folder / kTrain);
  write_examples(context, dataset.validation, folder / kValidation);
  write_examples(context, dataset.test, folder / kTest);
}

LabelledData read(const Context& context, const Path& folder) {
  LabelledData dataset{.name = "ListOps", .classes = kClasses, .vocabulary = kVocabulary, .max_length = 0};
  const bool plain = !is_there(folder / kTrain) && is_there(folder / "train.tsv");
  dataset.train = read_examples(context, folder / (plain ? "train.tsv" : kTrain));
  dataset.validation = read_examples(context, folder / (plain ? "val.tsv" : kValidation));
  dataset.test = read_examples(context, folder / (plain ? "test.tsv" : kTest));
  dataset.max_length = std::max({longest(dataset.train), longest(dataset.validation), longest(dataset.test), 1});
  return dataset;
}

}  // namespace fovea::listops
