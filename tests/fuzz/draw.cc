#include <algorithm>
#include <cmath>
#include <optional>

#include "core/rng.h"
#include "fuzz/spec.h"
#include "mechanisms/kind.h"

namespace fovea::fuzz {
namespace {

// Multiply-adds of the products of a call: nearly all are small, for there are many.
constexpr double kSmallWork = 3e5, kLargeWork = 2.5e6;
constexpr std::int64_t kLargestWidth = 160;

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t index) : random_(seed, index) {}

  bool chance(double p) { return random_.uniform() < p; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + random_.below(static_cast<std::uint32_t>(high - low + 1));
  }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(between(0, std::ssize(list) - 1))];
  }
  std::uint64_t bits() { return random_.bits(); }

 private:
  Random random_;
};

std::int64_t draw_length(Dice& dice, bool large) {
  if (dice.chance(0.03)) return 0;
  if (dice.chance(0.08)) return 1;
  if (large) return dice.between(2, dice.chance(0.5) ? 150 : 600);
  return dice.between(2, dice.chance(0.75) ? 20 : 80);
}

std::int64_t draw_width(Dice& dice) {
  return dice.between(1, dice.one_of<std::int64_t>({8, 24, 24, 64, kLargestWidth}));
}

std::optional<ParameterValue> draw_value(Dice& dice, const ParameterSpec& spec) {
  if (spec.lawless || spec.training_only || dice.chance(0.5)) return std::nullopt;
  if (!spec.choices.empty()) return std::string(dice.one_of(spec.choices));
  if (const bool* flag = std::get_if<bool>(&spec.fallback)) return !*flag;
  if (std::holds_alternative<std::int64_t>(spec.fallback)) {
    if (spec.low >= 64.0) return std::nullopt;
    const auto low = static_cast<std::int64_t>(spec.low);
    return std::clamp(low + dice.between(0, dice.chance(0.5) ? 4 : 20), low, static_cast<std::int64_t>(spec.high));
  }
  const double usual = std::get<double>(spec.fallback);
  if (usual == 0.0) return std::nullopt;
  return std::clamp(usual * std::exp2(static_cast<double>(dice.between(-2, 2))), spec.low, spec.high);
}

// Settings that are refused together are not drawn again: the defaults serve.
Mechanism draw_mechanism(Dice& dice, const std::string& name, bool large) {
  const Mechanism plain(name);
  if (large) return plain;  // blocks of one token among hundreds take definitions minutes
  const std::string_view tested = plain.kind().tested;
  const Mechanism usual = !tested.empty() && dice.chance(0.5) ? Mechanism::parse(tested) : plain;
  if (dice.chance(0.3)) return usual;
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& spec : plain.parameters())
    if (const std::optional<ParameterValue> value = draw_value(dice, spec))
      settings.push_back({std::string(spec.name), *value});
  try {
    return Mechanism(name, settings);
  } catch (const Error&) {
    return usual;
  }
}

Ints draw_lengths(Dice& dice, std::int64_t batch, std::int64_t n) {
  Ints lengths;
  for (std::int64_t b = 0; b < batch; ++b)
    lengths.push_back(static_cast<std::int32_t>(dice.chance(0.15) ? 0 : dice.chance(0.2) ? n : dice.between(0, n)));
  return lengths;
}

// Offsets of so many sequences, half of the time to the last row.
Ints draw_offsets(Dice& dice, std::int64_t sequences, std::int64_t n) {
  Ints offsets{0};
  for (std::int64_t s = 0; s < sequences; ++s) offsets.push_back(static_cast<std::int32_t>(dice.between(0, n)));
  std::sort(offsets.begin(), offsets.end());
  if (dice.chance(0.5)) offsets.back() = static_cast<std::int32_t>(n);
  return offsets;
}

std::string draw_broadcast(Dice& dice, std::string axes) {
  for (char& axis : axes)
    if (dice.chance(0.3)) axis = '1';
  return axes;
}

void draw_bias(Dice& dice, Spec& s) {
  const std::int64_t kind = dice.between(0, 3);
  if (kind != 2 && kind != 3) s.bias = draw_broadcast(dice, "bhqk");
  if (kind == 1 || kind == 2) s.mask = draw_broadcast(dice, "bhqk");
  if (kind == 3) s.diagonals = draw_broadcast(dice, "bh"), s.longer = dice.chance(0.5) ? dice.between(1, 9) : 0;
}

