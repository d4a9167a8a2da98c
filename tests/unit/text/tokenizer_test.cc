#include "fovea/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

using Ids = std::vector<std::int32_t>;

const Context& context(int threads = 2) {
  static const Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3});
  return threads == 1 ? one : threads == 2 ? two : three;
}

std::string corpus() {
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text +=
        "the quick brown fox " + std::to_string(i % 97) + " jumps over the lazy dog's caf\xC3\xA9 \xF0\x9F\x98\x80\n";
  return text;
}

Tokenizer trained(std::int64_t vocabulary = 400, int threads = 2) {
  const std::string text = corpus();
  const std::string_view view = text;
  return Tokenizer::train_bpe(context(threads), {&view, 1},
                              {.vocabulary = vocabulary, .special_tokens = {"<|endoftext|>"}, .progress = {}});
}

TEST(Tokenizer, BytesAreIds) {
  const Tokenizer bytes = Tokenizer::bytes();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const Encoding encoding = bytes.encode(all);
  ASSERT_EQ(encoding.ids.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(encoding.ids[static_cast<std::size_t>(byte)], byte);
  EXPECT_EQ(bytes.vocabulary(), 256);
  EXPECT_EQ(bytes.decode(bytes.encode("caf\xC3\xA9 \n").ids), "caf\xC3\xA9 \n");
  EXPECT_TRUE(bytes.encode("").ids.empty());
}

TEST(Tokenizer, CharactersAndWords) {
  const std::string_view texts[] = {"b\xC3\xA9 a", "ab"};
  const Tokenizer characters = Tokenizer::characters(texts);
  EXPECT_EQ(characters.vocabulary(), 5);
  EXPECT_EQ(characters.encode("a \xC3\xA9z").ids, (Ids{2, 1, 4, 0}));
  EXPECT_EQ(characters.decode(Ids{2, 1, 4}), "a \xC3\xA9");
  const std::string_view sentences[] = {"b a b c", "\tb  d c"};
  const Tokenizer words = Tokenizer::words(sentences, 4);
  EXPECT_EQ(words.encode("a b c d x").ids, (Ids{3, 1, 2, 0, 0}));
  EXPECT_EQ(words.decode(Ids{1, 2}), "b c");
  EXPECT_EQ(words.special_ids().unk, 0);
  EXPECT_ERROR(Tokenizer::words(sentences, 1), ErrorCode::usage, "2 ids or more", "limit", "");
}

TEST(Tokenizer, TrainsTheSameOnAnyNumberOfThreads) {
  const std::string first = trained(400, 1).fingerprint();
  EXPECT_EQ(trained(400, 2).fingerprint(), first);
  EXPECT_EQ(trained(400, 3).fingerprint(), first);
  EXPECT_NE(trained(280).fingerprint(), first);
}

TEST(Tokenizer, MergesTheMostFrequentPairAndTheSmallerIdsFirst) {
  const std::string_view text = "ab ab cd cd";  // (a b), (c d), (space a), (space c): twice, once, ...
  const Tokenizer tokenizer = Tokenizer::train_bpe(context(), {&text, 1}, {.vocabulary = 258, .min_frequency = 1});
  EXPECT_EQ(tokenizer.token(256), "ab");
  EXPECT_EQ(tokenizer.token(257), "cd");
  const Tokenizer picky = Tokenizer::train_bpe(context(), {&text, 1}, {.vocabulary = 300, .min_frequency = 3});
  EXPECT_EQ(picky.vocabulary(), 256);
  EXPECT_ERROR(Tokenizer::train_bpe(context(), {&text, 1}, {.vocabulary = 255}), ErrorCode::usage, "255", "vocabulary",
               "256 to");
}

TEST(Tokenizer, SavesAndLoads) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = trained();
  tokenizer.save((folder / "t").string());
  const Tokenizer again = Tokenizer::load((folder / "t").string());
  EXPECT_EQ(again.fingerprint(), tokenizer.fingerprint());
  const std::string text = "the fox's \xC3\xA9 <|endoftext|> \xFF 12\r\n";
  EXPECT_EQ(again.encode(text).ids, tokenizer.encode(text).ids);
  EXPECT_EQ(again.special_ids().eos, 0);
  EXPECT_EQ(again.id("<|endoftext|>"), 0);
  EXPECT_TRUE(again.is_special(0));
  EXPECT_EQ(Tokenizer::load((folder / "t/tokenizer.json").string()).fingerprint(), tokenizer.fingerprint());
}

