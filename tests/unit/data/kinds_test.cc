#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/kinds.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"
#include "text/shards.h"

namespace fovea {
namespace {

constexpr auto kBad = ErrorCode::bad_input;
const Context kContext({.threads = 2, .seed = 5, .memory = {.poison = true}});

using Ids = std::vector<std::int32_t>;

DataSettings source(const std::filesystem::path& path) {
  DataSettings settings;
  settings.source = path.string();
  return settings;
}

Batch first(const Split& split, std::int64_t count) {
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < count; ++i) picks.push_back(i);
  return split.batch(kContext, picks, 0);
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(TextData, AFileIsCutInThree) {
  const TemporaryFolder folder;
  put(folder / "input.txt", repeated("abcdefghi\n", 100));
  DataSettings settings = source(folder / "input.txt");
  settings.length = 16;
  const Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.name, "input");
  EXPECT_EQ(data.task, Task::lm);
  EXPECT_EQ(data.vocabulary, 11);  // <unk> and ten signs
  EXPECT_EQ(data.max_length, 16);
  EXPECT_EQ(data.train->size(), 899 / 16);
  EXPECT_EQ(data.validation->size(), 4);
  EXPECT_EQ(data.train->characters_per_token(), 1.0);
  const Ids ids = first(*data.validation, 1).input.ids.to_vector<std::int32_t>();
  EXPECT_EQ(data.tokenizer->decode(ids), "abcdefghi\nabcdef");
}

TEST(TextData, FoldersWordsAndMasks) {
  const TemporaryFolder folder;
  put(folder / "wiki.train.tokens", repeated(" the cat sat \n on a mat \n", 50));
  put(folder / "wiki.valid.tokens", " the mat \n");
  put(folder / "wiki.test.tokens", " a dog \n");
  DataSettings settings = source(folder.path());
  settings.tokenizer = "words";
  settings.length = 4;
  EXPECT_EQ(data_kind(settings), "text");
  Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.vocabulary, 8);  // <unk>, six words, <eos>
  const Batch batch = first(*data.test, 1);
  const std::int32_t unknown = batch.targets.to_vector<std::int32_t>()[0];
  EXPECT_EQ(unknown, 0);
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>()[1], *data.tokenizer->id("<eos>"));
  data = load_data(kContext, settings, {.task = Task::mlm});
  EXPECT_EQ(data.task, Task::mlm);
  EXPECT_EQ(data.vocabulary, 9);  // and the mask
}

TEST(TextData, LimitsAndModelsDecide) {
  const TemporaryFolder folder;
  put(folder / "t.txt", repeated("0123456789", 1000));
  DataSettings settings = source(folder / "t.txt");
  EXPECT_EQ(load_data(kContext, settings, {.max_length = 64}).max_length, 64);
  EXPECT_EQ(load_data(kContext, settings).max_length, 256);
  settings.train = 3;
  settings.tokenizer = "bytes";
  const Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.vocabulary, 256);
  const auto tokenizer = data.tokenizer;
  settings.tokenizer = "";
  EXPECT_EQ(load_data(kContext, settings, {.tokenizer = tokenizer}).vocabulary, 256);
  put(folder / "t.txt", "");
  EXPECT_ERROR(load_data(kContext, settings), kBad, "fewer than two tokens", "t.txt", "");
}

TEST(TextData, ReadsShards) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, int count, std::int64_t vocabulary) {
    ShardWriter writer(folder / name, {.vocabulary = vocabulary, .tokenizer = "", .shard_tokens = 7});
    Ids ids;
    for (int i = 0; i < count; ++i) ids.push_back(i);
    writer.append(ids);
    writer.commit();
  };
  write("all", 100, 100);
  DataSettings settings = source(folder / "all");
  settings.length = 8;
  EXPECT_EQ(data_kind(settings), "text");
  Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.vocabulary, 100);
  EXPECT_EQ(first(*data.validation, 1).input.ids.to_vector<std::int32_t>()[0], 90);
  EXPECT_EQ(data.test->size(), 1);
  std::filesystem::create_directory(folder / "parts");
  write("parts/train", 100, 100);
  write("parts/valid", 20, 100);
  settings = source(folder / "parts");
  settings.length = 8;
  data = load_data(kContext, settings, {.task = Task::mlm});
  EXPECT_EQ(data.vocabulary, 101);
  EXPECT_EQ(data.validation->size(), 3);
  EXPECT_EQ(data.test->size(), 0);
  write("parts/test", 20, 99);
  EXPECT_ERROR(load_data(kContext, settings), kBad, "different vocabularies", "parts", "");
}

