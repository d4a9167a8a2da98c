#include "mechanisms/state_space.h"

#include <complex>
#include <numbers>
#include <vector>

#include "core/parallel.h"
#include "mechanisms/compose.h"

namespace fovea {
namespace {

using Complex = std::complex<double>;

// Powers of z are taken from a table of this many, times one exponential for each stretch: products alone would lose
// three digits over 16k steps.
constexpr std::int64_t kStretch = 64;

struct Responses {
  std::int64_t n;
  bool both;
};

// One mode of one channel.
struct Mode {
  double dt;
  Complex a, z, c;

  Complex input() const { return (z - 1.0) / a; }
  Complex power(std::int64_t l) const { return std::exp(static_cast<double>(l) * dt * a); }
};

template <class R>
struct Parameters {
  const R *log_dt, *decay, *frequency, *c;
  std::int64_t channels, states;

  Mode mode(std::int64_t direction, std::int64_t channel, std::int64_t s) const {
    const std::int64_t i = channel * states + s, at = 2 * (direction * channels * states + i);
    Mode m;
    m.dt = 1e-2 * std::exp(static_cast<double>(log_dt[channel]));
    m.a = {-0.5 * std::exp(static_cast<double>(decay[i])),
           std::numbers::pi * static_cast<double>(s) + static_cast<double>(frequency[i])};
    m.z = std::exp(m.dt * m.a);
    m.c = {static_cast<double>(c[at]), static_cast<double>(c[at + 1])};
    return m;
  }
};

template <class R>
Parameters<R> parameters_of(const std::vector<Tensor>& saved) {
  return {saved[0].data<R>(), saved[1].data<R>(), saved[2].data<R>(),
          saved[3].data<R>(), saved[1].dim(0),    saved[1].dim(1)};
}

// z^0, z^1, ... of one stretch.
template <class R>
struct Powers {
  explicit Powers(const Mode& mode) {
    for (std::int64_t l = 0; l < kStretch; ++l) {
      const Complex power = mode.power(l);
      re[l] = static_cast<R>(power.real());
      im[l] = static_cast<R>(power.imag());
    }
  }
  R re[kStretch], im[kStretch];
};

// k[l] += 2 Re(c (z - 1) / a z^l) for l < count.
template <class R>
void add_mode(const Mode& mode, std::int64_t count, R* k) {
  const Powers<R> powers(mode);
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const Complex factor = 2.0 * mode.c * mode.input() * mode.power(first);
    const R re = static_cast<R>(factor.real()), im = static_cast<R>(factor.imag());
    const std::int64_t length = std::min(kStretch, count - first);
    for (std::int64_t l = 0; l < length; ++l) k[first + l] += re * powers.re[l] - im * powers.im[l];
  }
}

// Sums of dk_l z^l and of l dk_l z^l.
struct Moments {
  Complex p0, p1;
};
template <class R>
Moments moments(const Mode& mode, std::int64_t count, const R* dk) {
  const Powers<R> powers(mode);
  Moments out;
  for (std::int64_t first = 0; first < count; first += kStretch) {
    R re0 = 0, im0 = 0, re1 = 0, im1 = 0;
    const std::int64_t length = std::min(kStretch, count - first);
    for (std::int64_t l = 0; l < length; ++l) {
      const R re = dk[first + l] * powers.re[l], im = dk[first + l] * powers.im[l];
      re0 += re;
      im0 += im;
      re1 += static_cast<R>(l) * re;
      im1 += static_cast<R>(l) * im;
    }
    const Complex power = mode.power(first), s0(re0, im0), s1(re1, im1);
    out.p0 += power * s0;
    out.p1 += power * (s1 + static_cast<double>(first) * s0);
  }
  return out;
}

// Gradients of one channel, summed over its directions.
template <class R>
struct Gradients {
  R *log_dt, *decay, *frequency, *c;

