#include "text/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "fovea/error.h"
#include "io/fields.h"
#include "io/json.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian, and are read as they are");

constexpr std::size_t kIndexCap = 64 << 20;
constexpr std::size_t kBuffer = 1 << 20;
constexpr std::int64_t kNarrow = 65536;  // ids that fit two bytes

struct ShardEntry {
  std::string file;
  std::int64_t tokens = 0;
  std::int64_t largest = 0;

  template <class V>
  void fields(V& v) {
    v("file", file, "name in this folder");
    v("tokens", tokens, "ids in it", at_least(0));
    v("largest", largest, "largest id in it", at_least(0));
  }
};

struct Index {
  std::string format = "fovea-tokens";
  std::int64_t version = 1;
  std::int64_t vocabulary = 0;
  std::int64_t bytes = 2;
  std::int64_t tokens = 0;
  std::string tokenizer;
  std::vector<ShardEntry> shards;

  template <class V>
  void fields(V& v) {
    v("format", format, "what this folder is", one_of({"fovea-tokens"}));
    v("version", version, "of the format", between(1, 1));
    v("vocabulary", vocabulary, "ids are below this", between(1, 2147483647.0));
    v("bytes", bytes, "of an id", between(2, 4));
    v("tokens", tokens, "ids in all", at_least(0));
    v("tokenizer", tokenizer, "fingerprint of the tokeniser that made them");
    v("shards", shards, "the files, in order");
  }
};

template <class Id>
void widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace

ShardWriter::ShardWriter(const Path& folder, const ShardOptions& options)
    : options_(options), wide_(options.vocabulary > kNarrow), folder_(folder) {
  if (options.vocabulary < 1 || options.shard_tokens < 1)
    fail(ErrorCode::usage, "a vocabulary and a shard have at least one token", folder.string());
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= options_.vocabulary)
      fail(ErrorCode::bad_input, fmt::format("id {} of a vocabulary of {}", id, options_.vocabulary),
           fmt::format("token {}", total_));
    if (file_ == nullptr) {
      shards_.push_back({fmt::format("tokens-{:05}.bin", shards_.size())});
      file_ = std::make_unique<AtomicFile>(folder_.path() / shards_.back().file);
    }
    buffer_.append(reinterpret_cast<const char*>(&id), wide_ ? 4 : 2);  // little-endian: the low bytes come first
    Shard& shard = shards_.back();
    shard.largest = std::max(shard.largest, id);
    ++shard.tokens;
    ++total_;
    if (buffer_.size() >= kBuffer) flush();
    if (shard.tokens == options_.shard_tokens) close_shard();
  }
}

void ShardWriter::flush() {
  if (file_ != nullptr) file_->write(buffer_);
  buffer_.clear();
}

void ShardWriter::close_shard() {
  flush();
  if (file_ != nullptr) file_->commit();
  file_ = nullptr;
}

void ShardWriter::commit() {
  close_shard();
  Index index;
  index.vocabulary = options_.vocabulary;
  index.bytes = wide_ ? 4 : 2;
  index.tokens = total_;
  index.tokenizer = options_.tokenizer;
  for (const Shard& shard : shards_) index.shards.push_back({shard.file, shard.tokens, shard.largest});
  write_file(folder_.path() / "index.json", json_text(write_fields(index)));
  folder_.commit();
}

TokenStream::TokenStream(const Path& folder) {
  const Path inside = committed_folder(folder), path = inside / "index.json";
  Index index;
  read_fields(index, parse_json(read_file(path, kIndexCap), path.string()), path.string());
  if (index.bytes == 3) fail(ErrorCode::bad_input, "ids have 2 or 4 bytes, not 3", path.string());
  vocabulary_ = index.vocabulary;
  wide_ = index.bytes == 4;
  tokenizer_ = index.tokenizer;
  for (const ShardEntry& entry : index.shards) {
    if (Path(entry.file).filename() != entry.file || entry.file.empty())
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is not the name of a file in this folder", entry.file),
           path.string());
    if (entry.largest >= vocabulary_)
      fail(ErrorCode::bad_input,
           fmt::format("{} has the id {}, beyond the vocabulary of {}", entry.file, entry.largest, vocabulary_),
           path.string());
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    if (entry.tokens > kMost - size_) fail(ErrorCode::bad_input, "more tokens than any disk holds", path.string());
    auto shard = std::make_shared<const Shard>(
        Shard{inside / entry.file, size_, size_ + entry.tokens, MappedFile(inside / entry.file)});
    const auto bytes = static_cast<std::int64_t>(shard->file.bytes().size());
    if (bytes != entry.tokens * index.bytes)
      fail(ErrorCode::bad_input,
           fmt::format("{} bytes; the index says {} tokens of {} bytes, {}", bytes, entry.tokens, index.bytes,
                       entry.tokens * index.bytes),
           shard->path.string(), "the file is incomplete or belongs to another folder: copy or make it again");
    size_ = shard->end;
    shards_.push_back(std::move(shard));
  }
  if (size_ != index.tokens)
    fail(ErrorCode::bad_input, fmt::format("the files hold {} tokens, the index says {}", size_, index.tokens),
         path.string());
}

const TokenStream::Shard& TokenStream::shard_at(std::int64_t at) const {
  const auto after = std::upper_bound(shards_.begin(), shards_.end(), at,
                                      [](std::int64_t place, const auto& shard) { return place < shard->end; });
  return **after;
}

std::int32_t TokenStream::operator[](std::int64_t at) const {
  std::int32_t id = 0;
  read(at, {&id, 1});
  return id;
}

void TokenStream::read(std::int64_t begin, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (begin < 0 || begin > size_ || count > size_ - begin)
    fail(ErrorCode::usage, fmt::format("tokens {} to {} of {}", begin, begin + count, size_));
  std::int64_t at = first_ + begin;
  while (!out.empty()) {
    const Shard& shard = shard_at(at);
    const auto here =
        static_cast<std::size_t>(std::min<std::int64_t>(shard.end - at, static_cast<std::int64_t>(out.size())));
    read_shard(shard, at, out.first(here));
    out = out.subspan(here);
    at += static_cast<std::int64_t>(here);
  }
}

// The largest id is looked for after the copy: one pass over memory that is in the cache.
void TokenStream::read_shard(const Shard& shard, std::int64_t begin, std::span<std::int32_t> out) const {
  const std::byte* from = shard.file.bytes().data() + (begin - shard.begin) * (wide_ ? 4 : 2);
  wide_ ? widen<std::uint32_t>(from, out) : widen<std::uint16_t>(from, out);
  std::uint32_t largest = 0;
  for (const std::int32_t id : out) largest = std::max(largest, static_cast<std::uint32_t>(id));
  if (largest < vocabulary_) return;
  const auto wrong = std::find_if(out.begin(), out.end(), [&](std::int32_t id) { return id < 0 || id >= vocabulary_; });
  fail(ErrorCode::bad_input,
       fmt::format("id {} of a vocabulary of {}", static_cast<std::uint32_t>(*wrong), vocabulary_),
       fmt::format("{}, token {}", shard.path.string(), begin - shard.begin + (wrong - out.begin())),
       "the file was changed after it was written: make it again");
}

TokenStream TokenStream::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > size_)
    fail(ErrorCode::usage, fmt::format("tokens {} to {} of {}", begin, end, size_));
  TokenStream part = *this;
  part.first_ = first_ + begin;
  part.size_ = end - begin;
  return part;
}

}  // namespace fovea