// Names of classes come again and again, sentences hardly ever.
TEST(LabelledText, MayHaveNamedClasses) {
  const TemporaryFolder folder;
  DataSettings settings = source(folder.path());
  std::string reviews, phrases;
  for (int i = 0; i < 30; ++i) {
    reviews += fmt::format("{}\tsome text {}\n", i % 3 ? "pos" : "very bad", i);
    phrases += fmt::format("Satz {}\tsentence {}\n", i, i);
  }
  put(folder / "train.tsv", reviews);
  EXPECT_EQ(data_kind(settings), "labels");
  EXPECT_EQ(usual_task(settings), Task::classify);
  const Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.task, Task::classify);
  EXPECT_EQ(data.classes, 2);
  put(folder / "train.tsv", phrases);
  EXPECT_EQ(data_kind(settings), "parallel");
  put(folder / "train.tsv", "pos\tgood\nneg\tbad\npos\tfine\n");
  EXPECT_EQ(data_kind(settings), "labels");
  put(folder / "train.tsv", "Hund\tdog\nKatze\tcat\n");
  EXPECT_EQ(data_kind(settings), "parallel");
  settings.kind = "labels";
  EXPECT_EQ(load_data(kContext, settings).classes, 2);
}

TEST(ParallelData, TargetsAreShifted) {
  const TemporaryFolder folder;
  for (const char* part : {"train", "val", "test_2016_flickr"}) {
    put(folder / fmt::format("{}.de", part), repeated("ein Haus\nzwei Hunde\n", 20));
    put(folder / fmt::format("{}.en", part), repeated("a house\ntwo dogs\n", 20));
  }
  DataSettings settings = source(folder.path());
  settings.vocabulary = 270;
  EXPECT_EQ(data_kind(settings), "parallel");
  const Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.task, Task::seq2seq);
  EXPECT_EQ(data.train->size(), 40);
  EXPECT_EQ(data.test->size(), 40);
  const Batch batch = first(*data.train, 2);
  const auto piece = [&](const Input& input, int i) {
    const Ids all = input.ids.to_vector<std::int32_t>();
    return Ids{all.begin() + input.rows.cu_seqlens[i], all.begin() + input.rows.cu_seqlens[i + 1]};
  };
  EXPECT_EQ(data.tokenizer->decode(piece(batch.input, 0)), "ein Haus");
  EXPECT_EQ(data.tokenizer->decode(piece(batch.second, 1)), "two dogs");
  const Ids second = batch.second.ids.to_vector<std::int32_t>(), targets = batch.targets.to_vector<std::int32_t>();
  EXPECT_EQ(second[0], data.tokenizer->special_ids().bos);
  EXPECT_EQ(targets.back(), data.tokenizer->special_ids().eos);
  EXPECT_EQ(second.size(), targets.size());
  EXPECT_EQ(second[1], targets[0]);
  settings.source_language = "en";
  EXPECT_EQ(load_data(kContext, settings).name.substr(folder.path().filename().string().size()), " en-de");
}

TEST(ParallelData, RefusesFilesThatDoNotMatch) {
  const TemporaryFolder folder;
  put(folder / "train.de", "eins\nzwei\n");
  put(folder / "train.en", "one\n");
  EXPECT_ERROR(load_data(kContext, source(folder.path())), kBad, "1 lines", "train.en", "line i");
  put(folder / "train.en", "one\n \n");
  EXPECT_ERROR(load_data(kContext, source(folder.path())), kBad, "without words", "train.en:2", "");
  put(folder / "train.fr", "un\ndeux\n");
  EXPECT_ERROR(load_data(kContext, source(folder.path())), ErrorCode::usage, "which two of de, en, fr", "", "");
}

TEST(LabelledData, ReadsLabelsAndTexts) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", repeated("1\tgood film\n0\tbad\n", 10));
  put(folder / "test.tsv", "0\tso bad\n");
  const Dataset data = load_data(kContext, source(folder.path()));
  EXPECT_EQ(data.task, Task::classify);
  EXPECT_EQ(data.classes, 2);
  EXPECT_EQ(data.vocabulary, 256);
  EXPECT_EQ(data.max_length, 9);
  EXPECT_EQ(data.train->size(), 18);  // a tenth is held out
  EXPECT_EQ(data.validation->size(), 2);
  const Batch batch = first(*data.test, 1);
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>(), Ids{0});
  EXPECT_EQ(batch.input.ids.to_vector<std::int32_t>(), (Ids{'s', 'o', ' ', 'b', 'a', 'd'}));
  EXPECT_EQ(data.test->majority(), 1.0);
}

