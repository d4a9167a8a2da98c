#include "text/shards.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

using Ids = std::vector<std::int32_t>;

Ids ramp(std::int64_t count, std::int64_t vocabulary) {
  Ids ids(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 31 % vocabulary);
  return ids;
}

void write(const Path& folder, const Ids& ids, std::int64_t vocabulary, std::int64_t shard_tokens) {
  ShardWriter writer(folder, {.vocabulary = vocabulary, .tokenizer = "f00d", .shard_tokens = shard_tokens});
  writer.append(std::span(ids).first(ids.size() / 3));
  writer.append(std::span(ids).subspan(ids.size() / 3));
  writer.commit();
}

TEST(Shards, ReadsWhatWasWritten) {
  for (const std::int64_t vocabulary : {300, 65536, 65537, 1000000}) {
    const TemporaryFolder folder;
    const Ids ids = ramp(1000, vocabulary);
    write(folder / "s", ids, vocabulary, 77);
    const TokenStream stream(folder / "s");
    EXPECT_EQ(stream.size(), 1000);
    EXPECT_EQ(stream.vocabulary(), vocabulary);
    EXPECT_EQ(stream.tokenizer(), "f00d");
    Ids all(1000), middle(200);
    stream.read(0, all);
    EXPECT_EQ(all, ids);
    stream.read(70, middle);
    EXPECT_TRUE(std::equal(middle.begin(), middle.end(), ids.begin() + 70));
    EXPECT_EQ(stream[999], ids[999]);
    const TokenStream part = stream.slice(100, 300).slice(50, 60);
    EXPECT_EQ(part.size(), 10);
    EXPECT_EQ(part[3], ids[153]);
    EXPECT_ERROR(stream.read(990, middle), ErrorCode::usage, "990", "", "");
    EXPECT_ERROR(part[10], ErrorCode::usage, "10", "", "");
    EXPECT_ERROR(stream.slice(5, 1001), ErrorCode::usage, "1001", "", "");
  }
}

TEST(Shards, NothingAtAll) {
  const TemporaryFolder folder;
  write(folder / "s", {}, 10, 5);
  const TokenStream stream(folder / "s");
  EXPECT_EQ(stream.size(), 0);
  stream.read(0, {});
}

TEST(Shards, UncommittedLeavesNothing) {
  const TemporaryFolder folder;
  {
    ShardWriter writer(folder / "s", {.vocabulary = 10, .tokenizer = {}});
    writer.append(Ids{1, 2, 3});
    EXPECT_ERROR(writer.append(Ids{4, 10}), ErrorCode::bad_input, "id 10 of a vocabulary of 10", "token 4", "");
  }
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Shards, RefusesFilesThatDoNotAgree) {
  const TemporaryFolder folder;
  const auto bad = ErrorCode::bad_input;
  const Path s = folder / "s", first = s / "tokens-00000.bin", index = s / "index.json";
  const auto fresh = [&] {
    std::filesystem::remove_all(s);
    write(s, ramp(10, 300), 300, 6);
  };
  fresh();
  const std::string bytes = get(first), text = get(index);
  put(first, bytes.substr(0, 11));
  EXPECT_ERROR(TokenStream(s), bad, "11 bytes; the index says 6 tokens of 2 bytes, 12", "tokens-00000.bin", "again");
  std::filesystem::remove(first);
  EXPECT_ERROR(TokenStream(s), bad, "no such file", "tokens-00000.bin", "");
  fresh();
  std::string changed = bytes;
  changed[5] = '\x7F';
  put(first, changed);
  const TokenStream stream(s);
  Ids ids(10);
  EXPECT_ERROR(stream.read(0, ids), bad, "of a vocabulary of 300", "tokens-00000.bin, token 2", "changed");
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    put(index, other);
  };
  edited("tokens-00000.bin", "../../etc/passwd");
  EXPECT_ERROR(TokenStream(s), bad, "not the name of a file", "index.json", "");
  edited("\"tokens\": 10", "\"tokens\": 11");
  EXPECT_ERROR(TokenStream(s), bad, "the index says 11", "index.json", "");
  edited("\"vocabulary\": 300", "\"vocabulary\": 5");
  EXPECT_ERROR(TokenStream(s), bad, "beyond the vocabulary of 5", "index.json", "");
  edited("fovea-tokens", "other");
  EXPECT_ERROR(TokenStream(s), bad, "other", "index.json", "");
  put(index, text.substr(0, text.size() / 2));
  EXPECT_ERROR(TokenStream(s), bad, "not JSON", "index.json", "");
  EXPECT_ERROR(TokenStream(folder / "absent"), bad, "no such file", "absent", "");
}

}  // namespace
}  // namespace fovea
