#include "report/table.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>

#include "support/expect_error.h"

namespace fovea {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Table sample() {
  Table table({{"accuracy", Quantity::percent, Best::highest},
               {"loss", Quantity::number, Best::lowest},
               {"step", Quantity::seconds},
               {"peak memory", Quantity::bytes},
               {"parameters", Quantity::count}});
  table.add("transformer", {0.3612, 1.7, 0.0712, 182.4e6, 201000.0});
  table.add("transnormer-t2", {0.4, 1.7, 0.00912, 92e6, 199000.0});
  return table;
}

TEST(Table, AlignsNumbersUnderUnits) {
  EXPECT_EQ(sample().text({.width = 100}),
            "                 accuracy (%)   loss   step (ms)   peak memory (MB)   parameters (k)\n"
            "transformer              36.1   1.70        71.2                182              201\n"
            "transnormer-t2           40.0   1.70        9.12               92.0              199\n");
}

TEST(Table, PutsUnitsBelowWhenOneLineIsTooLong) {
  EXPECT_EQ(sample().text({}),
            "                 accuracy   loss   step   peak memory   parameters\n"
            "                      (%)          (ms)          (MB)          (k)\n"
            "transformer          36.1   1.70   71.2           182          201\n"
            "transnormer-t2       40.0   1.70   9.12          92.0          199\n");
}

TEST(Table, BoldOnlyWhereColourIs) {
  const std::string bold = sample().text({.interactive = true, .colour = true, .width = 100});
  EXPECT_NE(bold.find("\033[1m        40.0\033[0m"), std::string::npos) << bold;
  EXPECT_EQ(bold.find("\033[1m1.70"), std::string::npos);  // a tie has no best
  EXPECT_EQ(sample().text({.interactive = true, .colour = false, .width = 100}).find('\033'), std::string::npos);
}

TEST(Table, BestMustReadBetter) {
  Table table({{"peak memory", Quantity::bytes, Best::lowest}});
  table.add("a", {30.52e6});
  table.add("b", {30.51e6});
  EXPECT_EQ(table.html().find("best"), std::string::npos);
  table.add("c", {29.9e6});
  EXPECT_NE(table.html().find("<td class=\"best\">29.9</td>"), std::string::npos) << table.html();
}

TEST(Table, BestMustBeatTheSpread) {
  Table table({{"time", Quantity::seconds, Best::lowest}});
  table.add("a", {{1.00, 0.05}});
  table.add("b", {{1.04, 0.01}});
  EXPECT_EQ(table.html().find("best"), std::string::npos);
  table.add("c", {{0.5, 0.01}});
  EXPECT_NE(table.html().find("<td class=\"best\">0.500 ± 0.010</td>"), std::string::npos) << table.html();
}

TEST(Table, BestIsApartFromAllOthers) {
  Table table({{"accuracy", Quantity::percent, Best::highest}});
  table.add("a", {{0.40, 0.02}});
  table.add("b", {{0.425, 0.02}});  // not apart: the interval of the difference is 2.8 points to each side
  EXPECT_EQ(table.html().find("best"), std::string::npos);
  table.add("c", {{0.46, 0.02}});
  EXPECT_NE(table.html().find("best"), std::string::npos);
  TableCell unknown(0.99);
  unknown.margin = std::numeric_limits<double>::infinity();
  table.add("d", {unknown});
  EXPECT_EQ(table.html().find("best"), std::string::npos);
}

TEST(Table, MarksMissedBarsAndMissingValues) {
  Table table({{"ratio", Quantity::ratio}, {"note", Quantity::text}});
  TableCell slow(0.93);
  slow.missed = true;
  table.add("a", {slow, "eager"});
  table.add("b", {kNone, "<none>"});
  EXPECT_EQ(table.text({}),
            "       ratio     note\n"
            "a   0.930x !    eager\n"
            "b          -   <none>\n");
  EXPECT_NE(table.html().find("<td class=\"missed\">0.930x !</td>"), std::string::npos);
  EXPECT_NE(table.html().find("&lt;none&gt;"), std::string::npos);
  EXPECT_EQ(table.csv(), "name,ratio,note\na,0.93,eager\nb,,<none>\n");
  EXPECT_ERROR(table.add("c", {1.0}), ErrorCode::internal, "1 cells in a table of 2", "", "");
}

// On a phone they stand below the row.
TEST(Table, SaysThatItHoldsLongTexts) {
  Table table({{"example", Quantity::text}});
  table.add("1", {"short"});
  EXPECT_EQ(table.html().find("texts"), std::string::npos);
  table.add("2", {std::string(80, 'x')});
  EXPECT_NE(table.html().find("<table class=\"texts\">"), std::string::npos);
}

TEST(Table, NarrowTerminalGetsSeveralTables) {
  const std::string text = sample().text({.width = 40});
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(text_width(text.substr(begin, end - begin)), 40u);
    begin = end + 1;
  }
  EXPECT_NE(text.find("\n\n                 "), std::string::npos) << text;
}

