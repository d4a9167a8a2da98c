#include <cuda/std/complex>
#include <numbers>

#include "core/wide.h"
#include "mechanisms/recurrent/state_space_kernels.h"
#include "tensor/cuda/loops.cuh"

// Signals are filtered by the recurrence x <- z x + u: a warp for each item and channel, a state in each lane. The
// gradient of z needs no states in reverse: the sum of a_t x_(t-1) over the adjoints a is that of g_t w_t with
// w <- z w + x, which runs forward beside x.
namespace fovea {
namespace {

using namespace device;  // NOLINT
using Complex = cuda::std::complex<double>;

constexpr std::int64_t kLanes = 32, kStretch = 64;

struct Mode {
  double dt;
  Complex a, z, c;
  __device__ Complex input() const { return (z - 1.0) / a; }
};

template <class R>
struct Parameters {
  const R *log_dt, *decay, *frequency, *c;
  std::int64_t channels, states, n;
  Reads reads;

  Parameters(const kernels::SpaceTensors& of, const Tensor& u, Reads reads)
      : log_dt(of.log_dt.data<R>()),
        decay(of.decay.data<R>()),
        frequency(of.frequency.data<R>()),
        c(of.c.data<R>()),
        channels(of.decay.dim(0)),
        states(of.decay.dim(1)),
        n(u.dim(2)),
        reads(reads) {}

  __device__ std::int64_t at_c(std::int64_t channel, std::int64_t s) const {
    return 2 * (((reads == Reads::past ? 0 : channels) + channel) * states + s);
  }
  __device__ Mode mode(std::int64_t channel, std::int64_t s) const {
    const std::int64_t i = channel * states + s;
    Mode m;
    m.dt = 1e-2 * exp(static_cast<double>(log_dt[channel]));
    m.a = {-0.5 * exp(static_cast<double>(decay[i])),
           std::numbers::pi * static_cast<double>(s) + static_cast<double>(frequency[i])};
    const double size = exp(m.dt * m.a.real()), angle = m.dt * m.a.imag();
    m.z = {size * cos(angle), size * sin(angle)};
    m.c = {static_cast<double>(c[at_c(channel, s)]), static_cast<double>(c[at_c(channel, s) + 1])};
    return m;
  }
  // Where step t of the recurrence reads and writes: the future is read from the end, and a token is not its own
  // future.
  __device__ std::int64_t input(std::int64_t t) const { return reads == Reads::past ? t : n - 1 - t; }
  __device__ std::int64_t output(std::int64_t t) const { return reads == Reads::past ? t : n - 2 - t; }  // -1: nowhere
};

// A state of a lane: its eigenvalue and the read-out 2 c (z - 1) / A; zeros beyond the last.
template <class R>
struct LaneState {
  R z_re = 0, z_im = 0, read_re = 0, read_im = 0;

