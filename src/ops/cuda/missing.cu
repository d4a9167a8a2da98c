// What has no kernel for a card yet: a kernel that is written takes its line out of here, and the last one the file.

#include <string>

#include "ops/channel_norm_kernels.h"
#include "ops/cumsum_kernels.h"
#include "ops/depthwise_conv_kernels.h"
#include "ops/diagonals_kernels.h"
#include "ops/distance_kernels.h"
#include "ops/experts_kernels.h"
#include "ops/features_kernels.h"
#include "ops/index_kernels.h"
#include "ops/inverse_kernels.h"
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
#include "ops/window_kernels.h"

namespace fovea {
namespace {

[[noreturn]] void missing(const char* kernel) {
  fail(ErrorCode::unsupported, std::string("there is no kernel for CUDA yet: ") + kernel, "device", "--device cpu");
}

}  // namespace

template <>
void kernels::measure_channels<Device::cuda>(const Context&, const MeasureChannels&) {
  missing("measure_channels");
}

template <>
void kernels::channel_factors<Device::cuda>(const Context&, const ChannelFactors&) {
  missing("channel_factors");
}

template <>
void kernels::norm_channels<Device::cuda>(const Context&, const NormChannels&) {
  missing("norm_channels");
}

template <>
void kernels::norm_channels_backward<Device::cuda>(const Context&, const NormChannelsPull&) {
  missing("norm_channels_backward");
}

template <>
void kernels::move_towards<Device::cuda>(const Context&, const MoveTowards&) {
  missing("move_towards");
}

template <>
void kernels::running_sums<Device::cuda>(const Context&, const RunningSum&) {
  missing("running_sums");
}

template <>
void kernels::convolve<Device::cuda>(const Context&, const ConvTensors&) {
  missing("convolve");
}

template <>
Tensor kernels::tap_gradients<Device::cuda>(const Context&, const ConvTensors&, const RowList&) {
  missing("tap_gradients");
}

template <>
void kernels::spread_taps<Device::cuda>(const Context&, const Taps&) {
  missing("spread_taps");
}

template <>
void kernels::gather_taps<Device::cuda>(const Context&, const Taps&) {
  missing("gather_taps");
}

template <>
void kernels::diagonal_dots<Device::cuda>(const Context&, const DiagonalTensors&, double) {
  missing("diagonal_dots");
}

template <>
void kernels::diagonal_mix<Device::cuda>(const Context&, const DiagonalTensors&) {
  missing("diagonal_mix");
}

template <>
void kernels::diagonal_mix_back<Device::cuda>(const Context&, const DiagonalTensors&) {
  missing("diagonal_mix_back");
}

template <>
void kernels::distance<Device::cuda>(const Context&, const DistanceTensors&) {
  missing("distance");
}

template <>
void kernels::distance_backward<Device::cuda>(const Context&, const DistancePull&) {
  missing("distance_backward");
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
void kernels::scatter_rows<Device::cuda>(const Context&, const Scatter&) {
  missing("scatter_rows");
}

template <>
void kernels::scatter_rows_backward<Device::cuda>(const Context&, const ScatterPull&) {
  missing("scatter_rows_backward");
}

template <>
void kernels::jitter<Device::cuda>(const Context&, const JitterTensors&) {
  missing("jitter");
}

template <>
void kernels::features<Device::cuda>(const Context&, const FeatureForward&) {
  missing("features");
}

template <>
void kernels::features_backward<Device::cuda>(const Context&, const FeatureBackward&) {
  missing("features_backward");
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
void kernels::shifted_identity<Device::cuda>(const Context&, const ShiftedIdentity&) {
  missing("shifted_identity");
}

template <>
void kernels::add_scaled<Device::cuda>(const Context&, const AddScaled&) {
  missing("add_scaled");
}

template <>
void kernels::inverse_start<Device::cuda>(const Context&, const InverseStart&) {
  missing("inverse_start");
}

template <>
void kernels::inverse_start_backward<Device::cuda>(const Context&, const InverseStartPull&) {
  missing("inverse_start_backward");
}

template <>
void kernels::balance<Device::cuda>(const Context&, const Balance&) {
  missing("balance");
}

template <>
void kernels::balance_backward<Device::cuda>(const Context&, const BalancePull&) {
  missing("balance_backward");
}

template <>
void kernels::root_sums<Device::cuda>(const Context&, const RootSums&) {
  missing("root_sums");
}

template <>
void kernels::root_sums_backward<Device::cuda>(const Context&, const RootSumsPull&) {
  missing("root_sums_backward");
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
void kernels::find_rescue<Device::cuda>(const Context&, const FeatureRescue&) {
  missing("find_rescue");
}

template <>
void kernels::turn_features<Device::cuda>(const Context&, const TurnedFeatures&) {
  missing("turn_features");
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

template <>
void kernels::window_pool<Device::cuda>(const Context&, const WindowPool&) {
  missing("window_pool");
}

template <>
void kernels::window_pool_backward<Device::cuda>(const Context&, const WindowPull&) {
  missing("window_pool_backward");
}

}  // namespace fovea