  // With f = (z - 1) / a: dk_l = 2 Re(dC f z^l + C df z^l + C f l z^(l - 1) dz).
  void add(const Parameters<R>& p, std::int64_t direction, std::int64_t channel, std::int64_t s, const Mode& m,
           const Moments& sums) const {
    const std::int64_t i = channel * p.states + s, at = 2 * (direction * p.channels * p.states + i);
    const Complex f = m.input();
    const Complex d_c = 2.0 * std::conj(f * sums.p0);
    const Complex d_a =
        2.0 * std::conj(m.c * ((m.dt * m.z * m.a - (m.z - 1.0)) / (m.a * m.a) * sums.p0 + f * m.dt * sums.p1));
    const double d_dt = 2.0 * (m.c * (m.z * sums.p0 + (m.z - 1.0) * sums.p1)).real();
    c[at] = static_cast<R>(d_c.real());
    c[at + 1] = static_cast<R>(d_c.imag());
    decay[i] += static_cast<R>(d_a.real() * m.a.real());
    frequency[i] += static_cast<R>(d_a.imag());
    log_dt[channel] += static_cast<R>(d_dt * m.dt);
  }
};

template <class R>
void generate(const Context& context, const Parameters<R>& p, const Responses& responses, const Tensor& out) {
  const std::int64_t n = responses.n;
  parallel_for(context, p.channels * (responses.both ? 2 : 1), [&](std::int64_t task) {
    const std::int64_t direction = task / p.channels, channel = task % p.channels;
    R* k = out.data<R>() + task * n;
    std::fill_n(k, n, R(0));
    for (std::int64_t s = 0; s < p.states; ++s) add_mode(p.mode(direction, channel, s), n - direction, k + direction);
  });
}

template <class R>
void pull(const Context& context, const Parameters<R>& p, const Responses& responses, const Tensor& g,
          const Gradients<R>& d) {
  const std::int64_t n = responses.n;
  parallel_for(context, p.channels, [&](std::int64_t channel) {
    for (std::int64_t direction = 0; direction < (responses.both ? 2 : 1); ++direction)
      for (std::int64_t s = 0; s < p.states; ++s) {
        const Mode mode = p.mode(direction, channel, s);
        const R* dk = g.data<R>() + (direction * p.channels + channel) * n + direction;
        d.add(p, direction, channel, s, mode, moments(mode, n - direction, dk));
      }
  });
}

void responses_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& responses = std::any_cast<const Responses&>(node.attributes);
  const Tensor g = node.grad().contiguous(context);
  std::vector<Tensor> d;
  for (const Tensor& x : node.saved) d.push_back(Tensor::zeros(context, x.shape(), x.dtype()));
  const auto run = [&]<class R>() {
    pull<R>(context, parameters_of<R>(node.saved), responses, g,
            {d[0].data<R>(), d[1].data<R>(), d[2].data<R>(), d[3].data<R>()});
  };
  visit_real(g.dtype(), run);
  for (std::size_t i = 0; i < d.size(); ++i) tape.accumulate(node.inputs[i], d[i]);
}

constexpr Op kResponses{"impulse_responses", responses_backward};

}  // namespace

Var impulse_responses(Tape& tape, const StateSpace& space, std::int64_t n, bool both) {
  const Context& context = tape.context();
  const Responses responses{n, both};
  std::vector<Tensor> saved;
  for (const Var* x : {&space.log_dt, &space.decay, &space.frequency, &space.c})
    saved.push_back(x->value().contiguous(context));
  const Tensor out = Tensor::empty(context, {both ? 2 : 1, space.decay.dim(0), n}, space.c.dtype());
  visit_real(out.dtype(), [&]<class R>() { generate(context, parameters_of<R>(saved), responses, out); });
  return tape.record(kResponses, {space.log_dt, space.decay, space.frequency, space.c}, out, std::move(saved),
                     responses);
}

}  // namespace fovea
