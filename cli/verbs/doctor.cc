#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "core/isa.h"
#include "fovea/version.h"
#include "gemm/rate.h"
#include "io/json.h"
#include "measure/machine.h"

// fovea doctor: what the program found on this machine and chose because of it.
namespace fovea::cli {
namespace {

// A fact, and what to do when it is worth a remark.
struct Finding {
  std::string name, value, advice;
};

double gigabytes(std::size_t bytes) { return static_cast<double>(bytes) / 1e9; }

std::string isa_names() {
  std::string names;
  for (Isa isa : available_isas()) names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  return names;
}

std::string feature_list(const Machine& machine) {
  return machine.features.empty() ? "none that kernels here use" : fmt::format("{}", fmt::join(machine.features, " "));
}

Finding thread_finding(const Context& context, const Machine& machine) {
  const bool crowded = machine.cores > 0 && context.threads() > machine.cores;
  return {"threads", fmt::format("{} of {} cores", context.threads(), machine.cores),
          crowded ? "more threads than cores run slower: unset OMP_NUM_THREADS" : ""};
}

Finding huge_page_finding(const Machine& machine) {
  const std::string setting = machine.huge_pages.empty() ? "unknown" : machine.huge_pages;
  return {"huge pages", setting, setting == "never" ? "large tensors are faster with \"madvise\" or \"always\"" : ""};
}

std::vector<Finding> findings(const Context& context, const Machine& machine, double rate) {
  const bool forced = chosen_isa() != available_isas().back();
  return {
      {"fovea", FOVEA_VERSION, ""},
      {"compiler", compiler_version(), ""},
      {"system", machine.system, ""},
      {"CPU", machine.cpu, ""},
      {"CPU features", feature_list(machine), ""},
      {"kernels", std::string(name_of(chosen_isa())), forced ? "forced by FOVEA_ISA; faster ones are there" : ""},
      {"also here", isa_names(), "choose with FOVEA_ISA=NAME"},
      thread_finding(context, machine),
      {"memory", fmt::format("{:.1f} GB, {:.1f} free", gigabytes(machine.memory), gigabytes(machine.memory_free)), ""},
      huge_page_finding(machine),
      {"oneDNN", onednn_version(), ""},
      {"sgemm 2048^3", fmt::format("{:.0f} GFLOP/s", rate / 1e9), ""},
      {"built", "CPU kernels", ""},
      {"not built", "CUDA, MPI, NCCL", ""},
  };
}

Json as_json(const Context& context, const Machine& machine, double rate) {
  Json isas = Json::array();
  for (Isa isa : available_isas()) isas.push_back(name_of(isa));
  return {
      {"version", FOVEA_VERSION},
      {"compiler", compiler_version()},
      {"system", machine.system},
      {"cpu", {{"model", machine.cpu}, {"features", machine.features}, {"cores", machine.cores}}},
      {"isa", {{"chosen", name_of(chosen_isa())}, {"available", isas}}},
      {"threads", context.threads()},
      {"memory", {{"bytes", machine.memory}, {"free_bytes", machine.memory_free}}},
      {"huge_pages", machine.huge_pages},
      {"onednn", onednn_version()},
      {"sgemm_gflops", rate / 1e9},
      {"built", {{"cpu", true}, {"cuda", false}, {"mpi", false}, {"nccl", false}}},
  };
}

std::string as_text(const std::vector<Finding>& found) {
  std::string out;
  for (const Finding& f : found) {
    out += fmt::format("{:<14}{}\n", f.name, f.value);
    if (!f.advice.empty()) out += fmt::format("{:<14}({})\n", "", f.advice);
  }
  return out;
}

// The best of a few: what the machine can do when nobody disturbs it.
double best_rate(const Context& context) {
  double best = 0.0;
  for (int i = 0; i < 2; ++i) best = std::max(best, gemm::gemm_rate(context));
  return best;
}

void run(const MachineOptions& options, const Console& console) {
  const Context context(options.context());
  const Machine machine = this_machine();
  const double rate = best_rate(context);
  console.print(as_text(findings(context, machine, rate)));
  console.document(as_json(context, machine, rate));
}

}  // namespace

void add_doctor(Program& program) {
  const auto options = std::make_shared<MachineOptions>();
  const Arguments verb = program.add({"doctor",
                                      "Shows CPU, chosen kernels, threads, memory and what is built.",
                                      {"fovea doctor", "FOVEA_ISA=avx2 fovea doctor --json"}},
                                     [options](const Console& console) { run(*options, console); });
  add_machine_options(verb, *options);
}

}  // namespace fovea::cli
