#include "data/kinds.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/nearest.h"
#include "data/labelled.h"
#include "data/listops/listops.h"
#include "data/pathfinder/pathfinder.h"
#include "data/text/masked_inputs.h"
#include "io/fields.h"
#include "io/missing.h"

namespace fovea {
namespace {

using Load = Dataset (*)(const Context& context, const DataSettings& settings, const DataUse& use);

bool has_end(const Path& file, std::string_view end) {
  const std::string name = file.filename().string();
  return name.ends_with(end) || name.ends_with(std::string(end) + ".xz");
}

constexpr std::string_view kListOpsFiles[] = {"basic_train.tsv"};

bool is_listops(const Path& folder) {
  if (find_file(folder, kListOpsFiles)) return true;
  const auto train = find_part(folder, kTrainNames, ".tsv");
  return train && train->extension() == ".tsv" && first_line(*train) == "Source\tTarget";
}

bool is_series(const Path& folder) {
  const std::vector<Path> entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(), [](const Path& entry) { return has_end(entry, ".csv"); });
}

// How much of a generated set is made.
template <class Sizes>
Sizes limited(const DataSettings& settings) {
  Sizes sizes;
  const auto limit = [](std::int64_t wanted, auto& size) {
    if (wanted > 0) size = static_cast<std::remove_reference_t<decltype(size)>>(wanted);
  };
  limit(settings.train, sizes.train);
  limit(settings.validation, sizes.validation);
  limit(settings.test, sizes.test);
  return sizes;
}

// Lists of a quarter of the length to all of it, as the published ones of 500 to 2000.
listops::TreeShape shape_of(std::int64_t length) {
  listops::TreeShape shape;
  if (length == 0) return shape;
  constexpr std::int64_t kShortest = 32, kLongest = 2000;  // enough trees are that short, or that long
  if (length < kShortest || length > kLongest)
    fail(ErrorCode::usage, fmt::format("lists of up to {} tokens", length), "data.length",
         fmt::format("between {} and {}", kShortest, kLongest));
  shape.max_length = static_cast<int>(length - 1);
  shape.min_length = static_cast<int>(length / 4 + 1);
  return shape;
}

// Generated, or files as published; both are limited while they are made.
Dataset load_listops(const Context& context, const DataSettings& settings, const DataUse&) {
  LabelledData data;
  if (settings.source == "listops") {
    data = listops::generate(context, settings.seed, limited<listops::Sizes>(settings), shape_of(settings.length));
  } else {
    data = listops::read(context, settings.source);
    keep_first(data.train, settings.train);
    keep_first(data.validation, settings.validation);
    keep_first(data.test, settings.test);
  }
  return dataset_of(std::move(data));
}

// Generated; files of it are pictures like others.
Dataset load_pathfinder(const Context& context, const DataSettings& settings, const DataUse& use) {
  if (!is_generated(settings.source))
    return load_pictures(context, settings, {.task = Task::classify, .max_length = use.max_length});
  constexpr std::int64_t kUsualSide = 32;
  const pathfinder::Scene scene = pathfinder::scene_of(settings.size > 0 ? settings.size : kUsualSide);
  pathfinder::Parts drawn = pathfinder::generate(context, settings.seed, scene, limited<pathfinder::Sizes>(settings));
  const auto shared = [](Pictures& part) { return std::make_shared<const Pictures>(std::move(part)); };
  Dataset data = pixel_data({shared(drawn.train), shared(drawn.validation), shared(drawn.test)}, settings);
  data.name = "Pathfinder";
  data.classes = 2;
  return data;
}

struct Kind {
  DataKind text;
  Task task;
  Load load;
};

constexpr Kind kKinds[] = {
    {{"listops", "ListOps: generated, or basic_{train,val,test}.tsv"}, Task::classify, load_listops},
    {{"text", "a file, or {train,valid,test}.txt or .tokens"}, Task::lm, load_text},
    {{"parallel", "{train,val,test}.LANGUAGE, two languages; or source<TAB>target.tsv"}, Task::seq2seq, load_parallel},
    {{"labels", "{train,dev,test}.tsv, .csv or .jsonl, or one such file: label<TAB>text, or named columns as GLUE's"},
     Task::classify,
     load_labelled},
    {{"pairs", "papers.tsv and pairs.{train,valid,test}.tsv, or two texts in named columns as GLUE's"},
     Task::match,
     load_pairs},
    {{"pictures", "idx files as MNIST's, or CIFAR-10's .bin"}, Task::vision, load_pictures},
    {{"pathfinder", "Pathfinder: generated, or idx files of it, as sequences of pixels"},
     Task::classify,
     load_pathfinder},
    {{"captions", "{train,valid,test}.captions: picture.png<TAB>text"}, Task::image_text, load_captions},
    {{"series", "a .csv: date, then columns of numbers"}, Task::forecast, load_series},
};

const Kind& kind_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.text.name);
  return kKinds[place_of_name(name, names, "kind of data", "data.kind")];
}

