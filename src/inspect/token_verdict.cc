#include "inspect/token_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "fovea/error.h"
#include "inspect/verdict.h"

namespace fovea::inspection {
namespace {

constexpr std::size_t kLeastWords = 10;  // with a relation: fewer say nothing

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// "nsubj:pass" is an "nsubj".
std::string_view plain(std::string_view relation) { return relation.substr(0, relation.find(':')); }

// What each key would receive, were all keys for which wanted(key) holds read alike by all rows that may read them.
template <class Wanted>
std::vector<double> received_alike(const LayerRecord& layer, Wanted&& wanted) {
  const std::int64_t shift = layer.n_k - layer.n_q;
  std::vector<double> out(at(layer.n_k), 0.0);
  double keys = 0.0;
  for (std::int64_t j = 0; j < layer.n_k; ++j) {
    keys += wanted(j) ? 1.0 : 0.0;
    if (layer.causal && j >= shift && keys > 0.0) out[at(j)] = 1.0 / keys;  // of the row that stands here
  }
  if (!layer.causal) out.assign(out.size(), static_cast<double>(layer.n_q) / std::max(keys, 1.0));
  if (layer.causal)  // a row reads all keys before it
    for (std::int64_t j = layer.n_k - 1; j > 0; --j) out[at(j - 1)] += out[at(j)];
  for (std::int64_t j = 0; j < layer.n_k; ++j)
    if (!wanted(j)) out[at(j)] = 0.0;
  return out;
}

double sum_of(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

// The words of a layer whose rows and keys are the same text.
class Words {
 public:
  Words(const TokenNotes& notes, const LayerRecord& layer) : notes_(notes), layer_(layer) {
    for (std::size_t w = 0; w < notes.words.size(); ++w)
      if (const TaggedWord& word = notes.words[w]; word.head >= 0) {
        add(std::string(plain(word.relation)), w, at(word.head));
        add(std::string(plain(word.relation)) + " back", at(word.head), w);
      }
    alike_ = received_alike(layer, [&](std::int64_t j) { return notes_.word[at(j)] >= 0; });
  }

  void judge(HeadRecord& head) const {
    const std::vector<std::int32_t> read = read_by(head);
    for (const auto& [relation, words] : relations_)
      if (words.size() >= kLeastWords) keep_better(followed(relation, words, read), head.verdict.relation);
    keep_better(own_tag(read), head.verdict.tag);
    for (ComparedShare& share : by_tag(head)) keep_better(std::move(share), head.verdict.tag);
  }

 private:
  using Targets = std::map<std::size_t, std::vector<std::size_t>>;  // by word, where a relation leads

  static void keep_better(ComparedShare share, ComparedShare& best) {
    if (std::isfinite(share.gain()) && !(share.gain() <= best.gain())) best = std::move(share);
  }

  void add(const std::string& relation, std::size_t from, std::size_t to) {
    if (std::max(from, to) >= notes_.words.size() || from == to || (layer_.causal && to > from)) return;
    relations_[relation][from].push_back(to);
  }

  // By word: the other word that one of its tokens reads most; -1: none of the keys that are kept.
  std::vector<std::int32_t> read_by(const HeadRecord& head) const {
    std::vector<std::int32_t> read(notes_.words.size(), -1);
    std::vector<float> most(read.size(), 0.0f);
    for (std::size_t i = 0; i < notes_.word.size(); ++i) {
      const std::int32_t own = notes_.word[i];
      if (own < 0) continue;
      for (std::size_t t = i * at(head.top); t < (i + 1) * at(head.top); ++t) {
        const std::int32_t other = head.top_keys[t] < 0 ? -1 : notes_.word[at(head.top_keys[t])];
        if (other < 0 || other == own || !(std::abs(head.top_weights[t]) > most[at(own)])) continue;
        most[at(own)] = std::abs(head.top_weights[t]);
        read[at(own)] = other;
      }
    }
    return read;
  }

  // A word may depend on one other and have several that depend on it.
  static ComparedShare followed(const std::string& relation, const Targets& words,
                                const std::vector<std::int32_t>& read) {
    std::map<std::int64_t, std::size_t> distances;
    std::size_t hits = 0, most = 0;
    for (const auto& [from, targets] : words)
      for (const std::size_t to : targets) {
        hits += read[from] == static_cast<std::int32_t>(to) ? 1 : 0;
        most = std::max(most, ++distances[static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from)]);
      }
    const auto all = static_cast<double>(words.size());
    return {relation, static_cast<double>(hits) / all, static_cast<double>(most) / all};
  }

  // Of the words that read another one.
  ComparedShare own_tag(const std::vector<std::int32_t>& read) const {
    std::map<std::string_view, double> seen;  // words that may be read so far
    double words = 0.0, rows = 0.0, same = 0.0, alike = 0.0;
    if (!layer_.causal)
      for (const TaggedWord& word : notes_.words) ++seen[word.tag], ++words;
    for (std::size_t w = 0; w < notes_.words.size(); ++w) {
      const std::string& tag = notes_.words[w].tag;
      const double others = layer_.causal ? words : words - 1.0;
      if (!tag.empty() && read[w] >= 0 && others > 0.0) {
        ++rows;
        same += notes_.words[at(read[w])].tag == tag ? 1.0 : 0.0;
        alike += (seen[tag] - (layer_.causal ? 0.0 : 1.0)) / others;
      }
      if (layer_.causal) ++seen[tag], ++words;
    }
    return {"its own", same / rows, alike / rows};
  }

  std::vector<ComparedShare> by_tag(const HeadRecord& head) const {
    std::map<std::string_view, std::pair<double, double>> masses;  // received, and if all words were read alike
    double all = 0.0;
    for (std::size_t j = 0; j < notes_.word.size(); ++j) {
      if (notes_.word[j] < 0) continue;
      auto& [mass, alike] = masses[notes_.words[at(notes_.word[j])].tag];
      mass += head.received[j];
      alike += alike_[j];
      all += head.received[j];
    }
    std::vector<ComparedShare> out;
    const double all_alike = sum_of(alike_);
    for (const auto& [tag, mass] : masses)
      if (!tag.empty()) out.push_back({std::string(tag), mass.first / all, mass.second / all_alike});
    return out;
  }

  const TokenNotes& notes_;
  const LayerRecord& layer_;
  std::map<std::string, Targets> relations_;
  std::vector<double> alike_;  // by token
};

void check(const TokenNotes& notes) {
  const auto words = std::ssize(notes.words);
  for (const std::int32_t word : notes.word)
    if (word >= words) fail(ErrorCode::usage, fmt::format("word {} of {}", word, words), "TokenNotes::word");
}

// The notes of a layer's keys: with those of the token that a model puts in front, where it does.
TokenNotes fitted(const TokenNotes& notes, std::int64_t n_k) {
  TokenNotes out = notes;
  const auto in_front = [n_k](auto& list, auto value) {
    if (std::ssize(list) + 1 == n_k && !list.empty()) list.insert(list.begin(), value);
    if (std::ssize(list) != n_k) list.clear();
  };
  in_front(out.delimiter, std::uint8_t{1});
  in_front(out.word, std::int32_t{-1});
  return out;
}

}  // namespace

void judge_tokens(const TokenNotes& keys, LayerRecord& layer) {
  check(keys);
  const TokenNotes notes = fitted(keys, layer.n_k);
  const bool same_text = !layer.cross && layer.n_q == layer.n_k && !notes.words.empty() && !notes.word.empty();
  const std::vector<double> alike = received_alike(layer, [](std::int64_t) { return true; });
  const auto share_of = [&](const std::vector<double>& received) {
    double mass = 0.0;
    for (std::size_t j = 0; j < notes.delimiter.size(); ++j) mass += notes.delimiter[j] != 0 ? received[j] : 0.0;
    return mass / sum_of(received);
  };
  std::optional<Words> words;
  if (same_text) words.emplace(notes, layer);
  for (HeadRecord& head : layer.heads) {
    const bool has_rows = head.verdict.head_class != HeadClass::undefined;
    if (!has_rows) continue;
    if (!notes.delimiter.empty()) head.verdict.delimiters = {"delimiters", share_of(head.received), share_of(alike)};
    if (words) words->judge(head);
    classify(head.verdict, {{std::ssize(layer.heads), layer.n_q, layer.n_k}, has_rows});
  }
}

}  // namespace fovea::inspection
