// Fourier transforms of many channels at once: a lane of the vectors is a channel, so that a butterfly is plain
// arithmetic and the twiddle factors are broadcasts.
//
// Two real channels make one complex signal: lane l of the real parts is channel l of a block, lane l of the imaginary
// parts channel l + lanes. Element f of a signal is `lanes` real parts, then `lanes` imaginary ones. Forward transforms
// leave the frequencies in bit-reversed order, and inverse ones take them so: nothing is ever permuted.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_OPS_FFT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_FFT_INL_H_
#undef FOVEA_OPS_FFT_INL_H_
#else
#define FOVEA_OPS_FFT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class R>
class Fft {
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  struct Complex {
    V re, im;
  };

 public:
  // twiddles: see fft_twiddles().
  Fft(std::int64_t size, const R* twiddles) : size_(size), twiddles_(twiddles) {}

  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

  void forward(R* x) const { down(x, size_, twiddles_); }
  void inverse(R* x) const { up(x, size_, twiddles_); }  // without the factor 1 / size

  // out = x y for each channel, or += : spectra, x conjugated for `kConjugate`. The spectrum of a channel is real and
  // imaginary part of the sums and differences of the frequencies f and -f; in bit-reversed order the negatives of
  // [2^k, 2^(k + 1)) are the same range backwards.
  template <bool kConjugate, bool kAdd>
  void multiply(const R* x, const R* y, R* out) const {
    for (std::int64_t f = 0; f < 2 && f < size_; ++f) multiply_pair<kConjugate, kAdd>(x, y, out, f, f);
    for (std::int64_t first = 2; first < size_; first *= 2)
      for (std::int64_t i = 0; i < first / 2; ++i)
        multiply_pair<kConjugate, kAdd>(x, y, out, first + i, 2 * first - 1 - i);
  }

 private:
  static HWY_INLINE Complex load(const R* x, std::int64_t f) {
    const D d;
    return {hn::Load(d, x + 2 * f * lanes()), hn::Load(d, x + (2 * f + 1) * lanes())};
  }
  static HWY_INLINE void store(Complex a, R* x, std::int64_t f) {
    const D d;
    hn::Store(a.re, d, x + 2 * f * lanes());
    hn::Store(a.im, d, x + (2 * f + 1) * lanes());
  }
  static HWY_INLINE Complex add(Complex a, Complex b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
  static HWY_INLINE Complex sub(Complex a, Complex b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
  static HWY_INLINE Complex add_i(Complex a, Complex b) {
    return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
  }  // a + ib
  static HWY_INLINE Complex sub_i(Complex a, Complex b) {
    return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
  }  // a - ib
  static HWY_INLINE Complex conjugate(Complex a) { return {a.re, hn::Neg(a.im)}; }
  static HWY_INLINE Complex mul(Complex a, Complex b) {
    return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)), hn::MulAdd(a.re, b.im, hn::Mul(a.im, b.re))};
  }
  static HWY_INLINE Complex mul_conjugate(Complex a, Complex b) {  // a conj(b)
    return {hn::MulAdd(a.im, b.im, hn::Mul(a.re, b.re)), hn::NegMulAdd(a.re, b.im, hn::Mul(a.im, b.re))};
  }
  static HWY_INLINE Complex broadcast(const R* w) {
    const D d;
    return {hn::Set(d, w[0]), hn::Set(d, w[1])};
  }

  // Four transforms of a quarter each from one of `size`: frequencies 0, 2, 1 and 3 modulo 4.
  static void split(R* x, std::int64_t size, const R* w) {
    const std::int64_t step = size / 4;
    for (std::int64_t j = 0; j < step; ++j, w += 6) {
      const Complex a = load(x, j), b = load(x, j + step), c = load(x, j + 2 * step), d = load(x, j + 3 * step);
      const Complex even = add(a, c), odd = add(b, d), even_rest = sub(a, c), odd_rest = sub(b, d);
      store(add(even, odd), x, j);
      store(mul(sub(even, odd), broadcast(w + 2)), x, j + step);
      store(mul(sub_i(even_rest, odd_rest), broadcast(w)), x, j + 2 * step);
      store(mul(add_i(even_rest, odd_rest), broadcast(w + 4)), x, j + 3 * step);
    }
  }
  static void join(R* x, std::int64_t size, const R* w) {
    const std::int64_t step = size / 4;
    for (std::int64_t j = 0; j < step; ++j, w += 6) {
      const Complex f0 = load(x, j), f2 = mul_conjugate(load(x, j + step), broadcast(w + 2));
      const Complex f1 = mul_conjugate(load(x, j + 2 * step), broadcast(w));
      const Complex f3 = mul_conjugate(load(x, j + 3 * step), broadcast(w + 4));
      const Complex even = add(f0, f2), odd = add(f1, f3), even_rest = sub(f0, f2), odd_rest = sub(f1, f3);
      store(add(even, odd), x, j);
      store(add_i(even_rest, odd_rest), x, j + step);
      store(sub(even, odd), x, j + 2 * step);
      store(sub_i(even_rest, odd_rest), x, j + 3 * step);
    }
  }
  static void pair(R* x) {
    const Complex a = load(x, 0), b = load(x, 1);
    store(add(a, b), x, 0);
    store(sub(a, b), x, 1);
  }

  // Depth first: from the size on that fits a cache, everything below happens in it.
  static void down(R* x, std::int64_t size, const R* w) {
    if (size == 2) return pair(x);
    if (size < 2) return;
    split(x, size, w);
    for (int quarter = 0; quarter < 4; ++quarter)
      down(x + quarter * (size / 4) * 2 * lanes(), size / 4, w + size / 4 * 6);
  }
  static void up(R* x, std::int64_t size, const R* w) {
    if (size == 2) return pair(x);
    if (size < 2) return;
    for (int quarter = 0; quarter < 4; ++quarter)
      up(x + quarter * (size / 4) * 2 * lanes(), size / 4, w + size / 4 * 6);
    join(x, size, w);
  }

  // Twice the spectra of the two channels at f, from the signal at f and at -f.
  struct Channels {
    Complex a, b;
  };
  static HWY_INLINE Channels channels(Complex at, Complex negative) {
    const Complex mirrored = conjugate(negative), difference = sub(at, mirrored);
    return {add(at, mirrored), {difference.im, hn::Neg(difference.re)}};
  }

  template <bool kConjugate, bool kAdd>
  static HWY_INLINE void multiply_pair(const R* x, const R* y, R* out, std::int64_t f, std::int64_t g) {
    const D d;
    const Channels p = channels(load(x, f), load(x, g)), q = channels(load(y, f), load(y, g));
    const V quarter = hn::Set(d, R(0.25));
    Complex a = kConjugate ? mul_conjugate(q.a, p.a) : mul(q.a, p.a);
    Complex b = kConjugate ? mul_conjugate(q.b, p.b) : mul(q.b, p.b);
    a = {hn::Mul(a.re, quarter), hn::Mul(a.im, quarter)};
    b = {hn::Mul(b.re, quarter), hn::Mul(b.im, quarter)};
    Complex at = add_i(a, b), negative = add_i(conjugate(a), conjugate(b));
    if constexpr (kAdd) {
      at = add(at, load(out, f));
      negative = add(negative, load(out, g));
    }
    store(at, out, f);
    store(negative, out, g);
  }

  std::int64_t size_;
  const R* twiddles_;
};

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_FFT_INL_H_