TEST(Table, WithoutRowsIsItsHeader) {
  const Table table({{"loss"}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text({}), "   loss\n");
}

TEST(Numbers, ThreeSignificantDigits) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(1.4159), "1.42");
  EXPECT_EQ(number_text(36.49), "36.5");
  EXPECT_EQ(number_text(99.97), "100");
  EXPECT_EQ(number_text(9.996), "10.0");
  EXPECT_EQ(number_text(12345.6), "12346");
  EXPECT_EQ(number_text(0.03125), "0.0312");
  EXPECT_EQ(number_text(-2.5), "-2.50");
  EXPECT_EQ(number_text(3.121e-5), "3.12e-05");
  EXPECT_EQ(number_text(kNone), "-");
  EXPECT_EQ(number_text(INFINITY), "inf");
}

TEST(Numbers, UnitsKeepValuesReadable) {
  EXPECT_EQ(quantity_text(Quantity::seconds, 0.0021), "2.10 ms");
  EXPECT_EQ(quantity_text(Quantity::seconds, 3e-6), "3.00 µs");
  EXPECT_EQ(quantity_text(Quantity::seconds, 0.99999), "1.00 s");
  EXPECT_EQ(quantity_text(Quantity::seconds, 1800), "30.0 min");
  EXPECT_EQ(quantity_text(Quantity::bytes, 1.5e9), "1.50 GB");
  EXPECT_EQ(quantity_text(Quantity::bytes, 4096), "0.00410 MB");
  EXPECT_EQ(quantity_text(Quantity::percent, 0.365), "36.5%");
  EXPECT_EQ(quantity_text(Quantity::ratio, 1.416), "1.42x");
  EXPECT_EQ(quantity_text(Quantity::count, 201000), "201k");
  EXPECT_EQ(quantity_text(Quantity::count, 1234), "1234");
  EXPECT_EQ(clock_text(31), "0:31");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(INFINITY), "-:--");
}

TEST(Terminal, CountsCharactersNotBytes) {
  EXPECT_EQ(text_width("± µs █"), 6u);
  EXPECT_EQ(pad_left("±", 3), "  ±");
  EXPECT_EQ(cut_right("±±±", 2), "±±");
  EXPECT_EQ(cut_right("ab", 5), "ab");
  EXPECT_EQ(cut_right("ab", 0), "");
}

TEST(Terminal, FoldsBetweenWords) {
  EXPECT_EQ(folded("as wide as it may be", 20), "as wide as it may be");
  EXPECT_EQ(folded("one two three\nfour", 10), "one two\n  three\nfour");
  EXPECT_EQ(folded("  at      a\n  try     one two three\n", 20), "  at      a\n  try     one two\n          three\n");
  EXPECT_EQ(folded("a-word-that-is-longer than", 10), "a-word-that-is-longer\n  than");
  EXPECT_EQ(folded("ä ö ü ä ö", 5), "ä ö ü\n  ä ö");
  EXPECT_EQ(folded("one   two", 5), "one\n  two");
  EXPECT_EQ(folded("trailing     ", 8), "trailing     ");
  EXPECT_EQ(folded("", 5), "");
}

TEST(Terminal, AFileIsNotATerminal) {
  char name[] = "/tmp/fovea-test-XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  EXPECT_FALSE(Terminal::of(file).interactive);
  EXPECT_EQ(Terminal::of(file).width, 80);
  close(file);
}

}  // namespace
}  // namespace fovea
