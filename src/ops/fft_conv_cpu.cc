#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fft_conv_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "core/scratch.h"
#include "hwy/highway.h"
#include "ops/fft-inl.h"
#include "ops/fft_conv_cpu.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// A block of 2 lanes channels, from channel `first` on; those beyond `width` are zero.
template <class R>
struct Block {
  Block(std::int64_t index, std::int64_t width)
      : lanes(Fft<R>::lanes()), first(index * 2 * lanes), count(std::min(2 * lanes, width - first)) {}

  // Rows of `step` elements into the signal, zeros from `rows` to `size`.
  template <class T>
  void read(const T* from, std::int64_t step, std::int64_t rows, std::int64_t size, R* signal) const {
    for (std::int64_t i = 0; i < rows; ++i, from += step, signal += 2 * lanes) {
      for (std::int64_t c = 0; c < count; ++c) signal[c] = static_cast<R>(from[first + c]);
      std::fill(signal + count, signal + 2 * lanes, R(0));
    }
    std::fill_n(signal, (size - rows) * 2 * lanes, R(0));
  }
  // to = or += signal * factor.
  template <bool kAdd, class T>
  void write(const R* signal, R factor, std::int64_t rows, T* to, std::int64_t step) const {
    for (std::int64_t i = 0; i < rows; ++i, to += step, signal += 2 * lanes)
      for (std::int64_t c = 0; c < count; ++c)
        to[first + c] = T((kAdd ? static_cast<R>(to[first + c]) : R(0)) + factor * signal[c]);
  }

  std::int64_t lanes, first, count;
};

// Rows of a (b, n, width) tensor from the first of a sequence on.
template <class T>
T* first_row(const Tensor& t, const Sequences::Rows& rows) {
  return t.data<T>() + rows.batch * t.stride(0) + rows.begin * t.stride(1);
}

// One channel block in all sequences: its taps are transformed once for each size. Multiplying twice by half a size
// keeps the end of a sequence from wrapping onto its start.
template <class T>
class BlockConv {
  using R = Wide<T>;

 public:
  BlockConv(const Context& context, const cpu::FftConv& io, std::int64_t index)
      : context_(context), io_(io), block_(index, io.k.dim(1)) {}

  void forward() const {
    for (const cpu::FftGroup& group : io_.groups) {
      const Fft<R> fft(group.size, group.twiddles.data<R>());
      const Scratch<R> k = signal(group.size), u = signal(group.size);
      read_taps(fft, group.size, k.data());
      for (const Sequences::Rows& rows : group.sequences) {
        read_rows(fft, io_.u, rows, group.size, u.data());
        fft.template multiply<false, false>(k.data(), u.data(), u.data());
        fft.inverse(u.data());
        block_.template write<false>(u.data(), R(1) / static_cast<R>(group.size), rows.count, first_row<T>(io_.y, rows),
                                     io_.y.stride(1));
      }
    }
  }

  // du is the correlation of the taps with the gradient, dk that of u with it, summed over sequences as spectra.
  void backward(const Tensor& du, const Tensor& dk) const {
    for (const cpu::FftGroup& group : io_.groups) {
      const Fft<R> fft(group.size, group.twiddles.data<R>());
      const Scratch<R> k = signal(group.size), u = signal(group.size), g = signal(group.size), sum = signal(group.size);
      const R factor = R(1) / static_cast<R>(group.size);
      read_taps(fft, group.size, k.data());
      std::fill_n(sum.data(), group.size * 2 * block_.lanes, R(0));
      for (const Sequences::Rows& rows : group.sequences) {
        read_rows(fft, io_.y, rows, group.size, g.data());
        if (dk.defined()) {
          read_rows(fft, io_.u, rows, group.size, u.data());
          fft.template multiply<true, true>(u.data(), g.data(), sum.data());
        }
        if (!du.defined()) continue;
        fft.template multiply<true, false>(k.data(), g.data(), g.data());
        fft.inverse(g.data());
        block_.template write<false>(g.data(), factor, rows.count, first_row<T>(du, rows), du.stride(1));
      }
      if (!dk.defined()) continue;
      fft.inverse(sum.data());
      block_.template write<true>(sum.data(), factor, taps(group.size), dk.data<R>(), dk.dim(1));
    }
  }

 private:
  Scratch<R> signal(std::int64_t size) const {
    return Scratch<R>(context_, static_cast<std::size_t>(size * 2 * block_.lanes));
  }
  // Taps that a sequence of this size can meet.
  std::int64_t taps(std::int64_t size) const { return std::min(io_.k.dim(0), size / 2); }
  void read_taps(const Fft<R>& fft, std::int64_t size, R* to) const {
    block_.read(io_.k.data<R>(), io_.k.dim(1), taps(size), size, to);
    fft.forward(to);
  }
  void read_rows(const Fft<R>& fft, const Tensor& t, const Sequences::Rows& rows, std::int64_t size, R* to) const {
    block_.read(first_row<T>(t, rows), t.stride(1), rows.count, size, to);
    fft.forward(to);
  }

  const Context& context_;
  const cpu::FftConv& io_;
  Block<R> block_;
};

std::int64_t channels_of_block(DType dtype) {
  return 2 * (dtype == DType::f64 ? Fft<double>::lanes() : Fft<float>::lanes());
}

void forward_block(const Context& context, const cpu::FftConv& io, std::int64_t index) {
  visit_float(io.u.dtype(), [&]<class T>() { BlockConv<T>(context, io, index).forward(); });
}

void backward_block(const Context& context, const cpu::FftConvPull& io, std::int64_t index) {
  visit_float(io.forward.u.dtype(),
              [&]<class T>() { BlockConv<T>(context, io.forward, index).backward(io.du, io.dk); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(channels_of_block);
HWY_EXPORT(forward_block);
HWY_EXPORT(backward_block);

// body(block) for every block of channels, in parallel.
template <class Body>
void for_channels(const Context& context, const cpu::FftConv& io, Body&& body) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t channels = HWY_DYNAMIC_DISPATCH(channels_of_block)(io.u.dtype());
  parallel_for(context, (io.k.dim(1) + channels - 1) / channels, body);
}

}  // namespace

void cpu::fft_conv(const Context& context, const FftConv& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(forward_block);
  for_channels(context, io, [&](std::int64_t block) { run(context, io, block); });
}

void cpu::fft_conv_backward(const Context& context, const FftConvPull& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(backward_block);
  for_channels(context, io.forward, [&](std::int64_t block) { run(context, io, block); });
}

}  // namespace fovea
#endif  // HWY_ONCE
