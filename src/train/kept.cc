#include "train/kept.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <vector>

#include "io/checksums.h"
#include "models/files.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(step) : std::nullopt;
}

// The latest first.
std::vector<std::int64_t> kept_steps(const Path& run) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : fs::directory_iterator(run))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory())
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

// Every file that was written is there, and as it was written.
bool is_whole(const Path& checkpoint) {
  try {
    check_checksums(checkpoint);
    return fs::exists(checkpoint / kChecksumsFile);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Path kept_folder(const Path& run, std::int64_t step) { return run / fmt::format("{}{}", kPrefix, step); }

void drop_kept(const Path& run, std::int64_t most, std::int64_t step) {
  std::int64_t kept = 0;
  for (const std::int64_t old : kept_steps(run)) {
    if (old < step && kept++ < most) continue;
    std::error_code ignored;  // it only takes room
    fs::remove_all(kept_folder(run, old), ignored);
  }
}

Error with_older(const Error& error, const Path& checkpoint) {
  const Path run = checkpoint.parent_path();
  if (!fs::is_directory(checkpoint) || is_whole(checkpoint)) return error;
  std::vector<Path> others;
  for (const std::int64_t step : kept_steps(run)) others.push_back(kept_folder(run, step));
  others.push_back(run / "best");
  for (const Path& other : others)
    if (other != checkpoint && fs::is_directory(other) && is_whole(other))
      return {error.code(), error.message(), error.where(), fmt::format("go on from {}", other.string())};
  return error;
}

}  // namespace fovea