TEST(Tokenizer, OffsetsAreOfTheOriginalBytes) {
  const Tokenizer tokenizer = trained();
  const std::string text = "the caf\xC3\xA9 \xF0\x9F\x98\x81\xFFx";
  const Encoding encoding = tokenizer.encode(text);
  std::size_t covered = 0;
  for (const auto& [begin, end] : encoding.offsets) {
    EXPECT_LE(begin, covered);
    covered = std::max<std::size_t>(covered, end);
  }
  EXPECT_EQ(covered, text.size());
  const auto& last = encoding.offsets;
  EXPECT_EQ(last[last.size() - 2], (std::pair<std::uint32_t, std::uint32_t>{14, 15}));  // the invalid byte by itself
  EXPECT_EQ(tokenizer.decode(encoding.ids), "the caf\xC3\xA9 \xF0\x9F\x98\x81\xEF\xBF\xBDx");
}

TEST(Tokenizer, EncodesInParallelWhatItEncodesAlone) {
  const Tokenizer tokenizer = trained();
  std::string text;
  while (text.size() < (3u << 20)) text += corpus().substr(0, 100003) + "\xC3\n\n  ";
  const std::string_view texts[] = {"", text, "the fox"};
  for (const int threads : {1, 2, 3}) {
    const auto all = tokenizer.encode_all(context(threads), texts);
    ASSERT_EQ(all.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i], tokenizer.encode(texts[i]).ids);
  }
  EXPECT_TRUE(tokenizer.encode_all(context(), {}).empty());
}

TEST(Tokenizer, SeveralThreadsMayShareOne) {
  const Tokenizer tokenizer = trained();
  const std::string text = corpus().substr(0, 20000);
  const Ids expected = tokenizer.encode(text).ids;
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool& result : same)
    threads.emplace_back(
        [&] { result = tokenizer.encode(text).ids == expected && tokenizer.decode(expected) == text; });
  for (std::thread& thread : threads) thread.join();
  for (const bool result : same) EXPECT_TRUE(result);
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const Tokenizer bytes = Tokenizer::bytes();
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80\xE2\x82z";
  Tokenizer::Stream stream = bytes.decode_stream();
  std::vector<std::string> said;
  for (const char c : text) said.push_back(stream.next(static_cast<unsigned char>(c)));
  said.push_back(stream.finish());
  std::string all;
  for (const std::string& piece : said) all += piece;
  EXPECT_EQ(all, "a\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBDz");
  EXPECT_EQ(said[1], "");
  EXPECT_EQ(said[2], "\xC3\xA9");
  EXPECT_EQ(said[5], "");
  EXPECT_EQ(said[6], "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.finish(), "");
  stream.next(0xE2);
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, LongWordsAndManyBytes) {
  const Tokenizer tokenizer = trained();
  const std::string word(100000, 'q');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(word).ids), word);
  const std::string zeros(1000, '\0');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(zeros).ids), zeros);
}

