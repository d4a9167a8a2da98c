#include <cstdio>
#include <string>

#include "core/rng.h"
#include "fuzz_readers/harness.h"

// replay READER FOLDER...: reads every file of the folders as the fuzzer would. One whose name begins with "good" must
// be taken, with "bad" refused. Then each is read again cut short and with single bytes changed, which may do either.
namespace fovea::fuzz {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool replay(const Reader& reader, const Path& file) {
  const std::string name = file.filename().string(), content = read_file(file);
  const bool good = try_input(reader, bytes_of(content));
  const bool told = name.starts_with(good ? "good" : "bad");
  if (!told) std::fprintf(stderr, "%s was %s\n", file.c_str(), good ? "taken" : "refused");
  return told;
}

void spoil(const Reader& reader, const std::string& content) {
  constexpr std::uint32_t kCuts = 16, kChanges = 48;
  Random random(content.size());
  for (std::uint32_t i = 0; i < kCuts; ++i)
    try_input(reader, bytes_of(content.substr(0, random.below(static_cast<std::uint32_t>(content.size()) + 1))));
  for (std::uint32_t i = 0; i < kChanges && !content.empty(); ++i) {
    std::string changed = content;
    changed[random.below(static_cast<std::uint32_t>(content.size()))] = static_cast<char>(random.below(256));
    try_input(reader, bytes_of(changed));
  }
}

int run(std::span<char*> arguments) {
  const Reader& reader = reader_named(arguments.empty() ? "" : arguments[0]);
  std::size_t files = 0, wrong = 0;
  for (const char* folder : arguments.subspan(1)) {
    if (!is_there(folder)) continue;
    for (const Path& file : entries_of(folder)) {
      ++files;
      wrong += replay(reader, file) ? 0 : 1;
      spoil(reader, read_file(file));
    }
  }
  std::printf("%s: %zu files, %zu wrong\n", reader.name, files, wrong);
  return files > 0 && wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fovea::fuzz

int main(int argc, char** argv) { return fovea::fuzz::run({argv + 1, static_cast<std::size_t>(argc - 1)}); }