std::string_view kind_of_folder(const DataSettings& settings) {
  const Path folder = settings.source;
  if (is_listops(folder)) return "listops";
  if (is_pictures(folder)) return "pictures";
  if (is_captions(folder)) return "captions";
  if (is_labelled(settings, true)) return "pairs";
  if (is_labelled(settings, false)) return "labels";
  if (is_parallel(settings)) return "parallel";
  if (is_text(folder)) return "text";
  if (is_series(folder)) return "series";
  fail(ErrorCode::bad_input, "no kind of data has files like the ones in this folder", settings.source,
       "fovea list data   (what the files of each kind are called)");
}

// Where no file is near, it may have been meant to be generated.
std::string source_hint(const std::string& source) {
  const std::string hint = missing_hint(source);
  return hint.starts_with("ls ") ? hint + "; or listops, pathfinder: fovea list data" : hint;
}

// Columns of labels and texts, measurements, or plain text.
std::string_view kind_of_file(const DataSettings& settings) {
  const auto ends = [&](std::string_view end) { return has_end(settings.source, end); };
  if (ends(".csv") || ends(".tsv") || ends(".jsonl")) {
    if (is_labelled(settings, true)) return "pairs";
    if (is_labelled(settings, false)) return "labels";
  }
  if (ends(".jsonl")) return "labels";  // its columns are to be named
  return ends(".csv") ? "series" : "text";
}

const Kind& kind_of(const DataSettings& settings) {
  if (!settings.kind.empty()) return kind_named(settings.kind);
  if (is_generated(settings.source)) return kind_named(settings.source);
  if (is_folder(settings.source)) return kind_named(kind_of_folder(settings));
  constexpr std::string_view kGenerated[] = {"listops", "pathfinder"};
  const std::string_view near = nearest_name(settings.source, kGenerated);
  if (!is_there(settings.source))
    throw NoSuchFile(fmt::format("no such file or folder \"{}\"", settings.source), "data.source",
                     near.empty() ? source_hint(settings.source) : fmt::format("\"{}\"?", near));
  return kind_named(kind_of_file(settings));
}

}  // namespace

bool is_generated(std::string_view source) { return source == "listops" || source == "pathfinder"; }

std::span<const DataKind> data_kinds() {
  static const auto kinds = [] {
    std::array<DataKind, std::size(kKinds)> out;
    std::transform(std::begin(kKinds), std::end(kKinds), out.begin(), [](const Kind& kind) { return kind.text; });
    return out;
  }();
  return kinds;
}

std::string_view data_kind(const DataSettings& settings) { return kind_of(settings).text.name; }
Task usual_task(const DataSettings& settings) {
  const Task task = kind_of(settings).task;
  return task == Task::match && settings.joined ? Task::classify : task;
}

Dataset load_data(const Context& context, const DataSettings& settings, const DataUse& use) {
  const Kind& kind = kind_of(settings);
  const bool labelled = kind.task == Task::classify || kind.task == Task::match || kind.task == Task::vision;
  if (use.task != Task::mlm || !labelled) return kind.load(context, settings, use);
  DataUse sequences = use;
  sequences.task = kind.task == Task::match ? Task::match : Task::classify;
  return masked_inputs(kind.load(context, settings, sequences));
}

