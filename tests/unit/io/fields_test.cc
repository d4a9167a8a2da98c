#include "io/fields.h"

#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"

namespace fovea {
namespace {

enum class Schedule { constant, cosine };

struct Layer {
  std::string attention = "softmax";
  int heads = 2;
  template <class V>
  void fields(V& v) {
    v("attention", attention, "mechanism of this layer");
    v("heads", heads, "attention heads", at_least(1));
  }
  bool operator==(const Layer&) const = default;
};

struct Train {
  double lr = 1e-3;
  float clip = 0.1f;
  std::int64_t steps = 100;
  std::uint64_t seed = 0;
  bool shuffle = true;
  Schedule schedule = Schedule::cosine;
  std::optional<double> decay;
  template <class V>
  void fields(V& v) {
    v("lr", lr, "peak learning rate", above(0));
    v("clip", clip, "largest gradient norm", between(0, 10));
    v("steps", steps, "updates to make", at_least(0));
    v("seed", seed, "seed of all draws");
    v("shuffle", shuffle, "new order every epoch");
    v("schedule", schedule, "how the rate moves", one_of({"constant", "cosine"}));
    v("decay", decay, "weight decay", at_least(0));
  }
  bool operator==(const Train&) const = default;
};

struct Settings {
  std::string name = "run";
  std::vector<std::int64_t> widths = {64, 128};
  std::vector<Layer> layers = {Layer{}, Layer{}};
  Train train;
  int width = 64;
  template <class V>
  void fields(V& v) {
    v("name", name, "name of the run");
    v("widths", widths, "widths to try", at_least(1));
    v("layers", layers, "the stack");
    v("train", train, "training");
    v("width", width, "model width", at_least(1));
  }
  void check() const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (width % layers[i].heads != 0)
        fail(ErrorCode::usage, "heads do not divide the width", "layers[" + std::to_string(i) + "].heads");
  }
  bool operator==(const Settings&) const = default;
};

Settings parse(const std::string& text) {
  Settings settings;
  read_fields(settings, parse_json(text, "run.json"), "run.json");
  return settings;
}

void set(Settings& settings, const std::vector<std::string>& assignments) { set_fields(settings, assignments); }

Settings changed(const std::string& assignment) {
  Settings settings;
  set(settings, {assignment});
  return settings;
}

TEST(Fields, WhatIsWrittenReadsBackEqual) {
  Settings settings;
  settings.train = {.lr = 3e-4,
                    .clip = 0.3f,
                    .steps = 7,
                    .seed = ~std::uint64_t{0},
                    .shuffle = false,
                    .schedule = Schedule::constant,
                    .decay = 0.01};
  settings.layers = {Layer{"norm", 4}, Layer{"diag", 1}, Layer{}};
  settings.widths.clear();
  settings.name = "ünï \"x\"";
  EXPECT_EQ(parse(json_text(write_fields(settings))), settings);
  EXPECT_EQ(parse(json_text(write_fields(Settings{}))), Settings{});
}

TEST(Fields, PrintsShortFloatsAndInfinity) {
  Settings settings;
  settings.train.lr = INFINITY;
  const Json json = write_fields(settings);
  EXPECT_EQ(json["train"]["clip"].dump(), "0.1");
  EXPECT_EQ(parse(json_text(json)).train.lr, INFINITY);
}

TEST(Fields, AbsentKeysKeepTheirDefaults) {
  const Settings settings = parse(R"({"train": {"lr": 0.5, "decay": 1}, "layers": [{"attention": "norm"}]})");
  EXPECT_EQ(settings.train.lr, 0.5);
  EXPECT_EQ(settings.train.decay, 1.0);
  EXPECT_EQ(settings.train.steps, 100);
  EXPECT_EQ(settings.layers, (std::vector<Layer>{{"norm", 2}}));
}

TEST(Fields, UnknownKeyNamesPathAndNearest) {
  EXPECT_ERROR(parse(R"({"train": {"lrr": 1}})"), ErrorCode::bad_input, "unknown key \"lrr\"", "run.json: train.lrr",
               "\"lr\"?");
  EXPECT_ERROR(parse(R"({"layers": [{}, {"head": 1}]})"), ErrorCode::bad_input, "unknown key \"head\"",
               "run.json: layers[1].head", "\"heads\"?");
  EXPECT_ERROR(parse(R"({"qqqqqqq": 1})"), ErrorCode::bad_input, "unknown key", "run.json: qqqqqqq",
               "one of name, widths, layers, train, width");
}

TEST(Fields, WrongKindsAndRangesAreNamed) {
  const auto bad = ErrorCode::bad_input;
  EXPECT_ERROR(parse(R"({"train": {"lr": "fast"}})"), bad, "expected a number above 0, got \"fast\"",
               "run.json: train.lr", "peak learning rate");
  EXPECT_ERROR(parse(R"({"train": {"lr": 0}})"), bad, "above 0, got 0", "train.lr", "");
  EXPECT_ERROR(parse(R"({"train": {"clip": 11}})"), bad, "between 0 and 10, got 11", "train.clip", "");
  EXPECT_ERROR(parse(R"({"train": {"steps": 1.5}})"), bad, "expected a whole number", "train.steps", "");
  EXPECT_ERROR(parse(R"({"train": {"steps": 18446744073709551615}})"), bad, "expected a whole number", "train.steps",
               "");
  EXPECT_ERROR(parse(R"({"train": {"seed": -1}})"), bad, "at least 0, got -1", "train.seed", "");
  EXPECT_ERROR(parse(R"({"train": {"shuffle": 1}})"), bad, "true or false", "train.shuffle", "");
  EXPECT_ERROR(parse(R"({"train": {"schedule": "cosin"}})"), bad, "unknown schedule \"cosin\"", "train.schedule",
               "\"cosine\"?");
  EXPECT_ERROR(parse(R"({"train": []})"), bad, "expected an object, got []", "run.json: train", "");
  EXPECT_ERROR(parse(R"({"layers": {}})"), bad, "expected a list", "layers", "");
  EXPECT_ERROR(parse(R"({"widths": [1, 2, 0]})"), bad, "at least 1, got 0", "widths[2]", "");
  EXPECT_ERROR(parse(R"({"width": 4294967360})"), bad, "expected a whole number", "run.json: width", "");
  EXPECT_ERROR(parse(R"({"name": 5})"), bad, "expected a string, got 5", "run.json: name", "");
  EXPECT_ERROR(parse("[]"), bad, "expected an object", "run.json", "");
}

TEST(Fields, CheckReportsThePathAndARefusedFileChangesNothing) {
  Settings settings;
  const Settings before = settings;
  const Json json = parse_json(R"({"name": "new", "layers": [{}, {"heads": 3}]})", "run.json");
  EXPECT_ERROR(read_fields(settings, json, "run.json"), ErrorCode::bad_input, "heads do not divide",
               "run.json: layers[1].heads", "");
  EXPECT_EQ(settings, before);
}

TEST(Fields, SetsByPath) {
  EXPECT_EQ(changed("train.lr=3e-4").train.lr, 3e-4);
  EXPECT_EQ(changed("train.steps=1e4").train.steps, 10000);
  EXPECT_EQ(changed("train.seed=18446744073709551615").train.seed, ~std::uint64_t{0});
  EXPECT_EQ(changed("train.decay=0.5").train.decay, 0.5);
  EXPECT_EQ(changed("train.decay=null").train.decay, std::nullopt);
  EXPECT_EQ(changed("train.schedule=constant").train.schedule, Schedule::constant);
  EXPECT_EQ(changed("layers[1].attention=norm").layers[1].attention, "norm");
  EXPECT_EQ(changed("layers=[{\"attention\": \"diag\"}]").layers, (std::vector<Layer>{{"diag", 2}}));
  EXPECT_EQ(changed("widths=1,2,3").widths, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(changed("name=123").name, "123");
  EXPECT_EQ(changed("name=a=b").name, "a=b");
  EXPECT_EQ(changed("name=").name, "");
}

TEST(Fields, SetChecksOnceAllAreApplied) {
  Settings settings;
  set(settings, {"layers[0].heads=3", "layers[1].heads=3", "width=96"});
  EXPECT_EQ(settings.width, 96);
  EXPECT_ERROR(set(settings, {"width=64"}), ErrorCode::usage, "heads do not divide", "--set layers[0].heads", "");
}

TEST(Fields, SetRefusesClearly) {
  const auto usage = ErrorCode::usage;
  EXPECT_ERROR(changed("train.lr"), usage, "expected NAME=VALUE", "--set", "--set train.lr=3e-4");
  EXPECT_ERROR(changed("=1"), usage, "expected NAME=VALUE", "--set", "");
  EXPECT_ERROR(changed("trian.lr=1"), usage, "unknown key \"trian\"", "--set trian.lr", "--set train.lr=1");
  EXPECT_ERROR(changed("train.lr.x=1"), usage, "nothing called \"x\"", "--set train.lr.x", "");
  EXPECT_ERROR(changed("train.width=1"), usage, "unknown key \"width\"", "--set train.width", "--set width=1");
  EXPECT_ERROR(changed("lr=1"), usage, "unknown key \"lr\"", "--set lr", "--set train.lr=1");
  EXPECT_ERROR(changed("stpes=1"), usage, "unknown key \"stpes\"", "--set stpes", "--set train.steps=1");
  EXPECT_ERROR(changed("train.schedule=cosin"), usage, "unknown schedule", "--set", "--set train.schedule=cosine");
  EXPECT_ERROR(changed("layers[7].heads=1"), usage, "there is no element 7: it has 2", "--set", "--set layers[0]=");
  EXPECT_ERROR(changed("layers[-1].heads=1"), usage, "expected a number between [ and ]", "--set", "");
  EXPECT_ERROR(changed("layers[1=1"), usage, "a [ without its ]", "--set", "");
  EXPECT_ERROR(changed("train.lr=fast"), usage, "expected a number above 0, got \"fast\"", "--set train.lr",
               "--set train.lr=0.001   (peak learning rate)");
  EXPECT_ERROR(changed("layers=" + std::string(100000, '[')), usage, "expected a list, got a string", "--set layers",
               "");
  EXPECT_ERROR(changed("train=1"), usage, "expected an object", "--set train", "");
}

TEST(Fields, DescribesEveryField) {
  const std::vector<FieldHelp> lines = describe_fields(Settings{});
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[2].path, "layers[i].attention");
  EXPECT_EQ(lines[4].path, "train.lr");
  EXPECT_EQ(lines[4].value, "0.001");
  EXPECT_EQ(lines[4].help, "peak learning rate");
  EXPECT_EQ(lines[4].allowed, "above 0");
  EXPECT_EQ(lines[9].allowed, "one of constant, cosine");
  EXPECT_EQ(lines[9].choices, (std::vector<std::string>{"constant", "cosine"}));
}

TEST(Fields, ListsWhatTheyHoldInTheWordsOfSet) {
  std::map<std::string, std::string> shown;
  Settings settings;
  settings.widths = {64, 64};
  for (const FieldHelp& line : list_fields(settings)) shown[line.path] = line.value;
  EXPECT_EQ(shown["layers[1].attention"], "softmax");
  EXPECT_EQ(shown["widths"], "64,64");
  EXPECT_EQ(shown["train.decay"], "none");
  EXPECT_EQ(shown["train.schedule"], "cosine");
  struct Names {
    std::vector<std::string> layers = {"norm", "norm", "diag"}, none = {};
    void fields(FieldVisitor& v) {
      v("layers", layers, "");
      v("none", none, "");
    }
  };
  const std::vector<FieldHelp> names = list_fields(Names{});
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0].value, "norm*2,diag");
  EXPECT_EQ(names[1].value, "");
}

