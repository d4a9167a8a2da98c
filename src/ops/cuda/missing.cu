// What has no kernel for a card yet: a kernel that is written takes its line out of here, and the last one the file.

#include <string>

#include "ops/cumsum_kernels.h"
#include "ops/experts_kernels.h"
#include "ops/index_kernels.h"
#include "ops/loss_kernels.h"
#include "ops/norm_kernels.h"
#include "ops/order_kernels.h"
#include "ops/padding_kernels.h"
#include "ops/pool_kernels.h"
#include "ops/rotary_kernels.h"
#include "ops/rows_kernels.h"
#include "ops/softmax_kernels.h"
#include "ops/table_kernels.h"
#include "ops/turned_features_kernels.h"
#include "ops/weight_norm_kernels.h"

namespace fovea {
namespace {

[[noreturn]] void missing(const char* kernel) {
  fail(ErrorCode::unsupported, std::string("there is no kernel for CUDA yet: ") + kernel, "device", "--device cpu");
}

}  // namespace

template <>
void kernels::running_sums<Device::cuda>(const Context&, const RunningSum&) {
  missing("running_sums");
}

template <>
kernels::Routed kernels::route<Device::cuda>(const Context&, const RouteRows&) {
  missing("route");
}

template <>
void kernels::route_gates<Device::cuda>(const Context&, const RouteGates&) {
  missing("route_gates");
}

template <>
void kernels::route_backward<Device::cuda>(const Context&, const RoutePull&) {
  missing("route_backward");
}

template <>
std::int64_t kernels::first_outside<Device::cuda>(const Context&, const IndexRange&) {
  missing("first_outside");
}

template <>
std::int64_t kernels::first_repeated<Device::cuda>(const Context&, const IndexOnce&) {
  missing("first_repeated");
}

template <>
kernels::TargetCount kernels::count_targets<Device::cuda>(const Context&, const TargetCheck&) {
  missing("count_targets");
}

template <>
kernels::LossSum kernels::cross_entropy<Device::cuda>(const Context&, const LossForward&) {
  missing("cross_entropy");
}

template <>
void kernels::cross_entropy_backward<Device::cuda>(const Context&, const LossBackward&) {
  missing("cross_entropy_backward");
}

template <>
void kernels::norm_forward<Device::cuda>(const Context&, const NormForward&) {
  missing("norm_forward");
}

template <>
void kernels::norm_backward<Device::cuda>(const Context&, const NormBackward&) {
  missing("norm_backward");
}

template <>
void kernels::top_indices<Device::cuda>(const Context&, const TopIndices&) {
  missing("top_indices");
}

template <>
void kernels::argsort<Device::cuda>(const Context&, const Argsort&) {
  missing("argsort");
}

template <>
void kernels::fill_padding<Device::cuda>(const Context&, const FillPadding&) {
  missing("fill_padding");
}

template <>
void kernels::mean_rows<Device::cuda>(const Context&, const MeanRows&) {
  missing("mean_rows");
}

template <>
void kernels::mean_rows_backward<Device::cuda>(const Context&, const MeanRowsPull&) {
  missing("mean_rows_backward");
}

template <>
void kernels::rotate<Device::cuda>(const Context&, const Rotate&) {
  missing("rotate");
}

template <>
void kernels::take_rows<Device::cuda>(const Context&, const TakeRows&) {
  missing("take_rows");
}

template <>
void kernels::add_rows<Device::cuda>(const Context&, const AddRows&) {
  missing("add_rows");
}

template <>
void kernels::put_rows<Device::cuda>(const Context&, const PutRows&) {
  missing("put_rows");
}

template <>
void kernels::softmax<Device::cuda>(const Context&, const Softmax&) {
  missing("softmax");
}

template <>
void kernels::softmax_backward<Device::cuda>(const Context&, const SoftmaxPull&) {
  missing("softmax_backward");
}

template <>
void kernels::log_sum_exp<Device::cuda>(const Context&, const LogSumExp&) {
  missing("log_sum_exp");
}

template <>
void kernels::log_sum_exp_backward<Device::cuda>(const Context&, const LogSumExpPull&) {
  missing("log_sum_exp_backward");
}

template <>
void kernels::gather_rows<Device::cuda>(const Context&, const GatherRows&) {
  missing("gather_rows");
}

template <>
void kernels::scatter_add<Device::cuda>(const Context&, const ScatterAdd&) {
  missing("scatter_add");
}

template <>
void kernels::log_sigmoid<Device::cuda>(const Context&, const LogSigmoid&) {
  missing("log_sigmoid");
}

template <>
void kernels::weight_norm<Device::cuda>(const Context&, const WeightNorm&) {
  missing("weight_norm");
}

template <>
void kernels::weight_norm_backward<Device::cuda>(const Context&, const WeightNormPull&) {
  missing("weight_norm_backward");
}

}  // namespace fovea
