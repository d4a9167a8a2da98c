#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "data/kinds.h"
#include "data/text/label_files.h"
#include "data/text/labelled_parts.h"
#include "data/text/records.h"
#include "io/xz.h"

// Texts and pairs of texts that have a class or a number.
namespace fovea {
namespace {

// One file of a data set, ready to be encoded: lines of fields, or records.
struct LabelPart {
  std::unique_ptr<const TextLines> lines;
  Records records;
  LabelTable table;  // points into them

  std::string where(std::size_t example) const {
    return lines ? lines->where(table.lines[example]) : records.where(table.lines[example]);
  }
};

using PartPointer = std::unique_ptr<LabelPart>;

constexpr std::string_view kEnds[] = {".tsv", ".csv", ".jsonl"};

std::optional<Path> find_labels(const Path& folder, std::span<const std::string_view> names) {
  for (const std::string_view end : kEnds)
    if (const auto path = find_part(folder, names, end)) return path;
  return {};
}

bool names_columns(const DataSettings& settings) {
  return !settings.label_column.empty() || !settings.text_column.empty() || !settings.second_column.empty();
}

PartPointer read_record_part(const Path& path, const DataSettings& settings, std::size_t cap) {
  auto part = std::make_unique<LabelPart>();
  part->records = read_records(path, cap);
  const RecordColumns columns = require_columns(part->records.columns, settings, path.string());
  for (std::size_t row = 0; row < part->records.rows.size(); ++row) {
    const auto add = [&](std::size_t column, std::vector<std::string_view>& to) {
      const std::string& field = part->records.rows[row][column];
      if (field.empty())
        fail(ErrorCode::bad_input, fmt::format("\"{}\" is empty", part->records.columns[column]),
             part->records.where(row));
      to.push_back(field);
    };
    add(columns.first, part->table.first);
    add(columns.label, part->table.labels);
    if (columns.second) add(*columns.second, part->table.second);
    part->table.lines.push_back(row);
  }
  return part;
}

// Nothing where the file does not tell the answers.
PartPointer read_part_file(const Path& path, const DataSettings& settings, std::size_t cap) {
  if (is_record_file(path) || names_columns(settings)) return read_record_part(path, settings, cap);
  auto part = std::make_unique<LabelPart>();
  part->lines = std::make_unique<const TextLines>(path, cap);
  const std::vector<std::string_view> first =
      part->lines->size() > 0 ? part->lines->fields(0) : std::vector<std::string_view>();
  auto columns = LabelColumns::of(first);
  if (!columns && first.size() == 2) columns = LabelColumns::named();
  if (!columns)
    fail(ErrorCode::bad_input, "the first line is neither a label and a text nor a header of GLUE's",
         part->lines->where(0),
         "fields are separated by tabs; --set data.text_column=NAME where the line names columns");
  if (!columns->label) return nullptr;
  part->table = read_labels(*part->lines, *columns);
  return part;
}

PartPointer read_part(const DataSettings& settings, std::span<const std::string_view> names, std::size_t cap) {
  const auto path = find_labels(settings.source, names);
  return path ? read_part_file(*path, settings, cap) : nullptr;
}

// How texts and labels become numbers.
struct Encoders {
  TextEncoder texts;
  std::optional<LabelNames> names;  // none: the labels are numbers
  bool joined = false;              // two texts as one
};

LabelledLists lists_of(const LabelPart& part, const Encoders& encoders) {
  const auto& [encode, names, joined] = encoders;
  LabelledLists lists;
  if (joined) {
    const JoinedTexts both = encode.joined(part.table.first, part.table.second);
    lists.first = both.ids;
    lists.types = both.types;
  } else {
    lists.first = encode(part.table.first);
    if (!part.table.second.empty()) lists.second = encode(part.table.second);
  }
  for (std::size_t i = 0; i < part.table.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    LabelledPick& pick = lists.examples.emplace_back(LabelledPick{at, at});
    if (names)
      pick.label = names->id(part.table.labels[i], part.where(i));
    else
      pick.number = number_of(part.table.labels[i], part.where(i));
  }
  return lists;
}

// What there is of a folder, or of one file alone.
struct LabelParts {
  PartPointer train, validation, test;
};

// Files without answers are left out. Where dev is the only other one that has some it is the test.
LabelParts read_label_parts(const DataSettings& settings, std::size_t cap) {
  if (!is_folder(settings.source)) return {read_part_file(settings.source, settings, cap), nullptr, nullptr};
  LabelParts parts{read_part(settings, kTrainNames, cap), read_part(settings, kValidationNames, cap),
                   read_part(settings, kTestNames, cap)};
  if (!parts.test) std::swap(parts.test, parts.validation);
  return parts;
}

// A tenth of the training part is held out for each part that has no file.
void fill_parts(const LabelParts& files, const Encoders& encoders, TextParts& parts) {
  parts.train = lists_of(*files.train, encoders);
  const auto fill = [&](const PartPointer& file, LabelledLists& part) {
    if (file) {
      part = lists_of(*file, encoders);
    } else {
      part = {parts.train.first, parts.train.second, {}, parts.train.types};
      hold_out(parts.train.examples, part.examples);
    }
  };
  fill(files.test, parts.test);
  fill(files.validation, parts.validation);
}

double mean_number(std::span<const LabelledPick> examples) {
  double sum = 0.0;
  for (const LabelledPick& pick : examples) sum += pick.number;
  return sum / std::fmax(1.0, static_cast<double>(examples.size()));
}

Dataset load_tables(const Context& context, const DataSettings& settings, const DataUse& use, bool pairs) {
  const std::size_t cap = within_memory(kTextCap, context);
  const LabelParts files = read_label_parts(settings, cap);
  if (!files.train) fail(ErrorCode::bad_input, "no train.tsv with labels", settings.source, "fovea list data");
  const std::vector<std::string_view>& texts = files.train->table.first;
  if (files.train->table.second.empty() == pairs)
    fail(ErrorCode::usage, files.train->table.second.empty() ? "these are single texts" : "these are pairs of texts",
         settings.source, files.train->table.second.empty() ? "--set data.kind=labels" : "--set data.kind=pairs");
  const bool numbers = asks_numbers(files.train->table.labels, settings.answers);
  std::optional<LabelNames> names;
  Dataset data;
  data.name = data_name(settings);
  const bool joined = pairs && settings.joined;
  data.task = numbers ? Task::regress : pairs && !joined ? Task::match : Task::classify;
  if (!numbers) {
    names.emplace(files.train->table.labels);
    data.classes = names->size();
    data.class_names = names->names();
  }
  data.tokenizer = chosen_tokenizer(context, settings, use, "bytes", texts);
  data.vocabulary = data.tokenizer->vocabulary();
  TextParts parts;
  fill_parts(files, {{context, data.tokenizer, chosen_length(settings, use, kUsualTextLength)}, names, joined}, parts);
  if (parts.train.types) data.types = 2;
  parts.cut(settings);
  if (numbers) data.mean = {mean_number(parts.train.examples)};
  parts.fill(data);
  return data;
}

}  // namespace

bool is_labelled(const DataSettings& settings, bool pairs) {
  const Path source = settings.source;
  if (is_folder(source) && is_paper_pairs(source)) return pairs;
  const auto train = is_folder(source) ? find_labels(source, kTrainNames) : std::optional(source);
  if (!train) return false;
  if (is_record_file(*train) || names_columns(settings)) {
    const auto columns = find_columns(record_columns(*train), settings);
    return columns && columns->second.has_value() == pairs;
  }
  const std::string line = first_line(*train);
  if (const auto columns = LabelColumns::of(tab_fields(line))) return columns->second.has_value() == pairs;
  constexpr std::size_t kLooked = std::size_t{1} << 20;
  return !pairs && begin_with_names(read_head(*train, kLooked));
}

Dataset load_labelled(const Context& context, const DataSettings& settings, const DataUse& use) {
  return load_tables(context, settings, use, false);
}

Dataset load_pairs(const Context& context, const DataSettings& settings, const DataUse& use) {
  if (is_paper_pairs(settings.source)) return load_paper_pairs(context, settings, use);
  return load_tables(context, settings, use, true);
}

}  // namespace fovea
