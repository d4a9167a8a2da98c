#include "data/text/sequences.h"

#include "data/collate.h"
#include "data/hash.h"
#include "data/labelled_split.h"

namespace fovea {
namespace {

void add_hash(Hash& hash, const TokenLists& lists) {
  for (std::int64_t i = 0; i < lists.size(); ++i) {
    hash.add_all<std::int32_t>(lists[i]);
    hash.add(0xff);  // between two lists: no id begins with it
  }
}

Input packed(const Context& context, const TokenLists& lists, std::span<const std::int64_t> picks) {
  std::vector<std::span<const std::int32_t>> rows;
  for (const std::int64_t pick : picks) rows.push_back(lists[pick]);
  return packed_rows<std::int32_t>(context, rows);
}

struct ListSource {
  LabelledLists lists;

  const LabelledPick& at(std::int64_t i) const { return lists.examples[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return std::ssize(lists.examples); }
  std::int64_t length(std::int64_t i) const {
    const LabelledPick& pick = at(i);
    return std::ssize((*lists.first)[pick.first]) + (lists.second ? std::ssize((*lists.second)[pick.second]) : 0);
  }
  std::int32_t label(std::int64_t i) const { return at(i).label; }
  std::uint64_t hash() const {
    Hash hash;
    if (lists.first) add_hash(hash, *lists.first);
    if (lists.second && lists.second != lists.first) add_hash(hash, *lists.second);
    for (const LabelledPick& pick : lists.examples) {
      hash.add_all<std::int64_t>(std::span(&pick.first, 1));
      hash.add_all<std::int64_t>(std::span(&pick.second, 1));
      hash.add_all<std::int32_t>(std::span(&pick.label, 1));
    }
    return hash.value();
  }
  void fill(const Context& context, std::span<const std::int64_t> picks, Batch& batch) const {
    std::vector<std::int64_t> first, second;
    for (const std::int64_t pick : picks) {
      first.push_back(at(pick).first);
      second.push_back(at(pick).second);
    }
    batch.input = packed(context, *lists.first, first);
    if (lists.second) batch.second = packed(context, *lists.second, second);
    if (lists.types) batch.input.types = packed(context, *lists.types, first).ids;
  }
};

// The same with numbers.
struct NumberSource : ListSource {
  float label(std::int64_t i) const { return at(i).number; }
  std::uint64_t hash() const {
    Hash hash;
    const std::uint64_t texts = ListSource::hash();
    hash.add_all<std::uint64_t>(std::span(&texts, 1));
    for (const LabelledPick& pick : lists.examples) hash.add_all<float>(std::span(&pick.number, 1));
    return hash.value();
  }
};

class ParallelSplit final : public Split {
 public:
  explicit ParallelSplit(ParallelLists lists) : lists_(std::move(lists)) {}

  std::int64_t size() const override { return lists_.source.size(); }
  std::int64_t length(std::int64_t example) const override {
    return std::ssize(lists_.source[example]) + std::ssize(lists_.target[example]) + 1;
  }

  std::uint64_t hash() const override {
    Hash hash;
    add_hash(hash, lists_.source);
    add_hash(hash, lists_.target);
    return hash.value();
  }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t /*draw*/) const override {
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.input = packed(context, lists_.source, picks);
    std::vector<std::vector<std::int32_t>> shifted;
    std::vector<std::int32_t> targets;
    for (const std::int64_t pick : picks) {
      const auto target = lists_.target[pick];
      shifted.push_back({lists_.bos});
      shifted.back().insert(shifted.back().end(), target.begin(), target.end());
      targets.insert(targets.end(), target.begin(), target.end());
      targets.push_back(lists_.eos);
    }
    batch.second = packed_rows<std::int32_t>(context, {shifted.begin(), shifted.end()});
    batch.targets = Tensor::from<std::int32_t>(context, {1, std::ssize(targets)}, targets);
    return batch;
  }

 private:
  ParallelLists lists_;
};

}  // namespace

std::int64_t TokenLists::longest() const {
  std::size_t most = 0;
  for (std::size_t i = 1; i < offsets_.size(); ++i) most = std::max(most, offsets_[i] - offsets_[i - 1]);
  return static_cast<std::int64_t>(most);
}

std::shared_ptr<const Split> labelled_split(LabelledLists lists) {
  return std::make_shared<LabelledSplit<ListSource>>(ListSource{std::move(lists)});
}

std::shared_ptr<const Split> numbered_split(LabelledLists lists) {
  return std::make_shared<LabelledSplit<NumberSource>>(NumberSource{{std::move(lists)}});
}

std::shared_ptr<const Split> parallel_split(ParallelLists lists) {
  return std::make_shared<ParallelSplit>(std::move(lists));
}

}  // namespace fovea
