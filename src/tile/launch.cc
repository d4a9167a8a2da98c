#include "tile/launch.h"

#include "core/visit_device.h"
#include "tensor/array_of.h"
#include "tile/piece_gradients_kernels.h"
#include "tile/query.h"
#include "tile/row_statistics.h"
#include "tile/score_rows.h"

namespace fovea::tile {
namespace {

BiasArray<void*> bias_array(const Tensor& bias) {
  if (!bias.defined()) return {};
  const auto stride = [&](int axis) { return bias.dim(axis) == 1 ? 0 : bias.stride(axis); };
  if (bias.rank() == 3) return {bias.raw(), stride(0), stride(1), 1, -1};
  return {bias.raw(), stride(0), stride(1), stride(2), stride(3)};
}

// The gradient of a bias by distance: every piece and head sums in elements of its own, (pieces, heads, 2 L - 1), which
// are added up in order.
class DistanceGradient {
 public:
  DistanceGradient(const Context& context, const Work& work, const Tensor& d_bias) : d_bias_(d_bias) {
    if (!d_bias.defined() || d_bias.rank() != 3) return;
    pieces_.assign(work.pieces.all().begin(), work.pieces.all().end());
    const std::int64_t heads = work.problem.heads, size = d_bias.dim(2);
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      pieces_[i].d_bias_at = pieces_[i].bias_at + static_cast<std::int64_t>(i) * heads * size;
    sums_ = Tensor::zeros(context, {std::ssize(pieces_), heads, size}, d_bias.dtype(), Lifetime::scratch);
  }

  void tell(Problem& problem, Backward& arrays) const {
    arrays.d_bias = bias_array(sums_.defined() ? sums_ : d_bias_);
    if (!sums_.defined()) return;
    problem.pieces = pieces_;
    arrays.d_bias.batch = 0;
    arrays.d_bias.head = sums_.dim(2);
  }
  template <Device D>
  void add_up(const Context& context) const {
    if (sums_.defined()) kernels::add_piece_gradients<D>(context, {sums_, d_bias_, pieces_});
  }

 private:
  Tensor d_bias_, sums_;
  std::vector<Piece> pieces_;
};

Forward arrays_of(const ForwardTensors& io) {
  return {array_of<In>(io.in.q), array_of<In>(io.in.k), array_of<In>(io.in.v),
          array_of<Out>(io.o),   array_of<Out>(io.lse), array_of<Out>(io.rest)};
}

// What nothing but the CPU has.
template <class Run>
void on_the_host(const Context& context, const ForwardTensors& io, const Run& run) {
  visit_device(context, io, [&]<Device D>() {
    if constexpr (D == Device::cpu)
      run();
    else
      fail(ErrorCode::unsupported, "rows of scores and weights are made on the CPU", "device");
  });
}

}  // namespace

Problem problem_of(const Work& work, const Inputs& in) {
  Problem problem = work.problem;
  const BiasArray<void*> bias = bias_array(in.bias);
  problem.pieces = work.pieces.all();
  problem.bias = {bias.data, bias.batch, bias.head, bias.query, bias.key};
  problem.alibi = in.alibi.defined() ? in.alibi.data<double>() : nullptr;
  return problem;
}

void PieceList::add(Piece piece, const Pattern& pattern) {
  plans_.push_back(plan_for(device_, pattern, piece.nq, piece.nk));
  piece.plan = plans_.back().get();
  pieces_.push_back(piece);
}

void forward(const Context& context, const Work& work, const ForwardTensors& io) {
  visit_device(context, io, [&]<Device D>() {
    const Problem problem = problem_of(work, io.in);
    const Forward arrays = arrays_of(io);
    work.rule ? rule_forward<D>(context, problem, *work.rule, arrays) : forward<D>(context, problem, arrays);
  });
}

void forward_measured(const Context& context, const Work& work, const ForwardTensors& io,
                      const StatisticsTensors& statistics) {
  if (work.rule) fail(ErrorCode::unsupported, "statistics of a row rule", "tiled attention");
  on_the_host(context, io, [&] {
    forward_measured(context, problem_of(work, io.in), arrays_of(io),
                     {statistics.top_keys.dim(3), array_of<Out>(statistics.entropy), array_of<Out>(statistics.top_keys),
                      array_of<Out>(statistics.top_scores)});
  });
}

void backward(const Context& context, const Work& work, const BackwardTensors& io) {
  const DistanceGradient by_distance(context, work, io.d_bias);
  visit_device(context, io, [&]<Device D>() {
    Backward arrays{.q = array_of<In>(io.in.q),
                    .k = array_of<In>(io.in.k),
                    .v = array_of<In>(io.in.v),
                    .o = array_of<In>(io.o),
                    .lse = array_of<In>(io.lse),
                    .d_o = array_of<In>(io.d_o),
                    .d_lse = array_of<In>(io.d_lse),
                    .dq = array_of<Out>(io.dq),
                    .dk = array_of<Out>(io.dk),
                    .dv = array_of<Out>(io.dv),
                    .d_bias = {},
                    .rest = array_of<In>(io.rest)};
    Problem problem = problem_of(work, io.in);
    by_distance.tell(problem, arrays);
    work.rule ? rule_backward<D>(context, problem, *work.rule, arrays) : backward<D>(context, problem, arrays);
    by_distance.add_up<D>(context);
  });
}

void visit_score_rows(const Context& context, const Work& work, const Inputs& in, const WantedRows& wanted,
                      RowVisitor& visitor) {
  on_the_host(context, {in, {}, {}, {}}, [&] {
    visit_score_rows(context, problem_of(work, in), work.rule ? &*work.rule : nullptr, array_of<In>(in.q),
                     array_of<In>(in.k), wanted, visitor);
  });
}

void visit_weight_tiles(const Context& context, const Work& work, const Inputs& in, const Tensor& lse,
                        const WantedRows& wanted, TileVisitor& visitor) {
  if (work.rule) fail(ErrorCode::unsupported, "tiles of weights of a row rule", "tiled attention");
  on_the_host(context, {in, {}, {}, {}}, [&] {
    visit_weight_tiles(context, problem_of(work, in), {array_of<In>(in.q), array_of<In>(in.k), array_of<In>(lse)},
                       wanted, visitor);
  });
}

void attend_queries(const Context& context, double scale, std::span<const QueryTensors> queries) {
  if (queries.empty()) return;
  for (const QueryTensors& io : queries) check_device(context.device(), io);
  visit_device(*context.memory(), [&]<Device D>() {
    std::vector<Query> arrays;
    for (const QueryTensors& io : queries)
      arrays.push_back({.n = io.keys.dim(1),
                        .q = array_of<In>(io.q),
                        .keys = array_of<In>(io.keys),
                        .values = array_of<In>(io.values),
                        .o = array_of<Out>(io.o)});
    const QueryTensors& first = queries[0];
    attend_queries<D>(context, {.dtype = first.q.dtype(),
                                .heads = first.q.dim(2),
                                .kv_heads = first.keys.dim(2),
                                .d_k = first.q.dim(3),
                                .d_v = first.o.dim(3),
                                .scale = scale,
                                .queries = arrays});
  });
}

}  // namespace fovea::tile
