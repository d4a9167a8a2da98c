#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/document.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/word_cache.h"

namespace fovea::text {

// How a text that is too long is shortened, as the file says.
struct Truncation {
  enum class Strategy : std::uint8_t { longest_first, only_first, only_second };
  std::size_t length = 0;  // 0: the file does not ask for it
  bool left = false;       // the beginning goes
  Strategy strategy = Strategy::longest_first;
};

// What one thread needs while it encodes; kept for the next text, since the cache of words is worth it.
struct Workspace {
  Scratch scratch;
  WordCache cache;
  std::vector<Token> tokens;
  std::vector<Segment> segments, inner;
};

// The steps from text to ids and back, built from a document. Thread-safe.
class Pipeline {
 public:
  explicit Pipeline(Document document);

  const Document& document() const { return document_; }
  const Truncation& truncation() const { return truncation_; }
  const PostProcessor* post_processor() const { return post_.get(); }

  // Appends the tokens of a text, without special ones. Only the ids unless `offsets`.
  void encode(std::string_view text, bool offsets, Workspace& workspace, Encoding& out) const;

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  std::int64_t vocabulary() const { return size_; }
  std::optional<std::int32_t> id(std::string_view token) const;
  const std::string* token(std::int64_t id) const;
  bool is_special(std::int64_t id) const;
  bool is_added(std::int32_t id) const { return added_.contains(id); }

  // The first place from `from` on where a text may be cut in two without changing its tokens; its end: nowhere.
  std::size_t safe_place(std::string_view text, std::size_t from) const;

  // A workspace of this thread's own for as long as the handle lives.
  class Loan {
   public:
    explicit Loan(const Pipeline& pipeline);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    Workspace& operator*() { return *workspace_; }

   private:
    const Pipeline& pipeline_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  void read_added_tokens(const JsonMap& list);
  void read_truncation(Settings settings);
  bool cuts_keep_tokens() const;
  void encode_pieces(const Pieces& pieces, bool offsets, Workspace& workspace, Encoding& out) const;

  Document document_;
  std::unique_ptr<Normalizer> normalizer_;
  PreTokenizers pre_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<PostProcessor> post_;
  std::unique_ptr<Decoder> decoder_;
  std::unordered_map<std::int32_t, AddedToken> added_;
  std::unordered_map<std::string, std::int32_t> added_ids_;
  AddedTokens raw_, normalized_;  // found before and after the normalizer
  Truncation truncation_;
  std::int64_t size_ = 0;
  bool can_cut_ = false;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace fovea::text
