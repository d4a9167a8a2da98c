#include <gtest/gtest.h>

#include "fovea/inspect_page.h"
#include "inspect_page/token_notes.h"
#include "io/file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

std::string line(const std::string& id, const std::string& form, const std::string& tag, const std::string& head,
                 const std::string& relation, const std::string& misc = "_") {
  return id + "\t" + form + "\t_\t" + tag + "\t_\t_\t" + head + "\t" + relation + "\t_\t" + misc + "\n";
}

const std::string kTwoSentences =
    "# text = I don't see cats.\r\n" + line("1", "I", "PRON", "4", "nsubj") + line("2-3", "don't", "_", "_", "_") +
    line("2", "do", "AUX", "4", "aux") + line("3", "n't", "PART", "4", "advmod") +
    line("4", "see", "VERB", "0", "root") + line("4.1", "unwritten", "X", "_", "_") +
    line("5", "cats", "NOUN", "4", "obj", "SpaceAfter=No") + line("6", ".", "PUNCT", "4", "punct") + "\n" +
    line("1", "Why", "ADV", "0", "root") + line("2", "_", "_", "1", "dep");

TaggedText read(const std::string& content) {
  const TemporaryFolder folder;
  write_file(folder / "text.conllu", content);
  return read_tagged_text((folder / "text.conllu").string());
}

TEST(TaggedText, IsPutTogetherOfItsWords) {
  const TaggedText text = read(kTwoSentences);
  EXPECT_EQ(text.text, "I don't see cats. Why _");
  ASSERT_EQ(text.words.size(), 8u);
  EXPECT_EQ(text.words[0].tag, "PRON");
  EXPECT_EQ(text.words[0].relation, "nsubj");
  EXPECT_EQ(text.words[0].head, 3);
  EXPECT_EQ(text.words[3].head, -1);
  EXPECT_EQ(text.words[7].tag, "");
  EXPECT_EQ(text.words[7].head, 6);  // counted from the first word of the text
  const auto written = [&](std::size_t w) {
    return text.text.substr(text.places[w].first, text.places[w].second - text.places[w].first);
  };
  EXPECT_EQ(written(1), "don't");
  EXPECT_EQ(written(2), "");  // it is a part of the word before
  EXPECT_EQ(written(4), "cats");
  EXPECT_EQ(written(5), ".");
}

TEST(TaggedText, OfTokensKnowsTheWordsTheyBeginIn) {
  const TaggedText text = read(kTwoSentences);
  const Encoding encoding = Tokenizer::bytes().encode(text.text);
  const std::vector<std::int32_t> words = words_of(encoding, text);
  const std::vector<std::int32_t> expected{0, -1, 1, 1, 1, 1, 1, -1, 3, 3, 3, -1, 4, 4, 4, 4, 5, -1, 6, 6, 6, -1, 7};
  EXPECT_EQ(words, expected);
  const std::vector<std::uint8_t> delimiters = delimiters_of(encoding, text.text);
  for (std::size_t i = 0; i < delimiters.size(); ++i)
    EXPECT_EQ(delimiters[i] != 0, std::string(" .'_").find(text.text[i]) != std::string::npos) << i;
}

TEST(TaggedText, OfOtherFilesIsRefusedWithItsLine) {
  const auto refused = [](const std::string& content, const std::string& words) {
    EXPECT_ERROR(read(content), ErrorCode::bad_input, words, "text.conllu", "CoNLL-U");
  };
  refused("", "no words");
  refused("# nothing\n\n", "no words");
  refused("The cat sat.\n", "1 columns");
  refused(line("1", "a", "X", "0", "root") + line("3", "b", "X", "1", "dep"), "not the next word");
  refused(line("1", "a", "X", "2", "dep"), "does not have");
  refused(line("1", "a", "X", "-1", "dep"), "no word to depend on");
  refused(line("1", "a", "X", "99999999999999999999", "dep"), "no word to depend on");
  refused(line("1-", "a", "X", "_", "_"), "no range");
  refused(line("1", "", "X", "0", "root"), "without a form");
}

}  // namespace
}  // namespace fovea
