#include <fmt/format.h>

#include "fovea/error.h"
#include "text/model.h"

namespace fovea::text {

void Vocabulary::add(std::string token, std::int32_t id) {
  constexpr std::int32_t kMost = 1 << 22;  // a file may not make us allocate for ids that nobody has: 32 MB
  if (id < 0 || id >= kMost)
    fail(ErrorCode::bad_input, fmt::format("token \"{}\" has the id {}; ids are 0 to {}", token, id, kMost - 1));
  const auto at = static_cast<std::size_t>(id);
  if (at >= tokens_.size()) tokens_.resize(at + 1, nullptr);
  if (tokens_[at] != nullptr && *tokens_[at] != token)
    fail(ErrorCode::bad_input, fmt::format("tokens \"{}\" and \"{}\" have the same id {}", *tokens_[at], token, id));
  const auto entry = ids_.insert_or_assign(std::move(token), id).first;
  tokens_[at] = &entry->first;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::token(std::int64_t id) const {
  return id < 0 || id >= size() ? nullptr : tokens_[static_cast<std::size_t>(id)];
}

std::string model_type(Settings& settings) {
  if (const auto type = settings.maybe_text("type")) return *type;
  if (settings.find("merges") != nullptr) return "BPE";
  if (settings.find("unk_id") != nullptr) return "Unigram";
  if (settings.find("max_input_chars_per_word") != nullptr) return "WordPiece";
  return "WordLevel";
}

}  // namespace fovea::text
