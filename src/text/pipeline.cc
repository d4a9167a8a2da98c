#include "text/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/error.h"
#include "text/byte_level.h"
#include "text/unicode.h"

namespace fovea::text {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 30;  // places are 32-bit, and a text may grow when normalized

bool is_byte_level(const JsonMap& pre) {
  const std::string type = text_at(pre, "type");
  if (type != "Sequence") return type == "ByteLevel";
  const auto parts = pre.find("pretokenizers");
  return parts != pre.end() && parts->is_array() && !parts->empty() && is_byte_level(parts->back());
}

// Pieces may be handed to the model as bytes when it is BPE whose symbols are bytes and nothing else.
bool reads_bytes(const JsonMap& settings, const std::string& type) {
  const JsonMap& model = settings.at("model");
  const auto empty = [&](const char* name) {
    const auto found = model.find(name);
    if (found == model.end() || found->is_null() || *found == false) return true;
    return found->is_string() && found->get_ref<const std::string&>().empty();
  };
  const auto pre = settings.find("pre_tokenizer");
  return type == "BPE" && pre != settings.end() && is_byte_level(*pre) && empty("continuing_subword_prefix") &&
         empty("end_of_word_suffix") && empty("byte_fallback");
}

std::unique_ptr<Model> read_model(Settings settings, const ModelData& data, bool bytes) {
  const std::string type = model_type(settings);
  std::unique_ptr<Model> made;
  if (type == "BPE")
    made = read_bpe(settings, data, bytes);
  else if (type == "WordPiece")
    made = read_wordpiece(settings, data);
  else if (type == "Unigram")
    made = read_unigram(settings, data);
  else if (type == "WordLevel")
    made = read_wordlevel(settings, data);
  else
    settings.refuse_type(type, {"BPE", "Unigram", "WordLevel", "WordPiece"});
  settings.finish();
  return made;
}

}  // namespace

Pipeline::Pipeline(Document document) : document_(std::move(document)) {
  Settings top(document_.settings, document_.where);
  Settings model = top.inside("model");
  const bool bytes = reads_bytes(document_.settings, model_type(model));
  model_ = read_model(top.inside("model"), document_.data, bytes);
  if (top.find("normalizer") != nullptr) normalizer_ = read_normalizer(top.inside("normalizer"));
  if (top.find("pre_tokenizer") != nullptr) pre_ = read_pre_tokenizers(top.inside("pre_tokenizer"), bytes);
  if (top.find("post_processor") != nullptr) post_ = read_post_processor(top.inside("post_processor"));
  if (top.find("decoder") != nullptr) decoder_ = read_decoder(top.inside("decoder"));
  if (top.find("truncation") != nullptr) read_truncation(top.inside("truncation"));
  size_ = document_.data.vocabulary.size();
  if (const JsonMap* added = top.find("added_tokens")) read_added_tokens(*added);
  can_cut_ = cuts_keep_tokens();
}

void Pipeline::read_added_tokens(const JsonMap& list) {
  if (!list.is_array()) fail(ErrorCode::bad_input, "expected a list", document_.where + ".added_tokens");
  std::size_t index = 0;
  for (const JsonMap& entry : list) {
    const std::string where = fmt::format("{}.added_tokens[{}]", document_.where, index++);
    AddedToken token = read_added_token(Settings(entry, where));
    if (token.content.empty()) continue;
    if (const auto known = document_.data.vocabulary.find(token.content)) token.id = *known;
    constexpr std::int32_t kMost = 1 << 22;
    if (token.id >= kMost)
      fail(ErrorCode::bad_input, fmt::format("id {}; ids are 0 to {}", token.id, kMost - 1), where);
    const std::string* other = document_.data.vocabulary.token(token.id);
    const auto earlier = added_.find(token.id);
    if ((other != nullptr && *other != token.content) ||
        (earlier != added_.end() && earlier->second.content != token.content))
      fail(ErrorCode::bad_input, fmt::format("id {} belongs to another token than \"{}\"", token.id, token.content),
           where);
    size_ = std::max<std::int64_t>(size_, token.id + 1);
    added_ids_[token.content] = token.id;
    added_[token.id] = token;
    token.normalized ? normalized_.add(token, normalizer_.get()) : raw_.add(token, nullptr);
  }
}

void Pipeline::read_truncation(Settings settings) {
  constexpr std::array<std::string_view, 3> kStrategies{"LongestFirst", "OnlyFirst", "OnlySecond"};
  truncation_.length = static_cast<std::size_t>(settings.number("max_length", 0));
  truncation_.left = settings.text("direction", "Right") == "Left";
  const std::string strategy = settings.text("strategy", "LongestFirst");
  const auto found = std::find(kStrategies.begin(), kStrategies.end(), strategy);
  if (found == kStrategies.end()) settings.refuse("unknown strategy \"" + strategy + "\"", "strategy");
  truncation_.strategy = static_cast<Truncation::Strategy>(found - kStrategies.begin());
  settings.ignore({"stride"});
  settings.finish();
}

