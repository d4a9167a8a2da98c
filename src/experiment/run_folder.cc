#include "experiment/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "io/lock.h"
#include "io/missing.h"

namespace fovea {
namespace {

// Only what a run writes before its first checkpoint, or several runs in folders of their own.
bool holds_nothing_yet(const Path& folder) {
  constexpr std::string_view kFirstFiles[] = {kRunFile, kComparisonFile, "metrics.csv", ".lock"};
  bool run = false;
  for (const Path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    run = run || name == kRunFile || name == kComparisonFile || name == ".lock";
    const bool first = std::find(std::begin(kFirstFiles), std::end(kFirstFiles), name) != std::end(kFirstFiles) ||
                       name.starts_with("events.out.") || name.starts_with("stdin.") || name.ends_with(".partial");
    if (!first && !(is_folder(entry) && holds_nothing_yet(entry))) return false;
  }
  return run;
}

}  // namespace

RunSettings load_settings(const std::string& folder) {
  const Path file = Path(folder) / kRunFile;
  if (!is_there(file))
    fail(ErrorCode::bad_input, fmt::format("no run in \"{}\": it has no {}", folder, kRunFile), folder,
         "the folder given to --out, not one inside it");
  RunSettings settings = load_fields<RunSettings>(file);
  settings.train.out = folder;  // it may have been moved
  return settings;
}

void require_new_folder(const std::string& folder) {
  if (!is_there(folder)) return;
  if (!is_folder(folder)) fail(ErrorCode::usage, fmt::format("\"{}\" is not a folder", folder), "--out");
  FolderLock::require_free(folder);
  if (!entries_of(folder).empty() && !holds_nothing_yet(folder))
    fail(ErrorCode::usage, fmt::format("the folder \"{}\" is not empty", folder), "--out",
         is_there(Path(folder) / kRunFile) ? "continue it with --resume " + folder + ", or another --out"
                                           : "a new folder: nothing is overwritten");
}

Path checkpoint_of(const std::string& folder, const char* who) {
  if (!is_folder(folder))
    throw NoSuchFile(fmt::format("no folder \"{}\"", folder), who,
                     fmt::format("{}; fovea train or fovea import make such folders", missing_hint(folder)));
  for (const char* name : {"best", "last"})
    if (is_folder(Path(folder) / name)) return Path(folder) / name;
  return folder;
}

std::string default_folder(const std::string& name) {
  const std::string base = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
  std::string folder = base;
  for (int i = 2; is_there(folder); ++i) folder = fmt::format("{}-{}", base, i);
  return folder;
}

std::string folder_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out;
}

}  // namespace fovea
