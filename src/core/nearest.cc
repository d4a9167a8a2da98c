#include "core/nearest.h"

#include <algorithm>
#include <vector>

#include "fovea/error.h"

namespace fovea {
namespace {

// Names come from outside, and the distance costs their product.
constexpr std::size_t kLongestName = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Three rows of the usual table are enough: a swap looks two rows back.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  if (name.empty() || name.size() > kLongestName) return {};
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < fewest && distance < candidate.size()) {
      fewest = distance;
      best = candidate;
    }
  }
  if (!best.empty()) return best;
  // A word left unfinished: "trans" for "transnormer-t2".
  for (const std::string_view candidate : candidates)
    if (name.size() >= 3 && candidate.starts_with(name)) return candidate;
  return {};
}

std::string name_hint(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view near = nearest_name(name, candidates);
  if (!near.empty()) return "\"" + std::string(near) + "\"?";
  std::string hint = candidates.empty() ? "" : "one of ";
  for (std::size_t i = 0; i < candidates.size(); ++i) hint += (i ? ", " : "") + std::string(candidates[i]);
  return hint;
}

std::size_t place_of_name(std::string_view name, std::span<const std::string_view> names, std::string_view what,
                          const std::string& where) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    fail(ErrorCode::usage, "unknown " + std::string(what) + " \"" + std::string(name) + "\"", where,
         name_hint(name, names));
  return static_cast<std::size_t>(at - names.begin());
}

}  // namespace fovea