// Cuts are made before a space that follows a letter or digit. That separates pieces anyway unless a normalizer looks
// further than a character, or an added token spans it.
bool Pipeline::cuts_keep_tokens() const {
  constexpr std::array<std::string_view, 7> kLocal{"BertNormalizer", "Lowercase", "NFC",         "NFD",
                                                   "NFKC",           "NFKD",      "StripAccents"};
  const std::string type = text_at(document_.settings.value("normalizer", JsonMap()), "type");
  if (normalizer_ != nullptr && std::find(kLocal.begin(), kLocal.end(), type) == kLocal.end()) return false;
  for (const auto& [id, token] : added_)
    if (token.strip_right || token.content.find(' ') != std::string::npos) return false;
  const JsonMap pre = document_.settings.value("pre_tokenizer", JsonMap());
  return pre_.at_spaces || (pre_.only_gpt2 && pre.value("use_regex", true));
}

std::size_t Pipeline::safe_place(std::string_view text, std::size_t from) const {
  return can_cut_ ? gpt2_safe_place(text, from) : text.size();
}

void Pipeline::encode(std::string_view text, bool offsets, Workspace& workspace, Encoding& out) const {
  if (text.size() > kLongestText) fail(ErrorCode::usage, "a text of more than 1 GB", {}, "encode it in several parts");
  const auto add_token = [&](const Segment& segment, Range original) {
    out.ids.push_back(segment.id);
    if (offsets) out.offsets.emplace_back(original.begin, original.end);
  };
  const bool repair = normalizer_ != nullptr || !pre_.only_gpt2;
  workspace.segments.clear();
  raw_.cut(text, {0, static_cast<std::uint32_t>(text.size())}, workspace.segments);
  for (const Segment& segment : workspace.segments) {
    if (segment.id >= 0) {
      add_token(segment, segment.range);
      continue;
    }
    Pieces pieces{AlignedText(text, segment.range, repair), {}};
    if (normalizer_ != nullptr) normalizer_->apply(pieces.text);
    workspace.inner.clear();
    normalized_.cut(pieces.text.text(), {0, pieces.text.size()}, workspace.inner);
    for (const Segment& inner : workspace.inner) {
      if (inner.id >= 0) {
        add_token(inner, pieces.text.original(inner.range));  // NOLINT(bugprone-use-after-move): only the last moves
        continue;
      }
      const bool alone = workspace.inner.size() == 1;
      Pieces part = alone ? std::move(pieces) : Pieces{pieces.text, {}};
      part.ranges = {inner.range};
      for (const auto& stage : pre_.stages) stage->apply(part);
      encode_pieces(part, offsets, workspace, out);
    }
  }
}

void Pipeline::encode_pieces(const Pieces& pieces, bool offsets, Workspace& workspace, Encoding& out) const {
  const std::string_view text = pieces.text.text();
  std::vector<Token>& tokens = workspace.tokens;
  for (const Range& range : pieces.ranges) {
    const std::string_view piece = text.substr(range.begin, range.size());
    tokens.clear();
    if (!workspace.cache.find(piece, tokens)) {
      model_->encode(piece, workspace.scratch, tokens);
      workspace.cache.keep(piece, tokens);
    }
    for (const Token& token : tokens) {
      out.ids.push_back(token.id);
      if (!offsets) continue;
      const Range original = pieces.text.original({range.begin + token.range.begin, range.begin + token.range.end});
      out.offsets.emplace_back(original.begin, original.end);
    }
  }
}

std::string Pipeline::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string* token = this->token(id);
    if (token == nullptr || (skip_special && is_special(id))) continue;
    tokens.push_back(*token);
  }
  if (decoder_ == nullptr) return fmt::format("{}", fmt::join(tokens, " "));
  if (tokens.empty()) return {};
  decoder_->apply(tokens);
  return fmt::format("{}", fmt::join(tokens, ""));
}

std::optional<std::int32_t> Pipeline::id(std::string_view token) const {
  const auto added = added_ids_.find(std::string(token));
  return added != added_ids_.end() ? std::optional(added->second) : document_.data.vocabulary.find(token);
}

const std::string* Pipeline::token(std::int64_t id) const {
  const auto added = id >= 0 && id < size_ ? added_.find(static_cast<std::int32_t>(id)) : added_.end();
  return added != added_.end() ? &added->second.content : document_.data.vocabulary.token(id);
}

bool Pipeline::is_special(std::int64_t id) const {
  const auto added = id >= 0 && id < size_ ? added_.find(static_cast<std::int32_t>(id)) : added_.end();
  return added != added_.end() && added->second.special;
}

Pipeline::Loan::Loan(const Pipeline& pipeline) : pipeline_(pipeline) {
  const std::lock_guard lock(pipeline.mutex_);
  if (pipeline.idle_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(pipeline.idle_.back());
    pipeline.idle_.pop_back();
  }
}

Pipeline::Loan::~Loan() {
  const std::lock_guard lock(pipeline_.mutex_);
  pipeline_.idle_.push_back(std::move(workspace_));
}

}  // namespace fovea::text
