#include "tile/cuda/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "core/cuda/uploads.h"

namespace fovea::tile::cuda {
namespace {

using Entry = ListView::Entry;

// The lists of own tiles of `group` blocks each.
struct HostList {
  std::vector<std::int32_t> start{0};
  std::vector<Entry> entries;
  std::vector<std::int32_t> blocks;
};

void append(HostList& list, std::size_t first, const Entry& entry) {
  const auto runs = [](const Entry& e) { return e.mask[0] < 0 && e.mask[1] < 0; };
  if (list.entries.size() > first) {
    Entry& last = list.entries.back();
    const bool joins = runs(entry) && last.mask[0] == entry.mask[0] && last.mask[1] == entry.mask[1] &&
                       last.block + last.count == entry.block;
    if (joins) {
      last.count += entry.count;
      return;
    }
  }
  list.entries.push_back(entry);
}

HostList single_blocks(std::int64_t blocks, const std::function<std::span<const Plan::Entry>(std::int64_t)>& entries) {
  HostList list;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::size_t first = list.entries.size();
    for (const Plan::Entry& e : entries(i)) append(list, first, {e.block, e.count, {e.mask, ListView::kNone}});
    list.start.push_back(static_cast<std::int32_t>(list.entries.size()));
  }
  return list;
}

// Two neighbouring blocks make one tile: what either of them reads, with a mask for each.
HostList pairs_of(const HostList& single) {
  HostList list;
  const std::size_t blocks = single.start.size() - 1;
  for (std::size_t i = 0; i < blocks; i += 2) {
    std::map<std::int32_t, std::array<std::int32_t, 2>> cells;
    for (std::size_t half = 0; half < 2 && i + half < blocks; ++half)
      for (std::int32_t e = single.start[i + half]; e < single.start[i + half + 1]; ++e) {
        const Entry& entry = single.entries[static_cast<std::size_t>(e)];
        for (std::int32_t b = entry.block; b < entry.block + entry.count; ++b)
          cells.try_emplace(b, std::array{ListView::kNone, ListView::kNone}).first->second[half] = entry.mask[0];
      }
    const std::size_t first = list.entries.size();
    for (const auto& [block, masks] : cells) append(list, first, {block, 1, {masks[0], masks[1]}});
    list.start.push_back(static_cast<std::int32_t>(list.entries.size()));
  }
  return list;
}

void count_blocks(HostList& list) {
  for (std::size_t i = 0; i + 1 < list.start.size(); ++i) {
    std::int32_t blocks = 0;
    for (std::int32_t e = list.start[i]; e < list.start[i + 1]; ++e)
      blocks += list.entries[static_cast<std::size_t>(e)].count;
    list.blocks.push_back(blocks);
  }
}

// The plan's masks with a row of bits for every query instead of every key.
std::vector<std::uint64_t> transpose_masks(const Plan& plan) {
  const std::int64_t words = plan.words_per_key(), transposed_words = (plan.tile_k + 63) / 64;
  const std::int64_t count = static_cast<std::int64_t>(plan.masks.size()) / (plan.tile_k * words);
  std::vector<std::uint64_t> transposed(static_cast<std::size_t>(count * plan.tile_q * transposed_words));
  for (std::int64_t m = 0; m < count; ++m)
    for (std::int64_t j = 0; j < plan.tile_k; ++j)
      for (std::int64_t i = 0; i < plan.tile_q; ++i)
        if (plan.mask(static_cast<std::int32_t>(m))[j * words + i / 64] >> (i % 64) & 1)
          transposed[static_cast<std::size_t>((m * plan.tile_q + i) * transposed_words + j / 64)] |= std::uint64_t{1}
                                                                                                     << (j % 64);
  return transposed;
}

bool is_diagonal(const HostList& list) {
  for (std::size_t i = 0; i < list.blocks.size(); ++i)
    if (list.blocks[i] != 1 || list.entries[static_cast<std::size_t>(list.start[i])].block != static_cast<int>(i))
      return false;
  return true;
}

std::shared_ptr<const DevicePlan> upload_plan(const Plan& plan) {
  auto made = std::make_shared<DevicePlan>();
  HostList rows[2], columns[2];
  rows[0] = single_blocks(plan.query_blocks(), [&](std::int64_t i) { return plan.row(i); });
  columns[0] = single_blocks(plan.key_blocks(), [&](std::int64_t i) { return plan.column(i); });
  rows[1] = pairs_of(rows[0]);
  columns[1] = pairs_of(columns[0]);
  Uploader uploader;
  std::size_t at[4][2];
  HostList* lists[4] = {&rows[0], &rows[1], &columns[0], &columns[1]};
  for (int i = 0; i < 4; ++i) {
    count_blocks(*lists[i]);
    at[i][0] = uploader.place(lists[i]->start);
    at[i][1] = uploader.place(lists[i]->entries);
  }
  const std::size_t by_key = uploader.place(plan.masks), by_query = uploader.place(transpose_masks(plan));
  made->memory = uploader.upload();
  made->has_parts = !plan.masks.empty();
  made->is_diagonal =
      is_diagonal(rows[0]) && is_diagonal(columns[0]) && rows[0].blocks.size() == columns[0].blocks.size();
  const std::byte* base = made->memory.data();
  for (int i = 0; i < 4; ++i) {
    const bool is_row = i < 2;
    ListView& view = is_row ? made->rows[i % 2] : made->columns[i % 2];
    view.start = reinterpret_cast<const std::int32_t*>(base + at[i][0]);
    view.entries = reinterpret_cast<const Entry*>(base + at[i][1]);
    view.masks = reinterpret_cast<const std::uint64_t*>(base + (is_row ? by_query : by_key));
    view.own = is_row ? plan.tile_q : plan.tile_k;
    view.streamed = is_row ? plan.tile_k : plan.tile_q;
    view.words = (view.streamed + 63) / 64;
    (is_row ? made->row_blocks : made->column_blocks)[i % 2] = std::move(lists[i]->blocks);
    (is_row ? made->row_start : made->column_start)[i % 2] = std::move(lists[i]->start);
    (is_row ? made->row_entries : made->column_entries)[i % 2] = std::move(lists[i]->entries);
  }
  return made;
}

std::shared_ptr<const DevicePlan> plan_on(int device, const Plan& plan) {
  static auto* const kPlans = new Recent<std::pair<int, std::uint64_t>, DevicePlan>(1024);  // outlives the driver's end
  return kPlans->find({device, plan.id}, [&] { return upload_plan(plan); });
}

struct HostItems {
  std::vector<Item> whole, parts;
  std::vector<Merge> merges;
  std::int32_t slots = 0;
};

// A list longer than this is cut: twice as many parts as an H200 runs blocks would then be as long.
std::int32_t longest_part(std::int64_t blocks, std::int64_t heads) {
  constexpr std::int64_t kParts = 4 * 132, kLeast = 8;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(blocks * heads / kParts, kLeast, 1 << 30));
}