// Makes the call use a feature of the support matrix. Sizes first: later ones depend on them.
void use(Dice& dice, Feature feature, Spec& s) {
  switch (feature) {
    case Feature::causal: s.causal = true; break;
    case Feature::bidirectional: s.causal = false; break;
    case Feature::grouped:
      s.kv_heads = dice.between(1, 2);
      s.heads = s.kv_heads * dice.between(2, 3);
      break;
    case Feature::cross: s.n_k = draw_length(dice, false); break;
    case Feature::padding:
      s.lengths = draw_lengths(dice, s.batch, s.n_q);
      if (s.n_k != s.n_q) s.key_lengths = draw_lengths(dice, s.batch, s.n_k);
      break;
    case Feature::packed: {
      const std::int64_t sequences = dice.between(1, 4);
      s.batch = 1;
      s.lengths.clear(), s.key_lengths.clear();
      s.packed = draw_offsets(dice, sequences, s.n_q);
      if (s.n_k != s.n_q) s.key_packed = draw_offsets(dice, sequences, s.n_k);
      break;
    }
    case Feature::scale: s.scale = dice.one_of<double>({0.25, 0.7, 1.5, -0.5}); break;
    case Feature::dropout: s.dropout = dice.one_of<double>({0.1, 0.5}); break;
    case Feature::bias: draw_bias(dice, s); break;
    case Feature::window:
      s.windowed = true;
      s.left = dice.between(-1, 12), s.right = dice.between(-1, 6);
      break;
    case Feature::pattern: s.pattern = dice.one_of<std::string>({"checkers", "blocks", "nothing"}); break;
    case Feature::alibi: s.alibi = true; break;
    case Feature::rotary: s.rotary = dice.one_of<std::string>({"pairs", "halves"}); break;
    case Feature::lse: s.lse = true; break;
    case Feature::state:
      s.state = dice.chance(0.7);
      s.final_state = !s.state || dice.chance(0.7);
      break;
    default: break;
  }
}

struct Likely {
  Feature feature;
  double chance;
};
constexpr Likely kLikely[] = {{Feature::grouped, 0.3}, {Feature::cross, 0.3},  {Feature::padding, 0.35},
                              {Feature::packed, 0.3},  {Feature::scale, 0.15}, {Feature::dropout, 0.1},
                              {Feature::bias, 0.35},   {Feature::window, 0.2}, {Feature::pattern, 0.1},
                              {Feature::alibi, 0.12},  {Feature::rotary, 0.2}, {Feature::lse, 0.2},
                              {Feature::state, 0.4}};

void draw_options(Dice& dice, const Mechanism& mechanism, Spec& s) {
  s.causal = !mechanism.supports(Feature::bidirectional) || (mechanism.supports(Feature::causal) && dice.chance(0.5));
  for (const auto& [feature, chance] : kLikely)
    if (dice.chance(chance) && mechanism.supports(feature)) use(dice, feature, s);
  // Mechanisms made of several operations run sequence by sequence, and each draws what it drops anew.
  const bool whole = queries_of(s).empty() && keys_of(s).empty();
  if (!whole && !mechanism.supports(Feature::bias)) s.dropout = 0.0;
  s.top_left = s.causal && mechanism.supports(Feature::strict) && dice.chance(0.2);
  if (s.top_left) s.dropout = 0.0;  // as do queries behind the last key
}

double work_of(const Spec& s) {
  return static_cast<double>(s.batch * s.heads * (s.d_k + s.d_v)) * static_cast<double>(s.n_q * s.n_k);
}

void draw_sizes(Dice& dice, bool large, Spec& s) {
  s.batch = dice.chance(0.02) ? 0 : dice.between(1, 3);
  s.heads = s.kv_heads = dice.between(1, 3);
  s.n_q = s.n_k = draw_length(dice, large);
  s.d_k = draw_width(dice);
  s.d_v = dice.chance(0.4) ? s.d_k : draw_width(dice);
  s.width = dice.between(1, 24);
  while (work_of(s) > (large ? kLargeWork : kSmallWork)) {
    if (s.batch > 1)
      --s.batch;
    else if (s.heads > 1)
      s.heads = s.kv_heads = s.heads - 1;
    else
      s.n_q = s.n_k = s.n_q / 2;
  }
}

