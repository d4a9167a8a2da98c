#include "parallel/vocabulary.h"

#include <algorithm>
#include <cmath>

#include "core/wide.h"
#include "ops/loss.h"
#include "ops/loss_kernels.h"
#include "parallel/cut.h"
#include "parallel/rows.h"

namespace fovea::divided {
namespace {

Index index_of_numbers(const Context& context, const std::vector<std::int32_t>& entries, std::int64_t limit) {
  return {Tensor::from<std::int32_t>(context, {std::ssize(entries)}, entries), 0, limit, true};
}

// What a rank knows of a row, in the order in which it travels.
struct RowShare {
  double top, log_sum, target, sum, leads;
};
constexpr std::size_t kRowNumbers = sizeof(RowShare) / sizeof(double);

// All that ranks know of one row: ranks[r] is at `step` numbers from ranks[r - 1].
RowShare joined(const RowShare* first, int ranks, std::size_t step) {
  RowShare all = *first;
  for (int r = 1; r < ranks; ++r) {
    const RowShare& other = first[static_cast<std::size_t>(r) * step];
    if (other.top > all.top) all.leads = other.leads;  // of equal ones the first leads
    all.top = std::max(all.top, other.top);
    all.target += other.target;
    all.sum += other.sum;
  }
  double exps = 0.0;
  for (int r = 0; r < ranks; ++r) {
    const RowShare& one = first[static_cast<std::size_t>(r) * step];
    exps += std::exp(one.top - all.top + one.log_sum);
  }
  all.log_sum = std::log(exps);
  return all;
}

// Joins blocks of rows over the ranks that have the other classes.
class LossJoin {
 public:
  LossJoin(const Context& context, const CrossEntropy& options, const Vocabulary& tokens)
      : context_(context), options_(options), tokens_(tokens) {}

  void operator()(const Tensor& targets, const Tensor& peaks, const Tensor& given, const Tensor& sums) const {
    const std::vector<std::int32_t> wanted = targets.to_vector<std::int32_t>();
    const std::vector<RowShare> all = exchanged(wanted, peaks.to_vector<double>(), given.to_vector<double>());
    std::vector<double> of_all(2 * wanted.size(), 0.0), total = sums.to_vector<double>();
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      if (wanted[row] == options_.ignore_index) continue;
      const RowShare share = joined(&all[row], tokens_.ranks.size(), wanted.size());
      of_all[2 * row] = share.top, of_all[2 * row + 1] = share.log_sum;
      total[0] += loss_of(share);
      total[1] += 1.0;
      total[2] += share.leads;
    }
    peaks.copy_from(Tensor::from<double>(context_, peaks.shape(), of_all));
    sums.copy_from(Tensor::from<double>(context_, sums.shape(), total));
  }

 private:
  double loss_of(const RowShare& row) const {
    const double eps = options_.label_smoothing;
    return row.log_sum + (1.0 - eps) * (row.top - row.target) +
           eps * (row.top - row.sum / static_cast<double>(tokens_.all));
  }

  // Rows of rank 0, then those of rank 1, ...
  std::vector<RowShare> exchanged(const std::vector<std::int32_t>& wanted, const std::vector<double>& peaks,
                                  const std::vector<double>& given) const {
    std::vector<double> mine(kRowNumbers * wanted.size(), 0.0);
    for (std::size_t row = 0; row < wanted.size(); ++row) {
      if (wanted[row] == options_.ignore_index) continue;
      std::copy_n(&peaks[2 * row], 2, &mine[kRowNumbers * row]);
      std::copy_n(&given[3 * row], 3, &mine[kRowNumbers * row + 2]);
    }
    const std::vector<double> gathered = tokens_.ranks.all_gather(mine);
    std::vector<RowShare> all;
    for (std::size_t i = 0; i < gathered.size(); i += kRowNumbers)
      all.push_back({gathered[i], gathered[i + 1], gathered[i + 2], gathered[i + 3], gathered[i + 4]});
    return all;
  }

  const Context& context_;
  CrossEntropy options_;
  const Vocabulary& tokens_;
};

void join_tokens_backward(Tape& tape, Node& node) {
  const auto& tokens = std::any_cast<const Vocabulary&>(node.attributes);
  const Context& context = tape.context();
  const DType dtype = node.inputs[0]->dtype;
  const Tensor sum = node.grad().to(context, wide_type(dtype)).clone(context);
  tokens.ranks.all_reduce(sum);
  tape.accumulate(node.inputs[0], sum.slice(sum.rank() - 1, tokens.begin(), tokens.end()).to(context, dtype));
}

constexpr Op kJoinTokens{"join_tokens", join_tokens_backward};

}  // namespace

Var embedding(Tape& tape, const Var& table, const Index& ids, const Vocabulary& tokens) {
  if (tokens.ranks.size() == 1) return fovea::embedding(tape, table, ids);
  const Context& context = tape.context();
  const std::vector<std::int32_t> wanted = ids.entries.to_vector<std::int32_t>();
  std::vector<std::int32_t> here, places;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < tokens.begin() || wanted[i] >= tokens.end()) continue;
    here.push_back(static_cast<std::int32_t>(wanted[i] - tokens.begin()));
    places.push_back(static_cast<std::int32_t>(i));
  }
  const Var own = fovea::embedding(tape, table, index_of_numbers(context, here, table.dim(0)));
  const Var spread = scatter_rows(tape, own, index_of_numbers(context, places, std::ssize(wanted)), std::ssize(wanted));
  return reshape(tape, sum(tape, spread, tokens.ranks), {ids.entries.dim(0), ids.entries.dim(1), table.dim(1)});
}

ClassLoss linear_class_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                            CrossEntropy options, const Vocabulary& tokens) {
  if (tokens.ranks.size() == 1) return fovea::linear_class_loss(tape, x, weight, bias, targets, options);
  const Context& context = tape.context();
  std::vector<std::int32_t> here =
      checked_targets(context, x.shape().with(-1, tokens.all), targets, options).to_vector<std::int32_t>();
  for (std::int32_t& target : here) {
    if (target == options.ignore_index) continue;
    const bool own = target >= tokens.begin() && target < tokens.end();
    target = own ? static_cast<std::int32_t>(target - tokens.begin()) : kernels::kClassElsewhere;
  }
  const Tensor own = Tensor::from<std::int32_t>(context, {std::ssize(here)}, here);
  return linear_share_loss(tape, x, weight, bias, own, options,
                           {.all_classes = tokens.all, .join = LossJoin(context, options, tokens)});
}

Var join_tokens(Tape& tape, const Var& logits, const Vocabulary& tokens) {
  if (tokens.ranks.size() == 1) return logits;
  const WeightCut cut{.axis = logits.value().rank() - 1, .runs = {tokens.all}};
  return tape.record(kJoinTokens, {logits}, whole_of(tape.context(), logits.value(), cut, tokens.ranks), {}, tokens);
}

}  // namespace fovea::divided
