#include "cli/kit/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/devices.h"
#include "core/name_list.h"
#include "core/nearest.h"
#include "dist/launch.h"
#include "fovea/error.h"

namespace fovea::cli {
namespace {

// The whole of `text` as a number.
template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

[[noreturn]] void refuse(const std::string& option, const std::string& expected, const std::string& got,
                         std::string hint) {
  fail(ErrorCode::usage, fmt::format("expected {}, got \"{}\"", expected, got), option, std::move(hint));
}

// cpu, cuda, cuda:N, or auto: the first card there is, else the CPU.
void choose_device(const std::string& name, ContextOptions& options, const Console& console) {
  options.device = name == "cpu" ? Device::cpu : Device::cuda;
  if (name == "cpu" || name == "cuda") return;
  if (name.starts_with("cuda:") && read_number(std::string_view(name).substr(5), options.index)) return;
  if (name != "auto") refuse("--device", "cpu, cuda, cuda:N or auto", name, "--device cpu");
  options.device = Device::cpu;
  for (const DeviceState& state : devices()) {
    if (state.device != Device::cuda) continue;
    if (!state.trouble.empty()) {
      console.note(fmt::format("no CUDA ({}): running on the CPU", state.trouble));
      continue;
    }
    options.device = Device::cuda;
    const auto usable = std::ranges::find_if(state.list, [](const auto& card) { return card.trouble.empty(); });
    options.index = static_cast<int>(usable - state.list.begin());
  }
}

}  // namespace

ContextOptions MachineOptions::context(const Console& console) const {
  ContextOptions options;
  options.threads = threads > 0 ? static_cast<int>(threads) : dist::launched_threads();
  options.seed = seed;
  options.tf32 = tf32;
  choose_device(device, options, console);
  if (!memory_limit.empty()) options.memory.limit = parse_bytes(memory_limit, "--memory-limit");
  return options;
}

void add_machine_options(const Arguments& verb, MachineOptions& options) {
  verb.add_option("--threads", options.threads, "threads [all cores]").type_name("N").check(in_range(0, 1024));
  verb.add_option("--device", options.device, "cpu, cuda, cuda:N or auto").type_name("NAME").show_default();
  if (is_built(Device::cuda)) verb.add_flag("--tf32", options.tf32, "let a card multiply f32 with 10 bits: faster");
  verb.add_option("--memory-limit", options.memory_limit, "refuse to use more, e.g. 4GB [what there is]")
      .type_name("SIZE")
      .common();
}

std::vector<std::string> split_names(const std::string& text, const std::string& option) {
  std::vector<std::string> names;
  for (const std::string_view name : fovea::split_names(text)) {
    if (name.empty()) refuse(option, "names separated by commas", text, option + " A,B");
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::int64_t> split_numbers(const std::string& text, const std::string& option) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t number = 0;
    if (!read_number(std::string_view(text).substr(begin, end - begin), number) || number < 1)
      refuse(option, "whole numbers of at least 1, separated by commas", text, option + " 1024,4096");
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

DType parse_dtype(const std::string& text) {
  constexpr std::array kTypes{DType::f32, DType::bf16, DType::f16, DType::f64};
  std::vector<std::string_view> names;
  for (DType type : kTypes) names.push_back(name_of(type));
  return kTypes[place_of_name(text, names, "dtype", "--dtype")];
}

std::size_t parse_bytes(const std::string& text, const std::string& option) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}};
  std::string_view digits = text;
  double unit = 1.0;
  for (const auto& [name, size] : kUnits) {
    if (!digits.ends_with(name)) continue;
    digits.remove_suffix(name.size());
    unit = size;
    break;
  }
  double number = 0.0;
  if (!read_number(digits, number) || !(number * unit >= 1.0 && number * unit < 0x1p62))
    refuse(option, "a size such as 512MB or 4GB", text, option + " 4GB");
  return static_cast<std::size_t>(number * unit);
}

Check in_range(double low, double high) {
  return [low, high](const std::string& text) {
    double number = 0.0;
    if (!read_number<double>(text, number)) return fmt::format("takes a number, got \"{}\"", text);
    if (number >= low && number <= high) return std::string();
    if (std::isinf(high)) return fmt::format("must be at least {}, got {}", low, text);
    return fmt::format("must be between {} and {}, got {}", low, high, text);
  };
}

}  // namespace fovea::cli