// Labels that alternate must not leave one class alone in the part that is held out.
TEST(LabelledData, HoldsOutEveryClass) {
  std::vector<int> train, held;
  for (int i = 0; i < 1005; ++i) train.push_back(i);
  hold_out(train, held);
  EXPECT_EQ(held.size() + train.size(), 1005u);
  EXPECT_NEAR(static_cast<double>(held.size()), 100.5, 0.6);
  const auto odd = std::count_if(held.begin(), held.end(), [](int i) { return i % 2 == 1; });
  EXPECT_NEAR(static_cast<double>(odd), 50.0, 20.0);
}

TEST(LabelledData, ReadsTextsWithTabs) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", repeated("1\t9\t17\ta\tb c\n0\t2\t18\td\n", 10));
  const Dataset data = load_data(kContext, source(folder.path()));
  EXPECT_EQ(data.classes, 2);
  EXPECT_EQ(data.max_length, 5);
  put(folder / "train.tsv", repeated("1\ta\tb\n0\tc\n", 10));
  EXPECT_EQ(load_data(kContext, source(folder.path())).max_length, 3);
}

TEST(LabelledData, ReadsColumnsOfGlue) {
  const TemporaryFolder folder;
  put(folder / "train.tsv",
      "index\tquestion\tsentence\tlabel\n0\tWhy?\tSo.\tentailment\n1\tWho?\tI.\tnot_entailment\n");
  put(folder / "dev.tsv", "index\tquestion\tsentence\tlabel\n0\tHow?\tThus.\tnot_entailment\n");
  put(folder / "test.tsv", "index\tquestion\tsentence\n0\tA\tB\n");
  const Dataset data = load_data(kContext, source(folder.path()));
  EXPECT_EQ(data.task, Task::match);
  EXPECT_EQ(data.test->size(), 1);
  const Batch batch = first(*data.test, 1);
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>(), Ids{1});
  EXPECT_EQ(batch.second.ids.to_vector<std::int32_t>(), (Ids{'T', 'h', 'u', 's', '.'}));
  put(folder / "train.tsv", "gj04\t1\t\tA sentence.\nx\t0\t*\tSentence a.\n");  // CoLA has no header
  put(folder / "dev.tsv", "x\t0\t*\tNo.\n");
  EXPECT_EQ(load_data(kContext, source(folder.path())).task, Task::classify);
}

TEST(LabelledData, AnswersWithFractionsAreNumbers) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", "sentence1\tsentence2\tscore\na\tb\t3.5\nc\td\t1\n");
  put(folder / "dev.tsv", "sentence1\tsentence2\tscore\ne\tf\t0.25\n");
  DataSettings settings = source(folder.path());
  Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.task, Task::regress);
  EXPECT_EQ(data.classes, 0);
  EXPECT_EQ(data.mean, std::vector<double>{2.25});
  EXPECT_EQ(first(*data.test, 1).targets.to_vector<float>(), std::vector<float>{0.25F});
  EXPECT_TRUE(first(*data.test, 1).second.ids.defined());
  EXPECT_EQ(data.test->majority(), 0.0);
  const std::uint64_t before = data.test->hash();
  put(folder / "dev.tsv", "sentence1\tsentence2\tscore\ne\tf\t0.5\n");
  EXPECT_NE(load_data(kContext, settings).test->hash(), before);

  put(folder / "train.tsv", "4.5\tlong\n1\tshort\n");
  put(folder / "dev.tsv", "2\tmiddle\n");
  EXPECT_EQ(load_data(kContext, settings).task, Task::regress);
  settings.answers = "classes";
  put(folder / "dev.tsv", "1\tmiddle\n");
  data = load_data(kContext, settings);
  EXPECT_EQ(data.task, Task::classify);
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"1", "4.5"}));
  put(folder / "train.tsv", "4\tlong\n1\tshort\n");
  EXPECT_EQ(load_data(kContext, settings).task, Task::classify);
  settings.answers = "numbers";
  EXPECT_EQ(load_data(kContext, settings).task, Task::regress);
  settings.answers = "number";
  EXPECT_ERROR(load_data(kContext, settings), ErrorCode::usage, "unknown kind of answers", "data.answers", "numbers");
}

