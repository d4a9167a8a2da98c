// Times the tiled engine on the card: medians of CUDA events over rotating buffers of random numbers, launches
// included.

#include "fovea/pattern.h"
#include "gpu/timing.h"
#include "tile/cuda/launch.h"
#include "tile/plan.h"

namespace {

using namespace fovea;        // NOLINT: a program
using namespace fovea::tile;  // NOLINT

struct Shape {
  std::string name;
  std::int64_t batch, heads, n, d;
  Pattern pattern;
  bool bias = false;
};

// (batch, n, heads, d) in bf16
struct Tensor {
  Shape s;
  bench::DeviceArray<bf16> memory;

  Tensor(const Shape& shape, std::uint64_t seed)
      : s(shape), memory(shape.batch * shape.n * shape.heads * shape.d, seed) {}
  In in() const { return {memory.data(), s.n * s.heads * s.d, s.heads * s.d, s.d}; }
  Out out() const { return {memory.data(), s.n * s.heads * s.d, s.heads * s.d, s.d}; }
};

struct Buffers {
  Tensor q, k, v, o, d_o, dq, dk, dv;
  bench::DeviceArray<float> lse;
  explicit Buffers(const Shape& s, std::uint64_t seed)
      : q(s, seed),
        k(s, seed + 1),
        v(s, seed + 2),
        o(s, 0),
        d_o(s, seed + 3),
        dq(s, 0),
        dk(s, 0),
        dv(s, 0),
        lse(s.batch * s.n * s.heads, 0) {}
};

void time_shape(const Shape& s) {
  const auto plan = plan_for(s.pattern, s.n, s.n, tile::cuda::kTile);
  std::vector<Piece> pieces;
  for (std::int64_t b = 0; b < s.batch; ++b) pieces.push_back({b, 0, s.n, 0, s.n, plan.get()});
  Problem p;
  p.dtype = DType::bf16;
  p.heads = p.kv_heads = s.heads;
  p.d_k = p.d_v = s.d;
  p.pieces = pieces;
  p.scale = 1.0 / std::sqrt(static_cast<double>(s.d));
  std::vector<std::unique_ptr<Buffers>> sets;
  for (int i = 0; i < 3; ++i) sets.push_back(std::make_unique<Buffers>(s, static_cast<std::uint64_t>(10 * i + 1)));
  const auto lse = [&](Buffers& b) { return Out{b.lse.data(), s.n * s.heads, s.heads, 1}; };
  const auto forward = [&](int i) {
    Buffers& b = *sets[static_cast<std::size_t>(i % 3)];
    tile::cuda::forward({}, p, {b.q.in(), b.k.in(), b.v.in(), b.o.out(), lse(b)});
  };
  const auto backward = [&](int i) {
    Buffers& b = *sets[static_cast<std::size_t>(i % 3)];
    tile::cuda::backward({}, p,
                         {b.q.in(),
                          b.k.in(),
                          b.v.in(),
                          b.o.in(),
                          {b.lse.data(), s.n * s.heads, s.heads, 1},
                          b.d_o.in(),
                          {},
                          b.dq.out(),
                          b.dk.out(),
                          b.dv.out(),
                          {}});
  };
  const double f = bench::median_ms(15, forward), b = bench::median_ms(15, backward);
  const double flops = 4.0 * static_cast<double>(plan->kept_pairs * s.batch * s.heads * s.d);
  std::printf("%-28s forward %8.4f ms %6.1f TFLOP/s   backward %8.4f ms %6.1f TFLOP/s\n", s.name.c_str(), f,
              flops / f / 1e9, b, 2.5 * flops / b / 1e9);
  std::fflush(stdout);
}

}  // namespace

// gpu_tile_bench [part of a name]: only the rows whose name has it.
int main(int argc, char** argv) {
  bench::keep_scratch();
  const Pattern global = Pattern::window(256, 256) | Pattern::box({0, 64, 0, 16384}) | Pattern::box({0, 16384, 0, 64});
  const Shape shapes[] = {
      {"diag w64 n16384 d64", 1, 16, 16384, 64, Pattern::block_diagonal(64)},
      {"window 512 causal n16384 d64", 1, 16, 16384, 64, Pattern::window(511, 0)},
      {"longformer 512+64 n16384 d64", 1, 16, 16384, 64, global},
      {"diag w64 b32 h2 n4096 d32", 32, 2, 4096, 32, Pattern::block_diagonal(64)},
      {"full b32 h2 n4096 d32", 32, 2, 4096, 32, Pattern::full()},
      {"full b4 n4096 d64", 4, 16, 4096, 64, Pattern::full()},
      {"causal b4 n4096 d64", 4, 16, 4096, 64, Pattern::causal()},
      {"causal n16384 d64", 1, 16, 16384, 64, Pattern::causal()},
      {"full b4 n4096 d128", 4, 16, 4096, 128, Pattern::full()},
      {"causal b4 n4096 d128", 4, 16, 4096, 128, Pattern::causal()},
  };
  for (const Shape& shape : shapes)
    if (argc < 2 || shape.name.find(argv[1]) != std::string::npos) time_shape(shape);
}
