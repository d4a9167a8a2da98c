#include "inspect/cuda/map_sums.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/cuda/memory.h"
#include "core/cuda/uploads.h"
#include "inspect/cuda/map_rows.cuh"
#include "inspect/row_math.h"
#include "tile/cuda/launch.h"

namespace fovea::inspection::cuda {
namespace {

using device::check_cuda, device::DeviceScratch, device::Launch;

unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

// A list of the host, on the card for as long as this lives.
template <class T>
class OnCard {
 public:
  OnCard(const Launch& launch, std::vector<T>& list)
      : launch_(launch), list_(list), memory_(launch, list.size() * sizeof(T)) {
    if (!list.empty())
      check_cuda(cudaMemcpyAsync(memory_.data(), list.data(), bytes(), cudaMemcpyHostToDevice, launch.stream), kWhat);
  }
  T* data() const { return static_cast<T*>(memory_.data()); }
  // Once the stream has come this far, the host's list is what the card's is now.
  void fetch() const {
    if (!list_.empty())
      check_cuda(cudaMemcpyAsync(list_.data(), memory_.data(), bytes(), cudaMemcpyDeviceToHost, launch_.stream), kWhat);
  }

 private:
  static constexpr const char* kWhat = "statistics of a map";
  std::size_t bytes() const { return list_.size() * sizeof(T); }
  const Launch& launch_;
  std::vector<T>& list_;
  DeviceScratch memory_;
};

// The columns of the rows of a piece, by query block.
struct Columns {
  std::vector<std::int32_t> starts;
  std::vector<KeyColumns> runs;
  std::int64_t longest = 0;
};
Columns columns_of(const tile::Piece& piece) {
  Columns out;
  const tile::Plan& plan = *piece.plan;
  for (std::int64_t block = 0; block < plan.query_blocks(); ++block) {
    out.starts.push_back(static_cast<std::int32_t>(out.runs.size()));
    std::int32_t column = 0;
    for (const tile::Plan::Entry& entry : plan.row(block)) {
      const std::int64_t begin = std::int64_t{entry.block} * plan.tile_k;
      const auto count = static_cast<std::int32_t>(std::min(std::int64_t{entry.count} * plan.tile_k, piece.nk - begin));
      KeyColumns* last = out.starts.back() == std::ssize(out.runs) ? nullptr : &out.runs.back();
      if (last != nullptr && last->begin + last->count == begin)
        last->count += count;
      else
        out.runs.push_back({static_cast<std::int32_t>(begin), count, column});
      column += count;
    }
    out.longest = std::max<std::int64_t>(out.longest, column);
  }
  out.starts.push_back(static_cast<std::int32_t>(out.runs.size()));
  return out;
}

RecipeView view_of(const CardMap& map, const float* powers, bool shares) {
  const RowRecipe& recipe = map.recipe;
  const int degree = recipe.scores.degree;
  return {.weight = recipe.scores.weight,
          .sigmoid = {recipe.scores.offset},
          .polynomial = recipe.scores.weight == tile::Weight::power ? PolynomialWeight::power(degree)
                                                                    : PolynomialWeight::taylor(degree),
          .quotient = recipe.quotient,
          .features = recipe.features,
          .powers = powers,
          .heads = map.problem.heads,
          .kv_heads = map.problem.kv_heads,
          .denominator = recipe.denominator,
          .eps = recipe.eps,
          .factor = recipe.factor,
          .shares = shares};
}

// Which rows: places in the sequence, heads.
struct Wanted {
  std::int64_t row_begin, row_end;
  std::int32_t first_head, heads;
};

// Calls use(rows) for the rows of a map, some at a time, that hold scores.
template <class Use>
class RowsDriver {
 public:
  RowsDriver(const Launch& launch, const CardMap& map, const Wanted& wanted, const Use& use)
      : launch_(launch), map_(map), wanted_(wanted), use_(use) {}

  void run() {
    for (std::size_t i = 0; i < map_.problem.pieces.size(); ++i) {
      const tile::Piece& piece = map_.problem.pieces[i];
      if (piece.nq > 0 && piece.nk > 0) run(static_cast<std::int32_t>(i), piece);
    }
  }