  __device__ LaneState(const Parameters<R>& p, std::int64_t channel, std::int64_t s) {
    if (s >= p.states) return;
    const Mode mode = p.mode(channel, s);
    const Complex out = 2.0 * mode.c * mode.input();
    z_re = static_cast<R>(mode.z.real()), z_im = static_cast<R>(mode.z.imag());
    read_re = static_cast<R>(out.real()), read_im = static_cast<R>(out.imag());
  }
  __device__ void step(R& re, R& im, R in_re, R in_im) const {
    const R old = re;
    re = z_re * old - z_im * im + in_re;
    im = z_re * im + z_im * old + in_im;
  }
};

// y of u, or with `back` du of g: the recurrence runs over the outputs from the last to the first. 32 states at a time.
template <class R>
void run(const Context& context, const Parameters<R>& p, const Tensor& from, const Tensor& to, bool back) {
  const R* const in = from.data<R>();
  R* const out = to.data<R>();
  rows(context, from.dim(0) * p.channels, 0, [=] __device__(const auto& g) {
    const R* const source = in + g.row * p.n;
    R* const target = out + g.row * p.n;
    for (std::int64_t first = 0; first < p.states; first += kLanes) {
      const LaneState<R> state(p, g.row % p.channels, first + g.lane);
      R re(0), im(0);
      for (std::int64_t step = 0; step < p.n; ++step) {
        const std::int64_t t = back ? p.n - 1 - step : step;
        const std::int64_t read = back ? p.output(t) : p.input(t), write = back ? p.input(t) : p.output(t);
        state.step(re, im, read >= 0 ? source[read] : R(0), R(0));
        const R sum = g.sum(state.read_re * re - state.read_im * im);
        if (write >= 0 && g.lane == 0) target[write] = first == 0 ? sum : target[write] + sum;
      }
      if (!back && p.reads == Reads::future && g.lane == 0) target[p.n - 1] = R(0);
    }
  });
}

// Sums over the steps of one item: g_t x_t and g_t w_t.
struct Sums {
  double c_re, c_im, z_re, z_im;
};

// sums (items, channels, states), stretch by stretch into doubles.
template <class R>
void sum_steps(const Context& context, const Parameters<R>& p, const kernels::FilterPull& io, Sums* sums) {
  const R *const u = io.u.data<R>(), *const pulled = io.g.data<R>();
  each(context, io.u.dim(0) * p.channels * p.states, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / p.states;
    const LaneState<R> state(p, row % p.channels, i % p.states);
    R x_re(0), x_im(0), w_re(0), w_im(0);
    Sums all{};
    for (std::int64_t begin = 0; begin < p.n; begin += kStretch) {
      R part[4] = {};
      for (std::int64_t t = begin; t < p.n && t < begin + kStretch; ++t) {
        state.step(w_re, w_im, x_re, x_im);
        state.step(x_re, x_im, u[row * p.n + p.input(t)], R(0));
        const std::int64_t at = p.output(t);
        const R g = at >= 0 ? pulled[row * p.n + at] : R(0);
        part[0] += g * x_re, part[1] += g * x_im, part[2] += g * w_re, part[3] += g * w_im;
      }
      all.c_re += static_cast<double>(part[0]), all.c_im += static_cast<double>(part[1]);
      all.z_re += static_cast<double>(part[2]), all.z_im += static_cast<double>(part[3]);
    }
    sums[i] = all;
  });
}

// With f = (z - 1) / A the loss changes by 2 Re(p (f dC + C df) + C f q dz), p and q being the sums,
// df = (dz - f dA) / A, dz = z (dt dA + A d(dt)).
template <class R>
void write_gradients(const Context& context, const Parameters<R>& p, const kernels::FilterPull& io, const Sums* sums) {
  R *const d_log_dt = io.d.log_dt.data<R>(), *const d_decay = io.d.decay.data<R>(),
           *const d_frequency = io.d.frequency.data<R>(), *const d_c = io.d.c.data<R>();
  const std::int64_t items = io.u.dim(0);
  each(context, p.channels, [=] __device__(std::int64_t channel) {
    for (std::int64_t s = 0; s < p.states; ++s) {
      const Mode m = p.mode(channel, s);
      Complex sum_c(0.0, 0.0), sum_z(0.0, 0.0);
      for (std::int64_t item = 0; item < items; ++item) {
        const Sums of = sums[(item * p.channels + channel) * p.states + s];
        sum_c += Complex(of.c_re, of.c_im);
        sum_z += Complex(of.z_re, of.z_im);
      }
      const Complex f = m.input(), by_z = m.c * (sum_c / m.a + f * sum_z);
      const Complex by_a = by_z * m.z * m.dt - sum_c * m.c * f / m.a, by_c = sum_c * f;
      const std::int64_t i = channel * p.states + s;
      d_c[p.at_c(channel, s)] = static_cast<R>(2.0 * by_c.real());
      d_c[p.at_c(channel, s) + 1] = static_cast<R>(-2.0 * by_c.imag());
      d_decay[i] = static_cast<R>(2.0 * by_a.real() * m.a.real());
      d_frequency[i] = static_cast<R>(-2.0 * by_a.imag());
      d_log_dt[channel] += static_cast<R>(2.0 * (by_z * m.z * m.a).real() * m.dt);
    }
  });
}

template <class R>
void pull(const Context& context, const kernels::FilterPull& io) {
  const Parameters<R> p(io.space, io.u, io.reads);
  run(context, p, io.g, io.du, true);
  const DeviceScratch scratch(launch_of(context),
                              sizeof(Sums) * static_cast<std::size_t>(io.u.dim(0) * p.channels * p.states));
  auto* const sums = static_cast<Sums*>(scratch.data());
  sum_steps(context, p, io, sums);
  write_gradients(context, p, io, sums);
}

}  // namespace

template <>
void kernels::filter<Device::cuda>(const Context& context, const Filter& io) {
  visit_wide(io.u.dtype(),
             [&]<class R>() { run(context, Parameters<R>(io.space, io.u, io.reads), io.u, io.y, false); });
}

template <>
void kernels::filter_backward<Device::cuda>(const Context& context, const FilterPull& io) {
  visit_wide(io.u.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea
