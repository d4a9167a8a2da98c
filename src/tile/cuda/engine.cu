#include <algorithm>

#include "core/cuda/slabs.h"
#include "core/stream_shift.h"
#include "policy/softmax.h"
#include "tile/check.h"
#include "tile/cuda/launch.h"
#include "tile/cuda/mma_launch.h"
#include "tile/cuda/simt_launch.h"
#include "tile/cuda/statistics.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_shares_f32, simt_shares_f64, simt_points_f32, simt_points_f64, simt_rules_f32,
    simt_rules_f64;

const SimtKernels& simt_kernels(Family family, bool is_f64) {
  switch (family) {
    case Family::shares: return is_f64 ? simt_shares_f64 : simt_shares_f32;
    case Family::points: return is_f64 ? simt_points_f64 : simt_points_f32;
    case Family::rules: break;
  }
  return is_f64 ? simt_rules_f64 : simt_rules_f32;
}

namespace {

Call call_of(const Problem& problem, const Schedule& schedule) {
  Call call;
  call.pieces = schedule.pieces;
  call.heads = static_cast<std::int32_t>(problem.heads);
  call.kv_heads = static_cast<std::int32_t>(problem.kv_heads);
  call.d_k = static_cast<std::int32_t>(problem.d_k);
  call.d_v = static_cast<std::int32_t>(problem.d_v);
  call.rows = schedule.rows;
  call.dtype = problem.dtype;
  call.output_type = call.gradient_type = problem.output_type();
  call.weight = problem.weight;
  call.self_adjust = problem.weight == Weight::self_adjust;
  call.offset = problem.offset;
  call.degree = problem.degree;
  call.scale = problem.scale;
  call.unit = has_statistic(problem.weight) || problem.weight == Weight::exp ? math::kLog2e<double> : 1.0;
  call.score_scale = static_cast<float>(call.scale * call.unit);
  call.alibi = problem.alibi;
  call.bias = problem.bias;
  call.is_shaped = problem.weight == Weight::softmax && problem.scale > 0 && problem.alibi == nullptr;
  call.has_dropout = problem.dropout.p > 0;
  call.dropout = PairDropout::of(problem.dropout.p, problem.dropout.seed, problem.dropout.stream);
  call.drop_shift = stream_shift();
  call.first_head = problem.dropout.first_head;
  call.first_query = problem.dropout.first_query;
  call.first_key = problem.dropout.first_key;
  call.drop_scale = PairDropout::scale(problem.dropout.p);
  return call;
}

void set(Call& call, const Forward& io) {
  call.q = io.q;
  call.k = io.k;
  call.v = io.v;
  call.out = io.o;
  call.out_rest = io.rest;
  call.out_lse = io.lse;
}
void set(Call& call, const Backward& io) {
  call.q = io.q;
  call.k = io.k;
  call.v = io.v;
  call.o = io.o;
  call.rest = io.rest;
  call.lse = io.lse;
  call.d_o = io.d_o;
  call.d_lse = io.d_lse;
  call.dq = io.dq;
  call.dk = io.dk;
  call.dv = io.dv;
  call.d_bias = io.d_bias;
}

bool is_f64(const Problem& problem) { return problem.dtype == DType::f64; }
std::size_t wide_size(const Problem& problem) { return is_f64(problem) ? sizeof(double) : sizeof(float); }
Family family_of(const Problem& problem) { return has_statistic(problem.weight) ? Family::shares : Family::points; }

template <class R>
void write_statistics(const Launch& launch, const Call& call, const Schedule& schedule, void* to) {
  std::int64_t longest = 0;
  for (const PieceView& piece : schedule.host_pieces) longest = std::max(longest, piece.nq);
  if (longest == 0) return;
  constexpr int kThreads = 256;
  const auto start = [&](auto* kernel, std::int64_t lanes) {
    const std::int64_t rows = kThreads / lanes, blocks = (longest * call.heads + rows - 1) / rows;
    each_slab(std::ssize(schedule.host_pieces), [&](std::int64_t first, unsigned count) {
      const dim3 grid(static_cast<unsigned>(blocks), count);
      kernel<<<grid, kThreads, 0, launch.stream>>>(from_piece(call, first), static_cast<RowStatistic<R>*>(to));
    });
  };
  if constexpr (std::is_same_v<R, float>) {
    constexpr int kLanes = 8;
    const bool pieces = call.output_type == call.dtype && call.d_v % 8 == 0 && is_aligned(call.o) &&
                        is_aligned(call.rest) && is_aligned(call.d_o);
    if (call.dtype == DType::bf16 && pieces)
      start(half_statistics_kernel<__nv_bfloat16, kLanes>, kLanes);
    else if (call.dtype == DType::f16 && pieces)
      start(half_statistics_kernel<__half, kLanes>, kLanes);
    else
      start(statistics_kernel<R>, 32);
  } else {
    start(statistics_kernel<R>, 32);
  }
  check_cuda(cudaGetLastError(), "row statistics");
}

// Room for gradients of outputs as half types, by batch item, row and head as the caller has them.
class NarrowGradient {
 public:
  NarrowGradient(const Launch& launch, Call& call, const Schedule& schedule)
      : is_wanted_(call.output_type != call.dtype && call.d_v % 4 == 0 && mma_takes_backward(call, schedule)),
        to_(shape_of(call, schedule)),
        memory_(launch, is_wanted_ ? static_cast<std::size_t>(batches_ * to_.batch) * 2 : 0) {
    if (!is_wanted_ || longest_ == 0) return;
    to_.data = memory_.data();
    constexpr int kThreads = 256;
    const std::int64_t blocks = (longest_ * call.heads * (call.d_v / 4) + kThreads - 1) / kThreads;
    each_slab(std::ssize(schedule.host_pieces), [&](std::int64_t first, unsigned count) {
      narrow_kernel<<<dim3(static_cast<unsigned>(blocks), count), kThreads, 0, launch.stream>>>(from_piece(call, first),
                                                                                                to_);
    });
    check_cuda(cudaGetLastError(), "gradients of tiled attention");
    call.d_o = {to_.data, to_.batch, to_.row, to_.head};
    call.gradient_type = call.dtype;
  }

 private:
  Out shape_of(const Call& call, const Schedule& schedule) {
    std::int64_t rows = 0;
    for (const PieceView& piece : schedule.host_pieces) {
      longest_ = std::max(longest_, piece.nq);
      batches_ = std::max(batches_, piece.batch + 1);
      if (piece.nq > 0) rows = std::max(rows, piece.query_row(piece.nq - 1) + 1);
    }
    const std::int64_t row = std::int64_t{call.heads} * call.d_v;
    return {nullptr, rows * row, row, call.d_v};
  }

  bool is_wanted_;
  std::int64_t batches_ = 0, longest_ = 0;
  Out to_;
  DeviceScratch memory_;
};

// The gradient of a diagonal bias is summed along tiles that must lie on diagonals themselves.
void check_diagonal(const Problem& problem, const BiasArray<void*>& d_bias) {
  if (d_bias.data == nullptr || !d_bias.is_diagonal()) return;
  for (const Piece& piece : problem.pieces) {
    const std::int32_t tile = piece.plan->tile_q;
    if (piece.q_step == piece.k_step && tile == piece.plan->tile_k && (tile <= 32 || tile % 64 == 0)) continue;
    fail(ErrorCode::unsupported, "the gradient of a bias of distances for rows with different steps or tiles",
         "tiled attention on CUDA", "equal steps and square tiles, or a dense bias");
  }
}

// Dq, dk, dv and the bias, once the statistics or terms of the rows are there.
void vjp(const Launch& launch, const Call& call, const Schedule& schedule, const SimtKernels& kernels) {
  kernels.run(launch, call, schedule, Role::row, 1);
  kernels.run(launch, call, schedule, Role::column, 1);
  if (call.d_bias.data != nullptr) kernels.add_bias(launch, call, schedule);
}

template <class R>
void search(const Launch& launch, const Call& call, const Schedule& schedule, void* terms) {
  search_rows<R>(launch, call, schedule, static_cast<RowTerms<R>*>(terms));
}

struct RuleRun {
  std::shared_ptr<const Schedule> schedule;
  Call call;
  std::size_t terms;  // bytes

