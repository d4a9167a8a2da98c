#include "fuzz/shrink.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "fuzz/judge.h"

namespace fovea::fuzz {
namespace {

constexpr int kTries = 300, kPatienceMs = 60'000;

// Two failures are of a kind when they begin alike, numbers aside.
std::string kind_of(const std::string& failure) {
  std::string kind;
  for (const char c : failure.substr(0, 60))
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) kind += c;
  return kind.substr(0, 32);
}

// What a child says before it ends. It is stopped when it takes too long.
std::string heard(int from, pid_t child) {
  std::string text;
  char part[512];
  pollfd ready{from, POLLIN, 0};
  while (poll(&ready, 1, kPatienceMs) > 0) {
    const ssize_t count = read(from, part, sizeof part);
    if (count <= 0) return text;
    text.append(part, static_cast<std::size_t>(count));
  }
  kill(child, SIGKILL);
  return "does not end";
}

void halve(Ints& list) {
  for (std::int32_t& x : list) x /= 2;
}

Spec half_as_long(Spec s) {
  s.n_q /= 2, s.n_k /= 2;
  for (Ints* list : {&s.lengths, &s.key_lengths, &s.packed, &s.key_packed}) halve(*list);
  return s;
}

Spec one_item_less(Spec s) {
  s.batch = std::max<std::int64_t>(s.batch - 1, 0);
  for (Ints* list : {&s.lengths, &s.key_lengths})
    if (!list->empty()) list->pop_back();
  return s;
}

// Calls f with simpler values of a field: its default; of a size, also half of it and one less.
template <class T, class F>
void each_smaller(const T& value, const T& usual, const F& f) {
  if (value == usual) return;
  f(usual);
  if constexpr (std::is_same_v<T, std::int64_t>)
    if (value > usual) f(value / 2), f(value - 1);
}

// Sets the field of that name.
template <class T>
void set_field(Spec& spec, const char* name, const T& value) {
  each_field(spec, [&](const char* field, auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, T>)
      if (std::strcmp(name, field) == 0) member = value;
  });
}

// Every case that is one step simpler: the mechanism's defaults, all lengths halved, a field at its default or smaller.
std::vector<Spec> simpler(const Spec& s) {
  std::vector<Spec> out{half_as_long(s), one_item_less(s)};
  if (const std::size_t colon = s.mechanism.find(':'); colon != std::string::npos) {
    out.push_back(s);
    out.back().mechanism.resize(colon);
  }
  const Spec usual;
  each_field(s, [&](const char* name, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    T fallback = value;
    each_field(usual, [&](const char* field, const auto& member) {
      if constexpr (std::is_same_v<std::decay_t<decltype(member)>, T>)
        if (std::strcmp(name, field) == 0) fallback = member;
    });
    if (std::strcmp(name, "dtype") == 0 || std::strcmp(name, "wrong") == 0) return;
    each_smaller(value, fallback, [&](const T& less) { set_field(out.emplace_back(s), name, less); });
  });
  return out;
}

}  // namespace

std::string failure_of(const Spec& spec) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string failure = judge(spec).failure;
    const bool written = write(ends[1], failure.data(), failure.size()) >= 0;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string failure = heard(ends[0], child);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (failure.empty() && WIFSIGNALED(status)) return fmt::format("dies of {}", strsignal(WTERMSIG(status)));
  if (failure.empty() && WEXITSTATUS(status) != 0) return fmt::format("exits with status {}", WEXITSTATUS(status));
  return failure;
}

Found shrink(const Found& found) {
  Found best = found;
  const std::string kind = kind_of(found.failure);
  int tries = 0;
  for (bool better = true; better && tries < kTries;) {
    better = false;
    for (const Spec& candidate : simpler(best.spec)) {
      if (candidate == best.spec || ++tries > kTries) continue;
      const std::string failure = failure_of(candidate);
      if (kind_of(failure) != kind) continue;
      best = {candidate, failure};
      better = true;
      break;
    }
  }
  return best;
}

}  // namespace fovea::fuzz
