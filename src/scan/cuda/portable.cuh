#pragma once

#include "scan/cuda/portable.h"
#include "scan/cuda/rows.cuh"
#include "scan/cuda/state_passes.cuh"
#include "scan/cuda/walk.h"

namespace fovea::scan::cuda {

template <class R>
class Portable : StatePasses<R> {
 public:
  using StatePasses<R>::StatePasses;

  void forward(const Forward& io) {
    const Room y(launch_, x_tiles(call_.d_k) * call_.query_rows * call_.heads * call_.width);
    schedule_.causal ? scan_forward(io, y.data()) : read_forward(io, y.data());
    start(finish_forward_kernel<R>, schedule_.query_ranges,
          Partial<R>{y.data(), x_tiles(call_.d_k), call_.heads, call_.width, call_.query_rows});
  }

  void backward(const Backward& io) {
    const Room scales(launch_, has_statistic() ? 3 * call_.query_rows * call_.heads : 0);
    if (has_statistic()) {
      auto* to = reinterpret_cast<RowScale<R>*>(scales.data());
      start(row_scales_kernel<R>, schedule_.query_ranges, to);
      call_.row_scales = to;
    }
    const std::int32_t key_heads = schedule_.causal ? call_.heads : call_.kv_heads;
    const std::int32_t by_width = x_tiles(call_.width), by_channel = x_tiles(call_.d_k);
    const Room dq(launch_, by_width * call_.query_rows * call_.heads * call_.d_k);
    const Room dk(launch_, by_width * call_.key_rows * key_heads * call_.d_k);
    const Room dv(launch_, by_channel * call_.key_rows * key_heads * call_.width);
    const Room final_state(launch_, wants_final(io) ? states(call_.kv_heads) : 0);
    schedule_.causal ? scan_backward(io, dq.data(), dk.data(), dv.data(), final_state.data())
                     : read_backward(io, dq.data(), dk.data(), dv.data());
    const Partial<R> dq_sums{dq.data(), by_width, call_.heads, call_.d_k, call_.query_rows};
    const Partial<R> dk_sums{dk.data(), by_width, key_heads, call_.d_k, call_.key_rows};
    const Partial<R> dv_sums{dv.data(), by_channel, key_heads, call_.width, call_.key_rows};
    start(finish_gradient_kernel<R>, schedule_.query_ranges, Source::queries, dq_sums);
    start(finish_gradient_kernel<R>, schedule_.key_ranges, Source::keys, dk_sums);
    start(finish_gradient_kernel<R>, schedule_.key_ranges, Source::values, dv_sums);
    if (call_.decay_columns() != 0 && io.d_log_decay.data != nullptr)
      vjp_decay(dq_sums, dk_sums, final_state.data(), static_cast<const R*>(io.d_final_state));
  }

 private:
  using typename StatePasses<R>::Room;
  using StatePasses<R>::launch_, StatePasses<R>::call_, StatePasses<R>::schedule_;
  using StatePasses<R>::pieces, StatePasses<R>::states, StatePasses<R>::segment_states, StatePasses<R>::carry,
      StatePasses<R>::total;

  static std::int32_t x_tiles(std::int32_t n) { return (n + kTile - 1) / kTile; }
  bool has_statistic() const { return call_.rms_norm || call_.denominator != Denominator::none; }
  bool wants_final(const Backward& io) const {
    return call_.decay_columns() != 0 && io.d_log_decay.data != nullptr && io.d_final_state != nullptr;
  }

  // A kernel on ranges of rows.
  template <class... Parameters, class... Arguments>
  void start(void (*kernel)(Call, const Cut*, Parameters...), const Cuts& cuts, const Arguments&... arguments) {
    kernel<<<static_cast<unsigned>(cuts.count), kRowThreads, 0, launch_.stream>>>(call_, cuts.data, arguments...);
    check_cuda(cudaGetLastError(), "rows of linear attention");
  }
  // Sums of the keys of every segment.
  void sum_keys(R* sums) {
    Walk walk{.cuts = schedule_.segments, .step = Step::sum, .by_kv_head = true};
    walk.end = {sums, true, false};
    run_walk(launch_, call_, walk);
  }
  void sum_queries(R* sums, const Cuts& cuts, bool back) {
    Walk walk{.cuts = cuts, .step = Step::sum, .back = back, .x = Source::queries, .y = Source::gradients};
    walk.state_by_kv_head = false;
    walk.end = {sums, true, false};
    run_walk(launch_, call_, walk);
  }
  // Where scans of S start.
  States<const void*> start_states(R* sums, const void* initial) {
    if (!schedule_.is_cut) return {initial, false, false};
    sum_keys(sums);
    carry(sums, call_.kv_heads, initial, false);
    return {sums, true, false};
  }

  void scan_forward(const Forward& io, R* y) {
    const Room sums(launch_, schedule_.is_cut ? segment_states(schedule_.segments, call_.kv_heads) : 0);
    // The heads of a group all read the state that one of them writes.
    const bool in_place = io.final_state != nullptr && io.final_state == io.initial_state;
    const Room aside(launch_, in_place ? states(call_.kv_heads) : 0);
    Walk walk{.cuts = schedule_.segments, .step = Step::scan};
    walk.start = start_states(sums.data(), io.initial_state);
    walk.end = {in_place ? aside.data() : io.final_state, false, true};
    walk.out = y;
    run_walk(launch_, call_, walk);
    if (in_place)
      check_cuda(
          cudaMemcpyAsync(io.final_state, aside.data(), static_cast<std::size_t>(states(call_.kv_heads)) * sizeof(R),
                          cudaMemcpyDeviceToDevice, launch_.stream),
          "states of linear attention");
  }

