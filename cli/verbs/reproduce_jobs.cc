#include "cli/verbs/reproduce_jobs.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fovea/error.h"

namespace fovea::cli {
namespace {

pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = 0;
  if (::posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
    fail(ErrorCode::io, "cannot start another process", "--jobs", "--jobs 1");
  return process;
}

int wait_for(pid_t process) {
  constexpr int kKilled = 128;  // as shells count
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled + WTERMSIG(status);
}

}  // namespace

int run_jobs(std::int64_t jobs, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"fovea"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<pid_t> processes;
  for (std::int64_t i = 0; i < jobs; ++i) processes.push_back(start(all));
  int code = 0;
  for (const pid_t process : processes) code = std::max(code, wait_for(process));
  return code;
}

}  // namespace fovea::cli