void DataSettings::fields(FieldVisitor& v) {
  constexpr double kMost = 100e6;
  v("source", source, "\"listops\" or \"pathfinder\" (generated), a folder or a file");
  v("kind", kind, "kind of data; empty: told by the files");
  v("train", train, "training examples, at most; 0: all", between(0, kMost));
  v("validation", validation, "validation examples, at most; 0: all", between(0, kMost));
  v("test", test, "test examples, at most; 0: all", between(0, kMost));
  v("seed", seed, "of generated data");
  v("length", length, "tokens of a window or, at most, of a text; 0: by kind and model", between(0, 1 << 24));
  v("tokenizer", tokenizer, "bytes, characters, words, bpe, a folder or a file; empty: by kind");
  v("vocabulary", vocabulary, "token ids of a tokeniser that is trained", between(260, 1 << 24));
  v("label_column", label_column, "of labelled texts in columns: name of the label's; empty: found by its name");
  v("text_column", text_column, "the same: of the text, or the first of two");
  v("second_column", second_column, "the same: of the second text");
  v("answers", answers,
    "of labelled texts: classes or numbers; empty: numbers where all are, and some have a fraction");
  v("joined", joined, "of pairs of texts: read as one with a mark between, as BERT does, not one beside the other");
  v("source_language", source_language, "of parallel text: the end of its files' names");
  v("target_language", target_language, "of parallel text: the end of its files' names");
  v("shift", shift, "pixels by which training pictures are moved at random", between(0, 1 << 10));
  v("size", size, "pixels on a side that pictures with texts are drawn to; 0: as the first", between(0, 1 << 12));
  v("flip", flip, "mirror training pictures at random");
  v("input_length", input_length, "of series: rows that are read", between(1, 1 << 20));
  v("label_length", label_length, "of series: rows of these that the decoder reads too", between(0, 1 << 20));
  v("horizon", horizon, "of series: rows that are foretold", between(1, 1 << 20));
  v("univariate", univariate, "of series: only the last column");
  v("mean", mean, "of each channel; empty: of the training part");
  v("deviation", deviation, "of each channel; empty: of the training part", above(0));
}

std::string data_name(const DataSettings& settings) {
  Path path = settings.source;
  if (path.filename().empty()) path = path.parent_path();
  if (path.extension() == ".xz") path.replace_extension();
  return is_folder(settings.source) ? path.filename().string() : path.stem().string();
}

std::int64_t chosen_length(const DataSettings& settings, const DataUse& use, std::int64_t usual) {
  if (settings.length > 0) return settings.length;
  return use.max_length > 0 ? std::min(usual, use.max_length) : usual;
}

std::int32_t end_of_text(const Tokenizer& tokenizer) {
  const auto eos = tokenizer.special_ids().eos;
  if (!eos)
    fail(ErrorCode::usage, "the tokeniser has no token for the end of a text", "data.tokenizer",
         "bpe: trained on these texts");
  return *eos;
}

namespace {

// The folder or file of a tokeniser; a word that is none of them is a mistyped name.
std::string known_tokenizer(std::string_view name) {
  constexpr std::string_view kNames[] = {"bytes", "characters", "words", "bpe"};
  const Path path = name;
  if (!is_there(path) && !path.has_parent_path())
    throw NoSuchFile(fmt::format("no such file or tokeniser \"{}\"", name), "data.tokenizer",
                     nearest_name(name, kNames).empty()
                         ? fmt::format("{}; or {}", fmt::join(kNames, ", "), missing_hint(path))
                         : fmt::format("--set data.tokenizer={}", nearest_name(name, kNames)));
  return path.string();
}

}  // namespace

std::shared_ptr<const Tokenizer> chosen_tokenizer(const Context& context, const DataSettings& settings,
                                                  const DataUse& use, std::string_view by_default,
                                                  std::span<const std::string_view> texts) {
  if (use.tokenizer) return use.tokenizer;
  const std::string_view name = settings.tokenizer.empty() ? by_default : settings.tokenizer;
  const auto shared = [](Tokenizer tokenizer) { return std::make_shared<const Tokenizer>(std::move(tokenizer)); };
  if (name == "bytes") return shared(Tokenizer::bytes());
  if (name == "characters") return shared(Tokenizer::characters(texts));
  if (name == "words") return shared(Tokenizer::words(texts));
  if (name != "bpe") return shared(Tokenizer::load(known_tokenizer(name)));
  return shared(Tokenizer::train_bpe(
      context, texts, {.vocabulary = settings.vocabulary, .special_tokens = {"<pad>", "<s>", "</s>"}, .progress = {}}));
}

}  // namespace fovea
