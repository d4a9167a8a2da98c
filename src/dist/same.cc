#include "dist/same.h"

#include <fmt/format.h>

#include <cstring>
#include <sstream>

#include "tensor/views.h"

namespace fovea::dist {
namespace {

// FNV-1a by words of eight bytes: a checksum against accidents.
std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(sizeof(word), bytes.size());
    std::memcpy(&word, bytes.data(), count);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
    bytes = bytes.subspan(count);
  }
  return hash;
}

// The first rank whose text is not that of rank 0; none: 0.
std::size_t first_other(const std::vector<std::string>& all) {
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i] != all[0]) return i;
  return 0;
}

std::string bytes_as_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

// "  "lr": 0.1," as people would write it.
std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' '), end = line.find_last_not_of(" ,");
  return begin == std::string::npos ? "" : line.substr(begin, end + 1 - begin);
}

}  // namespace

void require_same(const Group& ranks, const std::string& what, const std::string& text) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> hashes = ranks.all_gather(bytes_as_text(mixed(0, std::as_bytes(std::span(text)))));
  const std::size_t other = first_other(hashes);
  if (other == 0) return;
  const std::vector<std::string> texts = ranks.all_gather(text);
  std::istringstream first(texts[0]), second(texts[other]);
  std::string a, b;
  while (std::getline(first, a) && std::getline(second, b) && a == b) {
  }
  fail(ErrorCode::usage, fmt::format("{} differs: rank {} has {}, rank 0 has {}", what, other, trimmed(b), trimmed(a)),
       ranks.name(), "the same command on every rank");
}

void require_same(const Group& ranks, const std::string& what, std::span<const Tensor> tensors) {
  if (ranks.size() == 1) return;
  std::uint64_t hash = 0;
  for (const Tensor& t : tensors) {
    const Tensor host = on_host(t);
    hash = mixed(hash, {static_cast<const std::byte*>(host.raw()), host.bytes()});
  }
  const std::size_t other = first_other(ranks.all_gather(bytes_as_text(hash)));
  if (other != 0)
    fail(ErrorCode::internal, fmt::format("{} are not those of rank 0 on rank {}", what, other), ranks.name(),
         "a machine that computes wrongly, or another program: start again from the last checkpoint");
}

}  // namespace fovea::dist
