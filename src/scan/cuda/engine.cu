#include "scan/check.h"
#include "scan/cuda/launch.h"
#include "scan/cuda/mma_launch.h"
#include "scan/cuda/portable.h"
#include "scan/cuda/walk.h"

// Off unless the build says otherwise: these kernels agree with the CPU in emulation, but no card has run them yet.
#ifndef FOVEA_SCAN_TENSOR_CORES
#define FOVEA_SCAN_TENSOR_CORES 0
#endif

namespace fovea::scan::cuda {

void run_walk_f32(const Launch& launch, const Call& call, const Walk& walk);
void run_walk_f64(const Launch& launch, const Call& call, const Walk& walk);

void run_walk(const Launch& launch, const Call& call, const Walk& walk) {
  return call.dtype == DType::f64 ? run_walk_f64(launch, call, walk) : run_walk_f32(launch, call, walk);
}

namespace {

constexpr bool kTensorCores = FOVEA_SCAN_TENSOR_CORES != 0;

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

Call call_of(const Problem& problem, const Schedule& schedule, const Forward& io) {
  Call call = call_of(problem, schedule);
  call.q = io.q;
  call.k = io.k;
  call.v = io.v;
  call.log_decay = io.log_decay;
  call.out = io.o;
  call.out_rest = io.rest;
  call.out_statistic = io.statistic;
  return call;
}
Call call_of(const Problem& problem, const Schedule& schedule, const Backward& io) {
  Call call = call_of(problem, schedule);
  call.q = io.q;
  call.k = io.k;
  call.v = io.v;
  call.log_decay = io.log_decay;
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

}  // namespace

void forward(const Launch& launch, const Problem& problem, const Forward& io) {
  scan::check(problem, io);
  if (problem.pieces.empty()) return;
  // A single step is causal either way, and its state needs no sum of its own then.
  const auto schedule = schedule_for(problem, problem.causal || is_step(problem));
  const Call call = call_of(problem, *schedule, io);
  if (problem.dtype == DType::f64) return portable_forward<double>(launch, call, *schedule, io);
  if (kTensorCores && mma_forward(launch, call, *schedule, io)) return;
  portable_forward<float>(launch, call, *schedule, io);
}

void backward(const Launch& launch, const Problem& problem, const Backward& io) {
  scan::check(problem, io);
  if (problem.pieces.empty()) return;
  const auto schedule = schedule_for(problem, problem.causal);
  const Call call = call_of(problem, *schedule, io);
  if (problem.dtype == DType::f64) return portable_backward<double>(launch, call, *schedule, io);
  if (kTensorCores && mma_backward(launch, call, *schedule, io)) return;
  portable_backward<float>(launch, call, *schedule, io);
}

}  // namespace fovea::scan::cuda
