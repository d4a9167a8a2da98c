// What optimisers do to all parameters, on a card and on the host.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu/support/card.h"
#include "optim/update_kernels.h"

namespace fovea::testing {
namespace {

class CardUpdates : public ::testing::Test {
 protected:
  // Tensors of both types, of sizes below, at and above those of pieces.
  std::vector<Tensor> tensors(const Context& context, std::uint64_t seed) {
    std::vector<Tensor> list;
    for (const DType dtype : {DType::f32, DType::f64})
      for (const std::int64_t n : {1, 33, 4096, 70000})
        list.push_back(random(host_, {n}, seed++, dtype).clone(context));
    return list;
  }
  static Tensor number(const Context& context, const std::vector<double>& values) {
    return Tensor::from<double>(context, {std::ssize(values)}, values);
  }
  void expect_alike(const std::vector<Tensor>& there, const std::vector<Tensor>& here) {
    for (std::size_t i = 0; i < here.size(); ++i)
      EXPECT_LT(relative_error(there[i].clone(host_), here[i]), 4 * epsilon(here[i].dtype())) << i;
  }

  Context host_{{.threads = 2}};
  Context card_ = poisoned_card();
};

TEST_F(CardUpdates, AdamWStepsAlike) {
  const auto step = [&]<Device D>(const Context& context) {
    kernels::AdamWUpdate update{{0.9, 0.999, 1e-8}, {}, number(context, {1e-2, 1.5, 1e-2})};
    const auto values = tensors(context, 1), grads = tensors(context, 20), first = tensors(context, 40),
               second = tensors(context, 60);
    for (std::size_t i = 0; i < values.size(); ++i)
      update.parameters.push_back({values[i], grads[i], first[i], second[i], 0.1, i % 2 == 0 ? 0.0 : 0.01});
    for (const Tensor& t : second) t.fill(0.25);
    kernels::adamw<D>(context, update);
    auto all = values;
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  expect_alike(step.operator()<Device::cuda>(card_), step.operator()<Device::cpu>(host_));
}

TEST_F(CardUpdates, AveragesExchangesAndClipsAlike) {
  const auto run = [&]<Device D>(const Context& context) {
    auto a = tensors(context, 1), b = tensors(context, 20);
    kernels::move_averages<D>(context, {number(context, {0.3}), a, b});
    kernels::exchange<D>(context, {a, b});
    kernels::clip_value<D>(context, {b, 0.4});
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  expect_alike(run.operator()<Device::cuda>(card_), run.operator()<Device::cpu>(host_));
}

TEST_F(CardUpdates, NormsClipAndTheSameBitsComeAgain) {
  const auto run = [&]<Device D>(const Context& context, double limit) {
    auto grads = tensors(context, 1);
    const Tensor norm = Tensor::empty(context, {}, DType::f64);
    kernels::gradient_norm<D>(context, {grads, norm});
    kernels::clip_norm<D>(context, {grads, norm, limit});
    grads.push_back(norm);
    return grads;
  };
  for (const double limit : {1.0, 1e9}) {
    const auto there = run.operator()<Device::cuda>(card_, limit), again = run.operator()<Device::cuda>(card_, limit);
    expect_alike(there, run.operator()<Device::cpu>(host_, limit));
    for (std::size_t i = 0; i < there.size(); ++i)
      EXPECT_TRUE(same_bits(there[i].clone(host_), again[i].clone(host_))) << i;
  }
}

TEST_F(CardUpdates, FindsWhatIsNotFinite) {
  for (const double strange : {0.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto grads = tensors(card_, 1);
    const Tensor finite = Tensor::empty(card_, {}, DType::f64);
    if (strange != 0.0) grads[3].slice(0, 69999, 70000).fill(strange);
    const auto before = grads[2].to_vector<float>();
    kernels::unscale<Device::cuda>(card_, {grads, number(card_, {0.5}), finite});
    EXPECT_EQ(finite.item(), strange == 0.0 ? 1.0 : 0.0);
    EXPECT_EQ(grads[2].to_vector<float>()[7], 0.5f * before[7]);
  }
}

}  // namespace
}  // namespace fovea::testing
