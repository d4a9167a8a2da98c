#include "inspect/tiled_source.h"

#include <algorithm>
#include <cmath>

#include "inspect/row_math.h"

namespace fovea::inspection {
namespace {

RowWeighing weighing_of(const KeptRun& run) {
  const tile::Problem& problem = run.work.problem;
  return {problem.weight, problem.offset, problem.degree};
}

// Turns rows of scores into weights.
class Weigher final : public tile::RowVisitor {
 public:
  Weigher(const KeptTiled& kept, const KeptRun& run, bool quotient, MapSink& sink)
      : kept_(kept),
        run_(run),
        quotient_(quotient),
        sink_(sink),
        joined_(kept.runs.size() > 1),
        how_(weighing_of(run)) {}

  void visit(const tile::ScoreRows& rows, std::int64_t share) override {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      MapRow row{.head = run_.first_head + rows.head,
                 .row = rows.piece->query_row(rows.query + i),
                 .weights = rows.scores + i * rows.stride,
                 .runs = rows.runs,
                 .first_key = rows.piece->k0,
                 .step = rows.piece->k_step,
                 .max_logit = rows.top[i],
                 .part = joined_};
      if (!run_.work.rule) weigh(row, rows.keys);
      sink_.take(row, share);
    }
  }

 private:
  void weigh(MapRow& row, std::int64_t keys) const {
    const bool empty = row.max_logit == -INFINITY;
    const bool has_statistic = tile::has_statistic(how_.weight);
    if (empty && has_statistic) {  // no key at all, where e^(-inf + inf) would be no number; or nothing but NaN
      const bool bad = std::isnan(sum_signed(row.weights, keys));
      std::fill_n(row.weights, keys, bad ? NAN : 0.0f);
      return;
    }
    if (joined_) {
      const float lse = kept_.lse[static_cast<std::size_t>(row.row * kept_.heads + row.head)];
      weigh_row(how_, row.weights, keys, lse);
      return;
    }
    const RowSums sums = weigh_row(how_, row.weights, keys, row.max_logit);
    if (has_statistic) row.factor = 1.0 / sums.exponentials;
    if (how_.weight == tile::Weight::softmax) {
      row.row_sum = sums.exponentials * row.factor;
      row.entropy = std::log(sums.exponentials) - sums.weighted / sums.exponentials;
    }
    if (quotient_) {
      const double sum = sum_signed(row.weights, keys);
      row.factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    }
  }

  const KeptTiled& kept_;
  const KeptRun& run_;
  bool quotient_;
  MapSink& sink_;
  bool joined_;
  RowWeighing how_;
};

}  // namespace

void TiledSource::rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const {
  for (const KeptRun& run : kept_.runs) {
    tile::WantedRows some = wanted;
    if (wanted.head >= 0) some.head = wanted.head - run.first_head;
    if (wanted.head >= 0 && (some.head < 0 || some.head >= run.work.problem.heads)) continue;
    Weigher weigher(kept_, run, quotient_, sink);
    tile::visit_score_rows(context, run.work, run.in, some, weigher);
  }
}

void TiledSource::tiles(const Context& context, const tile::WantedRows& wanted, tile::TileVisitor& visitor) const {
  const KeptRun& run = kept_.runs.front();
  tile::visit_weight_tiles(context, run.work, run.in, kept_.facts->lse, wanted, visitor);
}

std::optional<ScoredRows> TiledSource::scored() const {
  const KeptRun& run = kept_.runs.front();
  const auto of_one_head = [](const tile::Piece& piece) { return piece.kv_head >= 0; };
  if (kept_.runs.size() > 1 || run.work.rule || std::ranges::any_of(run.work.pieces.all(), of_one_head)) return {};
  return ScoredRows{run.work, run.in, {.scores = weighing_of(run), .quotient = quotient_}};
}

}  // namespace fovea::inspection
