#include <complex>
#include <numbers>
#include <vector>

#include "core/parallel.h"
#include "mechanisms/recurrent/state_space_kernels.h"
#include "ops/work.h"

// Signals are filtered by the recurrence x <- z x + u, all states of a channel side by side: as many operations as it
// takes to write down the impulse response for a transform, and exactly causal. Backward runs it again from states kept
// every kStretch steps.
namespace fovea {
namespace {

using Complex = std::complex<double>;

constexpr std::int64_t kStretch = 64;

// What a mode is made of, in double.
struct Mode {
  double dt;
  Complex a, z, c;

  Complex input() const { return (z - 1.0) / a; }
};

template <class R>
struct Parameters {
  const R *log_dt, *decay, *frequency, *c;
  std::int64_t channels, states;
  Reads reads;

  Parameters(const kernels::SpaceTensors& of, Reads reads)
      : log_dt(of.log_dt.data<R>()),
        decay(of.decay.data<R>()),
        frequency(of.frequency.data<R>()),
        c(of.c.data<R>()),
        channels(of.decay.dim(0)),
        states(of.decay.dim(1)),
        reads(reads) {}

  std::int64_t at_c(std::int64_t channel, std::int64_t s) const {
    return 2 * (((reads == Reads::past ? 0 : channels) + channel) * states + s);
  }
  Mode mode(std::int64_t channel, std::int64_t s) const {
    const std::int64_t i = channel * states + s;
    Mode m;
    m.dt = 1e-2 * std::exp(static_cast<double>(log_dt[channel]));
    m.a = {-0.5 * std::exp(static_cast<double>(decay[i])),
           std::numbers::pi * static_cast<double>(s) + static_cast<double>(frequency[i])};
    m.z = std::exp(m.dt * m.a);
    m.c = {static_cast<double>(c[at_c(channel, s)]), static_cast<double>(c[at_c(channel, s) + 1])};
    return m;
  }
};

// Complex numbers of all states, real parts first.
template <class R>
struct States {
  explicit States(std::int64_t count) : count(count), numbers(static_cast<std::size_t>(2 * count), R(0)) {}
  R* re() { return numbers.data(); }
  R* im() { return numbers.data() + count; }
  const R* re() const { return numbers.data(); }
  const R* im() const { return numbers.data() + count; }

  std::int64_t count;
  std::vector<R> numbers;
};

// One channel: eigenvalues z and the read-out 2 c (z - 1) / A.
template <class R>
struct Channel {
  Channel(const Parameters<R>& p, std::int64_t channel) : z(p.states), read(p.states) {
    for (std::int64_t s = 0; s < p.states; ++s) {
      const Mode mode = p.mode(channel, s);
      const Complex out = 2.0 * mode.c * mode.input();
      z.re()[s] = static_cast<R>(mode.z.real());
      z.im()[s] = static_cast<R>(mode.z.imag());
      read.re()[s] = static_cast<R>(out.real());
      read.im()[s] = static_cast<R>(out.imag());
    }
  }
  // to = z from + u
  void step(const R* from, R u, R* to) const {
    const std::int64_t n = z.count;
    const R *zr = z.re(), *zi = z.im();
    for (std::int64_t s = 0; s < n; ++s) {
      const R re = from[s], im = from[n + s];
      to[s] = zr[s] * re - zi[s] * im + u;
      to[n + s] = zr[s] * im + zi[s] * re;
    }
  }
  // Re of read . x
  R output(const R* x) const {
    const std::int64_t n = z.count;
    const R *cr = read.re(), *ci = read.im();
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t s = 0; s < n; ++s) sum += cr[s] * x[s] - ci[s] * x[n + s];
    return sum;
  }

  States<R> z, read;
};

// Where step t of the recurrence reads and writes: the future is read from the end, and a token is not its own future.
struct Course {
  std::int64_t n;
  Reads reads;

  std::int64_t input(std::int64_t t) const { return reads == Reads::past ? t : n - 1 - t; }
  std::int64_t output(std::int64_t t) const { return reads == Reads::past ? t : n - 2 - t; }  // -1: nowhere
};

template <class R>
void run_channel(const Channel<R>& channel, const Course& course, const R* u, R* y) {
  States<R> x(channel.z.count);
  if (course.reads == Reads::future) y[course.n - 1] = R(0);
  for (std::int64_t t = 0; t < course.n; ++t) {
    channel.step(x.re(), u[course.input(t)], x.re());
    if (course.output(t) >= 0) y[course.output(t)] = channel.output(x.re());
  }
}

// Sums over the steps: g_t x_t, and a_t x_(t-1) with the adjoint a_t = g_t + z a_(t+1).
struct Sums {
  explicit Sums(std::int64_t states) : c(static_cast<std::size_t>(states)), z(static_cast<std::size_t>(states)) {}
  std::vector<Complex> c, z;
};

template <class R>
class ChannelBackward {
 public:
  ChannelBackward(const Channel<R>& channel, const Course& course)
      : channel_(channel),
        course_(course),
        width_(2 * channel.z.count),
        kept_(static_cast<std::size_t>(((course.n + kStretch - 1) / kStretch) * width_)),
        stretch_(static_cast<std::size_t>((kStretch + 1) * width_)),
        adjoint_(channel.z.count),
        sum_c_(channel.z.count),
        sum_z_(channel.z.count) {}

  void run(const R* u, const R* g, R* du, Sums& sums) {
    keep_states(u);
    adjoint_ = States<R>(channel_.z.count);
    for (std::int64_t first = (course_.n - 1) / kStretch * kStretch; first >= 0; first -= kStretch) {
      const std::int64_t count = std::min(kStretch, course_.n - first);
      rebuild(u, first, count);
      vjp(g, du, first, count);
      add_sums(sums);
    }
  }

