#include "scan/check.h"
#include "scan/cuda/launch.h"
#include "scan/cuda/mma_launch.h"
#include "scan/cuda/portable.h"
#include "scan/cuda/walk.h"

namespace fovea::scan::cuda {

void run_walk_f32(const Launch& launch, const Call& call, const Walk& walk);
void run_walk_f64(const Launch& launch, const Call& call, const Walk& walk);

void run_walk(const Launch& launch, const Call& call, const Walk& walk) {
  return call.dtype == DType::f64 ? run_walk_f64(launch, call, walk) : run_walk_f32(launch, call, walk);
}

namespace {

Call call_of(const Problem& problem, const Schedule& schedule) {
  Call call;
  call.pieces = schedule.pieces;
  call.heads = static_cast<std::int32_t>(problem.heads);
  call.kv_heads = static_cast<std::int32_t>(problem.kv_heads);
  call.d_k = static_cast<std::int32_t>(problem.d_k);
  call.d_v = static_cast<std::int32_t>(problem.d_v);
  call.width = static_cast<std::int32_t>(state_width(problem));
  call.query_rows = schedule.query_rows;
  call.key_rows = schedule.key_rows;
  call.dtype = problem.dtype;
  call.output_type = problem.output_type();
  call.causal = schedule.causal;
  call.rms_norm = problem.rms_norm;
  call.map = problem.map;
  call.decay = problem.decay;
  call.head_decay = schedule.head_decay;
  call.denominator = problem.denominator;
  call.denominator_eps = problem.denominator_eps;
  call.norm_eps = problem.norm_eps;
  return call;
}

// With what forward and backward both read.
template <class Io>
Call call_with(const Problem& problem, const Schedule& schedule, const Io& io) {
  Call call = call_of(problem, schedule);
  call.q = io.q;
  call.k = io.k;
  call.v = io.v;
  call.log_decay = io.log_decay;
  return call;
}

Call forward_call(const Problem& problem, const Schedule& schedule, const Forward& io) {
  Call call = call_with(problem, schedule, io);
  call.out = io.o;
  call.out_rest = io.rest;
  call.out_statistic = io.statistic;
  return call;
}
Call backward_call(const Problem& problem, const Schedule& schedule, const Backward& io) {
  Call call = call_with(problem, schedule, io);
  call.o = io.o;
  call.rest = io.rest;
  call.statistic = io.statistic;
  call.d_o = io.d_o;
  call.dq = io.dq;
  call.dk = io.dk;
  call.dv = io.dv;
  call.d_log_decay = io.d_log_decay;
  return call;
}

// (pieces, kv_heads, d_k) factors. Grid: (pieces, kv heads); a channel for each thread.
template <class R>
__global__ void total_decay_kernel(const __grid_constant__ Call call, R* to) {
  const PieceView& piece = call.pieces[blockIdx.x];
  const std::int32_t columns = call.decay_columns(), head = static_cast<std::int32_t>(blockIdx.y);
  const R* logs = static_cast<const R*>(call.log_decay.data) + offset_of(call.log_decay, piece.batch, piece.k0, head);
  for (std::int32_t a = threadIdx.x; a < call.d_k; a += blockDim.x) {
    double sum = call.decay == Decay::head ? static_cast<double>(piece.nk) * call.head_decay[head] : 0.0;
    for (std::int64_t t = 0; columns != 0 && t < piece.nk; ++t) sum += logs[t * call.log_decay.row + a % columns];
    to[(std::int64_t{blockIdx.x} * call.kv_heads + head) * call.d_k + a] = static_cast<R>(exp(sum));
  }
}

template <class R>
void write_total_decay(const Launch& launch, const Call& call, std::size_t pieces, void* to) {
  const dim3 grid(static_cast<unsigned>(pieces), static_cast<unsigned>(call.kv_heads));
  total_decay_kernel<R><<<grid, 128, 0, launch.stream>>>(call, static_cast<R*>(to));
  check_cuda(cudaGetLastError(), "total decay");
}

}  // namespace

Kernels forward(const Launch& launch, const Problem& problem, const Forward& io) {
  scan::check(problem, io);
  if (problem.pieces.empty()) return Kernels::none;
  // A single step is causal either way, and its state needs no sum of its own then.
  const auto schedule = schedule_for(problem, problem.causal || is_step(problem));
  const Call call = forward_call(problem, *schedule, io);
  if (io.total_decay != nullptr)
    problem.dtype == DType::f64 ? write_total_decay<double>(launch, call, problem.pieces.size(), io.total_decay)
                                : write_total_decay<float>(launch, call, problem.pieces.size(), io.total_decay);
  if (mma_forward(launch, call, *schedule, io)) return Kernels::tensor_cores;
  problem.dtype == DType::f64 ? portable_forward<double>(launch, call, *schedule, io)
                              : portable_forward<float>(launch, call, *schedule, io);
  return Kernels::portable;
}

Kernels backward(const Launch& launch, const Problem& problem, const Backward& io) {
  scan::check(problem, io);
  if (problem.pieces.empty()) return Kernels::none;
  const auto schedule = schedule_for(problem, problem.causal);
  const Call call = backward_call(problem, *schedule, io);
  if (mma_backward(launch, call, *schedule, io)) return Kernels::tensor_cores;
  problem.dtype == DType::f64 ? portable_backward<double>(launch, call, *schedule, io)
                              : portable_backward<float>(launch, call, *schedule, io);
  return Kernels::portable;
}

}  // namespace fovea::scan::cuda
