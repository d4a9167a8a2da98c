#include "inspect/scan_source.h"

#include <algorithm>
#include <cmath>

#include "inspect/row_math.h"

namespace fovea::inspection {
namespace {

// e^(g t) for t = 0 .. n - 1, the last first: a row reads it forwards.
std::vector<float> falling_powers(double g, std::int64_t n) {
  std::vector<float> powers(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < n; ++t)
    powers[static_cast<std::size_t>(n - 1 - t)] = static_cast<float>(std::exp(g * static_cast<double>(t)));
  return powers;
}

// Turns products of features into weights.
class FeatureWeigher final : public tile::RowVisitor {
 public:
  FeatureWeigher(const KeptScan& kept, double factor, MapSink& sink) : kept_(kept), factor_(factor), sink_(sink) {
    for (const double g : kept.log_decay) powers_.push_back(falling_powers(g, kept.shape.n_k));
  }

  void visit(const tile::ScoreRows& rows, std::int64_t share) override {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      MapRow row{.head = rows.head, .row = rows.query + i, .weights = rows.scores + i * rows.stride, .runs = rows.runs};
      weigh(row, rows.keys);
      sink_.take(row, share);
    }
  }

 private:
  void weigh(MapRow& row, std::int64_t keys) const {
    for (std::int64_t j = 0; j < keys; ++j) row.weights[j] = row.weights[j] == -INFINITY ? 0.0f : row.weights[j];
    if (!powers_.empty()) fade(row);
    row.factor = factor_;
    if (kept_.denominator == scan::Denominator::none) return;
    const double sum = sum_signed(row.weights, keys);
    const double below = kept_.denominator == scan::Denominator::add ? sum + kept_.eps
                         : sum < kept_.eps                           ? kept_.eps
                                                                     : sum;
    row.factor /= below;
  }

  // Key j of row i is i - j steps old.
  void fade(const MapRow& row) const {
    const auto [heads, n_q, n_k] = kept_.shape;
    const auto kv_head = row.head * std::ssize(powers_) / heads;
    const std::int64_t position = row.row + n_k - n_q;
    const float* powers = powers_[static_cast<std::size_t>(kv_head)].data() + (n_k - 1 - position);
    float* w = row.weights;
    for (const KeyRun& run : row.runs) {
      const std::int64_t end = std::min(run.begin + run.count, position + 1);  // later ones are 0
      for (std::int64_t j = run.begin; j < end; ++j) w[j - run.begin] *= powers[j];
      w += run.count;
    }
  }

  const KeptScan& kept_;
  double factor_;
  MapSink& sink_;
  std::vector<std::vector<float>> powers_;
};

}  // namespace

tile::Work ScanSource::work() const {
  const auto [heads, n_q, n_k] = kept_.shape;
  tile::Work work{.pieces = tile::PieceList(kept_.q.device())};
  work.problem = {.dtype = kept_.q.dtype(),
                  .heads = heads,
                  .kv_heads = kept_.k.dim(2),
                  .d_k = kept_.q.dim(3),
                  .d_v = 1,
                  .pieces = {},
                  .bias = {},
                  .dropout = {}};
  work.pieces.add({.nq = n_q, .nk = n_k}, kept_.causal ? Pattern::causal() : Pattern::full());
  return work;
}

void ScanSource::rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const {
  FeatureWeigher weigher(kept_, factor_, sink);
  tile::visit_score_rows(context, work(), {.q = kept_.q, .k = kept_.k, .v = {}}, wanted, weigher);
}

std::optional<ScoredRows> ScanSource::scored() const {
  RowRecipe recipe{.features = true, .denominator = kept_.denominator, .eps = kept_.eps, .factor = factor_};
  for (const double g : kept_.log_decay) {
    const std::vector<float> powers = falling_powers(g, kept_.shape.n_k);
    recipe.powers.insert(recipe.powers.end(), powers.begin(), powers.end());
  }
  return ScoredRows{work(), {.q = kept_.q, .k = kept_.k, .v = {}}, std::move(recipe)};
}

}  // namespace fovea::inspection
