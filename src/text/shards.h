#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/folder.h"

// Token ids of a corpus on disk: a folder with tokens-00000.bin, ... (little-endian, two bytes an id where the
// vocabulary fits, else four) and index.json, which says what they must hold.
namespace fovea {

struct ShardOptions {
  std::int64_t vocabulary = 0;          // ids are below this
  std::string tokenizer;                // its fingerprint; empty: unknown
  std::int64_t shard_tokens = 1 << 28;  // of a file
};

// Writes a folder that appears whole or not at all.
class ShardWriter {
 public:
  ShardWriter(const Path& folder, const ShardOptions& options);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void append(std::span<const std::int32_t> ids);  // refuses an id that is not of the vocabulary
  std::int64_t tokens() const { return total_; }
  void commit();

 private:
  void flush();
  void close_shard();

  struct Shard {
    std::string file;
    std::int64_t tokens = 0;
    std::int32_t largest = 0;
  };

  ShardOptions options_;
  bool wide_;
  AtomicFolder folder_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<Shard> shards_;
  std::string buffer_;
  std::int64_t total_ = 0;
};

// The ids as one long sequence, read from the mapped files as they are needed. A view: copies share the mapping.
class TokenStream {
 public:
  // Refuses a folder whose files are not as long as its index says, or whose ids are not of its vocabulary.
  explicit TokenStream(const Path& folder);

  std::int64_t size() const { return size_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  const std::string& tokenizer() const { return tokenizer_; }  // the fingerprint; empty: unknown

  std::int32_t operator[](std::int64_t at) const;
  // Copies the ids from `begin` on. An id beyond the vocabulary (a file that was changed) is refused by its place.
  void read(std::int64_t begin, std::span<std::int32_t> out) const;

  // A part of it; the whole is [0, size()).
  TokenStream slice(std::int64_t begin, std::int64_t end) const;

 private:
  struct Shard {
    Path path;
    std::int64_t begin, end;  // among all ids
    MappedFile file;
  };

  const Shard& shard_at(std::int64_t at) const;
  void read_shard(const Shard& shard, std::int64_t begin, std::span<std::int32_t> out) const;

  std::vector<std::shared_ptr<const Shard>> shards_;
  std::int64_t first_ = 0, size_ = 0, vocabulary_ = 0;
  bool wide_ = false;
  std::string tokenizer_;
};

}  // namespace fovea
