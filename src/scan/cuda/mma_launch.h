#pragma once

#include "scan/cuda/schedule.h"

// The tensor-core kernels: bf16, heads of 32, 64 or 128 columns in rows of whole 16-byte pieces; with a decay of steps
// or channels 32 or 64, and no denominator. They return false for what they do not take.
namespace fovea::scan::cuda {

bool mma_forward(const Launch& launch, const Call& call, const Schedule& schedule, const Forward& io);
bool mma_backward(const Launch& launch, const Call& call, const Schedule& schedule, const Backward& io);

// What the kernels are called with besides. States are (d_k, width) for every kv head.
struct MmaCall {
  Call call;
  const Cut* cuts = nullptr;
  std::int32_t first_cut = 0;           // number of the first of them
  const float* start = nullptr;         // null: zero
  bool start_by_cut = false;            // else by piece
  float* end = nullptr;                 // by piece, from its last segment; of sums by cut. Null: not wanted
  const void* gradient = nullptr;       // of y, and what that lost as bf16: [query rows][heads][d_v]; null: d_o, ...
  const void* gradient_rest = nullptr;  // ... nothing

  const float2* scales = nullptr;  // with a denominator, see column.cuh: [query rows][heads]
  void* dk_heads = nullptr;        // of grouped heads that have their own, bf16, [key rows][heads][d_k] ...
  void* dv_heads = nullptr;        // ... and [d_v]
  // With a decay of steps or channels, going backward: f(q) df(q), [query rows][heads][d_k]; states in front of cuts
  // and behind pieces; where gradients of the logs go that are still to be summed over channels, [key
  // rows][heads][d_k].
  float* terms = nullptr;
  const float* cut_states = nullptr;
  const float* last_states = nullptr;
  float* channel_logs = nullptr;

  FOVEA_HD std::int64_t state_at(std::int64_t index, std::int32_t kv_head) const {
    return (index * call.kv_heads + kv_head) * call.state_size();
  }
  // Of gradients of states, which every query head has.
  FOVEA_HD std::int64_t gradient_at(std::int64_t index, std::int32_t head) const {
    return (index * call.heads + head) * call.state_size();
  }
};

enum class MmaStep : std::uint8_t { sum_keys, sum_queries, forward, queries, keys };

// Runs a step of kD columns, with a denominator or not: over segments with a state that runs along, or with one that
// stands.
template <int kD, bool kDivides>
void run_mma(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step, bool scans);

// Bytes of shared memory that the steps of a forward or a backward have at most.
template <int kD, bool kDivides>
int mma_bytes(bool backward, bool scans);

// The same with a decay of steps or channels; no denominator, all segments with a state that runs along.
template <int kD>
void run_gated(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step);
template <int kD>
int gated_bytes(bool backward);

// Reads states that stand and normalises over all heads in the same pass.
bool takes_norm(const Call& call);
void run_mma_norm(const Launch& launch, const MmaCall& mma, std::int32_t cuts);

}  // namespace fovea::scan::cuda