 private:
  void run(std::int32_t index, const tile::Piece& piece) {
    const Columns columns = columns_of(piece);
    if (columns.longest == 0) return;
    device::Uploader uploader;
    const std::size_t starts = uploader.place(columns.starts), runs = uploader.place(columns.runs);
    const device::DeviceBuffer lists = uploader.upload();
    const std::int64_t tile = piece.plan->tile_q, blocks = piece.plan->query_blocks();
    const std::int64_t row = columns.longest * static_cast<std::int64_t>(sizeof(float)), each = tile * row;
    const auto heads = static_cast<std::int32_t>(std::clamp<std::int64_t>(map_.row_bytes / each, 1, wanted_.heads));
    const std::int64_t at_once = std::clamp<std::int64_t>(map_.row_bytes / (each * heads), 1, blocks);
    const DeviceScratch rows(launch_, static_cast<std::size_t>(at_once * each * heads));
    for (std::int64_t block = 0; block < blocks; block += at_once) {
      const std::int64_t some = std::min(at_once, blocks - block), first = block * tile;
      const std::int64_t count = std::min(piece.nq - first, some * tile);
      if (piece.query_row(first) >= wanted_.row_end || piece.query_row(first + count - 1) < wanted_.row_begin) continue;
      for (std::int32_t head = 0; head < wanted_.heads; head += heads) {
        MapRowsAt at{.weights = static_cast<float*>(rows.data()),
                     .room = some * tile,
                     .stride = columns.longest,
                     .heads = std::min(heads, wanted_.heads - head),
                     .first_head = wanted_.first_head + head,
                     .first = first,
                     .count = count,
                     .nk = piece.nk,
                     .block = static_cast<std::int32_t>(tile),
                     .starts = reinterpret_cast<const std::int32_t*>(lists.data() + starts) + block,
                     .runs = reinterpret_cast<const KeyColumns*>(lists.data() + runs),
                     .q0 = piece.q0,
                     .q_step = piece.q_step,
                     .k0 = piece.k0,
                     .k_step = piece.k_step};
        tile::cuda::score_rows(launch_, map_.problem, map_.q, map_.k,
                               {.piece = index,
                                .first_block = static_cast<std::int32_t>(block),
                                .blocks = static_cast<std::int32_t>(some),
                                .first_head = at.first_head,
                                .heads = at.heads,
                                .to = at.weights,
                                .stride = at.stride});
        use_(at);
      }
    }
  }

  const Launch& launch_;
  const CardMap& map_;
  const Wanted& wanted_;
  const Use& use_;
};

template <class Use>
void each_rows(const Launch& launch, const CardMap& map, const Wanted& wanted, const Use& use) {
  RowsDriver<Use>(launch, map, wanted, use).run();
}

dim3 grid_of(std::int64_t blocks, std::int32_t heads) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(heads)};
}

// What statistics are made of, on the card.
class SumsOnCard {
 public:
  SumsOnCard(const Launch& launch, const MapSpec& spec, MapSums& sums)
      : launch_(launch),
        spec_(spec),
        sizes_{spec.shape.n_q, spec.shape.n_k, spec.causal, static_cast<std::int32_t>(spec.top)},
        entropy_(launch, sums.entropy),
        row_sum_(launch, sums.row_sum),
        max_logit_(launch, sums.max_logit),
        top_keys_(launch, sums.top_keys),
        top_weights_(launch, sums.top_weights),
        received_(launch, sums.received),
        distance_(launch, sums.distance),
        windows_(launch, sums.windows),
        cells_(launch, sums.cells),
        largest_(launch, sums.largest),
        window_list_(spec.windows),
        window_sizes_(launch, window_list_) {}

  void add(const MapRowsAt& rows, const RecipeView& recipe) const {
    const cudaStream_t stream = launch_.stream;
    const RowFactsAt facts{entropy_.data(), row_sum_.data(), max_logit_.data(), top_keys_.data(), top_weights_.data()};
    const std::int64_t distances = sizes_.n_q + sizes_.n_k - 1;
    weigh_rows_kernel<<<grid_of(rows.count, rows.heads), kThreads, 0, stream>>>(rows, recipe, sizes_, facts);
    received_kernel<<<grid_of(blocks_for(rows.nk), rows.heads), kThreads, 0, stream>>>(rows, sizes_, received_.data());
    distance_kernel<<<grid_of(blocks_for(distances), rows.heads), kThreads, 0, stream>>>(rows, sizes_,
                                                                                         distance_.data());
    add_windows(rows);
    if (spec_.grid_rows > 0) {
      const CellsAt cells{spec_.grid_rows, spec_.grid_columns, spec_.cell_rows,
                          spec_.cell_keys, cells_.data(),      largest_.data()};
      cells_kernel<<<grid_of(blocks_for(spec_.grid_columns), rows.heads), kThreads, 0, stream>>>(rows, cells);
    }
    check_cuda(cudaGetLastError(), "statistics of a map");
  }

