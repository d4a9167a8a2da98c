#include "io/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "fovea/error.h"
#include "fovea/safetensors.h"
#include "io/json.h"

namespace fovea {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u, kOther = 0xd1b54a32d192ed03u;

// One to one in the state and in the word: what differs in one word stays different.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) { return std::rotl((state ^ (word * kOdd)) * kOther, 29); }

std::uint64_t word_at(const std::byte* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

std::string text_of(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()};
}

// Empty: every tensor is what it was, so it is the header that changed.
std::string damaged_tensor(const Path& file, const Json& sums) {
  if (!sums.contains("tensors")) return {};
  const SafetensorsFile stored(file.string());
  for (const auto& [name, sum] : sums["tensors"].items())
    if (!stored.has(name) || Json(text_of(checksum(bytes_of(stored.tensor(name))))) != sum) return name;
  return {};
}

void check_file(const Path& file, const Json& sums) {
  if (!sums.is_object() || !sums.contains("file") || (sums.contains("tensors") && !sums["tensors"].is_object()))
    fail(ErrorCode::bad_input, "expected the checksums of a file",
         (file.parent_path() / kChecksumsFile).string() + ": " + file.filename().string());
  if (Json(text_of(checksum(MappedFile(file).bytes()))) == sums["file"]) return;
  const std::string tensor = damaged_tensor(file, sums);
  fail(ErrorCode::bad_input,
       tensor.empty() ? "damaged: this is not what was written"
                      : fmt::format("damaged: \"{}\" is not what was written", tensor),
       file.string(), fmt::format("another copy of the folder; without {} it is taken as it is", kChecksumsFile));
}

// None: nothing was written down.
Json read_sums(const Path& folder) {
  constexpr std::size_t kCap = std::size_t{256} << 20;
  const Path list = folder / kChecksumsFile;
  if (!std::filesystem::exists(list)) return Json::object();
  Json all = parse_json(read_file(list, kCap), list.string());
  if (!all.is_object()) fail(ErrorCode::bad_input, "expected an object", list.string());
  return all;
}

}  // namespace

// Four sums side by side, since each word waits for the one before it.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kWord = 8, kLanes = 4;
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord)
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], word_at(at + i * kWord, kWord));
  std::uint64_t sum = bytes.size();
  for (; left > 0; at += std::min(left, kWord), left -= std::min(left, kWord))
    sum = mix(sum, word_at(at, std::min(left, kWord)));
  for (const std::uint64_t lane : lanes) sum = mix(sum, lane);
  return sum;
}

void write_checksums(const Path& folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != kChecksumsFile) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Json sums = Json::object();
  for (const Path& file : files) {
    Json& of_file = sums[file.filename().string()];
    of_file["file"] = text_of(checksum(MappedFile(file).bytes()));
    if (file.extension() != ".safetensors") continue;
    const SafetensorsFile stored(file.string());
    for (const std::string& name : stored.names())
      of_file["tensors"][name] = text_of(checksum(bytes_of(stored.tensor(name))));
  }
  write_file(folder / kChecksumsFile, json_text(sums));
}

void check_checksum(const Path& file) {
  const Json all = read_sums(file.parent_path());
  if (const auto found = all.find(file.filename().string()); found != all.end()) check_file(file, *found);
}

void check_checksums(const Path& folder) {
  const Json all = read_sums(folder);
  for (const auto& [name, sums] : all.items()) check_file(folder / name, sums);
}

}  // namespace fovea
