#include "experiment/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/batches.h"
#include "fovea/generate.h"
#include "fovea/tokenizer.h"

namespace fovea {
namespace {

constexpr std::size_t kShown = 8;  // examples in a table
constexpr std::int64_t kPrompts = 3, kPromptTokens = 24, kNewTokens = 80;

std::string class_name(const Dataset& data, std::int32_t label) {
  const auto at = static_cast<std::size_t>(label);
  return at < data.class_names.size() ? data.class_names[at] : std::to_string(label);
}

Section examples_section(std::string title, const Context& context, const Dataset& data, const Split& split,
                         std::span<const Prediction> shown) {
  Table table({{"right answer", Quantity::text},
               {"given", Quantity::text},
               {"sure by", Quantity::percent},
               {"example", Quantity::text}},
              "number");
  std::vector<std::int64_t> picks;
  for (const Prediction& p : shown) picks.push_back(p.example);
  const std::vector<std::string> texts = example_texts(context, data, split, picks);
  for (std::size_t i = 0; i < shown.size(); ++i)
    table.add(std::to_string(shown[i].example + 1),
              {class_name(data, shown[i].answer), class_name(data, shown[i].given), shown[i].confidence, texts[i]});
  return {std::move(title), std::move(table)};
}

Section numbers_section(std::string title, const Context& context, const Dataset& data, const Split& split,
                        std::span<const NumberPrediction> shown) {
  Table table({{"right answer", Quantity::number}, {"given", Quantity::number}, {"example", Quantity::text}}, "number");
  std::vector<std::int64_t> picks;
  for (const NumberPrediction& p : shown) picks.push_back(p.example);
  const std::vector<std::string> texts = example_texts(context, data, split, picks);
  for (std::size_t i = 0; i < shown.size(); ++i)
    table.add(std::to_string(shown[i].example + 1), {shown[i].answer, shown[i].given, texts[i]});
  return {std::move(title), std::move(table)};
}

Section confusion_section(const Dataset& data, std::span<const Prediction> predictions) {
  std::vector<TableColumn> columns;
  for (std::int64_t c = 0; c < data.classes; ++c)
    columns.push_back({"given " + class_name(data, static_cast<std::int32_t>(c)), Quantity::count});
  Table table(columns, "right answer");
  const std::vector<std::vector<std::int64_t>> counts = confusion(predictions, data.classes);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    std::vector<TableCell> cells;
    for (const std::int64_t count : counts[c]) cells.emplace_back(std::to_string(count));
    table.add(class_name(data, static_cast<std::int32_t>(c)), std::move(cells));
  }
  return {"What is taken for what", std::move(table)};
}

// The first rows of an input as token ids.
std::vector<std::int32_t> ids_of(const Input& input, std::int64_t most) {
  std::vector<std::int32_t> ids = input.ids.to_vector<std::int32_t>();
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(most)));
  return ids;
}

// As many examples of a split as are shown, spread over it.
std::vector<std::int64_t> some_of(const Split& split, std::int64_t count) {
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < std::min(count, split.size()); ++i) picks.push_back(i * split.size() / count);
  return picks;
}

struct Prompted {
  std::vector<std::string> prompts, wanted;  // wanted: of translations
};

Prompted prompts_of(const Context& context, const Dataset& data, const Split& split, bool translates) {
  Prompted out;
  for (const std::int64_t pick : some_of(split, translates ? std::int64_t{kShown} : kPrompts)) {
    const Batch batch = make_batch(context, split, std::span(&pick, 1));
    const auto text = [&](const std::vector<std::int32_t>& ids) { return data.tokenizer->decode(ids); };
    out.prompts.push_back(text(ids_of(batch.input, translates ? INT64_MAX : kPromptTokens)));
    if (translates) out.wanted.push_back(text(ids_of(batch.second, INT64_MAX)));
  }
  return out;
}

}  // namespace

std::string readable(std::string_view text, std::size_t most) {
  std::string out;
  std::size_t characters = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (begins && characters++ == most) return out + " ...";
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::vector<std::string> example_texts(const Context& context, const Dataset& data, const Split& split,
                                       std::span<const std::int64_t> examples) {
  std::vector<std::string> texts;
  for (const std::int64_t example : examples) {
    const Batch batch = make_batch(context, split, std::span(&example, 1));
    std::string text;
    if (data.tokenizer && batch.input.ids.defined()) {
      text = readable(data.tokenizer->decode(batch.input.ids.to_vector<std::int32_t>()));
      if (batch.second.ids.defined())
        text += " | " + readable(data.tokenizer->decode(batch.second.ids.to_vector<std::int32_t>()));
    }
    texts.push_back(text.empty() ? fmt::format("{} tokens", batch.input.tokens()) : std::move(text));
  }
  return texts;
}

std::vector<Section> class_sections(const Context& context, const Dataset& data, const Split& split,
                                    std::span<const Prediction> predictions) {
  std::vector<Prediction> right, wrong;
  for (const Prediction& p : predictions) (p.answer == p.given ? right : wrong).push_back(p);
  std::stable_sort(wrong.begin(), wrong.end(),
                   [](const Prediction& a, const Prediction& b) { return a.confidence > b.confidence; });
  right.resize(std::min(right.size(), kShown));
  wrong.resize(std::min(wrong.size(), kShown));
  constexpr std::int64_t kMostClasses = 20;
  std::vector<Section> sections;
  if (data.classes <= kMostClasses) sections.push_back(confusion_section(data, predictions));
  if (!wrong.empty()) sections.push_back(examples_section("Wrong, the surest first", context, data, split, wrong));
  if (!right.empty()) sections.push_back(examples_section("Right", context, data, split, right));
  return sections;
}

std::vector<Section> number_sections(const Context& context, const Dataset& data, const Split& split,
                                     std::span<const NumberPrediction> predictions) {
  std::vector<NumberPrediction> sorted(predictions.begin(), predictions.end());
  const auto error = [](const NumberPrediction& p) { return std::abs(p.given - p.answer); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return error(a) > error(b); });
  const std::size_t count = std::min(kShown, sorted.size());
  const std::span<const NumberPrediction> all(sorted);
  return {numbers_section("Furthest off", context, data, split, all.first(count)),
          numbers_section("Nearest", context, data, split, all.last(count))};
}

std::vector<Section> text_sections(Context& context, const Model& model, const Dataset& data, const Split& split) {
  const Task task = model.config().task;
  const bool translates = task == Task::seq2seq;
  if (!data.tokenizer || (task != Task::lm && !translates)) return {};
  const Prompted texts = prompts_of(context, data, split, translates);
  GenerateOptions options{
      .max_tokens = kNewTokens, .temperature = translates ? 0.0 : 0.8, .top_k = translates ? 0 : 40};
  std::vector<Generated> results;
  try {
    Generator generator(context, model);
    results = generate_text(generator, *data.tokenizer, texts.prompts, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {};  // a mechanism that has no step form
  }
  std::vector<TableColumn> columns{{translates ? "made of it" : "goes on", Quantity::text}};
  if (translates) columns.push_back({"somebody else's", Quantity::text});
  Table table(columns, translates ? "line" : "beginning");
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::vector<TableCell> cells{readable(results[i].text, 600)};
    if (translates) cells.emplace_back(readable(texts.wanted[i]));
    table.add(readable(texts.prompts[i]), std::move(cells));
  }
  return {{translates ? "Translations" : "Samples (temperature 0.8, the 40 most likely tokens)", std::move(table)}};
}

}  // namespace fovea
