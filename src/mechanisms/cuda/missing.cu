// What has no kernel for a card yet: a kernel that is written takes its line out of here, and the last one the file.

#include <string>

#include "mechanisms/bias_kernels.h"
#include "mechanisms/dynamic_sparse/hashing_kernels.h"
#include "mechanisms/dynamic_sparse/prob_sparse_kernels.h"
#include "mechanisms/gaussian_kernels.h"
#include "mechanisms/kernel/gate_mass_kernels.h"
#include "mechanisms/kernel/mixing_kernels.h"
#include "mechanisms/kernel/square_kernels.h"
#include "mechanisms/mask_kernels.h"
#include "mechanisms/quotient_kernels.h"
#include "mechanisms/recurrent/state_space_kernels.h"
#include "mechanisms/score/additive_kernels.h"
#include "mechanisms/score_kernels.h"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"

namespace fovea {
namespace {

[[noreturn]] void missing(const char* kernel) {
  fail(ErrorCode::unsupported, std::string("there is no kernel for CUDA yet: ") + kernel, "device", "--device cpu");
}

}  // namespace

template <>
void kernels::are_numbers<Device::cuda>(const Context&, const AreNumbers&) {
  missing("are_numbers");
}

template <>
void kernels::find_buckets<Device::cuda>(const Context&, const FindBuckets&) {
  missing("find_buckets");
}

template <>
void kernels::cut_chunks<Device::cuda>(const Context&, const CutChunks&) {
  missing("cut_chunks");
}

template <>
void kernels::write_seen_pairs<Device::cuda>(const Context&, const SeenPairs&) {
  missing("write_seen_pairs");
}

template <>
void kernels::measure_queries<Device::cuda>(const Context&, const MeasureQueries&) {
  missing("measure_queries");
}

template <>
void kernels::choose_so_far<Device::cuda>(const Context&, const ChooseSoFar&) {
  missing("choose_so_far");
}

template <>
void kernels::hide_later<Device::cuda>(const Context&, const HideLater&) {
  missing("hide_later");
}

template <>
void kernels::gaussian_features<Device::cuda>(const Context&, const Gaussian&) {
  missing("gaussian_features");
}

template <>
void kernels::gaussian_features_backward<Device::cuda>(const Context&, const GaussianPull&) {
  missing("gaussian_features_backward");
}

template <>
void kernels::inverse_gate_mass<Device::cuda>(const Context&, const InverseMass&) {
  missing("inverse_gate_mass");
}

template <>
void kernels::inverse_gate_mass_backward<Device::cuda>(const Context&, const InverseMassPull&) {
  missing("inverse_gate_mass_backward");
}

template <>
void kernels::log_mixing<Device::cuda>(const Context&, const LogMixing&) {
  missing("log_mixing");
}

template <>
void kernels::log_mixing_backward<Device::cuda>(const Context&, const LogMixingPull&) {
  missing("log_mixing_backward");
}

template <>
void kernels::square_features<Device::cuda>(const Context&, const Square&) {
  missing("square_features");
}

template <>
void kernels::square_features_backward<Device::cuda>(const Context&, const SquarePull&) {
  missing("square_features_backward");
}

template <>
void kernels::mask_bias<Device::cuda>(const Context&, const MaskBias&) {
  missing("mask_bias");
}

template <>
void kernels::mask_bias_backward<Device::cuda>(const Context&, const MaskBiasPull&) {
  missing("mask_bias_backward");
}

template <>
void kernels::divide_by_last<Device::cuda>(const Context&, const DivideByLast&) {
  missing("divide_by_last");
}

template <>
void kernels::divide_by_last_backward<Device::cuda>(const Context&, const DivideByLastPull&) {
  missing("divide_by_last_backward");
}

template <>
void kernels::filter<Device::cuda>(const Context&, const Filter&) {
  missing("filter");
}

template <>
void kernels::filter_backward<Device::cuda>(const Context&, const FilterPull&) {
  missing("filter_backward");
}

template <>
void kernels::attend_additive<Device::cuda>(const Context&, const AttendAdditive&) {
  missing("attend_additive");
}

template <>
void kernels::attend_additive_backward<Device::cuda>(const Context&, const PullAdditive&) {
  missing("attend_additive_backward");
}

template <>
void kernels::temperature<Device::cuda>(const Context&, const Temperature&) {
  missing("temperature");
}

template <>
void kernels::temperature_backward<Device::cuda>(const Context&, const TemperaturePull&) {
  missing("temperature_backward");
}

template <>
void kernels::apply_given<Device::cuda>(const Context&, const ApplyGiven&) {
  missing("apply_given");
}

template <>
void kernels::apply_given_backward<Device::cuda>(const Context&, const ApplyGivenPull&) {
  missing("apply_given_backward");
}

}  // namespace fovea
