#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/error.h"
#include "text/byte_level.h"
#include "text/flat_map.h"
#include "text/model.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

struct Merged {
  std::uint32_t rank = 0;
  std::int32_t id = 0;
};

// Byte-pair encoding: a piece starts as its characters (or bytes), and the neighbours whose merge was learned first
// are joined until no pair is left that was learned. Short pieces look at all pairs for the best one; long ones, as a
// whole text in a vocabulary without pre-tokeniser, keep them in a heap.
class Bpe final : public Model {
 public:
  Bpe(Settings& settings, const ModelData& data, bool bytes) : vocabulary_(data.vocabulary), bytes_(bytes) {
    if (const JsonMap* dropout = settings.find("dropout"); dropout != nullptr && *dropout != 0.0)
      settings.refuse("BPE with dropout gives different ids each time, and is not supported", "dropout");
    unknown_ = settings.maybe_text("unk_token");
    prefix_ = settings.text("continuing_subword_prefix", "");
    suffix_ = settings.text("end_of_word_suffix", "");
    fuse_unknown_ = settings.flag("fuse_unk", false);
    fallback_ = settings.flag("byte_fallback", false);
    whole_words_ = settings.flag("ignore_merges", false);
    read_merges(settings, data);
    read_alphabet();
  }

  void encode(std::string_view piece, Scratch& scratch, std::vector<Token>& tokens) const override {
    if (whole_words_) {
      scratch.text = bytes_ ? bytes_as_characters(piece) : std::string(piece);
      if (const auto id = vocabulary_.find(scratch.text))
        return tokens.push_back({*id, {0, static_cast<std::uint32_t>(piece.size())}});
    }
    scratch.symbols.clear();
    bytes_ ? start_with_bytes(piece, scratch) : start_with_characters(piece, scratch);
    constexpr std::size_t kFew = 48;
    scratch.symbols.size() <= kFew ? merge_few(scratch) : merge_many(scratch);
    for (const Scratch::Symbol& symbol : scratch.symbols)
      if (!symbol.range.empty()) tokens.push_back({symbol.id, symbol.range});
  }

 private:
  void read_merges(const Settings& settings, const ModelData& data) {
    merges_.reserve(data.merges.size());
    std::uint32_t rank = 0;
    for (const auto& [left, right] : data.merges) {
      const std::string whole = left + (right.size() >= prefix_.size() ? right.substr(prefix_.size()) : "");
      const auto a = vocabulary_.find(left), b = vocabulary_.find(right), c = vocabulary_.find(whole);
      if (!a || !b || !c)
        settings.refuse(fmt::format("merge {} (\"{}\" with \"{}\") needs \"{}\", which is not in the vocabulary",
                                    rank + 1, left, right,
                                    !a   ? left
                                    : !b ? right
                                         : whole),
                        "merges", "the two files belong to different tokenisers, or one is incomplete");
      const Merged merged{rank++, *c};
      if (!merges_.insert(pair_key(*a, *b), merged)) *merges_.find(pair_key(*a, *b)) = merged;
    }
  }