void cut(HostItems& items, const Item& whole, std::span<const Entry> entries) {
  const std::int32_t count = whole.flags, each = (whole.blocks + count - 1) / count;
  if (count == 1) {
    items.parts.push_back(whole);
    return;
  }
  items.merges.push_back({whole.piece, whole.tile, items.slots, count});
  Item part = whole;
  part.flags = 1;
  for (std::int32_t first = 0; first < whole.blocks; first += each, ++part.flag) {
    part.blocks = std::min(each, whole.blocks - first);
    part.slot = items.slots++;
    items.parts.push_back(part);
    for (part.skip += part.blocks;
         part.skip >= entries[static_cast<std::size_t>(part.begin)].count && first + each < whole.blocks; ++part.begin)
      part.skip -= entries[static_cast<std::size_t>(part.begin)].count;
  }
}

void longest_first(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.blocks > b.blocks; });
}

HostItems items_of(const Schedule& schedule, bool by_rows, int group, std::int64_t heads) {
  HostItems items;
  std::int64_t all = 0;
  for (const auto& plan : schedule.plans)
    for (std::int32_t blocks : (by_rows ? plan->row_blocks : plan->column_blocks)[group]) all += blocks;
  const std::int32_t longest = longest_part(all, heads);
  std::int32_t flag = 0;
  for (std::size_t p = 0; p < schedule.plans.size(); ++p) {
    const DevicePlan& plan = *schedule.plans[p];
    const auto& blocks = (by_rows ? plan.row_blocks : plan.column_blocks)[group];
    const auto& start = (by_rows ? plan.row_start : plan.column_start)[group];
    for (std::size_t t = 0; t < blocks.size(); ++t) {
      const std::int32_t parts = blocks[t] <= longest ? 1 : (blocks[t] + longest - 1) / longest;
      const std::int32_t each = (blocks[t] + parts - 1) / parts,
                         flags = blocks[t] == 0 ? 1 : (blocks[t] + each - 1) / each;
      const Item whole{
          static_cast<std::int32_t>(p), static_cast<std::int32_t>(t), start[t], 0, blocks[t], -1, flag, flags};
      items.whole.push_back(whole);
      cut(items, whole, (by_rows ? plan.row_entries : plan.column_entries)[group]);
      flag += flags;
    }
  }
  longest_first(items.whole);
  longest_first(items.parts);
  return items;
}

