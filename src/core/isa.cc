#include "core/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "fovea/error.h"
#include "hwy/highway.h"

namespace fovea {
namespace {

constexpr std::string_view kNames[] = {"portable", "avx2", "avx512", "avx512-bf16"};

// The Highway targets that may run when an instruction set is chosen.
int64_t highway_targets(Isa isa) {
  int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  if (isa >= Isa::avx2) targets |= HWY_AVX2;
  if (isa >= Isa::avx512) targets |= HWY_AVX3;
#else
  targets |= HWY_TARGETS;
#endif
  return targets;
}

bool cpu_has(Isa isa) {
#if HWY_ARCH_X86
  switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return (hwy::SupportedTargets() & HWY_AVX2) != 0;
    case Isa::avx512: return (hwy::SupportedTargets() & HWY_AVX3) != 0;
    case Isa::avx512_bf16: return cpu_has(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
  }
#endif
  return isa == Isa::portable;
}

Isa from_environment(const std::vector<Isa>& available) {
  const char* wanted = std::getenv("FOVEA_ISA");
  if (wanted == nullptr || *wanted == '\0') return available.back();
  std::string names;
  for (Isa isa : available) {
    if (name_of(isa) == wanted) return isa;
    names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  }
  fail(ErrorCode::usage, "FOVEA_ISA names \"" + std::string(wanted) + "\", which this machine does not have",
       "FOVEA_ISA", "one of " + names);
}

std::atomic<int> g_chosen{-1};  // set once, from the environment, at the first question

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::vector<Isa> available_isas() {
  static const std::vector<Isa> available = [] {
    std::vector<Isa> found;
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16})
      if (cpu_has(isa)) found.push_back(isa);
    return found;
  }();
  return available;
}

Isa chosen_isa() {
  if (g_chosen.load() < 0) force_isa(from_environment(available_isas()));
  return static_cast<Isa>(g_chosen.load());
}

void force_isa(Isa isa) {
  const std::vector<Isa> available = available_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end())
    fail(ErrorCode::usage, "this machine has no " + std::string(name_of(isa)));
  hwy::SetSupportedTargetsForTest(highway_targets(isa));
  hwy::GetChosenTarget().Update(highway_targets(isa));
  g_chosen.store(static_cast<int>(isa));
}

}  // namespace fovea
