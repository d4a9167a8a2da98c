// Times operations on the card: medians of CUDA events, launches included. The rate counts the bytes of inputs and
// outputs once, products their operations.

#include "fovea/ops.h"
#include "core/cuda/card_memory.h"
#include "gemm/gemm.h"
#include "gpu/timing.h"
#include "ops/feed_forward.h"

namespace {

using namespace fovea;  // NOLINT: a program

constexpr int kRounds = 15;

class Bench {
 public:
  Tensor random(const Shape& shape, DType dtype = DType::bf16) {
    Random source(++seed_);
    std::vector<float> values(static_cast<std::size_t>(std::min<std::int64_t>(shape.numel(), 1 << 20)));
    for (float& v : values) v = 2.0f * source.uniform() - 1.0f;
    const Tensor t = Tensor::empty(context_, {shape.numel()}, dtype);
    const auto count = static_cast<std::int64_t>(values.size());
    const Tensor some = Tensor::from<float>(context_, {count}, values);
    for (std::int64_t at = 0; at < shape.numel(); at += count) {
      const std::int64_t end = std::min(shape.numel(), at + count);
      t.slice(0, at, end).copy_from(some.slice(0, 0, end - at));
    }
    return t.reshape(shape);
  }
  Tensor indices(std::int64_t count, std::uint32_t limit) {
    Random source(++seed_);
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::int32_t& v : values) v = static_cast<std::int32_t>(source.below(limit));
    return Tensor::from<std::int32_t>(context_, {count}, values);
  }
  Context& context() { return context_; }

  void bytes(const char* name, double bytes, const std::function<void()>& run) {
    const double ms = time(run);
    std::printf("%-40s %9.4f ms %7.2f TB/s\n", name, ms, bytes / ms / 1e9);
  }
  void flops(const char* name, double flops, const std::function<void()>& run) {
    const double ms = time(run);
    std::printf("%-40s %9.4f ms %7.1f TFLOP/s\n", name, ms, flops / ms / 1e9);
  }

 private:
  double time(const std::function<void()>& run) {
    return bench::median_ms(
        kRounds, [&](int) { run(); }, device::stream_of(context_));
  }
  Context context_{{.device = Device::cuda}};
  std::uint64_t seed_ = 0;
};

void time_elements(Bench& b) {
  const std::int64_t n = std::int64_t{1} << 26;
  const Tensor x = b.random({n / 1024, 1024}), y = b.random({n / 1024, 1024}), row = b.random({1024}, DType::f32);
  const double one = 2.0 * static_cast<double>(n);
  const auto on_tape = [&](const auto& f) {
    return [&b, f] {
      Tape tape(b.context(), {.record = false, .training = true});
      f(tape);
    };
  };
  b.bytes("add", 3 * one, on_tape([&](Tape& t) { add(t, Var(x), Var(y)); }));
  b.bytes("add a row", 2 * one, on_tape([&](Tape& t) { add(t, Var(x), Var(row)); }));
  b.bytes("gelu", 2 * one, on_tape([&](Tape& t) { activate(t, Var(x), Activation::gelu); }));
  b.bytes("dropout", 2 * one, on_tape([&](Tape& t) { dropout(t, Var(x), 0.1); }));
  b.bytes("glu silu", 1.5 * one, on_tape([&](Tape& t) { glu(t, Var(x), Activation::silu); }));
  b.bytes("sum", one, on_tape([&](Tape& t) { sum(t, Var(x)); }));
  b.bytes("softmax", 2 * one, on_tape([&](Tape& t) { softmax(t, Var(x)); }));
  b.bytes("layer norm", 2 * one, on_tape([&](Tape& t) {
            normalize(t, Var(x), {NormKind::layer, 1e-5, Var(row), Var(row)});
          }));
  b.bytes("to f32", 3 * one, [&] { x.to(b.context(), DType::f32); });
  b.bytes("copy of heads", 2 * one, [&] { x.reshape({16, 4096, 16, 64}).transpose(1, 2).clone(b.context()); });
  b.bytes("copy of columns", 2 * one, [&] { x.transpose(0, 1).clone(b.context()); });
}

