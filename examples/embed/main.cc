// A program of its own that uses an installed fovea: one attention layer forward and backward, with two mechanisms.
#include <fovea/attention.h>
#include <fovea/version.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 2, kLength = 1024, kHeads = 4, kWidth = 32;

fovea::Tensor random_tensor(const fovea::Context& context, std::mt19937& generator) {
  const fovea::Shape shape{kBatch, kLength, kHeads, kWidth};
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = normal(generator);
  return fovea::Tensor::from<float>(context, shape, values);
}

double norm_of(const fovea::Tensor& tensor) {
  double sum = 0;
  for (const double x : tensor.to_vector<double>()) sum += x * x;
  return std::sqrt(sum);
}

void run(fovea::Context& context, const fovea::Mechanism& mechanism) {
  std::mt19937 generator(7);
  const auto input = [&] { return fovea::Var::leaf(random_tensor(context, generator)); };
  const fovea::Var q = input(), k = input(), v = input();
  const fovea::Var target = random_tensor(context, generator);

  const auto start = std::chrono::steady_clock::now();
  fovea::Tape tape(context);
  const fovea::Var output = fovea::attention(tape, q, k, v, mechanism, {.causal = true}).output;
  const fovea::Var loss = fovea::sum(tape, fovea::mul(tape, output, target));
  tape.backward(loss);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;

  std::printf("%-8s  output %s  loss %.4f  |dq| %.4f  |dk| %.4f  |dv| %.4f  %.1f ms\n",
              std::string(mechanism.name()).c_str(), output.shape().text().c_str(), loss.value().item(),
              norm_of(q.grad()), norm_of(k.grad()), norm_of(v.grad()), time.count());
}

}  // namespace

int main() {
  try {
    fovea::Context context({.seed = 1});
    std::printf("fovea %s, %d threads\n", FOVEA_VERSION, context.threads());
    for (const char* name : {"softmax", "norm"}) run(context, fovea::Mechanism(name));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
