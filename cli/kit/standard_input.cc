#include "cli/kit/standard_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "fovea/error.h"

namespace fovea::cli {
namespace {

constexpr const char* kWhere = "standard input";

// A folder of our own, removed when the program ends.
class PassingFolder {
 public:
  PassingFolder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "fovea-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      fail(ErrorCode::io, std::string("cannot make a folder: ") + std::strerror(errno), name, "TMPDIR=. fovea ...");
    path_ = name;
  }
  ~PassingFolder() {
    std::error_code ignored;  // it lies where such things are cleared away
    std::filesystem::remove_all(path_, ignored);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;

  const Path& path() const { return path_; }

 private:
  Path path_;
};

std::string read_standard_input() {
  if (::isatty(STDIN_FILENO) != 0)
    fail(ErrorCode::usage, "nothing is sent to the program", kWhere, "fovea ... --data - < input.txt");
  std::string content, piece(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, std::string("cannot read: ") + std::strerror(errno), kWhere);
    if (got == 0) break;
    content.append(piece, 0, static_cast<std::size_t>(got));
  }
  if (content.empty()) fail(ErrorCode::bad_input, "nothing came in", kWhere, "fovea ... --data - < input.txt");
  return content;
}

const char* ending_of(const std::string& content) {
  const std::string first = content.substr(0, content.find('\n'));
  return first.starts_with('{') ? ".jsonl" : first.find('\t') != std::string::npos ? ".tsv" : ".txt";
}

}  // namespace

std::string given_file(const std::string& name) {
  if (name != "-") return name;
  static const PassingFolder folder;
  static const std::string file = [] {  // it can be read once
    const std::string content = read_standard_input();
    const Path path = folder.path() / (std::string("stdin") + ending_of(content));
    write_file(path, content);
    return path.string();
  }();
  return file;
}

std::string keep_in(const std::string& folder, const std::string& file) {
  make_folder(folder);
  const Path copy = Path(folder) / Path(file).filename();
  write_file(copy, read_file(file, std::size_t{1} << 40));
  return copy.string();
}

}  // namespace fovea::cli
