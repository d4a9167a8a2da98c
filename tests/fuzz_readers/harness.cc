#include "fuzz_readers/harness.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "fovea/error.h"
#include "fuzz_readers/memory_count.h"

namespace fovea::fuzz {
namespace {

// Of this process, removed with it; in memory where the system has such a place.
class Folder {
 public:
  Folder() {
    const Path base = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = (base / "fovea-readers-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

const Path& the_folder() {
  static const Folder folder;
  return folder.path();
}

std::vector<Reader>& known_readers() {
  static std::vector<Reader> readers;
  return readers;
}

[[noreturn]] void end(const Reader& reader, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", reader.name, why.c_str());
  std::abort();
}

bool is_refusal(ErrorCode code) {
  return code != ErrorCode::internal && code != ErrorCode::out_of_memory && code != ErrorCode::diverged;
}

bool taken(const Reader& reader, const Input& input) {
  try {
    reader.read(input);
    return true;
  } catch (const Error& error) {
    if (!is_refusal(error.code())) end(reader, error.what());
    return false;
  } catch (const std::exception& error) {
    end(reader, std::string("not an Error: ") + error.what());
  }
}

}  // namespace

Input::Input(std::span<const std::uint8_t> bytes) : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

std::vector<std::string_view> Input::parts(std::size_t count) const {
  constexpr std::string_view kBetween = "\n%%%%\n";
  std::vector<std::string_view> parts;
  std::string_view rest = bytes_;
  while (parts.size() + 1 < count) {
    const std::size_t at = rest.find(kBetween);
    parts.push_back(rest.substr(0, at));
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + kBetween.size());
  }
  parts.push_back(rest);
  return parts;
}

const Path& Input::folder() const { return the_folder(); }

Path Input::put(const std::string& name, std::string_view bytes) const {
  const Path path = folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

void Input::put_or_remove(const std::string& name, std::string_view bytes) const {
  if (bytes.empty())
    std::filesystem::remove(folder() / name);
  else
    put(name, bytes);
}

Known::Known(const Reader& reader) { known_readers().push_back(reader); }

std::span<const Reader> readers() { return known_readers(); }

const Reader& reader_named(std::string_view name) {
  for (const Reader& reader : readers())
    if (reader.name == name) return reader;
  std::string all;
  for (const Reader& reader : readers()) all += std::string(" ") + reader.name;
  std::fprintf(stderr, "no reader \"%s\"; there are:%s\n", std::string(name).c_str(), all.c_str());
  std::exit(2);
}

bool try_input(const Reader& reader, std::span<const std::uint8_t> bytes) {
  const Input input(bytes);
  start_counting();
  const bool good = taken(reader, input);
  const std::size_t most = most_taken(), allowed = reader.floor + reader.factor * bytes.size();
  if (most > allowed)
    end(reader, "took " + std::to_string(most) + " bytes of memory for " + std::to_string(bytes.size()) +
                    " bytes of input; " + std::to_string(allowed) + " are allowed");
  return good;
}

Context fresh_context() { return Context({.threads = 1}); }

}  // namespace fovea::fuzz
