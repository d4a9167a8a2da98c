#include <fmt/format.h>

#include <unordered_map>

#include "data/text/labelled_parts.h"

// Pairs of papers of which one cites the other, or not.
namespace fovea {
namespace {

constexpr std::string_view kPapers[] = {"papers.tsv"}, kArena[] = {"new_aan_pairs.train.tsv"};

struct PaperPairs {
  std::vector<std::string> texts;
  std::vector<LabelledPick> train, validation, test;
};

// Papers by name: a place in the list of texts.
class Papers {
 public:
  // False: it is there already.
  bool add(std::string_view name, std::string_view text) {
    const bool is_new = places_.emplace(name, std::ssize(texts)).second;
    if (is_new) texts.emplace_back(text);
    return is_new;
  }
  std::int64_t place(std::string_view name, const std::string& where) const {
    const auto found = places_.find(std::string(name));
    if (found == places_.end())
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is not in papers.tsv", name.substr(0, 40)), where);
    return found->second;
  }

  std::vector<std::string> texts;

 private:
  std::unordered_map<std::string, std::int64_t> places_;
};

// papers.tsv: a name and a text a line; pairs.train.tsv: a label and two names.
PaperPairs read_papers(const Path& folder, std::size_t cap) {
  Papers papers;
  const TextLines file(require_file(folder, kPapers), cap);
  for (std::size_t line = 0; line < file.size(); ++line) {
    const auto fields = file.fields(line);
    if (fields.size() != 2 || fields[1].empty())
      fail(ErrorCode::bad_input, fmt::format("expected a name and a text, got {} fields", fields.size()),
           file.where(line));
    if (!papers.add(fields[0], fields[1]))
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is there twice", fields[0]), file.where(line));
  }
  const auto part = [&](std::string_view name) {
    const std::string pairs_file = fmt::format("pairs.{}.tsv", name);
    const std::string_view names[] = {pairs_file};
    const TextLines pairs(require_file(folder, names), cap);
    std::vector<LabelledPick> picks;
    for (std::size_t line = 0; line < pairs.size(); ++line) {
      const auto fields = pairs.fields(line);
      if (fields.size() != 3 || (fields[0] != "0" && fields[0] != "1"))
        fail(ErrorCode::bad_input, "expected 0 or 1 and two names", pairs.where(line), "fields are separated by tabs");
      const auto place = [&](std::size_t field) { return papers.place(fields[field], pairs.where(line)); };
      picks.push_back({place(1), place(2), fields[0] == "1"});
    }
    return picks;
  };
  PaperPairs out{{}, part("train"), part("valid"), part("test")};
  out.texts = std::move(papers.texts);
  return out;
}

// new_aan_pairs.train.tsv, .eval.tsv, .test.tsv: label, two names, two texts a line; a paper is in many of them. Texts
// are cut to `longest` bytes: nothing beyond is read.
PaperPairs read_arena(const Path& folder, std::size_t cap, std::size_t longest) {
  Papers papers;
  const auto part = [&](std::string_view name) {
    const std::string file_name = fmt::format("new_aan_pairs.{}.tsv", name);
    const std::string_view names[] = {file_name};
    const TextLines file(require_file(folder, names), cap);
    std::vector<LabelledPick> picks;
    for (std::size_t line = 0; line < file.size(); ++line) {
      const auto fields = tab_fields(file[line], 5);
      const bool yes = !fields.empty() && (fields[0] == "1.0" || fields[0] == "1");
      if (fields.size() != 5 || (!yes && fields[0] != "0.0" && fields[0] != "0") || fields[3].empty() ||
          fields[4].empty())
        fail(ErrorCode::bad_input, "expected 0 or 1, two names and two texts", file.where(line),
             "fields are separated by tabs");
      for (const std::size_t text : {3, 4}) papers.add(fields[text - 2], fields[text].substr(0, longest));
      picks.push_back({papers.place(fields[1], {}), papers.place(fields[2], {}), yes});
    }
    return picks;
  };
  PaperPairs out{{}, part("train"), part("eval"), part("test")};
  out.texts = std::move(papers.texts);
  return out;
}

}  // namespace

bool is_paper_pairs(const Path& folder) { return find_file(folder, kPapers) || find_file(folder, kArena); }

Dataset load_paper_pairs(const Context& context, const DataSettings& settings, const DataUse& use) {
  constexpr std::size_t kLongestCharacter = 4;
  const Path folder = settings.source;
  const std::int64_t length = chosen_length(settings, use, kUsualTextLength);
  PaperPairs pairs = find_file(folder, kPapers)
                         ? read_papers(folder, within_memory(kTextCap, context))
                         : read_arena(folder, within_memory(kArrayCap, context),
                                      kLongestCharacter * static_cast<std::size_t>(length) + kUsualTextLength);
  const std::vector<std::string_view> views(pairs.texts.begin(), pairs.texts.end());
  Dataset data;
  data.name = data_name(settings);
  data.task = Task::match;
  data.classes = 2;
  data.tokenizer = chosen_tokenizer(context, settings, use, "bytes", views);
  data.vocabulary = data.tokenizer->vocabulary();
  const auto texts = TextEncoder(context, data.tokenizer, length)(views);
  TextParts parts{{texts, texts, std::move(pairs.train)},
                  {texts, texts, std::move(pairs.validation)},
                  {texts, texts, std::move(pairs.test)}};
  parts.cut(settings);
  parts.fill(data);
  return data;
}

}  // namespace fovea