double mean_blocks(const Schedule& schedule, bool by_rows, int group) {
  double blocks = 0, tiles = 0;
  for (const auto& plan : schedule.plans)
    for (std::int32_t count : (by_rows ? plan->row_blocks : plan->column_blocks)[group]) blocks += count, ++tiles;
  return tiles > 0 ? blocks / tiles : 0.0;
}

void add_piece(Schedule& schedule, const Piece& piece, int device) {
  schedule.plans.push_back(plan_on(device, *piece.plan));
  const DevicePlan& plan = *schedule.plans.back();
  PieceView view{piece.batch,
                 piece.q0,
                 piece.k0,
                 piece.q_step,
                 piece.k_step,
                 piece.nq,
                 piece.nk,
                 piece.gap,
                 piece.bias_at,
                 piece.d_bias_at,
                 schedule.rows,
                 static_cast<std::int32_t>(piece.kv_head),
                 0,
                 {},
                 {}};
  for (int group = 0; group < 2; ++group)
    view.rows[group] = plan.rows[group], view.columns[group] = plan.columns[group];
  schedule.host_pieces.push_back(view);
  schedule.rows += piece.nq;
  for (std::int32_t blocks : plan.row_blocks[0])
    schedule.longest_row = std::max(schedule.longest_row, std::int64_t{blocks} * piece.plan->tile_k);
  schedule.largest_own[0] = std::max(schedule.largest_own[0], piece.plan->tile_q);
  schedule.largest_own[1] = std::max(schedule.largest_own[1], piece.plan->tile_k);
  schedule.has_parts |= plan.has_parts;
  schedule.is_diagonal &= plan.is_diagonal;
  schedule.is_standard &= TileSize{piece.plan->tile_q, piece.plan->tile_k} == kTile;
}

std::shared_ptr<const Schedule> make_schedule(const Problem& problem, int device) {
  auto schedule = std::make_shared<Schedule>();
  for (const Piece& piece : problem.pieces) add_piece(*schedule, piece, device);
  Uploader uploader;
  const std::size_t pieces_at = uploader.place(schedule->host_pieces);
  Schedule::Items* lists[4] = {&schedule->by_rows[0], &schedule->by_rows[1], &schedule->by_columns[0],
                               &schedule->by_columns[1]};
  std::size_t at[4][3];
  for (int i = 0; i < 4; ++i) {
    const HostItems items = items_of(*schedule, i < 2, i % 2, problem.heads);
    at[i][0] = uploader.place(items.whole);
    at[i][1] = uploader.place(items.parts);
    at[i][2] = uploader.place(items.merges);
    lists[i]->count = static_cast<std::int32_t>(items.whole.size());
    lists[i]->part_count = static_cast<std::int32_t>(items.parts.size());
    lists[i]->merge_count = static_cast<std::int32_t>(items.merges.size());
    lists[i]->slots = items.slots;
    lists[i]->mean_blocks = mean_blocks(*schedule, i < 2, i % 2);
  }
  schedule->memory = uploader.upload();
  const std::byte* base = schedule->memory.data();
  schedule->pieces = reinterpret_cast<const PieceView*>(base + pieces_at);
  for (int i = 0; i < 4; ++i) {
    lists[i]->data = reinterpret_cast<const Item*>(base + at[i][0]);
    lists[i]->parts = reinterpret_cast<const Item*>(base + at[i][1]);
    lists[i]->merges = reinterpret_cast<const Merge*>(base + at[i][2]);
  }
  return schedule;
}

}  // namespace

std::shared_ptr<const Schedule> schedule_for(const Problem& problem) {
  static auto* const kSchedules = new Recent<std::vector<std::int64_t>, Schedule>(256);
  int device = 0;
  check_cuda(cudaGetDevice(&device), "the current device");
  std::vector<std::int64_t> key{device, problem.heads, problem.kv_heads};
  for (const Piece& p : problem.pieces)
    key.insert(key.end(), {p.batch, p.q0, p.nq, p.k0, p.nk, static_cast<std::int64_t>(p.plan->id), p.q_step, p.k_step,
                           p.gap, p.kv_head, p.bias_at, p.d_bias_at});
  return kSchedules->find(key, [&] { return make_schedule(problem, device); });
}

}  // namespace fovea::tile::cuda
