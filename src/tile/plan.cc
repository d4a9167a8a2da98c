#include "tile/plan.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "core/visit_device.h"
#include "fovea/error.h"
#include "fovea/pattern.h"

namespace fovea::tile {
namespace {

using Cover = Pattern::Cover;
using Entry = Plan::Entry;

std::atomic<std::uint64_t> last_id{0};

class Compiler {
 public:
  Compiler(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) : pattern_(pattern) {
    plan_.id = ++last_id;
    plan_.n_q = n_q;
    plan_.n_k = n_k;
    plan_.tile_q = tile.query;
    plan_.tile_k = tile.key;
    bits_.resize(static_cast<std::size_t>(tile.key * plan_.words_per_key()));
  }

  Plan run() {
    plan_.row_start.push_back(0);
    for (std::int64_t i = 0; i < plan_.query_blocks(); ++i) {
      const Pattern::Rect rows = rect(i, 0, 0);
      const Pattern::Range keys = pattern_.keys(rows.query_begin, rows.query_end, plan_.n_k);
      if (keys.begin < keys.end) visit(i, keys.begin / plan_.tile_k, (keys.end - 1) / plan_.tile_k + 1);
      plan_.row_start.push_back(static_cast<std::int64_t>(plan_.rows.size()));
    }
    transpose();
    find_islands();
    return std::move(plan_);
  }

 private:
  // Positions of a query block and a range of key blocks.
  Pattern::Rect rect(std::int64_t query_block, std::int64_t key_begin, std::int64_t key_end) const {
    const std::int64_t shift = plan_.n_k - plan_.n_q, q = query_block * plan_.tile_q;
    return {q + shift, std::min(q + plan_.tile_q, plan_.n_q) + shift, key_begin * plan_.tile_k,
            std::min(key_end * plan_.tile_k, plan_.n_k)};
  }

  // Adds the kept ones among key blocks [begin, end) by halving: whole and empty ranges cost one question.
  void visit(std::int64_t query_block, std::int64_t begin, std::int64_t end) {
    const Pattern::Rect area = rect(query_block, begin, end);
    const Cover cover = pattern_.cover(area);
    if (cover == Cover::none) return;
    if (cover == Cover::whole) return add_whole(query_block, begin, end);
    if (end - begin == 1) return add_part(query_block, begin);
    const std::int64_t middle = begin + (end - begin) / 2;
    visit(query_block, begin, middle);
    visit(query_block, middle, end);
  }

  void add_whole(std::int64_t query_block, std::int64_t begin, std::int64_t end) {
    const Pattern::Rect area = rect(query_block, begin, end);
    plan_.kept_pairs += (area.query_end - area.query_begin) * (area.key_end - area.key_begin);
    const std::span<Entry> row = std::span(plan_.rows).subspan(static_cast<std::size_t>(plan_.row_start.back()));
    if (!row.empty() && row.back().mask == Plan::kWhole && row.back().block + row.back().count == begin)
      row.back().count += static_cast<std::int32_t>(end - begin);
    else
      plan_.rows.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end - begin), Plan::kWhole});
  }

  void add_part(std::int64_t query_block, std::int64_t key_block) {
    const Pattern::Rect area = rect(query_block, key_block, key_block + 1);
    pattern_.mask(area, static_cast<std::size_t>(plan_.words_per_key()), bits_);
    std::int64_t kept = 0;
    for (std::uint64_t word : bits_) kept += std::popcount(word);
    if (kept == 0) return;
    if (kept == (area.query_end - area.query_begin) * (area.key_end - area.key_begin))
      return add_whole(query_block, key_block, key_block + 1);
    const auto [it, fresh] = mask_index_.try_emplace(bits_, static_cast<std::int32_t>(mask_index_.size()));
    if (fresh) plan_.masks.insert(plan_.masks.end(), bits_.begin(), bits_.end());
    plan_.rows.push_back({static_cast<std::int32_t>(key_block), 1, it->second});
    plan_.kept_pairs += kept;
  }

  // Columns in the order of their query blocks; neighbouring whole ones join.
  void transpose() {
    std::vector<std::vector<Entry>> columns(static_cast<std::size_t>(plan_.key_blocks()));
    for (std::int32_t i = 0; i < plan_.query_blocks(); ++i)
      for (const Entry& entry : plan_.row(i))
        for (std::int32_t block = entry.block; block < entry.block + entry.count; ++block) {
          std::vector<Entry>& column = columns[static_cast<std::size_t>(block)];
          const bool joins = entry.mask == Plan::kWhole && !column.empty() && column.back().mask == Plan::kWhole &&
                             column.back().block + column.back().count == i;
          if (joins)
            ++column.back().count;
          else
            column.push_back({i, 1, entry.mask});
        }
    plan_.column_start.push_back(0);
    for (const std::vector<Entry>& column : columns) {
      plan_.columns.insert(plan_.columns.end(), column.begin(), column.end());
      plan_.column_start.push_back(static_cast<std::int64_t>(plan_.columns.size()));
    }
  }

  // A cut before query block i and key block c is possible when all rows before i end by c and none after begins
  // before.
  void find_islands() {
    const auto blocks_q = static_cast<std::int32_t>(plan_.query_blocks());
    const auto blocks_k = static_cast<std::int32_t>(plan_.key_blocks());
    std::vector<std::int32_t> first_after(static_cast<std::size_t>(blocks_q) + 1, blocks_k);
    for (std::int32_t i = blocks_q; i-- > 0;) {
      const auto row = plan_.row(i);
      const std::int32_t first = row.empty() ? blocks_k : row.front().block;
      first_after[static_cast<std::size_t>(i)] = std::min(first_after[static_cast<std::size_t>(i) + 1], first);
    }
    std::int32_t query_begin = 0, key_begin = 0, reached = 0;
    for (std::int32_t i = 1; i < blocks_q; ++i) {
      const auto row = plan_.row(i - 1);
      if (!row.empty()) reached = std::max(reached, row.back().block + row.back().count);
      const std::int32_t next = first_after[static_cast<std::size_t>(i)];
      if (reached == key_begin || next < reached || next == blocks_k) continue;  // nothing yet, or pairs across
      plan_.islands.push_back({query_begin, i, key_begin, next});
      query_begin = i;
      key_begin = next;
    }
    if (blocks_q > 0 || blocks_k > 0) plan_.islands.push_back({query_begin, blocks_q, key_begin, blocks_k});
  }

  const Pattern& pattern_;
  Plan plan_;
  std::vector<std::uint64_t> bits_;
  std::map<std::vector<std::uint64_t>, std::int32_t> mask_index_;
};

