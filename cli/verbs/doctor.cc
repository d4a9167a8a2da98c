#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/verb.h"
#include "core/devices.h"
#include "core/isa.h"
#include "dist/launch.h"
#include "fovea/version.h"
#include "gemm/rate.h"
#include "io/json.h"
#include "measure/load.h"
#include "measure/machine.h"

// fovea doctor: what the program found on this machine and chose because of it.
namespace fovea::cli {
namespace {

// A fact, and what to do when it is worth a remark.
struct Finding {
  std::string name, value, advice;
};

// What products reach here, and what else the machine did meanwhile.
struct Measured {
  double rate = 0.0;    // of sgemm 2048^3
  double others = 0.0;  // cores that other programs kept busy
};

std::string messages_of(const Console& console) { return console.ranks == nullptr ? "" : console.ranks->library(); }

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

Finding governor_finding(const Machine& machine) {
  return {"governor", machine.governor.empty() ? "unknown" : machine.governor,
          machine.governor == "powersave" ? "the clock stays low: cpupower frequency-set -g performance" : ""};
}

// What was measured while other programs had cores is less than what the machine can do.
Finding rate_finding(const Measured& measured, const Machine& machine) {
  return {"sgemm 2048^3", fmt::format("{:.0f} GFLOP/s", measured.rate / 1e9),
          load_warning(measured.others, machine.cores)};
}

Finding core_finding(const Machine& machine) {
  const std::string limit =
      machine.core_time > 0.0 ? fmt::format(", time of {:.1f} by the control group", machine.core_time) : "";
  return {"cores", fmt::format("{}{}", machine.cores, limit), ""};
}

// What this program was built with, and what it could have been built with.
std::vector<Finding> built_findings(const std::string& messages) {
  std::string built = "CPU kernels", missing;
  const auto part = [&](const char* name, bool there) {
    std::string& list = there ? built : missing;
    list += (list.empty() ? "" : ", ") + std::string(name);
  };
  part("CUDA kernels", is_built(Device::cuda));
  part(messages.empty() ? "MPI" : messages.c_str(), !messages.empty());
  part("NCCL", false);
  return {{"built", built, ""}, {"not built", missing, ""}};
}

std::vector<Finding> findings(const Context& context, const Machine& machine, const Measured& measured) {
  const bool forced = chosen_isa() != available_isas().back();
  return {
      {"fovea", FOVEA_VERSION, ""},
      {"compiler", compiler_version(), ""},
      {"system", machine.system, ""},
      {"CPU", machine.cpu, ""},
      {"CPU features", feature_list(machine), ""},
      {"kernels", std::string(name_of(chosen_isa())), forced ? "forced by FOVEA_ISA; faster ones are there" : ""},
      {"also here", isa_names(), "choose with FOVEA_ISA=NAME"},
      core_finding(machine),
      thread_finding(context, machine),
      governor_finding(machine),
      {"memory", fmt::format("{:.1f} GB, {:.1f} free", gigabytes(machine.memory), gigabytes(machine.memory_free)), ""},
      huge_page_finding(machine),
      {"oneDNN", onednn_version(), ""},
      rate_finding(measured, machine),
  };
}

// Of every kind of device but the CPU.
std::vector<Finding> device_findings() {
  std::vector<Finding> found;
  for (const DeviceState& state : devices()) {
    if (state.device == Device::cpu) continue;
    found.push_back({"CUDA", state.versions, state.trouble.empty() ? "" : state.trouble + ": running on the CPU"});
    found.push_back({"products", gemm::product_library(state.device), ""});
    for (std::size_t i = 0; i < state.list.size(); ++i)
      found.push_back({fmt::format("card {}", i),
                       fmt::format("{}, {:.1f} GB, {:.1f} free", state.list[i].name, gigabytes(state.list[i].bytes),
                                   gigabytes(state.list[i].available)),
                       state.list[i].trouble});
  }
  return found;
}

Json devices_json() {
  Json cards = Json::array();
  for (const DeviceState& state : devices())
    for (const DeviceState::Entry& entry : state.list)
      if (state.device != Device::cpu)
        cards.push_back({{"device", name_of(state.device)},
                         {"name", entry.name},
                         {"bytes", entry.bytes},
                         {"free_bytes", entry.available},
                         {"versions", state.versions},
                         {"products", gemm::product_library(state.device)}});
  return cards;
}

Json as_json(const Context& context, const Machine& machine, const Measured& measured, const std::string& messages) {
  Json isas = Json::array();
  for (Isa isa : available_isas()) isas.push_back(name_of(isa));
  return {
      {"version", FOVEA_VERSION},
      {"compiler", compiler_version()},
      {"system", machine.system},
      {"cpu",
       {{"model", machine.cpu},
        {"features", machine.features},
        {"cores", machine.cores},
        {"core_time", machine.core_time},
        {"governor", machine.governor}}},
      {"isa", {{"chosen", name_of(chosen_isa())}, {"available", isas}}},
      {"threads", context.threads()},
      {"memory", {{"bytes", machine.memory}, {"free_bytes", machine.memory_free}}},
      {"huge_pages", machine.huge_pages},
      {"onednn", onednn_version()},
      {"sgemm_gflops", measured.rate / 1e9},
      {"busy_cores", measured.others},
      {"built", {{"cpu", true}, {"cuda", is_built(Device::cuda)}, {"mpi", !messages.empty()}, {"nccl", false}}},
      {"cards", devices_json()},
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
Measured measure(const Context& context) {
  const LoadMeter load;
  Measured measured;
  for (int i = 0; i < 2; ++i) measured.rate = std::max(measured.rate, gemm::gemm_rate(context));
  measured.others = load.others();
  return measured;
}

void run(const MachineOptions& options, const Console& console) {
  const Context context(options.context(console));
  const Machine machine = this_machine();
  const Measured measured = measure(context);
  const std::string messages = messages_of(console);
  std::vector<Finding> found = findings(context, machine, measured);
  for (const std::vector<Finding>& more : {built_findings(messages), device_findings()})
    found.insert(found.end(), more.begin(), more.end());
  console.sentence(as_text(found));
  console.document(as_json(context, machine, measured, messages));
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
