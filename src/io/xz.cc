#include "io/xz.h"

#include <lzma.h>

#include <algorithm>
#include <array>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::uint64_t kDecoderMemory = std::uint64_t{256} << 20;  // the dictionary of `xz -9` takes 64 MB

// What liblzma says, in words; `at_end` tells a file that stops early from one that is wrong inside.
[[noreturn]] void refuse(lzma_ret status, const Path& path, bool at_end) {
  if (status == LZMA_MEM_ERROR) fail(ErrorCode::out_of_memory, "out of memory while unpacking", path.string());
  if (status == LZMA_FORMAT_ERROR) fail(ErrorCode::bad_input, "not an xz file, in spite of its name", path.string());
  if (status == LZMA_MEMLIMIT_ERROR)
    fail(ErrorCode::bad_input, "unpacking needs more than 256 MB of memory", path.string(), "pack it with xz -6");
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

std::string unpack(const std::string& packed, const Path& path, const Limits& limits) {
  Decoder decoder(path);
  lzma_stream& stream = decoder.stream();
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string content;
  std::array<std::uint8_t, 1 << 16> chunk;
  for (;;) {
    stream.next_out = chunk.data();
    stream.avail_out = chunk.size();
    const lzma_ret status = lzma_code(&stream, LZMA_FINISH);
    const std::size_t got = chunk.size() - stream.avail_out;
    if (status != LZMA_OK && status != LZMA_STREAM_END) refuse(status, path, stream.avail_in == 0);
    if (got > limits.cap - content.size())
      fail(ErrorCode::bad_input, "unpacks to more than the " + std::to_string(limits.cap) + " bytes allowed here",
           path.string());
    content.append(reinterpret_cast<const char*>(chunk.data()), got);
    if (status == LZMA_STREAM_END || content.size() >= limits.enough) return content;
  }
}

}  // namespace

std::string read_maybe_xz(const Path& path, std::size_t cap) {
  std::string content = read_file(path, cap);
  return path.extension() == ".xz" ? unpack(content, path, {cap}) : content;
}

std::string read_head(const Path& path, std::size_t bytes) {
  constexpr std::size_t kPackedCap = std::size_t{4} << 30;
  if (path.extension() == ".xz") return unpack(read_file(path, kPackedCap), path, {kPackedCap, bytes}).substr(0, bytes);
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), std::min(bytes, file.bytes().size())};
}

}  // namespace fovea
