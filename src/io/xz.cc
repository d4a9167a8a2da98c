#include "io/xz.h"

#include <lzma.h>

#include <algorithm>
#include <array>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::uint64_t kDecoderMemory = std::uint64_t{80} << 20;  // the dictionary of `xz -9` takes 64 MB

// What liblzma says, in words; `at_end` tells a file that stops early from one that is wrong inside.
[[noreturn]] void refuse(lzma_ret status, const Path& path, bool at_end) {
  if (status == LZMA_MEM_ERROR) fail(ErrorCode::out_of_memory, "out of memory while unpacking", path.string());
  if (status == LZMA_FORMAT_ERROR) fail(ErrorCode::bad_input, "not an xz file, in spite of its name", path.string());
  if (status == LZMA_MEMLIMIT_ERROR)
    fail(ErrorCode::bad_input, "unpacking needs more than 80 MB of memory", path.string(),
         "pack it with xz -6, or unpack it first: xz -d");
  if (status == LZMA_BUF_ERROR || (status == LZMA_OK && at_end))
    fail(ErrorCode::bad_input, "the packed file is cut short", path.string(), "copy it again: its end is missing");
  fail(ErrorCode::bad_input, "the packed file is damaged", path.string(), "copy it again; xz -t tests it");
}

// A decoder that is freed on every way out.
class Decoder {
 public:
  explicit Decoder(const Path& path) {
    const lzma_ret status = lzma_stream_decoder(&stream_, kDecoderMemory, LZMA_CONCATENATED);
    if (status != LZMA_OK) refuse(status, path, false);
  }
  ~Decoder() { lzma_end(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  lzma_stream& stream() { return stream_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

struct Limits {
  std::size_t cap;                // more than this is refused
  std::size_t enough = SIZE_MAX;  // after this nothing more is unpacked
};

[[noreturn]] void refuse_size(const Path& path, std::size_t packed, const Limits& limits) {
  if (limits.cap <= memory_for(packed))
    fail(ErrorCode::bad_input, "unpacks to more than the " + std::to_string(limits.cap) + " bytes allowed here",
         path.string(), "a smaller file, or a higher limit of memory");
  fail(ErrorCode::bad_input,
       "unpacks to more than " + std::to_string(kMemoryFactor) + " times its size and " +
           std::to_string(kMemoryFloor >> 20) + " MB",
       path.string(), "if it is what it should be, unpack it first: xz -d");
}

// Blocks are put together at the end, one after the other freed: a string that grows would take three times its size.
std::string joined(std::vector<std::string>&& blocks, std::size_t size) {
  if (blocks.size() == 1) return std::move(blocks[0]);
  std::string content;
  content.reserve(size);
  for (std::string& block : blocks) {
    content += block;
    block = std::string();
  }
  return content;
}

std::string unpack(std::span<const std::byte> packed, const Path& path, const Limits& limits) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  Decoder decoder(path);
  lzma_stream& stream = decoder.stream();
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::vector<std::string> blocks;
  std::size_t size = 0;
  std::array<std::uint8_t, 1 << 16> chunk;
  for (;;) {
    stream.next_out = chunk.data();
    stream.avail_out = chunk.size();
    const lzma_ret status = lzma_code(&stream, LZMA_FINISH);
    const std::size_t got = chunk.size() - stream.avail_out;
    if (status != LZMA_OK && status != LZMA_STREAM_END) refuse(status, path, stream.avail_in == 0);
    size += got;
    if (size > std::min(limits.cap, memory_for(packed.size()))) refuse_size(path, packed.size(), limits);
    if (blocks.empty() || blocks.back().size() + got > kBlock) blocks.emplace_back();
    blocks.back().append(reinterpret_cast<const char*>(chunk.data()), got);
    if (status == LZMA_STREAM_END || size >= limits.enough) return joined(std::move(blocks), size);
  }
}

}  // namespace

std::string read_maybe_xz(const Path& path, std::size_t cap) {
  if (path.extension() != ".xz") return read_file(path, cap);
  const MappedFile packed(path);
  refuse_larger(packed.bytes().size(), cap, path);
  return unpack(packed.bytes(), path, {cap});
}

std::string read_head(const Path& path, std::size_t bytes) {
  const MappedFile file(path);
  if (path.extension() == ".xz") return unpack(file.bytes(), path, {SIZE_MAX, bytes}).substr(0, bytes);
  return {reinterpret_cast<const char*>(file.bytes().data()), std::min(bytes, file.bytes().size())};
}

}  // namespace fovea
