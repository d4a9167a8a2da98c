#include <numbers>

#include "core/wide.h"
#include "mechanisms/recurrent/state_space_kernels.h"
#include "tensor/cuda/loops.cuh"

// A warp runs the recurrence x <- z x + u of a signal, its lanes the states, 32 of them at a time. Backward runs it
// again from states kept every kStretch steps.
namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr std::int64_t kStretch = 64, kWarp = 32;

template <class R>
struct Complex {
  R re = 0, im = 0;

  __device__ Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  __device__ Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  __device__ Complex operator*(const Complex& b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
  __device__ Complex operator*(R b) const { return {re * b, im * b}; }
  __device__ Complex operator/(const Complex& b) const {
    const R size = b.re * b.re + b.im * b.im;
    return {(re * b.re + im * b.im) / size, (im * b.re - re * b.im) / size};
  }
};
using Double = Complex<double>;

template <class R>
__device__ Complex<R> rounded(const Double& x) {
  return {static_cast<R>(x.re), static_cast<R>(x.im)};
}

// What a mode is made of.
struct Mode {
  double dt;
  Double a, z, c;
  __device__ Double input() const { return (z - Double{1.0, 0.0}) / a; }
};

template <class R>
struct Parameters {
  const R *log_dt, *decay, *frequency, *c;
  std::int64_t channels, states;
  bool past;

  Parameters(const kernels::SpaceTensors& of, Reads reads)
      : log_dt(pointer<R>(of.log_dt)),
        decay(pointer<R>(of.decay)),
        frequency(pointer<R>(of.frequency)),
        c(pointer<R>(of.c)),
        channels(of.decay.dim(0)),
        states(of.decay.dim(1)),
        past(reads == Reads::past) {}

  __device__ std::int64_t at_c(std::int64_t channel, std::int64_t s) const {
    return 2 * (((past ? 0 : channels) + channel) * states + s);
  }
  __device__ Mode mode(std::int64_t channel, std::int64_t s) const {
    const std::int64_t i = channel * states + s;
    Mode m;
    m.dt = 1e-2 * exp(static_cast<double>(log_dt[channel]));
    m.a = {-0.5 * exp(static_cast<double>(decay[i])),
           std::numbers::pi * static_cast<double>(s) + static_cast<double>(frequency[i])};
    const double size = exp(m.dt * m.a.re);
    m.z = {size * cos(m.dt * m.a.im), size * sin(m.dt * m.a.im)};
    m.c = {static_cast<double>(c[at_c(channel, s)]), static_cast<double>(c[at_c(channel, s) + 1])};
    return m;
  }
};

// A lane's state: its eigenvalue z and the read-out 2 c (z - 1) / A; lanes without one read nothing.
template <class R>
struct Lane {
  Complex<R> z, read;

  __device__ Lane(const Parameters<R>& p, std::int64_t channel, std::int64_t s) {
    if (s >= p.states) return;
    const Mode mode = p.mode(channel, s);
    z = rounded<R>(mode.z);
    read = rounded<R>(mode.c * mode.input() * 2.0);
  }
  __device__ Complex<R> step(const Complex<R>& x, R u) const { return z * x + Complex<R>{u, 0}; }
  __device__ R output(const Complex<R>& x) const { return warp_sum(read.re * x.re - read.im * x.im); }
};

// Where step t of the recurrence reads and writes: the future is read from the end, and a token is not its own future.
struct Course {
  std::int64_t n;
  bool past;
  __device__ std::int64_t input(std::int64_t t) const { return past ? t : n - 1 - t; }
  __device__ std::int64_t output(std::int64_t t) const { return past ? t : n - 2 - t; }  // -1: nowhere
};

// What a lane puts or adds: the first 32 states put.
template <class R>
__device__ void give(R* to, R value, bool adds) {
  *to = adds ? *to + value : value;
}

template <class R>
struct RunFilter {
  Parameters<R> p;
  Course course;
  const R* u;
  R* y;

  template <class G>
  __device__ void operator()(const G& g) const {
    const R* in = u + g.row * course.n;
    R* out = y + g.row * course.n;
    if (!course.past && g.lane == 0) out[course.n - 1] = 0;
    for (std::int64_t s = 0; s < p.states; s += kWarp) {
      const Lane<R> lane(p, g.row % p.channels, s + g.lane);
      Complex<R> x;
      for (std::int64_t t = 0; t < course.n; ++t) {
        x = lane.step(x, in[course.input(t)]);
        const R sum = lane.output(x);
        if (g.lane == 0 && course.output(t) >= 0) give(out + course.output(t), sum, s > 0);
      }
    }
  }
};

// Sums over the steps: g_t x_t, and a_t x_(t-1) with the adjoint a_t = g_t + z a_(t+1).
struct StepSums {
  Double c, z;
};

template <class R>
struct VjpFilter {
  Parameters<R> p;
  Course course;
  const R *u, *g;
  R* du;
  Complex<R>* kept;  // (signals, stretches, 32)
  StepSums* sums;    // (signals, states)
  std::int64_t stretches;

  template <class G>
  __device__ void operator()(const G& group) const {
    for (std::int64_t s = 0; s < p.states; s += kWarp) {
      const Lane<R> lane(p, group.row % p.channels, s + group.lane);
      Complex<R>* states = kept + group.row * stretches * kWarp + group.lane;
      keep_states(lane, u + group.row * course.n, states);
      const StepSums total = vjp(lane, group, states, s > 0);
      if (s + group.lane < p.states) sums[group.row * p.states + s + group.lane] = total;
    }
  }

