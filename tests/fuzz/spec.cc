#include "fuzz/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "fovea/error.h"

namespace fovea::fuzz {
namespace {

std::string show(const std::string& value) { return value; }
std::string show(bool value) { return value ? "1" : "0"; }
std::string show(std::int64_t value) { return fmt::format("{}", value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(const Ints& value) { return fmt::format("{}", fmt::join(value, ",")); }

template <class T>
void read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::usage, fmt::format("\"{}\" is not a number", text), "--case");
}

void read(std::string_view text, std::string& value) { value = text; }
void read(std::string_view text, std::int64_t& value) { read_number(text, value); }
void read(std::string_view text, double& value) { read_number(text, value); }
void read(std::string_view text, bool& value) { value = text == "1"; }
void read(std::string_view text, Ints& value) {
  value.clear();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    read_number(text.substr(0, end), value.emplace_back());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::string text_of(const Spec& spec) {
  std::vector<std::string> plain;
  const Spec defaults;
  each_field(defaults, [&](const char*, const auto& value) { plain.push_back(show(value)); });
  std::string line = spec.mechanism;
  std::size_t field = 0;
  each_field(spec, [&](const char* name, const auto& value) {
    const std::string shown = show(value);
    if (shown != plain[field++]) line += fmt::format(" {}={}", name, shown);
  });
  return line;
}

Spec spec_from(std::string_view text) {
  std::istringstream words{std::string(text)};
  Spec spec;
  words >> spec.mechanism;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    bool known = false;
    each_field(spec, [&](const char* field, auto& member) {
      if (name != field) return;
      known = true;
      read(value, member);
    });
    if (!known) fail(ErrorCode::usage, fmt::format("unknown field \"{}\"", name), "--case");
  }
  return spec;
}

Sequences queries_of(const Spec& spec) { return {spec.lengths, spec.packed}; }
Sequences keys_of(const Spec& spec) { return {spec.key_lengths, spec.key_packed}; }

}  // namespace fovea::fuzz