TEST(LabelledData, NamesTheLineThatIsWrong) {
  const TemporaryFolder folder;
  put(folder / "train.tsv", "1\ta\n0\tb\n");
  const auto read = [&](const std::string& test) {
    put(folder / "test.tsv", test);
    return load_data(kContext, source(folder.path()));
  };
  EXPECT_ERROR(read("1\ta\n2\tb\n"), kBad, "the label \"2\" does not occur", "test.tsv:2", "0, 1");
  EXPECT_ERROR(read("1\ta\n1\n"), kBad, "expected 2 fields, got 1", "test.tsv:2", "");
  EXPECT_ERROR(read("1\ta\n0\t\n"), kBad, "field 2 is empty", "test.tsv:2", "");
  EXPECT_ERROR(read("what is this\n"), kBad, "neither a label and a text", "test.tsv:1", "");
  EXPECT_ERROR(read(""), kBad, "neither a label and a text", "test.tsv:1", "");
  put(folder / "train.tsv", "sentence1\tsentence2\tscore\na\tb\t3.4\nc\td\t1\n");
  EXPECT_ERROR(read("sentence1\tsentence2\tscore\na\tb\tx\n"), kBad, "\"x\" is no number", "test.tsv:2",
               "data.answers=classes");
}

TEST(PairData, KeepsEachPaperOnce) {
  const TemporaryFolder folder;
  put(folder / "papers.tsv", "A\tfirst\nB\tsecond paper\nC\tthird\n");
  for (const char* part : {"train", "valid", "test"})
    put(folder / fmt::format("pairs.{}.tsv", part), "1\tA\tB\n0\tC\tA\n");
  const Dataset data = load_data(kContext, source(folder.path()));
  EXPECT_EQ(data.task, Task::match);
  EXPECT_EQ(data.max_length, 12);
  const Batch batch = first(*data.train, 2);
  EXPECT_EQ(batch.input.rows.cu_seqlens, Ids({0, 5, 10}));
  EXPECT_EQ(batch.second.rows.cu_seqlens, Ids({0, 12, 17}));
  EXPECT_EQ(batch.targets.to_vector<std::int32_t>(), (Ids{1, 0}));
  put(folder / "pairs.valid.tsv", "1\tA\tD\n");
  EXPECT_ERROR(load_data(kContext, source(folder.path())), kBad, "\"D\" is not in papers.tsv", "pairs.valid.tsv:1", "");
}

TEST(PictureData, TaskDecidesHowPicturesAreRead) {
  const TemporaryFolder folder;
  const auto idx = [](int magic, int count, int side) {
    std::string out{0, 0, 8, static_cast<char>(magic), 0, 0, 0, static_cast<char>(count)};
    if (side > 0) out += std::string{0, 0, 0, static_cast<char>(side), 0, 0, 0, static_cast<char>(side)};
    for (int i = 0; i < count * std::max(1, side * side); ++i) out += static_cast<char>(i % 3);
    return out;
  };
  put(folder / "train-images-idx3-ubyte", idx(3, 20, 4));
  put(folder / "train-labels-idx1-ubyte", idx(1, 20, 0));
  put(folder / "t10k-images-idx3-ubyte", idx(3, 5, 4));
  put(folder / "t10k-labels-idx1-ubyte", idx(1, 5, 0));
  DataSettings settings = source(folder.path());
  Dataset data = load_data(kContext, settings);
  EXPECT_EQ(data.task, Task::vision);
  EXPECT_EQ(data.height, 4);
  EXPECT_EQ(data.classes, 3);
  EXPECT_EQ(data.train->size(), 18);
  EXPECT_EQ(data.mean.size(), 1u);
  settings.mean = {0.25};
  settings.deviation = {0.5};
  EXPECT_EQ(load_data(kContext, settings).mean[0], 0.25);
  data = load_data(kContext, settings, {.task = Task::classify});
  EXPECT_EQ(data.task, Task::classify);
  EXPECT_EQ(data.max_length, 16);
  EXPECT_EQ(data.vocabulary, 256);
  std::string labels = idx(1, 5, 0);
  labels.back() = 9;
  put(folder / "t10k-labels-idx1-ubyte", labels);
  EXPECT_ERROR(load_data(kContext, settings), kBad, "the label 9", "", "labels are 0 to 2");
}

TEST(Kinds, AreToldByTheirFilesOrRefused) {
  const TemporaryFolder folder;
  EXPECT_ERROR(load_data(kContext, source(folder.path())), kBad, "no kind of data", folder.path().string(),
               "fovea list data");
  EXPECT_ERROR(load_data(kContext, source(folder / "none")), kBad, "no such file or folder", "data.source", "");
  DataSettings settings = source(folder.path());
  settings.kind = "picturs";
  EXPECT_ERROR(load_data(kContext, settings), ErrorCode::usage, "unknown kind", "data.kind", "\"pictures\"?");
  EXPECT_EQ(data_kind({}), "listops");
  EXPECT_EQ(usual_task({}), Task::classify);
  put(folder / "x.csv", "date,v\n" + repeated("2016-07-01 00:00:00,1\n", 1));
  EXPECT_EQ(usual_task(source(folder.path())), Task::forecast);
}

}  // namespace
}  // namespace fovea
