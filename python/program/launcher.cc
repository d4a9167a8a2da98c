// The program `fovea` of a wheel: it lies in fovea/bin and runs what the module in fovea/ holds.
#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/kit/waiting.h"

namespace {

constexpr const char* kModule = FOVEA_MODULE;

int refuse(const std::filesystem::path& module, const char* reason) {
  std::fprintf(stderr,
               "fovea: the engine of the Python package does not load: %s\n  at      %s\n  try     pip install "
               "--force-reinstall fovea\n",
               reason, module.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  // Python, which starts this, ignores it and hands that on: `fovea list | head` would end in an error.
  std::signal(SIGPIPE, SIG_DFL);
  fovea::cli::bound_waiting(argv);
  const auto module = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / kModule;
  void* const engine = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) return refuse(module, ::dlerror());
  const auto program = reinterpret_cast<int (*)(int, char**)>(::dlsym(engine, "fovea_program"));
  if (program == nullptr) return refuse(module, ::dlerror());
  return program(argc, argv);
}
