// Times the linear engine on the card: medians of CUDA events over rotating buffers of random numbers, launches
// included. The rate counts q, k, v and o once going forward and twice backward.

#include <array>

#include "gpu/timing.h"
#include "scan/cuda/launch.h"

namespace {

using namespace fovea;        // NOLINT: a program
using namespace fovea::scan;  // NOLINT

struct Row {
  std::string name;
  std::int64_t batch, n, d;
  bool causal;
  Map map;
  bool norm;
  Denominator denominator = Denominator::none;
  Decay decay = Decay::none;
};
constexpr std::int64_t kHeads = 16;

struct Buffers {
  bench::DeviceArray<bf16> q, k, v, o, d_o, dq, dk, dv;
  bench::DeviceArray<float> statistic, log_decay, d_log_decay, state;

  Buffers(const Row& r, std::int64_t columns, std::uint64_t seed)
      : q(count(r), seed),
        k(count(r), seed + 1),
        v(count(r), seed + 2),
        o(count(r), 0),
        d_o(count(r), seed + 3),
        dq(count(r), 0),
        dk(count(r), 0),
        dv(count(r), 0),
        statistic(r.batch * r.n * kHeads, 0),
        log_decay(r.batch * r.n * kHeads * columns, seed + 4, -0.1f, 0.0f),
        d_log_decay(r.batch * r.n * kHeads * columns, 0),
        state(r.batch * kHeads * r.d * (r.d + 1), 0) {}
  static std::int64_t count(const Row& r) { return r.batch * r.n * kHeads * r.d; }
};

void time_row(const Row& r) {
  std::vector<Piece> pieces;
  for (std::int64_t b = 0; b < r.batch; ++b) pieces.push_back({b, 0, r.n, 0, r.n});
  std::array<double, kHeads> head_decay{};
  for (std::int64_t h = 0; h < kHeads; ++h)
    head_decay[static_cast<std::size_t>(h)] = std::log1p(-std::exp2(-5.0 - static_cast<double>(h) / 4));
  Problem p;
  p.dtype = DType::bf16;
  p.heads = p.kv_heads = kHeads;
  p.d_k = p.d_v = r.d;
  p.pieces = pieces;
  p.causal = r.causal;
  p.map = r.map;
  p.decay = r.decay;
  if (r.decay == Decay::head) p.log_decay = head_decay.data();
  p.denominator = r.denominator;
  p.denominator_eps = 1e-6;
  p.rms_norm = r.norm;
  p.norm_eps = 1e-6;
  const std::int64_t columns = decay_columns(p), statistics = statistic_columns(p);
  std::vector<std::unique_ptr<Buffers>> sets;
  for (std::uint64_t i = 0; i < 2; ++i) sets.push_back(std::make_unique<Buffers>(r, columns, 10 * i + 1));
  const auto view = [&]<class A>(A, void* data, std::int64_t width) {
    return A{data, r.n * kHeads * width, kHeads * width, width};
  };
  const auto statistic = [&]<class A>(A, Buffers& b) {
    return statistics == 0 ? A{} : A{b.statistic.data(), r.n * statistics, statistics, 1};
  };
  const auto forward = [&](int i) {
    Buffers& b = *sets[static_cast<std::size_t>(i) % sets.size()];
    scan::cuda::forward({}, p,
                        {view(In{}, b.q.data(), r.d), view(In{}, b.k.data(), r.d), view(In{}, b.v.data(), r.d),
                         view(In{}, b.log_decay.data(), columns), view(Out{}, b.o.data(), r.d), statistic(Out{}, b),
                         nullptr, b.state.data()});
  };
  const auto backward = [&](int i) {
    Buffers& b = *sets[static_cast<std::size_t>(i) % sets.size()];
    scan::cuda::backward({}, p,
                         {view(In{}, b.q.data(), r.d), view(In{}, b.k.data(), r.d), view(In{}, b.v.data(), r.d),
                          view(In{}, b.log_decay.data(), columns), view(In{}, b.o.data(), r.d), statistic(In{}, b),
                          view(In{}, b.d_o.data(), r.d), nullptr, b.state.data(), nullptr,
                          view(Out{}, b.dq.data(), r.d), view(Out{}, b.dk.data(), r.d), view(Out{}, b.dv.data(), r.d),
                          columns == 0 ? Out{} : view(Out{}, b.d_log_decay.data(), columns), nullptr});
  };
  const double f = bench::median_ms(15, forward), b = bench::median_ms(15, backward);
  const double bytes = 4.0 * 2.0 * static_cast<double>(Buffers::count(r));
  std::printf("%-34s forward %8.4f ms %5.2f TB/s   backward %8.4f ms %5.2f TB/s\n", r.name.c_str(), f, bytes / f / 1e9,
              b, 2 * bytes / b / 1e9);
  std::fflush(stdout);
}

}  // namespace

// gpu_scan_bench [part of a name]: only the rows whose name has it.
int main(int argc, char** argv) {
  bench::keep_scratch();
  using enum Map;
  const Row rows[] = {
      {"norm b16 n4096 d64", 16, 4096, 64, false, elu_plus_one, true},
      {"norm b1 n65536 d64", 1, 65536, 64, false, elu_plus_one, true},
      {"norm b16 n4096 d128", 16, 4096, 128, false, elu_plus_one, true},
      {"norm causal b16 n4096 d64", 16, 4096, 64, true, elu_plus_one, true},
      {"norm causal b1 n65536 d64", 1, 65536, 64, true, elu_plus_one, true},
      {"norm causal b16 n4096 d128", 16, 4096, 128, true, elu_plus_one, true},
      {"linear b16 n4096 d64", 16, 4096, 64, false, elu_plus_one, false, Denominator::add},
      {"linear causal b16 n4096 d64", 16, 4096, 64, true, elu_plus_one, false, Denominator::add},
      {"linear causal b1 n65536 d64", 1, 65536, 64, true, elu_plus_one, false, Denominator::add},
      {"retnet b16 n4096 d64", 16, 4096, 64, true, identity, false, Denominator::none, Decay::head},
      {"lightning b16 n4096 d64", 16, 4096, 64, true, elu_plus_one, true, Denominator::none, Decay::head},
      {"gla b16 n4096 d64", 16, 4096, 64, true, identity, false, Denominator::none, Decay::channel},
      {"gla b1 n65536 d64", 1, 65536, 64, true, identity, false, Denominator::none, Decay::channel},
      {"mamba2 (step) b16 n4096 d64", 16, 4096, 64, true, identity, false, Denominator::none, Decay::step},
      {"norm step b64", 64, 1, 64, true, elu_plus_one, true},
  };
  for (const Row& row : rows)
    if (argc < 2 || row.name.find(argv[1]) != std::string::npos) time_row(row);
}
