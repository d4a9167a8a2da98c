#include "text/post_processor.h"

#include <algorithm>
#include <map>

#include "text/utf8.h"

namespace fovea::text {
namespace {

Run special_run(std::int32_t id, std::int32_t type) { return {-1, {{id}, {{0, 0}}, {}, {type}, {1}}}; }

// Takes the white space at both ends of tokens out of their offsets.
struct Trim {
  bool prefix_space;  // one space before the first token was put there, and is not part of the text

  void apply(std::vector<Run>& runs, const Sources& sources) const {
    for (Run& run : runs) {
      if (run.source < 0 || run.tokens.offsets.empty()) continue;
      const std::string_view text = sources.texts[static_cast<std::size_t>(run.source)];
      for (std::size_t i = 0; i < run.tokens.ids.size(); ++i) {
        auto& [begin, end] = run.tokens.offsets[i];
        auto [left, right] = sources.spaces(run.tokens.ids[i], text.substr(begin, end - begin));
        if (i == 0 && prefix_space && left == 1) left = 0;
        for (; left > 0 && begin < end; --left) begin += decode(text, begin).size;
        for (; right > 0 && end > begin; --right) end = static_cast<std::uint32_t>(character_begin(text, end - 1));
      }
    }
  }
};

void set_types(Run& run, std::int32_t type) { std::fill(run.tokens.types.begin(), run.tokens.types.end(), type); }

class ByteLevelTrimming final : public PostProcessor {
 public:
  explicit ByteLevelTrimming(Settings& settings)
      : trim_(settings.flag("trim_offsets", true)), spaces_{settings.flag("add_prefix_space", true)} {
    settings.ignore({"use_regex"});
  }
  std::size_t added(bool) const override { return 0; }
  void apply(std::vector<Run>& runs, const Sources& sources, bool) const override {
    if (trim_) spaces_.apply(runs, sources);
  }

 private:
  bool trim_;
  Trim spaces_;
};

std::int32_t read_pair_id(Settings& settings, const char* name) {
  const JsonMap& pair = settings.need(name);
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_integer() || pair[1].get<double>() < 0 ||
      pair[1].get<double>() >= 0x1p31)
    settings.refuse("expected [\"token\", id]", name);
  return pair[1].get<std::int32_t>();
}

// [CLS] A [SEP] B [SEP] of BERT; <s> A </s> </s> B </s> of RoBERTa.
class Fixed final : public PostProcessor {
 public:
  Fixed(Settings& settings, bool roberta)
      : roberta_(roberta), sep_(read_pair_id(settings, "sep")), cls_(read_pair_id(settings, "cls")) {
    if (!roberta) return;
    trim_ = settings.flag("trim_offsets", true);
    spaces_ = {settings.flag("add_prefix_space", true)};
  }
  std::size_t added(bool pair) const override { return !pair ? 2 : roberta_ ? 4 : 3; }

  void apply(std::vector<Run>& runs, const Sources& sources, bool special_tokens) const override {
    if (trim_) spaces_.apply(runs, sources);
    if (roberta_)
      for (Run& run : runs) set_types(run, 0);
    if (!special_tokens) return;
    std::vector<Run> out;
    for (Run& run : runs) {
      const bool second = &run != &runs.front();
      const std::int32_t type = second && !roberta_ ? 1 : 0;
      if (!second || roberta_) out.push_back(special_run(second ? sep_ : cls_, 0));
      out.push_back(std::move(run));
      out.push_back(special_run(sep_, type));
    }
    runs = std::move(out);
  }

