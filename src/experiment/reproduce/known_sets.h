#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace fovea {

// A file as its publisher, or docs/data.md, has it.
struct KnownFile {
  std::string_view name;
  std::size_t bytes = 0;         // unpacked; 0: not known
  std::string_view sha256 = {};  // empty: not known
  std::string_view head = {};    // first digits of the SHA-256 of its first 4096 bytes
};

// A published data set: what it is called below --data, and what it has to hold.
struct KnownSet {
  std::string_view name;                        // "imdb"
  std::string_view title;                       // "IMDb"
  std::vector<std::string_view> folders;        // where it may lie below --data
  std::vector<std::vector<KnownFile>> layouts;  // one of these is enough
  std::string_view file = {};                   // what is read, where it is a file of the folder
  std::int64_t train = 0;                       // training examples of the original; 0: not known
};

std::span<const KnownSet> known_sets();
const KnownSet& known_set(std::string_view name);

// The folder or file of a set below `data` (or `data` itself); none: it is not there.
std::optional<Path> find_set(const KnownSet& set, const Path& data);

// "imdb with train.tsv (33390335 bytes, SHA-256 fb54...), test.tsv (...)"
std::string expected_files(const KnownSet& set);

// Refuses a set that lacks a file, or has one of another size or content; says what it should be.
void require_whole(const KnownSet& set, const Path& place);

// Refuses a folder or file that begins as a known one and ends before it.
void refuse_half_copied(const Path& place, std::span<const KnownSet> originals = known_sets());

}  // namespace fovea
