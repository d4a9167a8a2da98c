#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/kit/arguments.h"
#include "cli/kit/console.h"
#include "fovea/context.h"
#include "fovea/dtype.h"

// Options that mean the same in every verb.
namespace fovea::cli {

struct MachineOptions {
  std::int64_t threads = 0;
  std::string device = "cpu";
  std::uint64_t seed = 0;
  std::string memory_limit;
  bool tf32 = false;

  ContextOptions context(const Console& console) const;  // says so where `auto` finds no card
};
void add_machine_options(const Arguments& verb, MachineOptions& options);

// Lists on the command line are separated by commas: "softmax,diag:block=32,weights=rela,norm" names three mechanisms.
std::vector<std::string> split_names(const std::string& text, const std::string& option);
std::vector<std::int64_t> split_numbers(const std::string& text, const std::string& option);

DType parse_dtype(const std::string& text);
std::size_t parse_bytes(const std::string& text, const std::string& option);  // "512MB", "4GB"; plain: bytes

// Refuses a number outside [low, high] in plain words.
Check in_range(double low, double high);

}  // namespace fovea::cli
