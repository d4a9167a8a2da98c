#include "scan/cuda/mma_launch.h"

#include <algorithm>
#include <utility>

#include "scan/cuda/mma_rows.cuh"
#include "scan/cuda/state_passes.cuh"

namespace fovea::scan::cuda {
namespace {

// Is every row made of whole, aligned 16-byte pieces?
template <class Pointer>
bool is_aligned(const Array<Pointer>& a, DType type = DType::bf16) {
  const std::int64_t piece = type == DType::f32 ? 4 : 8;
  return reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && a.batch % piece == 0 && a.row % piece == 0 &&
         a.head % piece == 0;
}

// Outputs, and what they lost, which is nothing where they are f32: the portable kernels say so.
template <class Pointer>
bool takes_outputs(const Call& call, const Array<Pointer>& out, const Array<Pointer>& rest) {
  return is_aligned(out, call.output_type) && is_aligned(rest) &&
         (call.output_type == DType::bf16 || rest.data == nullptr);
}

// Cards with little shared memory do without the widest heads.
template <bool kDivides>
int bytes_of(const Call& call, bool backward) {
  return call.d_k == 32   ? mma_bytes<32, kDivides>(backward, call.causal)
         : call.d_k == 64 ? mma_bytes<64, kDivides>(backward, call.causal)
                          : mma_bytes<128, kDivides>(backward, call.causal);
}
bool is_gated(const Call& call) { return call.decay_columns() != 0; }
bool divides(const Call& call) { return call.denominator != Denominator::none; }
bool is_wide(const Call& call) { return call.output_type == DType::f32; }
bool fits(const Call& call, bool backward) {
  const int bytes = is_gated(call)  ? (call.d_k == 32 ? gated_bytes<32>(backward) : gated_bytes<64>(backward))
                    : divides(call) ? bytes_of<true>(call, backward)
                                    : bytes_of<false>(call, backward);
  return bytes <= current_card(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

bool takes(const Call& call, const Schedule& schedule) {
  const bool size = call.d_k == call.d_v && (call.d_k == 32 || call.d_k == 64 || call.d_k == 128);
  const bool kind = !is_gated(call) || (call.d_k <= 64 && !divides(call) &&
                                        (call.decay == Decay::step || is_aligned(call.log_decay, DType::f32)));
  const bool reads = std::all_of(schedule.host_pieces.begin(), schedule.host_pieces.end(),
                                 [](const PieceView& piece) { return piece.shift >= 0; });
  return call.dtype == DType::bf16 && size && kind && reads && !schedule.is_step && is_aligned(call.q) &&
         is_aligned(call.k) && is_aligned(call.v);
}

class MmaRun {
 public:
  MmaRun(const Launch& launch, const Call& call, const Schedule& schedule)
      : launch_(launch), call_(call), schedule_(schedule), passes_(launch, call, schedule) {
    mma_.call = call;
  }

  void forward(const Forward& io) {
    if (schedule_.causal) {
      const auto sums = start(io.initial_state);
      mma_.end = static_cast<float*>(io.final_state);
      run(schedule_.segments, MmaStep::forward, true);
    } else {
      const auto all = total_keys(io.initial_state, io.final_state);
      stand(all.data());
      if (takes_norm(call_)) {
        mma_.cuts = schedule_.norm_ranges.data;
        return run_mma_norm(launch_, mma_, schedule_.norm_ranges.count);
      }
      run(schedule_.query_segments, MmaStep::forward, false);
    }
    if (!call_.rms_norm) return;
    norm_rows_kernel<<<static_cast<unsigned>(schedule_.query_ranges.count), kRowThreads, 0, launch_.stream>>>(
        call_, schedule_.query_ranges.data);
    check_cuda(cudaGetLastError(), "norm of linear attention");
  }

  void backward(const Backward& io) {
    const bool anew = call_.rms_norm || is_wide(call_);  // the gradient of y is not d_o as it stands
    const std::size_t bytes = row_count() * static_cast<std::size_t>(call_.d_v) * sizeof(bfloat16);
    const DeviceScratch gradient(launch_, anew ? bytes : 0), rest(launch_, anew && !divides(call_) ? bytes : 0);
    const DeviceScratch scales(launch_, divides(call_) ? row_count() * sizeof(float2) : 0);
    mma_.gradient = gradient.data();
    mma_.gradient_rest = rest.data();
    mma_.scales = static_cast<float2*>(scales.data());
    make_gradient(gradient.data(), rest.data(), static_cast<float2*>(scales.data()));
    schedule_.causal ? scan_backward(io) : read_backward(io);
  }

 private:
  using Room = StatePasses<float>::Room;

  // What the gradient of y takes to be read as bf16.
  void make_gradient(void* gradient, void* rest, float2* scales) {
    const auto blocks = static_cast<unsigned>(schedule_.query_ranges.count);
    const Cut* const ranges = schedule_.query_ranges.data;
    if (divides(call_))
      denominator_rows_kernel<<<blocks, kRowThreads, 0, launch_.stream>>>(call_, ranges, scales, gradient);
    else if (call_.rms_norm)
      gradient_rows_kernel<<<blocks, kRowThreads, 0, launch_.stream>>>(call_, ranges, gradient, rest);
    else if (is_wide(call_))
      split_rows_kernel<<<blocks, kRowThreads, 0, launch_.stream>>>(call_, ranges, gradient, rest);
    check_cuda(cudaGetLastError(), "gradients of linear attention");
  }
  std::size_t row_count() const { return static_cast<std::size_t>(call_.query_rows * call_.heads); }
  void run(const Cuts& cuts, MmaStep step, bool scans) {
    mma_.cuts = cuts.data;
    if (is_gated(call_))
      return call_.d_k == 32 ? run_gated<32>(launch_, mma_, cuts.count, step)
                             : run_gated<64>(launch_, mma_, cuts.count, step);
    divides(call_) ? run_as<true>(cuts, step, scans) : run_as<false>(cuts, step, scans);
  }
  template <bool kDivides>
  void run_as(const Cuts& cuts, MmaStep step, bool scans) {
    switch (call_.d_k) {
      case 32: return run_mma<32, kDivides>(launch_, mma_, cuts.count, step, scans);
      case 64: return run_mma<64, kDivides>(launch_, mma_, cuts.count, step, scans);
      default: return run_mma<128, kDivides>(launch_, mma_, cuts.count, step, scans);
    }
  }
  void stand(const float* states) {
    mma_.start = states;
    mma_.start_by_cut = false;
    mma_.end = nullptr;
  }
  Room sum(const Cuts& cuts, MmaStep step) {
    const std::int32_t heads = step == MmaStep::sum_queries ? call_.heads : call_.kv_heads;
    Room sums = passes_.room(passes_.segment_states(cuts, heads));
    mma_.end = sums.data();
    run(cuts, step, false);
    mma_.end = nullptr;
    return sums;
  }
  // Where scans of S start. What is returned must outlive them.
  Room start(const void* initial) {
    stand(static_cast<const float*>(initial));
    if (!schedule_.is_cut) return passes_.room(0);
    Room sums = sum(schedule_.segments, MmaStep::sum_keys);
    passes_.carry(sums.data(), call_.kv_heads, initial, false);
    mma_.start = sums.data();
    mma_.start_by_cut = true;
    return sums;
  }
  Room total_keys(const void* initial, void* final_state) {
    Room all = passes_.room(passes_.states(call_.kv_heads));
    const Room sums = sum(schedule_.segments, MmaStep::sum_keys);
    passes_.total({Parts::key_segments, sums.data(), call_.kv_heads, static_cast<const float*>(initial), all.data(),
                   static_cast<float*>(final_state)});
    return all;
  }

  void scan_backward(const Backward& io) {
    const bool by_log = is_gated(call_) && call_.d_log_decay.data != nullptr;
    const Room terms = passes_.room(by_log ? call_.query_rows * call_.heads * call_.d_k : 0);
    const Room last = passes_.room(by_log && io.d_final_state != nullptr ? passes_.states(call_.kv_heads) : 0);
    const bool sums_logs = by_log && call_.decay == Decay::step;
    const Room logs = passes_.room(sums_logs ? call_.key_rows * call_.kv_heads * call_.d_k : 0);
    const Room starts = start(io.initial_state);
    mma_.terms = terms.data();
    mma_.end = last.data();
    run(schedule_.segments, MmaStep::queries, true);
    mma_.cut_states = schedule_.is_cut ? starts.data() : nullptr;
    mma_.last_states = last.data();
    mma_.channel_logs = logs.data();
    stand(static_cast<const float*>(io.d_final_state));
    const Room sums = schedule_.is_cut ? sum(schedule_.segments, MmaStep::sum_queries) : passes_.room(0);
    if (schedule_.is_cut) {
      passes_.carry(sums.data(), call_.heads, io.d_final_state, true);
      mma_.start = sums.data();
      mma_.start_by_cut = true;
    }
    scan_keys(static_cast<float*>(io.d_initial_state));
    if (!sums_logs) return;
    sum_channels_kernel<<<static_cast<unsigned>(schedule_.key_ranges.count), kRowThreads, 0, launch_.stream>>>(
        call_, schedule_.key_ranges.data, logs.data());
    check_cuda(cudaGetLastError(), "gradient of the decay");
  }

  // Query heads have their own gradients of keys, values and states; those of a group are summed afterwards.
  void scan_keys(float* d_initial) {
    const bool grouped = call_.group() > 1;
    const auto bytes = static_cast<std::size_t>(call_.key_rows * call_.heads * call_.d_k) * sizeof(bfloat16);
    const DeviceScratch dk(launch_, grouped ? bytes : 0), dv(launch_, grouped ? bytes : 0);
    const Room states = passes_.room(grouped && d_initial != nullptr ? passes_.states(call_.heads) : 0);
    mma_.dk_heads = dk.data();
    mma_.dv_heads = dv.data();
    mma_.end = grouped ? states.data() : d_initial;
    run(schedule_.segments, MmaStep::keys, true);
    if (!grouped) return;
    if (d_initial != nullptr) passes_.total({Parts::pieces, states.data(), call_.heads, nullptr, nullptr, d_initial});
    for (const auto& [from, to] : {std::pair(&dk, &call_.dk), std::pair(&dv, &call_.dv)})
      sum_heads_kernel<<<static_cast<unsigned>(schedule_.key_ranges.count), kRowThreads, 0, launch_.stream>>>(
          call_, schedule_.key_ranges.data, from->data(), *to);
    check_cuda(cudaGetLastError(), "gradients of grouped heads");
  }

  void read_backward(const Backward& io) {
    const Room sums = passes_.room(passes_.segment_states(schedule_.query_segments, call_.heads));
    {
      const bool known = io.final_state != nullptr;
      const Room all = known ? passes_.room(0) : total_keys(io.initial_state, nullptr);
      stand(known ? static_cast<const float*>(io.final_state) : all.data());
      mma_.end = sums.data();
      run(schedule_.query_segments, MmaStep::queries, false);
    }
    const Room all = passes_.room(passes_.states(call_.kv_heads));
    passes_.total({Parts::query_segments, sums.data(), call_.heads, static_cast<const float*>(io.d_final_state),
                   all.data(), static_cast<float*>(io.d_initial_state)});
    stand(all.data());
    run(schedule_.segments, MmaStep::keys, false);
  }

  const Launch& launch_;
  const Call& call_;
  const Schedule& schedule_;
  StatePasses<float> passes_;
  MmaCall mma_;
};

}  // namespace

bool mma_forward(const Launch& launch, const Call& call, const Schedule& schedule, const Forward& io) {
  // The heads of a group would read the state that one of them writes.
  const bool in_place = io.final_state != nullptr && io.final_state == io.initial_state && call.group() > 1;
  if (!takes(call, schedule) || !takes_outputs(call, call.out, call.out_rest) || in_place || !fits(call, false))
    return false;
  MmaRun(launch, call, schedule).forward(io);
  return true;
}

bool mma_backward(const Launch& launch, const Call& call, const Schedule& schedule, const Backward& io) {
  const bool aligned = is_aligned(call.d_o, call.output_type) && takes_outputs(call, call.o, call.rest) &&
                       is_aligned(call.dq) && is_aligned(call.dk) && is_aligned(call.dv);
  const bool beyond = is_gated(call) && call.group() > 1;  // the gradient of the logs would be a sum over the group
  if (!takes(call, schedule) || !aligned || beyond || !fits(call, true)) return false;
  MmaRun(launch, call, schedule).backward(io);
  return true;
}

}  // namespace fovea::scan::cuda