 private:
  bool roberta_, trim_ = false;
  Trim spaces_{false};
  std::int32_t sep_, cls_;
};

// What the file's template says: special tokens, and the texts A and B, in any order.
class Template final : public PostProcessor {
 public:
  explicit Template(Settings& settings) {
    Settings tokens = settings.inside("special_tokens");
    for (const auto& [name, entry] : settings.need("special_tokens").items()) {
      Settings token(entry, tokens.where() + "." + name);
      const JsonMap& ids = token.need("ids");
      for (const JsonMap& id : ids) {
        if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= 0x1p31)
          token.refuse("ids are whole numbers", "ids");
        special_[name].push_back(id.get<std::int32_t>());
      }
    }
    constexpr std::size_t kMost = 4096;
    single_ = read_parts(settings, "single", kMost);
    pair_ = read_parts(settings, "pair", kMost);
  }

  std::size_t added(bool pair) const override {
    std::size_t count = 0;
    for (const Part& part : pair ? pair_ : single_) count += part.ids.size();
    return count;
  }

  void apply(std::vector<Run>& runs, const Sources&, bool special_tokens) const override {
    std::vector<Run> out;
    for (const Part& part : runs.size() > 1 ? pair_ : single_) {
      if (part.source >= 0 && static_cast<std::size_t>(part.source) < runs.size()) {
        out.push_back(runs[static_cast<std::size_t>(part.source)]);
        set_types(out.back(), part.type);
      } else if (special_tokens) {
        for (const std::int32_t id : part.ids) out.push_back(special_run(id, part.type));
      }
    }
    runs = std::move(out);
  }

 private:
  struct Part {
    int source;  // -1: special tokens
    std::int32_t type;
    std::vector<std::int32_t> ids;
  };

  // With `most` special tokens in all: each may have any number of ids, and be there any number of times.
  std::vector<Part> read_parts(Settings& settings, const char* name, std::size_t most) const {
    std::vector<Part> parts;
    std::size_t tokens = 0;
    for (Settings& piece : settings.list(name)) {
      const bool special = piece.find("SpecialToken") != nullptr;
      Settings part = piece.inside(special ? "SpecialToken" : "Sequence");
      const std::string id = part.need_text("id");
      const auto type = static_cast<std::int32_t>(part.number("type_id", 0));
      const auto found = special_.find(id);
      if (special && found == special_.end()) part.refuse("\"" + id + "\" is not among the special tokens", "id");
      if (!special && id != "A" && id != "B") part.refuse("expected A or B, got \"" + id + "\"", "id");
      tokens += special ? found->second.size() : 1;
      if (tokens > most) part.refuse("more than " + std::to_string(most) + " tokens in a template");
      parts.push_back(special ? Part{-1, type, found->second} : Part{id == "B" ? 1 : 0, type, {}});
      part.finish();
      piece.finish();
    }
    return parts;
  }

  std::map<std::string, std::vector<std::int32_t>> special_;
  std::vector<Part> single_, pair_;
};

class ProcessorSequence final : public PostProcessor {
 public:
  explicit ProcessorSequence(Settings& settings) {
    for (Settings& part : settings.list("processors")) parts_.push_back(read_post_processor(part));
  }
  std::size_t added(bool pair) const override {
    std::size_t count = 0;
    for (const auto& part : parts_) count += part->added(pair);
    return count;
  }
  void apply(std::vector<Run>& runs, const Sources& sources, bool special_tokens) const override {
    for (const auto& part : parts_) part->apply(runs, sources, special_tokens);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> parts_;
};

std::unique_ptr<PostProcessor> make(const std::string& type, Settings& settings) {
  if (type == "ByteLevel") return std::make_unique<ByteLevelTrimming>(settings);
  if (type == "BertProcessing") return std::make_unique<Fixed>(settings, false);
  if (type == "RobertaProcessing") return std::make_unique<Fixed>(settings, true);
  if (type == "TemplateProcessing") return std::make_unique<Template>(settings);
  if (type == "Sequence") return std::make_unique<ProcessorSequence>(settings);
  settings.refuse_type(type, {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"});
}

}  // namespace

std::unique_ptr<PostProcessor> read_post_processor(Settings settings) {
  std::unique_ptr<PostProcessor> made = make(settings.need_text("type"), settings);
  settings.finish();
  return made;
}

}  // namespace fovea::text