  void read_alphabet() {
    const bool plain = prefix_.empty() && suffix_.empty();
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string name =
          bytes_ ? to_utf8(byte_character(static_cast<unsigned char>(byte))) : std::string(1, static_cast<char>(byte));
      const auto id = bytes_ || (plain && byte < 0x80) ? vocabulary_.find(name) : std::nullopt;
      alphabet_[byte] = id.value_or(-1);
      fallback_ids_[byte] =
          fallback_ ? vocabulary_.find(byte_token(static_cast<unsigned char>(byte))).value_or(-1) : -1;
    }
  }

  void add(Scratch& scratch, std::int32_t id, Range range) const {
    const auto at = static_cast<std::int32_t>(scratch.symbols.size());
    if (at > 0) scratch.symbols.back().next = at;
    scratch.symbols.push_back({id, range, at - 1, -1});
  }

  std::int32_t unknown_id() const {
    const auto id = vocabulary_.find(*unknown_);
    if (!id) fail(ErrorCode::bad_input, fmt::format("the unknown token \"{}\" is not in the vocabulary", *unknown_));
    return *id;
  }

  void start_with_bytes(std::string_view piece, Scratch& scratch) const {
    for (std::uint32_t at = 0; at < piece.size(); ++at) {
      const std::int32_t id = alphabet_[static_cast<unsigned char>(piece[at])];
      if (id >= 0)
        add(scratch, id, {at, at + 1});
      else if (unknown_)
        add_unknown(scratch, {at, at + 1});
    }
  }

  void add_unknown(Scratch& scratch, Range range) const {
    const std::int32_t id = unknown_id();
    const bool follows =
        !scratch.symbols.empty() && scratch.symbols.back().id == id && scratch.symbols.back().range.end == range.begin;
    if (fuse_unknown_ && follows)
      scratch.symbols.back().range.end = range.end;
    else
      add(scratch, id, range);
  }

  void start_with_characters(std::string_view piece, Scratch& scratch) const {
    for (std::uint32_t at = 0; at < piece.size();) {
      const Range range{at, at + decode(piece, at).size};
      at = range.end;
      const std::int32_t id = character_id(piece, range, scratch.text);
      if (id >= 0)
        add(scratch, id, range);
      else if (!add_fallback(scratch, range) && unknown_)
        add_unknown(scratch, range);
    }
  }

  // Leaves in `name` the character as the vocabulary would write it in this place of the word.
  std::int32_t character_id(std::string_view piece, Range range, std::string& name) const {
    const std::string_view character = piece.substr(range.begin, range.size());
    const std::int32_t quick = range.size() == 1 ? alphabet_[static_cast<unsigned char>(character[0])] : -1;
    if (quick >= 0) return quick;
    name.clear();
    if (range.begin > 0) name += prefix_;
    name += character;
    if (range.end == piece.size()) name += suffix_;
    return vocabulary_.find(name).value_or(-1);
  }

  bool add_fallback(Scratch& scratch, Range range) const {
    if (!fallback_) return false;
    const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
    if (std::any_of(scratch.text.begin(), scratch.text.end(), [&](char b) { return id_of(b) < 0; })) return false;
    std::uint32_t at = range.begin;
    for (const char byte : scratch.text) {
      const std::uint32_t end = std::min(at + 1, range.end);
      add(scratch, id_of(byte), {std::min(at, range.end - 1), end});
      ++at;
    }
    return true;
  }

  const Merged* merged(std::int32_t left, std::int32_t right) const { return merges_.find(pair_key(left, right)); }

  void merge_few(Scratch& scratch) const {
    std::vector<Scratch::Symbol>& symbols = scratch.symbols;
    std::array<Merged, 48> next;  // of each symbol with the one after it
    constexpr std::uint32_t kNone = ~0u;
    const auto look = [&](std::size_t i) {
      const Merged* found = i + 1 < symbols.size() ? merged(symbols[i].id, symbols[i + 1].id) : nullptr;
      next[i] = found == nullptr ? Merged{kNone, 0} : *found;
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) look(i);
    for (;;) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < symbols.size(); ++i)
        if (next[i].rank < next[best].rank) best = i;
      if (symbols.empty() || next[best].rank == kNone) return;
      symbols[best].id = next[best].id;
      symbols[best].range.end = symbols[best + 1].range.end;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(next.begin() + best + 2, next.begin() + symbols.size() + 1, next.begin() + best + 1);
      look(best);
      if (best > 0) look(best - 1);
    }
  }

  void push(Scratch& scratch, std::int32_t at) const {
    if (at < 0) return;
    const Scratch::Symbol& left = scratch.symbols[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const Merged* found = merged(left.id, scratch.symbols[static_cast<std::size_t>(left.next)].id);
    if (found == nullptr) return;
    scratch.queue.push_back({found->rank, at, found->id});
    std::push_heap(scratch.queue.begin(), scratch.queue.end(), later);
  }

  static bool later(const Scratch::Merge& a, const Scratch::Merge& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void merge_many(Scratch& scratch) const {
    std::vector<Scratch::Symbol>& symbols = scratch.symbols;
    const auto symbol = [&](std::int32_t at) -> Scratch::Symbol& { return symbols[static_cast<std::size_t>(at)]; };
    scratch.queue.clear();
    for (std::int32_t at = 0; at < static_cast<std::int32_t>(symbols.size()); ++at) push(scratch, at);
    while (!scratch.queue.empty()) {
      const Scratch::Merge top = scratch.queue.front();
      std::pop_heap(scratch.queue.begin(), scratch.queue.end(), later);
      scratch.queue.pop_back();
      Scratch::Symbol& left = symbol(top.at);
      if (left.range.empty() || left.next < 0) continue;  // it went into another one
      Scratch::Symbol& right = symbol(left.next);
      const Merged* now = merged(left.id, right.id);
      if (now == nullptr || now->id != top.id) continue;  // its neighbour has changed
      left.id = top.id;
      left.range.end = right.range.end;
      left.next = right.next;
      right.range = {};
      if (left.next >= 0) symbol(left.next).previous = top.at;
      push(scratch, left.previous);
      push(scratch, top.at);
    }
  }

  const Vocabulary& vocabulary_;
  bool bytes_, fuse_unknown_ = false, fallback_ = false, whole_words_ = false;
  std::optional<std::string> unknown_;
  std::string prefix_, suffix_;
  FlatMap<Merged> merges_;
  std::array<std::int32_t, 256> alphabet_{}, fallback_ids_{};  // -1: none
};

}  // namespace

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::unique_ptr<Model> read_bpe(Settings& settings, const ModelData& data, bool bytes) {
  return std::make_unique<Bpe>(settings, data, bytes);
}

}  // namespace fovea::text