TEST(Json, RefusesDeepDuplicateAndBrokenText) {
  const auto bad = ErrorCode::bad_input;
  EXPECT_ERROR(parse_json("{\"a\": 1, \"a\": 2}", "f"), bad, "key \"a\" is given twice", "f", "");
  EXPECT_ERROR(parse_json(std::string(100000, '['), "f"), bad, "nested deeper than 32", "f", "");
  EXPECT_ERROR(parse_json("{\n  \"a\": ]\n}", "f"), bad, "not JSON", "f, line 2, column", "");
  EXPECT_ERROR(parse_json("", "f"), bad, "not JSON", "f, line 1", "");
  EXPECT_ERROR(parse_json("{} {}", "f"), bad, "not JSON", "f", "");
  EXPECT_ERROR(parse_json("1e999", "f"), bad, "not JSON", "f", "");
  EXPECT_ERROR(parse_json("\"\xff\"", "f"), bad, "not JSON", "f", "");
  EXPECT_EQ(parse_json(std::string(32, '[') + std::string(32, ']'), "f").size(), 1u);
}

// Whatever is cut off or changed, the answer is settings or an Error.
TEST(Json, SurvivesCutAndFlippedText) {
  const std::string text = json_text(write_fields(Settings{}));
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THROW(parse(text.substr(0, i == text.size() - 1 ? i - 1 : i)), Error);
    for (const int bit : {1, 4, 32, 128}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ bit);
      try {
        parse(flipped);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace fovea