  void read_forward(const Forward& io, R* y) {
    const Room sums(launch_, segment_states(schedule_.segments, call_.kv_heads)), all(launch_, states(call_.kv_heads));
    sum_keys(sums.data());
    total({Parts::key_segments, sums.data(), call_.kv_heads, static_cast<const R*>(io.initial_state), all.data(),
           static_cast<R*>(io.final_state)});
    Walk walk{.cuts = schedule_.query_ranges, .step = Step::read};
    walk.start = {all.data(), false, false};
    walk.out = y;
    run_walk(launch_, call_, walk);
  }

  void scan_backward(const Backward& io, R* dq, R* dk, R* dv, R* final_state) {
    {
      const Room sums(launch_, schedule_.is_cut ? segment_states(schedule_.segments, call_.kv_heads) : 0);
      Walk walk{.cuts = schedule_.segments, .step = Step::scan, .x = Source::values, .y = Source::keys};
      walk.r = Source::gradients;
      walk.start = start_states(sums.data(), io.initial_state);
      walk.end = {final_state, false, true};
      walk.out = dq;
      run_walk(launch_, call_, walk);
    }
    const Room sums(launch_, schedule_.is_cut ? segment_states(schedule_.segments, call_.heads) : 0);
    Walk walk{.cuts = schedule_.segments, .step = Step::back, .x = Source::queries, .y = Source::gradients};
    walk.r = Source::keys;
    walk.state_by_kv_head = false;
    walk.start = {io.d_final_state, false, true};
    if (schedule_.is_cut) {
      sum_queries(sums.data(), schedule_.segments, true);
      carry(sums.data(), call_.heads, io.d_final_state, true);
      walk.start = {sums.data(), true, false};
    }
    const bool wants_initial = io.d_initial_state != nullptr;
    const Room d_initial(launch_, wants_initial ? states(call_.heads) : 0);
    walk.end = {d_initial.data(), false, false};
    walk.out = dv;
    run_walk(launch_, call_, walk);
    if (wants_initial)
      total({Parts::pieces, d_initial.data(), call_.heads, nullptr, nullptr, static_cast<R*>(io.d_initial_state)});
    walk.x = Source::gradients;
    walk.y = Source::queries;
    walk.r = Source::values;
    walk.end = {};
    walk.out = dk;
    run_walk(launch_, call_, walk);
  }

  void read_backward(const Backward& io, R* dq, R* dk, R* dv) {
    {
      const bool known = io.final_state != nullptr;
      const Room sums(launch_, known ? 0 : segment_states(schedule_.segments, call_.kv_heads));
      const Room all(launch_, known ? 0 : states(call_.kv_heads));
      if (!known) {
        sum_keys(sums.data());
        total({Parts::key_segments, sums.data(), call_.kv_heads, static_cast<const R*>(io.initial_state), all.data(),
               nullptr});
      }
      Walk walk{.cuts = schedule_.query_ranges, .step = Step::read, .r = Source::gradients};
      walk.start = {known ? io.final_state : all.data(), false, false};
      walk.out = dq;
      run_walk(launch_, call_, walk);
    }
    const Room sums(launch_, segment_states(schedule_.query_segments, call_.heads)),
        all(launch_, states(call_.kv_heads));
    sum_queries(sums.data(), schedule_.query_segments, false);
    total({Parts::query_segments, sums.data(), call_.heads, static_cast<const R*>(io.d_final_state), all.data(),
           static_cast<R*>(io.d_initial_state)});
    Walk walk{.cuts = schedule_.key_ranges, .step = Step::read, .r = Source::keys, .by_kv_head = true};
    walk.start = {all.data(), false, false};
    walk.out = dv;
    run_walk(launch_, call_, walk);
    walk.r = Source::values;
    walk.out = dk;
    run_walk(launch_, call_, walk);
  }

  void vjp_decay(const Partial<R>& dq, const Partial<R>& dk, const R* final_state, const R* d_final) {
    const std::int32_t columns = call_.decay_columns(), side = Columns::in_block(columns);
    const DeviceScratch terms(launch_,
                              static_cast<std::size_t>(call_.key_rows * call_.kv_heads * columns) * sizeof(double));
    start(decay_terms_kernel<R>, schedule_.key_ranges, dq, dk, static_cast<double*>(terms.data()));
    const dim3 grid(static_cast<unsigned>(pieces()), static_cast<unsigned>(call_.kv_heads),
                    static_cast<unsigned>((columns + side - 1) / side));
    decay_gradient_kernel<R>
        <<<grid, 1024, 0, launch_.stream>>>(call_, static_cast<const double*>(terms.data()), final_state, d_final);
    check_cuda(cudaGetLastError(), "gradient of the decay");
  }
};

}  // namespace fovea::scan::cuda
