// Times the tiled engine on the card: medians of CUDA events over rotating buffers of random numbers, launches
// included.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "tile/cuda/launch.h"

namespace {

using namespace fovea;        // NOLINT: a program
using namespace fovea::tile;  // NOLINT

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

struct Shape {
  std::string name;
  std::int64_t batch, heads, n, d;
  Pattern pattern;
  bool bias = false;
};

// (batch, n, heads, d) in bf16
class Tensor {
 public:
  Tensor(const Shape& s, bool random, std::uint64_t seed) : s_(s) {
    const auto count = static_cast<std::size_t>(s.batch * s.n * s.heads * s.d);
    must(cudaMalloc(&data_, count * 2));
    std::vector<bf16> host(std::min<std::size_t>(count, std::size_t{1} << 20));
    Random source(seed);
    for (bf16& x : host) x = bf16(random ? 2.0f * source.uniform() - 1.0f : 0.0f);
    for (std::size_t at = 0; at < count; at += host.size())
      must(cudaMemcpy(static_cast<bf16*>(data_) + at, host.data(), std::min(host.size(), count - at) * 2,
                      cudaMemcpyHostToDevice));
  }
  ~Tensor() { cudaFree(data_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  In in() const { return {data_, s_.n * s_.heads * s_.d, s_.heads * s_.d, s_.d}; }
  Out out() const { return {data_, s_.n * s_.heads * s_.d, s_.heads * s_.d, s_.d}; }

 private:
  Shape s_;
  void* data_ = nullptr;
};

struct Buffers {
  Tensor q, k, v, o, d_o, dq, dk, dv;
  void* lse = nullptr;
  explicit Buffers(const Shape& s, std::uint64_t seed)
      : q(s, true, seed),
        k(s, true, seed + 1),
        v(s, true, seed + 2),
        o(s, false, 0),
        d_o(s, true, seed + 3),
        dq(s, false, 0),
        dk(s, false, 0),
        dv(s, false, 0) {
    must(cudaMalloc(&lse, static_cast<std::size_t>(s.batch * s.n * s.heads) * 4));
  }
  ~Buffers() { cudaFree(lse); }
};

double median_ms(int rounds, const std::function<void(int)>& run) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) run(i);
  std::vector<float> times;
  for (int i = 0; i < rounds; ++i) {
    must(cudaEventRecord(begin));
    run(i);
    must(cudaEventRecord(end));
    must(cudaEventSynchronize(end));
    times.push_back(0);
    must(cudaEventElapsedTime(&times.back(), begin, end));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

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
  for (int i = 0; i < 3; ++i) sets.push_back(std::make_unique<Buffers>(s, static_cast<std::uint64_t>(10 * i)));
  const auto lse = [&](Buffers& b) { return Out{b.lse, s.n * s.heads, s.heads, 1}; };
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
                          {b.lse, s.n * s.heads, s.heads, 1},
                          b.d_o.in(),
                          {},
                          b.dq.out(),
                          b.dk.out(),
                          b.dv.out(),
                          {}});
  };
  const double f = median_ms(15, forward), b = median_ms(15, backward);
  const double flops = 4.0 * static_cast<double>(plan->kept_pairs * s.batch * s.heads * s.d);
  std::printf("%-28s forward %8.4f ms %6.1f TFLOP/s   backward %8.4f ms %6.1f TFLOP/s\n", s.name.c_str(), f,
              flops / f / 1e9, b, 2.5 * flops / b / 1e9);
  std::fflush(stdout);
}

// Scratch stays with the stream's pool from one call to the next, as it does under an allocator.
void keep_scratch() {
  cudaMemPool_t pool;
  must(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t all = ~std::uint64_t{0};
  must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

}  // namespace

// gpu_tile_bench [part of a name]: only the rows whose name has it.
int main(int argc, char** argv) {
  keep_scratch();
  const Pattern global = Pattern::window(256, 256) | Pattern::box({0, 64, 0, 16384}) | Pattern::box({0, 16384, 0, 64});
  const Shape shapes[] = {
      {"diag w64 n16384 d64", 1, 16, 16384, 64, Pattern::block_diagonal(64)},
      {"window 512 causal n16384 d64", 1, 16, 16384, 64, Pattern::window(511, 0)},
      {"longformer 512+64 n16384 d64", 1, 16, 16384, 64, global},
      {"full b4 n4096 d64", 4, 16, 4096, 64, Pattern::full()},
      {"causal b4 n4096 d64", 4, 16, 4096, 64, Pattern::causal()},
      {"causal n16384 d64", 1, 16, 16384, 64, Pattern::causal()},
      {"full b4 n4096 d128", 4, 16, 4096, 128, Pattern::full()},
      {"causal b4 n4096 d128", 4, 16, 4096, 128, Pattern::causal()},
  };
  for (const Shape& shape : shapes)
    if (argc < 2 || shape.name.find(argv[1]) != std::string::npos) time_shape(shape);
}