  RuleRun(const Problem& problem, const RowRule& rule)
      : schedule(schedule_for(problem)), call(call_of(problem, *schedule)) {
    call.unit = 1.0;
    call.rule = rule;
    const std::size_t each = is_f64(problem) ? sizeof(RowTerms<double>) : sizeof(RowTerms<float>);
    terms = static_cast<std::size_t>(schedule->rows * problem.heads) * each;
  }
};

}  // namespace

void forward(const Launch& launch, const Problem& problem, const Forward& io) {
  tile::check(problem, io);
  if (problem.pieces.empty()) return;
  const auto schedule = schedule_for(problem);
  Call call = call_of(problem, *schedule);
  set(call, io);
  if (mma_forward(launch, call, *schedule)) return;
  simt_kernels(family_of(problem), is_f64(problem)).run(launch, call, *schedule, Role::forward, 1);
}

void backward(const Launch& launch, const Problem& problem, const Backward& io) {
  tile::check(problem, io);
  check_diagonal(problem, io.d_bias);
  if (problem.pieces.empty()) return;
  const auto schedule = schedule_for(problem);
  Call call = call_of(problem, *schedule);
  set(call, io);
  const NarrowGradient narrow(launch, call, *schedule);
  const bool statistic = reads_statistics(call, *schedule);
  const auto rows = static_cast<std::size_t>(schedule->rows * problem.heads);
  const DeviceScratch statistics(launch, statistic ? 2 * rows * wide_size(problem) : 0);
  if (statistic)
    is_f64(problem) ? write_statistics<double>(launch, call, *schedule, statistics.data())
                    : write_statistics<float>(launch, call, *schedule, statistics.data());
  call.statistics = statistics.data();
  const SimtKernels& portable = simt_kernels(family_of(problem), is_f64(problem));
  if (!mma_backward(launch, call, *schedule)) return vjp(launch, call, *schedule, portable);
  if (call.d_bias.data != nullptr && !mma_add_bias(launch, call, *schedule)) portable.add_bias(launch, call, *schedule);
}

void rule_forward(const Launch& launch, const Problem& problem, const RowRule& rule, const Forward& io) {
  tile::check(problem, rule, io);
  if (problem.pieces.empty()) return;
  RuleRun run(problem, rule);
  set(run.call, io);
  const DeviceScratch terms(launch, run.terms);
  is_f64(problem) ? search<double>(launch, run.call, *run.schedule, terms.data())
                  : search<float>(launch, run.call, *run.schedule, terms.data());
  run.call.statistics = terms.data();
  simt_kernels(Family::rules, is_f64(problem)).run(launch, run.call, *run.schedule, Role::forward, 1);
}

void rule_backward(const Launch& launch, const Problem& problem, const RowRule& rule, const Backward& io) {
  tile::check(problem, rule, io);
  check_diagonal(problem, io.d_bias);
  if (problem.pieces.empty()) return;
  RuleRun run(problem, rule);
  set(run.call, io);
  const DeviceScratch terms(launch, run.terms);
  is_f64(problem) ? search<double>(launch, run.call, *run.schedule, terms.data())
                  : search<float>(launch, run.call, *run.schedule, terms.data());
  run.call.statistics = terms.data();
  vjp(launch, run.call, *run.schedule, simt_kernels(Family::rules, is_f64(problem)));
}

void score_rows(const Launch& launch, const Problem& problem, const In& q, const In& k, const ScoreRows& rows) {
  Problem narrow = problem;  // values are not read, and weights not dropped
  narrow.d_v = 1;
  narrow.dropout = {};
  tile::check(narrow);
  const auto schedule = schedule_for(narrow);
  Call call = call_of(narrow, *schedule);
  call.unit = 1.0;
  call.q = q;
  call.k = k;
  write_score_rows(launch, call, *schedule, rows);
}

}  // namespace fovea::tile::cuda