// A whole layer makes q, k and v itself, and knows fewer options.
void make_layer(const LayerStyle& style, Spec& s) {
  s.layer = true;
  if (style.shared_qk) s.kv_heads = s.heads;
  if (s.dtype == "f16") s.dtype = "bf16";
  s.size = 1.0;
  s.n_k = s.n_q;
  s.d_v = s.d_k;
  s.key_lengths.clear(), s.key_packed.clear();
  s.scale = std::abs(s.scale);
  s.windowed = s.lse = s.state = s.final_state = s.top_left = false;
  s.left = s.right = -1;
  s.pattern.clear(), s.bias.clear(), s.mask.clear();
  if (s.alibi) s.rotary.clear();
  if (s.alibi || !s.rotary.empty()) s.diagonals.clear();
  s.longer = 0;
}

std::string draw_strides(Dice& dice) {
  std::string strides = "ddd";
  for (char& one : strides)
    if (dice.chance(0.3)) one = dice.one_of<char>({'t', 's', 's', 'r', 'c', 'z', 'h'});
  return strides;
}

// A call that must be refused: by the support matrix, or because it is malformed.
void draw_wrong(Dice& dice, const Mechanism& mechanism, Spec& s) {
  s.batch = std::max<std::int64_t>(s.batch, 1);
  s.n_q = s.n_k = std::max<std::int64_t>(s.n_q, 1);
  std::vector<Feature> lacking;
  for (const auto& likely : kLikely)
    if (!mechanism.supports(likely.feature)) lacking.push_back(likely.feature);
  for (Feature form : {Feature::causal, Feature::bidirectional})
    if (!mechanism.supports(form)) lacking.push_back(form);
  if (!lacking.empty() && dice.chance(0.6)) {
    const Feature feature = dice.one_of(lacking);
    s.wrong = "feature";
    use(dice, feature, s);
    if (feature == Feature::cross) s.n_k = s.n_q + 1;
    if (feature == Feature::bias && s.diagonals.empty() && s.bias.empty()) s.bias = "bhqk";
    return;
  }
  s.wrong = dice.one_of<std::string>({"lengths", "cu_start", "cu_order", "cu_end", "k_width", "v_length", "kv_heads",
                                      "dtype", "rank", "bias_shape", "mask_dtype", "dropout", "window", "weights"});
}

}  // namespace

Spec draw(const Draw& run, std::uint64_t index) {
  Dice dice(run.seed, index);
  Spec s;
  const bool large = dice.chance(0.04);
  const Mechanism mechanism = draw_mechanism(dice, dice.one_of(run.only), large);
  s.mechanism = mechanism.text();
  s.seed = static_cast<std::int64_t>(dice.bits());
  s.dtype = dice.one_of<std::string>({"f64", "f32", "bf16", "f16"});
  s.isa = dice.one_of<std::string>({"", "", "portable", "avx2", "avx512", "avx512-bf16"});
  s.threads.clear();
  for (std::int64_t calls = dice.chance(0.7) ? 1 : dice.between(2, 3); calls > 0; --calls)
    s.threads.push_back(static_cast<std::int32_t>(dice.between(1, 3)));
  s.size = dice.one_of<double>({1.0, 1.0, 1.0, 1.0, 0.1, 3.0});
  draw_sizes(dice, large, s);
  s.layers = dice.between(1, 4);
  s.index = dice.between(0, s.layers - 1);
  if (dice.chance(0.05)) {
    s.causal = !mechanism.supports(Feature::bidirectional);
    draw_wrong(dice, mechanism, s);
    return s;
  }
  draw_options(dice, mechanism, s);
  if (mechanism.supports(Feature::packed) && dice.chance(0.08)) {
    make_layer(mechanism.kind().style, s);
    return s;
  }
  s.strides = draw_strides(dice);
  s.nan_padding = dice.chance(0.5);
  return s;
}

}  // namespace fovea::fuzz
