#include "text/aligned.h"

#include <algorithm>

#include "fovea/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {

AlignedText::AlignedText(std::string_view original, Range range, bool repair)
    : view_(original.substr(range.begin, range.size())), base_(range.begin) {
  if (!repair || is_valid_utf8(view_)) return;
  for_characters(view_, [&](const Character& c, std::size_t at) {
    const auto begin = base_ + static_cast<std::uint32_t>(at);
    const std::string_view piece = c.valid ? view_.substr(at, c.size) : kReplacementUtf8;
    owned_.append(piece);
    spans_.insert(spans_.end(), piece.size(), Range{begin, begin + c.size});
  });
  changed_ = repaired_ = true;
}

Range AlignedText::original(Range part) const {
  if (changed_) return {spans_[part.begin].begin, spans_[part.end - 1].end};
  return {base_ + static_cast<std::uint32_t>(character_begin(view_, part.begin)),
          base_ + static_cast<std::uint32_t>(character_end(view_, part.end))};
}

// U+FFFD itself takes three bytes of the original.
std::string_view AlignedText::invalid_byte(std::uint32_t at) const {
  if (!repaired_ || !text().substr(at).starts_with(kReplacementUtf8) || spans_[at].size() != 1) return {};
  const std::string_view byte = view_.substr(spans_[at].begin - base_, 1);
  return static_cast<unsigned char>(byte[0]) < 0x80 ? std::string_view() : byte;
}

Range AlignedText::span_at(std::uint32_t at) const {
  if (changed_) return spans_[at];
  const auto begin = static_cast<std::uint32_t>(character_begin(view_, at));
  return {base_ + begin, base_ + begin + decode(view_, begin).size};
}

void AlignedText::transform(std::span<const Change> changes, std::size_t dropped) {
  const std::string_view old = text();
  const auto size_at = [&](std::size_t at) { return at < old.size() ? decode(old, at).size : 0; };
  std::string made;
  std::vector<Range> spans;
  made.reserve(old.size() + 16);
  spans.reserve(old.size() + 16);
  std::uint32_t at = 0;
  for (; dropped > 0; --dropped) at += size_at(at);
  for (const Change& change : changes) {
    Range span{base_, base_};
    if (change.kind > 0 && at > 0) span = span_at(at - 1);
    if (change.kind <= 0 && at < old.size()) span = span_at(at);
    for (int gone = change.kind; gone <= 0; ++gone) at += size_at(at);
    append_utf8(made, change.code);
    spans.resize(made.size(), span);
  }
  owned_ = std::move(made);
  spans_ = std::move(spans);
  changed_ = true;
}

void AlignedText::filter(const std::function<bool(char32_t)>& keep) {
  std::vector<Change> changes;
  std::size_t dropped = 0;
  bool all = true;
  for_characters(text(), [&](const Character& c, std::size_t) {
    if (keep(c.code)) return changes.push_back({c.code, 0});
    all = false;
    changes.empty() ? ++dropped : static_cast<std::size_t>(--changes.back().kind);
  });
  if (!all) transform(changes, dropped);
}

void AlignedText::map(const std::function<char32_t(char32_t)>& change) {
  std::vector<Change> changes;
  bool same = true;
  for_characters(text(), [&](const Character& c, std::size_t) {
    changes.push_back({change(c.code), 0});
    same = same && changes.back().code == c.code;
  });
  if (!same) transform(changes, 0);
}

void AlignedText::prepend(std::string_view text) {
  if (size() == 0 || text.empty()) return;
  Rebuild rebuild(*this);
  rebuild.insert(text, span_at(0));
  rebuild.copy({0, size()});
  rebuild.commit();
}

void AlignedText::strip(bool left, bool right) {
  const std::string_view all = text();
  std::uint32_t begin = 0, end = size();
  while (left && begin < end && is_white_space(decode(all, begin).code)) begin += decode(all, begin).size;
  while (right && end > begin) {
    const auto last = static_cast<std::uint32_t>(character_begin(all, end - 1));
    if (!is_white_space(decode(all, last).code)) break;
    end = last;
  }
  if (begin == 0 && end == size()) return;
  Rebuild rebuild(*this);
  rebuild.copy({begin, end});
  rebuild.commit();
}

void AlignedText::replace(std::span<const Range> parts, std::string_view content) {
  if (parts.empty()) return;
  Rebuild rebuild(*this);
  std::uint32_t done = 0;
  for (const Range& part : parts) {
    rebuild.copy({done, part.begin});
    rebuild.insert(content, part.end > 0 ? span_at(part.end - 1) : Range{base_, base_});
    done = part.end;
  }
  rebuild.copy({done, size()});
  rebuild.commit();
}

void AlignedText::Rebuild::copy(Range part) {
  text_.append(target_.text().substr(part.begin, part.size()));
  if (target_.changed_) {
    spans_.insert(spans_.end(), target_.spans_.begin() + part.begin, target_.spans_.begin() + part.end);
    return;
  }
  for (std::uint32_t at = part.begin; at < part.end;) {
    const Character c = decode(target_.view_, at);
    spans_.insert(spans_.end(), c.size, {target_.base_ + at, target_.base_ + at + c.size});
    at += c.size;
  }
}

void AlignedText::check_growth(std::size_t bytes) const {
  if (bytes > most_after(view_.size()))
    fail(ErrorCode::bad_input, "the tokeniser makes a text of " + std::to_string(view_.size()) + " bytes longer than " +
                                   std::to_string(most_after(view_.size())));
}

void AlignedText::Rebuild::insert(std::string_view text, Range original) {
  target_.check_growth(text_.size() + text.size());
  text_.append(text);
  spans_.resize(text_.size(), original);
}

void AlignedText::Rebuild::commit() {
  target_.owned_ = std::move(text_);
  target_.spans_ = std::move(spans_);
  target_.changed_ = true;
}

}  // namespace fovea::text