 private:
  R* state(std::int64_t t) { return stretch_.data() + t * width_; }  // before step t of the stretch

  void keep_states(const R* u) {
    States<R> x(channel_.z.count);
    for (std::int64_t t = 0; t < course_.n; ++t) {
      if (t % kStretch == 0) std::copy_n(x.re(), width_, kept_.data() + t / kStretch * width_);
      channel_.step(x.re(), u[course_.input(t)], x.re());
    }
  }
  void rebuild(const R* u, std::int64_t first, std::int64_t count) {
    std::copy_n(kept_.data() + first / kStretch * width_, width_, state(0));
    for (std::int64_t t = 0; t < count; ++t) channel_.step(state(t), u[course_.input(first + t)], state(t + 1));
  }
  void vjp(const R* g, R* du, std::int64_t first, std::int64_t count) {
    const std::int64_t n = channel_.z.count;
    for (std::int64_t t = count; t-- > 0;) {
      const std::int64_t at = course_.output(first + t);
      const R seed = at >= 0 ? g[at] : R(0);
      channel_.step(adjoint_.re(), seed, adjoint_.re());
      du[course_.input(first + t)] = channel_.output(adjoint_.re());
      const R *before = state(t), *after = state(t + 1), *a = adjoint_.re();
      R *c = sum_c_.re(), *z = sum_z_.re();
      for (std::int64_t s = 0; s < n; ++s) {
        c[s] += seed * after[s];
        c[n + s] += seed * after[n + s];
        z[s] += a[s] * before[s] - a[n + s] * before[n + s];
        z[n + s] += a[s] * before[n + s] + a[n + s] * before[s];
      }
    }
  }
  // Stretch by stretch into doubles.
  void add_sums(Sums& sums) {
    for (std::int64_t s = 0; s < channel_.z.count; ++s) {
      sums.c[static_cast<std::size_t>(s)] += Complex(sum_c_.re()[s], sum_c_.im()[s]);
      sums.z[static_cast<std::size_t>(s)] += Complex(sum_z_.re()[s], sum_z_.im()[s]);
    }
    sum_c_ = sum_z_ = States<R>(channel_.z.count);
  }

  const Channel<R>& channel_;
  Course course_;
  std::int64_t width_;
  std::vector<R> kept_, stretch_;
  States<R> adjoint_, sum_c_, sum_z_;
};

// Gradients of the parameters of one channel. With f = (z - 1) / A the loss changes by
// 2 Re(p (f dC + C df) + C f q dz), p and q being the sums, df = (dz - f dA) / A, dz = z (dt dA + A d(dt)).
template <class R>
struct Gradients {
  R *log_dt, *decay, *frequency, *c;

  void add(const Parameters<R>& p, std::int64_t channel, const Sums& sums) const {
    for (std::int64_t s = 0; s < p.states; ++s) {
      const Mode m = p.mode(channel, s);
      const Complex sum_c = sums.c[static_cast<std::size_t>(s)], sum_z = sums.z[static_cast<std::size_t>(s)];
      const Complex f = m.input(), by_z = m.c * (sum_c / m.a + f * sum_z);
      const Complex by_a = by_z * m.z * m.dt - sum_c * m.c * f / m.a, by_c = sum_c * f;
      const std::int64_t i = channel * p.states + s;
      c[p.at_c(channel, s)] = static_cast<R>(2.0 * by_c.real());
      c[p.at_c(channel, s) + 1] = static_cast<R>(-2.0 * by_c.imag());
      decay[i] = static_cast<R>(2.0 * by_a.real() * m.a.real());
      frequency[i] = static_cast<R>(-2.0 * by_a.imag());
      log_dt[channel] += static_cast<R>(2.0 * (by_z * m.z * m.a).real() * m.dt);
    }
  }
};

}  // namespace

template <>
void kernels::filter<Device::cpu>(const Context& context, const Filter& io) {
  visit_wide(io.u.dtype(), [&]<class R>() {
    const Parameters<R> p(io.space, io.reads);
    const std::int64_t n = io.u.dim(2);
    parallel_for(context, p.channels, [&](std::int64_t c) {
      const Channel<R> channel(p, c);
      for (std::int64_t item = 0; item < io.u.dim(0); ++item) {
        const std::int64_t at = (item * p.channels + c) * n;
        run_channel<R>(channel, {n, io.reads}, io.u.data<R>() + at, io.y.data<R>() + at);
      }
    });
  });
}

template <>
void kernels::filter_backward<Device::cpu>(const Context& context, const FilterVjp& io) {
  visit_wide(io.u.dtype(), [&]<class R>() {
    const Parameters<R> p(io.space, io.reads);
    const Gradients<R> gradients{io.d.log_dt.data<R>(), io.d.decay.data<R>(), io.d.frequency.data<R>(),
                                 io.d.c.data<R>()};
    const std::int64_t n = io.u.dim(2);
    parallel_for(context, p.channels, [&](std::int64_t c) {
      const Channel<R> channel(p, c);
      ChannelBackward<R> backward(channel, {n, io.reads});
      Sums sums(p.states);
      for (std::int64_t item = 0; item < io.u.dim(0); ++item) {
        const std::int64_t at = (item * p.channels + c) * n;
        backward.run(io.u.data<R>() + at, io.g.data<R>() + at, io.du.data<R>() + at, sums);
      }
      gradients.add(p, c, sums);
    });
  });
}

}  // namespace fovea
