#include "data/listops/listops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/nearest.h"
#include "fovea/error.h"

namespace fovea::listops {
namespace {

constexpr std::array<std::string_view, kVocabulary> kNames = {"",  "[MIN", "[MAX", "[MED", "[SM", "]", "0", "1",
                                                              "2", "3",    "4",    "5",    "6",   "7", "8", "9"};

bool is_operator(std::uint8_t token) { return token >= kMin && token <= kSum; }

int apply(std::uint8_t operation, std::span<int> values) {
  switch (operation) {
    case kMin: return *std::min_element(values.begin(), values.end());
    case kMax: return *std::max_element(values.begin(), values.end());
    case kSum: {
      int sum = 0;
      for (const int value : values) sum = (sum + value) % 10;
      return sum;
    }
    default: {  // the median, cut to an integer when two values share the middle
      std::sort(values.begin(), values.end());
      const std::size_t middle = values.size() / 2;
      return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    }
  }
}

[[noreturn]] void refuse(const char* what, std::size_t token) {
  fail(ErrorCode::bad_input, what, fmt::format("token {}", token + 1));
}

std::uint8_t token_of(std::string_view word, std::size_t index) {
  if (word == "X") return kClose;  // how the published reader writes it
  const auto found = std::find(kNames.begin() + 1, kNames.end(), word);
  if (found != kNames.end()) return static_cast<std::uint8_t>(found - kNames.begin());
  fail(ErrorCode::bad_input, fmt::format("token \"{}\" is not in the vocabulary", word.substr(0, 40)),
       fmt::format("token {}", index + 1), name_hint(word, std::span(kNames).subspan(1)));
}

// For every operator the number of its arguments, in order of appearance.
std::vector<int> argument_counts(const Tokens& tokens) {
  std::vector<int> counts;
  std::vector<std::size_t> open;
  for (const std::uint8_t token : tokens) {
    if (token == kClose) {
      open.pop_back();
      continue;
    }
    if (!open.empty()) ++counts[open.back()];
    if (!is_operator(token)) continue;
    open.push_back(counts.size());
    counts.push_back(0);
  }
  return counts;
}

}  // namespace

int evaluate(const Tokens& tokens) {
  struct Open {
    std::uint8_t operation;
    std::size_t first;  // of its values
  };
  std::vector<Open> open;
  std::vector<int> values;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint8_t token = tokens[i];
    if (token == 0 || token >= kVocabulary) refuse("token id outside the vocabulary", i);
    if (open.empty() && i > 0) refuse("something follows the end of the expression", i);
    if (is_operator(token)) {
      open.push_back({token, values.size()});
    } else if (token != kClose) {
      values.push_back(token - kDigit0);
    } else {
      if (open.empty()) refuse("] without an operator", i);
      const Open inner = open.back();
      open.pop_back();
      if (values.size() == inner.first) refuse("an operator without arguments", i);
      const int value = apply(inner.operation, std::span(values).subspan(inner.first));
      values.resize(inner.first);
      values.push_back(value);
    }
  }
  if (tokens.empty()) refuse("the expression is empty", 0);
  if (!open.empty()) refuse("the expression ends before its last ]", tokens.size());
  return values.front();
}

// Each operator with k arguments opens k + 1 parentheses; each of its arguments, and its ], closes one.
std::string print(const Tokens& tokens) {
  evaluate(tokens);
  const std::vector<int> counts = argument_counts(tokens);
  std::string text;
  std::size_t operators = 0;
  int depth = 0;
  for (const std::uint8_t token : tokens) {
    if (is_operator(token)) {
      for (int i = 0; i <= counts[operators]; ++i) text += "( ";
      ++operators;
      ++depth;
      text += kNames[token];
      text += ' ';
      continue;
    }
    text += kNames[token];
    text += ' ';
    if (token == kClose) {
      --depth;
      text += ") ";
    }
    if (depth > 0) text += ") ";
  }
  text.pop_back();
  return text;
}

Tokens parse(std::string_view text) {
  constexpr std::string_view kSkipped = " ()\t\r\n";
  Tokens tokens;
  for (std::size_t begin = text.find_first_not_of(kSkipped); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSkipped, begin), text.size());
    tokens.push_back(token_of(text.substr(begin, end - begin), tokens.size()));
    begin = text.find_first_not_of(kSkipped, end);
  }
  evaluate(tokens);
  return tokens;
}

}  // namespace fovea::listops