// With gradients: forward and backward together.
void time_gradients(Bench& b) {
  const std::int64_t rows = 1 << 16, width = 512;
  const Tensor x = b.random({rows, width}), table = b.random({50000, width}, DType::f32),
               few = b.random({16, width}, DType::f32), gain = b.random({width}, DType::f32),
               weight = b.random({width, width}, DType::f32), words = b.indices(rows, 50000),
               letters = b.indices(rows, 16);
  const double one = 2.0 * static_cast<double>(rows * width);
  const auto both = [&](const auto& f) {
    return [&b, f] {
      Tape tape(b.context(), {.record = true, .training = true});
      const Var y = f(tape);
      tape.backward(sum(tape, y));
    };
  };
  b.bytes("layer norm, with gradients", 5 * one, both([&](Tape& t) {
            return normalize(t, Var::leaf(x), {NormKind::layer, 1e-5, Var::leaf(gain), Var::leaf(gain)});
          }));
  b.bytes("50000 embeddings, with gradients", 6 * one,
          both([&](Tape& t) { return embedding(t, Var::leaf(table), words); }));
  b.bytes("16 embeddings, with gradients", 6 * one,
          both([&](Tape& t) { return embedding(t, Var::leaf(few), letters); }));
  b.flops("linear 512, gelu, with gradients", 6.0 * static_cast<double>(rows * width * width),
          both([&](Tape& t) { return linear(t, Var::leaf(x), Var::leaf(weight), Var::leaf(gain), Activation::gelu); }));
}

// The rows of a small model: 32 sequences of 4096 rows of 64.
void time_narrow_rows(Bench& b) {
  const std::int64_t rows = 1 << 17, width = 64;
  const Tensor x = b.random({rows, width}), y = b.random({rows, width}), gain = b.random({width}, DType::f32),
               in = b.random({width, 4 * width}, DType::f32), in_bias = b.random({4 * width}, DType::f32),
               out = b.random({2 * width, width}, DType::f32);
  const double one = 2.0 * static_cast<double>(rows * width);
  const auto run = [&](bool record, const auto& f) {
    return [&b, record, f] {
      Tape tape(b.context(), {.record = record, .training = true});
      const Var z = f(tape);
      if (record) tape.backward(std::span(&z, 1), std::span(&z.value(), 1));
    };
  };
  const auto normed = [&](Tape& t) {
    return add_norm(t, Var::leaf(x), Var::leaf(y), 0.0, {NormKind::layer, 1e-5, Var::leaf(gain), Var::leaf(gain)})
        .normed;
  };
  const auto product = [&](Tape& t) { return linear(t, Var::leaf(x), Var::leaf(in), Var::leaf(in_bias)); };
  b.bytes("64 wide: sum and layer norm", 4 * one, run(false, normed));
  b.bytes("64 wide: the same with gradients", 8 * one, run(true, normed));
  b.bytes("64 wide: linear to 256", 5 * one, run(false, product));
  b.bytes("64 wide: the same with gradients", 16 * one, run(true, product));
  b.bytes("64 wide: gated layer of 128, in one", 2 * one, [&] {
    Tape tape(b.context(), {.record = false});
    fused_feed_forward(tape, {Var(x), {}, {}}, {Var(in), Var(in_bias), Var(out), Var(gain), Activation::silu, true});
  });
}

void time_products(Bench& b) {
  const std::int64_t n = 4096;
  const double work = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  for (DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor a = b.random({n, n}, dtype), w = b.random({n, n}, dtype);
    b.flops(("product 4096, " + std::string(name_of(dtype))).c_str(), work, [&] { gemm::multiply(b.context(), a, w); });
  }
}

}  // namespace

int main() {
  Bench bench;
  time_elements(bench);
  time_gradients(bench);
  time_narrow_rows(bench);
  time_products(bench);
}