  void finish() const {
    for (const auto* list : {&entropy_, &row_sum_, &max_logit_, &top_weights_, &largest_}) list->fetch();
    for (const auto* list : {&received_, &distance_, &windows_, &cells_}) list->fetch();
    top_keys_.fetch();
    check_cuda(cudaStreamSynchronize(launch_.stream), "statistics of a map");
  }

 private:
  void add_windows(const MapRowsAt& rows) const {
    const auto windows = static_cast<std::int32_t>(spec_.windows.size());
    const DeviceScratch parts(launch_,
                              static_cast<std::size_t>(rows.heads * rows.count * (windows + 1)) * sizeof(double));
    auto* const to = static_cast<double*>(parts.data());
    const WindowsView view{window_sizes_.data(), windows, spec_.block};
    windows_kernel<<<grid_of(rows.count, rows.heads), kThreads, 0, launch_.stream>>>(rows, sizes_, view, to);
    add_windows_kernel<<<grid_of(blocks_for(windows + 1), rows.heads), kThreads, 0, launch_.stream>>>(
        rows, windows + 1, to, windows_.data());
  }

  const Launch& launch_;
  const MapSpec& spec_;
  MapSizes sizes_;
  OnCard<float> entropy_, row_sum_, max_logit_;
  OnCard<std::int32_t> top_keys_;
  OnCard<float> top_weights_;
  OnCard<double> received_, distance_, windows_, cells_;
  OnCard<float> largest_;
  std::vector<std::int64_t> window_list_;
  OnCard<std::int64_t> window_sizes_;
};

}  // namespace

MapSums sum_map(const Launch& launch, const CardMap& map, const MapSpec& spec) {
  MapSums sums(spec);
  std::vector<float> power_list = map.recipe.powers;
  const OnCard<float> powers(launch, power_list);
  const RecipeView recipe = view_of(map, power_list.empty() ? nullptr : powers.data(), true);
  const SumsOnCard on_card(launch, spec, sums);
  each_rows(launch, map, {0, spec.shape.n_q, 0, static_cast<std::int32_t>(spec.shape.heads)},
            [&](const MapRowsAt& rows) { on_card.add(rows, recipe); });
  on_card.finish();
  return sums;
}

std::vector<float> rectangle(const Launch& launch, const CardMap& map, const MapShape& shape,
                             const MapRequest& request) {
  std::vector<float> power_list = map.recipe.powers;
  std::vector<float> weights(size((request.row_end - request.row_begin) * (request.key_end - request.key_begin)), 0.0f);
  if (weights.empty()) return weights;
  const OnCard<float> powers(launch, power_list), to(launch, weights);
  const RecipeView recipe = view_of(map, power_list.empty() ? nullptr : powers.data(), false);
  MapSums facts({.shape = shape, .windows = {}});
  const OnCard<float> entropy(launch, facts.entropy), row_sum(launch, facts.row_sum), logit(launch, facts.max_logit);
  const MapSizes sizes{shape.n_q, shape.n_k, false, 0};
  const RowFactsAt unused{entropy.data(), row_sum.data(), logit.data(), nullptr, nullptr};
  each_rows(launch, map, {request.row_begin, request.row_end, static_cast<std::int32_t>(request.head), 1},
            [&](const MapRowsAt& rows) {
              weigh_rows_kernel<<<grid_of(rows.count, 1), kThreads, 0, launch.stream>>>(rows, recipe, sizes, unused);
              const RectangleAt at{request.row_begin, request.row_end, request.key_begin, request.key_end, to.data()};
              rectangle_kernel<<<grid_of(rows.count, 1), kThreads, 0, launch.stream>>>(rows, at);
              check_cuda(cudaGetLastError(), "a rectangle of a map");
            });
  to.fetch();
  check_cuda(cudaStreamSynchronize(launch.stream), "a rectangle of a map");
  return weights;
}

}  // namespace fovea::inspection::cuda