  __device__ void keep_states(const Lane<R>& lane, const R* in, Complex<R>* states) const {
    Complex<R> x;
    for (std::int64_t t = 0; t < course.n; ++t) {
      if (t % kStretch == 0) states[t / kStretch * kWarp] = x;
      x = lane.step(x, in[course.input(t)]);
    }
  }

  template <class G>
  __device__ StepSums vjp(const Lane<R>& lane, const G& group, const Complex<R>* states, bool adds) const {
    const R *in = u + group.row * course.n, *given = g + group.row * course.n;
    R* out = du + group.row * course.n;
    StepSums total;
    Complex<R> adjoint, x[kStretch + 1];
    for (std::int64_t stretch = stretches - 1; stretch >= 0; --stretch) {
      const std::int64_t first = stretch * kStretch, count = course.n - first < kStretch ? course.n - first : kStretch;
      x[0] = states[stretch * kWarp];
      for (std::int64_t t = 0; t < count; ++t) x[t + 1] = lane.step(x[t], in[course.input(first + t)]);
      Complex<R> by_c, by_z;
      for (std::int64_t t = count; t-- > 0;) {
        const std::int64_t at = course.output(first + t);
        const R seed = at >= 0 ? given[at] : R(0);
        adjoint = lane.step(adjoint, seed);
        const R sum = lane.output(adjoint);
        if (group.lane == 0) give(out + course.input(first + t), sum, adds);
        by_c = by_c + x[t + 1] * seed;
        by_z = by_z + adjoint * x[t];
      }
      total.c = total.c + Double{static_cast<double>(by_c.re), static_cast<double>(by_c.im)};
      total.z = total.z + Double{static_cast<double>(by_z.re), static_cast<double>(by_z.im)};
    }
    return total;
  }
};

// Gradients of the parameters of a channel. With f = (z - 1) / A the loss changes by
// 2 Re(p (f dC + C df) + C f q dz), p and q being the sums, df = (dz - f dA) / A, dz = z (dt dA + A d(dt)).
template <class R>
struct VjpParameters {
  Parameters<R> p;
  const StepSums* sums;  // (items, channels, states)
  std::int64_t items;
  R *log_dt, *decay, *frequency, *c;

  template <class G>
  __device__ void operator()(const G& g) const {
    double by_dt = 0.0;
    for (std::int64_t s = g.lane; s < p.states; s += g.lanes) {
      const std::int64_t i = g.row * p.states + s;
      StepSums sum;
      for (std::int64_t item = 0; item < items; ++item) {
        const StepSums& own = sums[item * p.channels * p.states + i];
        sum.c = sum.c + own.c;
        sum.z = sum.z + own.z;
      }
      const Mode m = p.mode(g.row, s);
      const Double f = m.input(), by_z = m.c * (sum.c / m.a + f * sum.z);
      const Double by_a = by_z * m.z * m.dt - sum.c * m.c * f / m.a, by_c = sum.c * f;
      c[p.at_c(g.row, s)] = static_cast<R>(2.0 * by_c.re);
      c[p.at_c(g.row, s) + 1] = static_cast<R>(-2.0 * by_c.im);
      decay[i] = static_cast<R>(2.0 * by_a.re * m.a.re);
      frequency[i] = static_cast<R>(-2.0 * by_a.im);
      by_dt += 2.0 * (by_z * m.z * m.a).re * m.dt;
    }
    by_dt = g.sum(by_dt);
    if (g.lane == 0) log_dt[g.row] += static_cast<R>(by_dt);
  }
};

template <class R>
void vjp(const Context& context, const kernels::FilterVjp& io) {
  const Parameters<R> p(io.space, io.reads);
  const std::int64_t n = io.u.dim(2), signals = io.u.dim(0) * p.channels, stretches = (n + kStretch - 1) / kStretch;
  const auto bytes = [&](std::int64_t count, std::size_t size) {
    return Tensor::empty(context, {count * static_cast<std::int64_t>(size)}, DType::u8, Lifetime::scratch);
  };
  const Tensor kept = bytes(signals * stretches * kWarp, sizeof(Complex<R>)),
               sums = bytes(signals * p.states, sizeof(StepSums));
  rows(context, n > 0 ? signals : 0, kWarp,
       VjpFilter<R>{p, Course{n, io.reads == Reads::past}, pointer<R>(io.u), pointer<R>(io.g), pointer<R>(io.du),
                    static_cast<Complex<R>*>(kept.raw()), static_cast<StepSums*>(sums.raw()), stretches});
  rows(context, n > 0 ? p.channels : 0, p.states,
       VjpParameters<R>{p, static_cast<const StepSums*>(sums.raw()), io.u.dim(0), pointer<R>(io.d.log_dt),
                        pointer<R>(io.d.decay), pointer<R>(io.d.frequency), pointer<R>(io.d.c)});
}

}  // namespace

template <>
void kernels::filter<Device::cuda>(const Context& context, const Filter& io) {
  const std::int64_t n = io.u.dim(2);
  visit_wide(io.u.dtype(), [&]<class R>() {
    rows(context, n > 0 ? io.u.dim(0) * io.u.dim(1) : 0, kWarp,
         RunFilter<R>{Parameters<R>(io.space, io.reads), Course{n, io.reads == Reads::past}, pointer<R>(io.u),
                      pointer<R>(io.y)});
  });
}

template <>
void kernels::filter_backward<Device::cuda>(const Context& context, const FilterVjp& io) {
  visit_wide(io.u.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
