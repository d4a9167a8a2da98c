#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <thread>

#include "fovea/error.h"
#include "fuzz/board.h"
#include "fuzz/judge.h"
#include "fuzz/pool.h"

namespace {

using fovea::fuzz::Spec;

// "SEED:INDEX", or the line of a case.
Spec case_from(const std::string& text, fovea::fuzz::Draw draw) {
  const std::size_t colon = text.find(':');
  if (text.find_first_not_of("0123456789:") != std::string::npos || colon == std::string::npos)
    return fovea::fuzz::spec_from(text);
  draw.seed = std::stoull(text);
  return fovea::fuzz::draw(draw, std::stoull(text.substr(colon + 1)));
}

int repeat(const Spec& spec) {
  const fovea::fuzz::Verdict verdict = fovea::fuzz::judge(spec);
  fmt::print("{}\nerror / tolerance: forward {:.3g}, backward {:.3g}{}\n{}\n", fovea::fuzz::text_of(spec),
             verdict.forward, verdict.backward, verdict.blunt ? ", blunt" : "",
             verdict.failure.empty() ? "passes" : verdict.failure);
  return verdict.failure.empty() ? 0 : 1;
}

// Every line of a file is a case; what stands behind # is not read.
int replay(const std::string& path) {
  std::ifstream file(path);
  if (!file) fovea::fail(fovea::ErrorCode::io, "cannot read " + path, "--replay");
  int failed = 0, cases = 0;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    ++cases;
    const fovea::fuzz::Verdict verdict = fovea::fuzz::judge(fovea::fuzz::spec_from(line));
    if (verdict.failure.empty()) continue;
    ++failed;
    fmt::print("{}: fovea_fuzz --case '{}'\n", verdict.failure, line);
  }
  fmt::print("{} cases of {}, {} failed\n", cases, path, failed);
  return failed == 0 && cases > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Random calls of every mechanism against its definition.", "fovea_fuzz");
  fovea::fuzz::Settings settings;
  std::string again, known;
  bool keep = false;
  settings.jobs = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
  app.add_option("--cases", settings.cases, "how many")->capture_default_str();
  app.add_option("--minutes", settings.minutes, "stop after so long; without --cases, only then");
  app.add_option("--seed", settings.draw.seed, "of the cases")->capture_default_str();
  app.add_option("--mechanism", settings.draw.only, "of these only");
  app.add_option("--jobs", settings.jobs, "processes")
      ->check(CLI::Range(1, fovea::fuzz::kMostJobs))
      ->capture_default_str();
  app.add_option("--case", again, "run one case: SEED:INDEX, or the line that a failure printed");
  app.add_option("--replay", known, "run the cases of a file, one in a line");
  app.add_flag("--quiet", settings.quiet, "no progress");
  app.add_flag("--keep", keep, "print failing cases as they were drawn, not made simpler");
  CLI11_PARSE(app, argc, argv);
  settings.shrink = !keep;
  if (settings.minutes > 0.0 && app.count("--cases") == 0) settings.cases = ~std::uint64_t{0};
  try {
    for (const std::string& name : settings.draw.only) (void)fovea::Mechanism(name);
    if (settings.draw.only.empty())
      for (std::string_view name : fovea::mechanism_names()) settings.draw.only.emplace_back(name);
    if (!known.empty()) return replay(known);
    if (!again.empty()) return repeat(case_from(again, settings.draw));
    return fovea::fuzz::run_pool(settings) ? 0 : 1;
  } catch (const fovea::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return fovea::exit_code(error.code());
  }
}
