#include "cli/mpi/launch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <thread>

#include "dist/launch.h"
#include "fovea/error.h"
#include "io/file.h"

namespace fovea::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int kInterrupted = 130, kNoProgram = 127;

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return {};
  return value;
}

// The value of an option, typed as one word or as two; takes it out of the words where `takes`.
std::optional<std::string> option(Words& words, const std::string& name, bool takes) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool one = words[i].starts_with(name + "="), two = words[i] == name && i + 1 < words.size();
    if (!one && !two) continue;
    const std::string value = one ? words[i].substr(name.size() + 1) : words[i + 1];
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    if (takes) words.erase(at, at + (one ? 1 : 2));
    return value;
  }
  return {};
}

std::optional<std::string> value_of(Words words, const std::string& name) { return option(words, name, false); }

// The folder of the run.
std::optional<std::string> folder_of(const Launch& launch) {
  const auto resumed = value_of(launch.arguments, "--resume");
  return resumed ? resumed : value_of(launch.arguments, "--out");
}

Words mpirun_words(const Launch& launch, int ranks) {
  Words words{"mpirun"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (ranks > static_cast<int>(std::thread::hardware_concurrency()))
    words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
  words.insert(words.end(), {"-n", std::to_string(ranks), std::filesystem::read_symlink("/proc/self/exe").string()});
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  return words;
}

// Runs a program to its end. An interruption reaches it as well: this process waits for what it makes of it.
int run_program(const Words& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorCode::io, "no process could be started", words.front());
  if (child == 0) {
    ::execvp(argv[0], argv.data());
    ::_exit(kNoProgram);
  }
  const auto before = std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What a lost machine or rank may have been: not what people typed, nor their data, nor Ctrl-C.
bool may_go_on(int code) { return code == 1 || (code > 128 && code != kInterrupted); }

// How far the run is, as its last checkpoint tells; empty: it has none.
std::string state_of(const std::string& folder) {
  const Path state = Path(folder) / "last" / "state.json";
  return is_there(state) ? read_file(state) : std::string();
}

// The same run from its last checkpoint, with the options that are no settings.
Launch resumed(const Launch& launch, const std::string& folder, bool same_ranks) {
  if (!is_there(Path(folder) / "run.json")) return launch;  // it never began
  Launch again = launch;
  again.arguments = {"train", "--resume", folder};
  for (const char* name : {"--mesh", "--pipeline-chunks", "--rank-timeout", "--compare-every", "--divide", "--threads"})
    if (const auto value = value_of(launch.arguments, name); value && (same_ranks || std::string(name) != "--mesh"))
      again.arguments.insert(again.arguments.end(), {name, *value});
  for (const char* flag : {"--divide-state", "--quiet", "--json", "--verbose"})
    if (std::find(launch.arguments.begin(), launch.arguments.end(), flag) != launch.arguments.end())
      again.arguments.emplace_back(flag);
  return again;
}

}  // namespace

std::optional<Launch> Launch::of(int argc, const char* const* argv) {
  if (dist::launched_processes() > 1) return {};
  Launch launch;
  launch.arguments.assign(argv + 1, argv + argc);
  const auto ranks = option(launch.arguments, "--ranks", true), restarts = option(launch.arguments, "--restarts", true);
  if (!ranks) return {};
  const std::optional<int> count = number(*ranks), times = number(restarts.value_or("0"));
  if (!count || *count < 1 || !times) return {};  // the program says what is wrong with them
  launch.ranks = *count;
  launch.restarts = *times;
  return launch;
}

int run(const Launch& launch) {
  const std::optional<std::string> folder = folder_of(launch);
  if (launch.restarts > 0 && !folder)
    fail(ErrorCode::usage, "a run that is to go on after a fault needs a folder of its own", "--restarts",
         "--out FOLDER");
  Launch now = launch;
  int ranks = launch.ranks;
  for (int restart = 0;; ++restart) {
    const std::string before = folder ? state_of(*folder) : std::string();
    const int code = run_program(mpirun_words(now, ranks));
    if (code == kNoProgram) fail(ErrorCode::unsupported, "there is no mpirun", "--ranks", "scripts/bootstrap dist");
    if (!may_go_on(code) || restart == launch.restarts) return code;
    if (state_of(*folder) == before && restart > 0) ranks = std::max(1, ranks / 2);
    now = resumed(launch, *folder, ranks == launch.ranks);
    std::fprintf(stderr, "fovea: a rank was lost (mpirun ended with %d); %s goes on with %d ranks, restart %d of %d\n",
                 code, folder->c_str(), ranks, restart + 1, launch.restarts);
  }
}

}  // namespace fovea::cli
