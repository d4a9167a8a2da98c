#include "fovea/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"
#include "fovea/error.h"
#include "io/file.h"
#include "text/byte_level.h"
#include "text/pipeline.h"
#include "text/state.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea {
namespace {

using text::Run;

// White space at the ends of a token, in characters: of the text where the token was found as it is, else of its name,
// where U+0120 is a space too.
std::pair<std::uint32_t, std::uint32_t> spaces_of(std::string_view name) {
  std::uint32_t left = 0, right = 0;
  bool only_space = true;
  text::for_characters(name, [&](const text::Character& c, std::size_t) {
    const bool space = c.code == text::kByteSpace || text::is_white_space(c.code);
    only_space = only_space && space;
    if (only_space) ++left;
    right = space ? right + 1 : 0;
  });
  return {left, right};
}

text::Sources sources_of(const text::Pipeline& pipeline, std::string_view first, std::string_view second) {
  return {{first, second}, [&pipeline](std::int32_t id, std::string_view found) {
            return spaces_of(pipeline.is_added(id) ? found : std::string_view(*pipeline.token(id)));
          }};
}

void shorten(Encoding& encoding, std::size_t length, bool left) {
  if (encoding.ids.size() <= length) return;
  const auto gone = static_cast<std::ptrdiff_t>(encoding.ids.size() - length);
  const auto cut = [&](auto& list) {
    if (list.empty()) return;
    left ? list.erase(list.begin(), list.begin() + gone) : list.erase(list.end() - gone, list.end());
  };
  cut(encoding.ids);
  cut(encoding.offsets);
  cut(encoding.types);
  cut(encoding.special);
}

// So that both together have `length` tokens at most: the longer one loses first, then both evenly.
std::pair<std::size_t, std::size_t> shares(std::size_t first, std::size_t second, std::size_t length) {
  const bool swapped = first > second;
  std::size_t low = std::min(first, second), high = std::max(first, second);
  high = low > length ? low : std::max(low, length - low);
  if (low + high > length) {
    low = length / 2;
    high = low + length % 2;
  }
  return swapped ? std::pair(high, low) : std::pair(low, high);
}

void truncate(std::vector<Run>& runs, const text::Truncation& how, std::size_t length) {
  using Strategy = text::Truncation::Strategy;
  std::size_t total = 0;
  for (const Run& run : runs) total += run.tokens.ids.size();
  if (total <= length) return;
  const std::size_t gone = total - length;
  const auto less = [&](Run& run) {
    const std::size_t size = run.tokens.ids.size();
    shorten(run.tokens, size - std::min(size, gone), how.left);
  };
  if (runs.size() == 1 || how.strategy == Strategy::only_first) return less(runs.front());
  if (how.strategy == Strategy::only_second) return less(runs.back());
  const auto [first, second] = shares(runs[0].tokens.ids.size(), runs[1].tokens.ids.size(), length);
  shorten(runs[0].tokens, first, how.left);
  shorten(runs[1].tokens, second, how.left);
}

Encoding joined(const std::vector<Run>& runs) {
  Encoding all;
  for (const auto& [source, more] : runs) {
    all.ids.insert(all.ids.end(), more.ids.begin(), more.ids.end());
    all.offsets.insert(all.offsets.end(), more.offsets.begin(), more.offsets.end());
    all.sources.insert(all.sources.end(), more.ids.size(), source);
    all.types.insert(all.types.end(), more.types.begin(), more.types.end());
    all.special.insert(all.special.end(), more.special.begin(), more.special.end());
  }
  return all;
}

struct Finish {
  bool special_tokens = true;
  std::size_t max_length = 0;
};

// Shortens, adds special tokens and puts the parts together.
Encoding finished(const text::Pipeline& pipeline, std::vector<Run> runs, const text::Sources& sources, Finish how) {
  const text::PostProcessor* post = pipeline.post_processor();
  if (how.max_length > 0) {
    const std::size_t extra = post != nullptr && how.special_tokens ? post->added(runs.size() > 1) : 0;
    if (extra > how.max_length)
      fail(ErrorCode::usage, fmt::format("{} tokens at most, of which {} are special ones", how.max_length, extra),
           "max_length");
    truncate(runs, pipeline.truncation(), how.max_length - extra);
  }
  if (post != nullptr) post->apply(runs, sources, how.special_tokens);
  return joined(runs);
}

Run encode_run(const text::Pipeline& pipeline, std::string_view text, int source, text::Workspace& workspace) {
  Run run{source, {}};
  pipeline.encode(text, true, workspace, run.tokens);
  run.tokens.types.assign(run.tokens.ids.size(), source);
  run.tokens.special.assign(run.tokens.ids.size(), 0);
  return run;
}

// A part of a text that one thread encodes.
struct Job {
  std::size_t text;
  std::string_view part;
};

std::vector<Job> share_out(const text::Pipeline& pipeline, std::span<const std::string_view> texts) {
  constexpr std::size_t kPart = 1 << 18;
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string_view rest = texts[i];
    while (rest.size() > 2 * kPart) {
      const std::size_t end = pipeline.safe_place(rest, kPart);
      jobs.push_back({i, rest.substr(0, end)});
      rest.remove_prefix(end);
    }
    if (!rest.empty() || jobs.empty() || jobs.back().text != i) jobs.push_back({i, rest});
  }
  return jobs;
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Tokenizer Tokenizer::load(const std::string& path) { return State::make(text::load_document(path)); }

Encoding Tokenizer::encode(std::string_view text, bool special_tokens, std::size_t max_length) const {
  const text::Pipeline& pipeline = state_->pipeline;
  text::Pipeline::Loan loan(pipeline);
  std::vector<Run> runs;
  runs.push_back(encode_run(pipeline, text, 0, *loan));
  return finished(pipeline, std::move(runs), sources_of(pipeline, text, {}), {special_tokens, max_length});
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, bool special_tokens,
                                std::size_t max_length) const {
  const text::Pipeline& pipeline = state_->pipeline;
  text::Pipeline::Loan loan(pipeline);
  std::vector<Run> runs;
  runs.push_back(encode_run(pipeline, first, 0, *loan));
  runs.push_back(encode_run(pipeline, second, 1, *loan));
  return finished(pipeline, std::move(runs), sources_of(pipeline, first, second), {special_tokens, max_length});
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_all(const Context& context,
                                                             std::span<const std::string_view> texts,
                                                             bool special_tokens) const {
  const text::Pipeline& pipeline = state_->pipeline;
  const std::vector<Job> jobs = share_out(pipeline, texts);
  std::vector<std::vector<std::int32_t>> parts(jobs.size());
  const auto count = static_cast<std::int64_t>(jobs.size());
  parallel(static_cast<int>(std::clamp<std::int64_t>(count, 1, context.threads())), [&](const Team& team) {
    text::Pipeline::Loan loan(pipeline);
    for (std::int64_t i = team.take(); i < count; i = team.take()) {
      const Job& job = jobs[static_cast<std::size_t>(i)];
      Encoding out;
      out.ids.reserve(job.part.size() / 3);
      pipeline.encode(job.part, false, *loan, out);
      parts[static_cast<std::size_t>(i)] = std::move(out.ids);
    }
  });
  std::vector<std::vector<std::int32_t>> all(texts.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::vector<std::int32_t>& ids = all[jobs[i].text];
    if (ids.empty())
      ids = std::move(parts[i]);
    else
      ids.insert(ids.end(), parts[i].begin(), parts[i].end());
  }
  if (special_tokens && pipeline.post_processor() != nullptr)
    for (std::vector<std::int32_t>& ids : all) {
      std::vector<Run> runs{{0, {.ids = std::move(ids), .offsets = {}, .sources = {}, .types = {}, .special = {}}}};
      ids = finished(pipeline, std::move(runs), sources_of(pipeline, {}, {}), {}).ids;
    }
  return all;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  return state_->pipeline.decode(ids, skip_special);
}

std::int64_t Tokenizer::vocabulary() const { return state_->pipeline.vocabulary(); }
std::optional<std::int32_t> Tokenizer::id(std::string_view token) const { return state_->pipeline.id(token); }
bool Tokenizer::is_special(std::int32_t id) const { return state_->pipeline.is_special(id); }
std::size_t Tokenizer::truncation() const { return state_->pipeline.truncation().length; }

std::string_view Tokenizer::token(std::int32_t id) const {
  const std::string* found = state_->pipeline.token(id);
  return found == nullptr ? std::string_view() : std::string_view(*found);
}

SpecialIds Tokenizer::special_ids() const {
  const auto role = [&](const char* name) -> std::optional<std::int32_t> {
    const auto& roles = state_->pipeline.document().roles;
    const auto found = roles.find(name);
    return found == roles.end() ? std::nullopt : id(found->second);
  };
  return {.bos = role("bos_token"),
          .eos = role("eos_token"),
          .pad = role("pad_token"),
          .unk = role("unk_token"),
          .mask = role("mask_token"),
          .cls = role("cls_token"),
          .sep = role("sep_token")};
}

// FNV-1a of the file that save() writes.
std::string Tokenizer::fingerprint() const {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : text::document_text(state_->pipeline.document()))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

void Tokenizer::save(const std::string& folder) const {
  const text::Document& document = state_->pipeline.document();
  make_folder(folder);
  write_file(Path(folder) / "tokenizer.json", text::document_text(document));
  write_file(Path(folder) / "tokenizer_config.json", text::config_text(document));
}

}  // namespace fovea