TEST(Tokenizer, ReadsVocabTxt) {
  const TemporaryFolder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhel\n##lo\nworld\n!\n");
  const Tokenizer bert = Tokenizer::load(folder.path().string());
  const Encoding pair = bert.encode_pair("H\xC3\xA9llo!", "world x");
  EXPECT_EQ(pair.ids, (Ids{2, 5, 6, 8, 3, 7, 1, 3}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(pair.special, (Ids{1, 0, 0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(pair.sources, (Ids{-1, 0, 0, 0, -1, 1, 1, -1}));
  EXPECT_EQ(pair.offsets[1], (std::pair<std::uint32_t, std::uint32_t>{0, 4}));
  EXPECT_EQ(bert.encode_pair("hello!", "world x", true, 6).ids, (Ids{2, 5, 6, 3, 7, 3}));
  EXPECT_EQ(bert.encode("hello! world", true, 4).ids, (Ids{2, 5, 6, 3}));
  EXPECT_ERROR(bert.encode("hello", true, 1), ErrorCode::usage, "1 tokens at most", "max_length", "");
  EXPECT_EQ(bert.decode(pair.ids), "hello! world");
  EXPECT_EQ(bert.special_ids().mask, 4);
  put(folder / "tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(Tokenizer::load(folder.path().string()).encode("Hello", false).ids, Ids{1});
}

TEST(Tokenizer, ReadsVocabJsonAndMerges) {
  const TemporaryFolder folder;
  put(folder / "vocab.json", R"({"a":0,"b":1,"ab":2,"\u0120":3,"\u0120ab":4,"<|endoftext|>":5})");
  put(folder / "merges.txt", "#version: 0.2\na b\n\u0120 ab\n");
  const Tokenizer gpt = Tokenizer::load(folder.path().string());
  EXPECT_EQ(gpt.encode("ab ab<|endoftext|>").ids, (Ids{2, 4, 5}));
  EXPECT_EQ(gpt.special_ids().bos, 5);
  put(folder / "merges.txt", "a b\na c\n");
  EXPECT_ERROR(Tokenizer::load(folder.path().string()), ErrorCode::bad_input, "merge 2", "merges", "");
  put(folder / "merges.txt", "a b\nthree of them\n");
  EXPECT_ERROR(Tokenizer::load(folder.path().string()), ErrorCode::bad_input, "two tokens", "merges.txt:2", "");
}

std::string llama2c(int extra) {
  std::string file(4, '\0');
  file[0] = 16;
  const auto add = [&](const std::string& token, float score) {
    const auto size = static_cast<std::int32_t>(token.size());
    file.append(reinterpret_cast<const char*>(&score), 4).append(reinterpret_cast<const char*>(&size), 4).append(token);
  };
  add("<unk>", 0);
  add("\n<s>\n", 0);
  add("\n</s>\n", 0);
  for (int byte = 0; byte < 256; ++byte) add("<0x00>", 0);
  const std::vector<std::pair<const char*, float>> more{{" a", -1}, {"bc", -2}, {" ", -3},
                                                        {"a", -4},  {"b", -5},  {"c", -6}};
  for (int i = 0; i < extra; ++i)
    add(more[static_cast<std::size_t>(i)].first, more[static_cast<std::size_t>(i)].second);
  return file;
}

TEST(Tokenizer, ReadsLlama2c) {
  const TemporaryFolder folder;
  put(folder / "tokenizer.bin", llama2c(6));
  const Tokenizer llama = Tokenizer::load(folder.path().string());
  EXPECT_EQ(llama.encode("abc\n").ids, (Ids{1, 259, 260, 3 + 10}));
  EXPECT_EQ(llama.decode(Ids{1, 259, 260, 13}), "abc\n");
  EXPECT_EQ(llama.special_ids().bos, 1);
  put(folder / "tokenizer.bin", llama2c(6).substr(0, 3000));
  EXPECT_ERROR(Tokenizer::load(folder.path().string()), ErrorCode::bad_input, "", "tokenizer.bin", "");
  put(folder / "tokenizer.bin", llama2c(0).substr(0, 40));
  EXPECT_ERROR(Tokenizer::load(folder.path().string()), ErrorCode::bad_input, "", "tokenizer.bin", "");
}

}  // namespace
}  // namespace fovea
