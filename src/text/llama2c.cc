#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fovea/error.h"
#include "io/xz.h"
#include "text/document.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

constexpr const char* kMark = "\xE2\x96\x81";  // U+2581, which stands for a space

struct Entry {
  std::string token;
  float score;
};

// int32 longest, then for each token: float32 score, int32 size, bytes.
std::vector<Entry> read_entries(const Path& path) {
  const std::string file = read_maybe_xz(path, kTokenizerCap);
  std::size_t at = 0;
  const auto take = [&]<class T>(T& value) {
    if (file.size() - at < sizeof(T))
      fail(ErrorCode::bad_input, "the file ends inside a token", path.string(), "copy it again");
    std::memcpy(&value, file.data() + at, sizeof(T));
    at += sizeof(T);
  };
  std::int32_t longest = 0;
  take(longest);
  std::vector<Entry> entries;
  while (at < file.size()) {
    float score = 0;
    std::int32_t size = 0;
    take(score);
    take(size);
    constexpr std::int32_t kLongest = 1024;  // all ways to cut a token in two are tried
    if (size < 0 || size > std::min(longest, kLongest) || !std::isfinite(score) ||
        static_cast<std::size_t>(size) > file.size() - at)
      fail(ErrorCode::bad_input, fmt::format("token {} is damaged", entries.size()), path.string(),
           "expected a tokenizer.bin of llama2.c");
    entries.push_back({file.substr(at, static_cast<std::size_t>(size)), score});
    at += static_cast<std::size_t>(size);
  }
  constexpr std::size_t kLeast = 3 + 256;  // <unk>, <s>, </s> and the bytes
  if (entries.size() < kLeast)
    fail(ErrorCode::bad_input, "too few tokens for a tokenizer.bin of llama2.c", path.string());
  return entries;
}

// As sentencepiece writes it: spaces marked, the ends of text without their line ends.
std::string name_of(const std::string& token, std::size_t id) {
  if (id == 0) return "<unk>";
  if (id == 1) return "<s>";
  if (id == 2) return "</s>";
  if (id < 3 + 256) return byte_token(static_cast<unsigned char>(id - 3));
  std::string out;
  for (const char c : token) out += c == ' ' ? std::string(kMark) : std::string(1, c);
  return out;
}

// The file has scores in the place of merges: tokens of a higher score are made earlier, from any two that give them.
void find_merges(const std::vector<Entry>& entries, ModelData& data) {
  std::vector<std::size_t> order;
  for (std::size_t id = 3 + 256; id < entries.size(); ++id) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return entries[a].score > entries[b].score; });
  for (const std::size_t id : order) {
    const std::string& token = *data.vocabulary.token(static_cast<std::int64_t>(id));
    for (std::size_t cut = decode(token, 0).size; cut < token.size(); cut += decode(token, cut).size)
      if (data.vocabulary.find(token.substr(0, cut)) && data.vocabulary.find(token.substr(cut)))
        data.merges.emplace_back(token.substr(0, cut), token.substr(cut));
  }
}

}  // namespace

Document read_llama2c(const Path& path) {
  const std::vector<Entry> entries = read_entries(path);
  Document document;
  document.where = path.string();
  for (std::size_t id = 0; id < entries.size(); ++id) {
    const std::string name = name_of(entries[id].token, id);
    if (name.empty() || !is_valid_utf8(name))
      fail(ErrorCode::bad_input, fmt::format("token {} is not UTF-8", id), path.string());
    document.data.vocabulary.add(name, static_cast<std::int32_t>(id));
  }
  find_merges(entries, document.data);
  JsonMap& settings = document.settings = empty_settings("BPE");
  const JsonMap space = {{"String", " "}}, mark = {{"String", kMark}};
  settings["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", kMark}}, {{"type", "Replace"}, {"pattern", space}, {"content", kMark}}}}};
  settings["decoder"] = {{"type", "Sequence"},
                         {"decoders",
                          {{{"type", "Replace"}, {"pattern", mark}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  settings["post_processor"] = template_json("<s> $A", "<s> $A <s>:1 $B:1", document.data.vocabulary);
  settings["model"] = {{"type", "BPE"}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}};
  const char* names[] = {"<unk>", "<s>", "</s>"};
  for (std::int32_t id = 0; id < 3; ++id)
    settings["added_tokens"].push_back(added_token_json({.content = names[id], .id = id, .special = true}));
  document.roles = {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return document;
}

}  // namespace fovea::text