// The plans used last, up to a number and a size.
class Cache {
 public:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int32_t, std::int32_t>;

  std::shared_ptr<const Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->plan;
  }

  void insert(const Key& key, std::shared_ptr<const Plan> plan) {
    const std::lock_guard lock(mutex_);
    if (index_.contains(key)) return;  // another thread compiled it meanwhile
    bytes_ += plan->bytes();
    order_.push_front({key, std::move(plan)});
    index_[key] = order_.begin();
    while (order_.size() > 1 && (order_.size() > kMaxPlans || bytes_ > kMaxBytes)) {
      bytes_ -= order_.back().plan->bytes();
      index_.erase(order_.back().key);
      order_.pop_back();
    }
  }

 private:
  static constexpr std::size_t kMaxPlans = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  struct Item {
    Key key;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex_;
  std::list<Item> order_;  // used last first
  std::map<Key, std::list<Item>::iterator> index_;
  std::size_t bytes_ = 0;
};

void check_sizes(std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  constexpr std::int64_t kMaxLength = std::int64_t{1} << 40;
  constexpr std::int32_t kMaxTile = 1024;
  if (n_q < 0 || n_k < 0 || n_q > kMaxLength || n_k > kMaxLength)
    fail(ErrorCode::shape, "sequence lengths " + std::to_string(n_q) + " and " + std::to_string(n_k), "plan",
         "lengths from 0 to 2^40");
  if (tile.query < 1 || tile.key < 1 || tile.query > kMaxTile || tile.key > kMaxTile)
    fail(ErrorCode::usage, "tile " + std::to_string(tile.query) + " x " + std::to_string(tile.key), "plan",
         "sides from 1 to " + std::to_string(kMaxTile));
  if (n_q / tile.query >= std::numeric_limits<std::int32_t>::max() ||
      n_k / tile.key >= std::numeric_limits<std::int32_t>::max())
    fail(ErrorCode::shape, "too many blocks", "plan", "a larger tile");
}

}  // namespace

std::size_t Plan::bytes() const {
  return sizeof(Plan) + (row_start.size() + column_start.size() + masks.size()) * sizeof(std::int64_t) +
         (rows.size() + columns.size()) * sizeof(Entry) + islands.size() * sizeof(Island);
}

Plan compile_plan(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  check_sizes(n_q, n_k, tile);
  return Compiler(pattern, n_q, n_k, tile).run();
}

std::uint64_t compiled_plans() { return last_id; }

std::shared_ptr<const Plan> plan_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  static Cache cache;
  const Cache::Key key(pattern.text(), n_q, n_k, tile.query, tile.key);
  std::shared_ptr<const Plan> plan = cache.find(key);
  if (plan != nullptr) return plan;
  plan = std::make_shared<const Plan>(compile_plan(pattern, n_q, n_k, tile));
  cache.insert(key, plan);
  return plan;
}

std::shared_ptr<const Plan> plan_for(Device device, const Pattern& pattern, std::int64_t n_q, std::int64_t n_k) {
  const auto tile =
      visit_built(BuiltDevices(), kernels_of(device), [&]<Device D>() { return tile_size_for<D>(pattern, n_q, n_k); });
  return plan_for(pattern, n_q, n_k, tile);
}

}  // namespace fovea::tile
