#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/visit_device.h"
#include "fovea/optim.h"
#include "fovea/zones.h"
#include "optim/gradients.h"
#include "optim/update_kernels.h"

namespace fovea {
namespace {

constexpr std::int64_t kPace = 3;  // numbers of a step

double factor_of(std::string_view name, const std::vector<std::string>& rates) {
  double factor = 1.0;
  for (const std::string& text : rates) {
    const RateFactor rate = parse_rate(text);
    const bool part = name.starts_with(rate.part) && (name.size() == rate.part.size() || name[rate.part.size()] == '.');
    if (part) factor = rate.factor;
  }
  return factor;
}

}  // namespace

RateFactor parse_rate(const std::string& text) {
  const std::size_t equals = text.find('=');
  double factor = -1.0;
  const char *begin = text.data() + std::min(equals, text.size() - 1) + 1, *end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0)
    if (const auto [rest, error] = std::from_chars(begin, end, factor); error != std::errc() || rest != end)
      factor = -1.0;
  if (!(factor >= 0.0 && factor <= 1e6))
    fail(ErrorCode::usage, "expected PART=FACTOR, got \"" + text + "\"", "rates", "classifier=10");
  return {text.substr(0, equals), factor};
}

AdamW::AdamW(Context& context, std::vector<Parameter> parameters, AdamWOptions options)
    : context_(&context), parameters_(std::move(parameters)), options_(options) {
  std::erase_if(parameters_, [](const Parameter& p) { return !p.trained(); });
  for (const Parameter& p : parameters_) {
    check_updatable(p);
    const Tensor& value = p.var.value();
    const auto zeros = [&] { return Tensor::zeros(context, value.shape(), value.dtype(), Lifetime::persistent); };
    moments_.push_back({zeros(), zeros()});
    const double factor = factor_of(p.name, options_.rates);
    const auto known = std::find(factors_.begin(), factors_.end(), factor);
    factor_.push_back(static_cast<std::size_t>(known - factors_.begin()));
    if (known == factors_.end()) factors_.push_back(factor);
  }
}

std::vector<double> AdamW::pace(double rate) const {
  const auto t = static_cast<double>(steps_ + 1);
  const double root = 1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t));
  std::vector<double> numbers;
  for (const double factor : factors_)
    numbers.insert(numbers.end(), {factor * rate / (1.0 - std::pow(options_.beta1, t)), root, factor * rate});
  return numbers;
}

void AdamW::step(double rate) {
  const std::vector<double> numbers = pace(rate);
  apply(*context_, Tensor::from<double>(*context_, {std::ssize(numbers)}, numbers));
  advance();
  zero_grad();
}

void AdamW::apply(const Context& context, const Tensor& pace, const Tensor& go) const {
  const ZoneTimer timer(context.zones(), Zone::optimizer);
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    const auto first = static_cast<std::int64_t>(kPace * f);
    apply_to(context, f, pace.slice(0, first, first + kPace), go);
  }
}

// The parameters of one rate.
void AdamW::apply_to(const Context& context, std::size_t factor, const Tensor& pace, const Tensor& go) const {
  kernels::AdamWUpdate io{{.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps}, {}, pace, go};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (factor_[i] != factor || !p.var.grad().defined()) continue;
    const double decay = p.decay ? options_.weight_decay : 0.0;
    io.parameters.push_back({p.var.value(), p.var.grad(), moments_[i].first, moments_[i].second,
                             options_.decoupled ? decay : 0.0, options_.decoupled ? 0.0 : decay});
  }
  if (!io.parameters.empty()) visit_device(context, io, [&]<Device D>() { kernels::adamw<D>(context, io); });
}

void AdamW::zero_grad() {
  for (const Parameter& p : parameters_) p.var.slot()->grad = Tensor();
}

}  // namespace fovea
