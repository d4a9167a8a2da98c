#include "io/missing.h"

#include <vector>

#include "core/nearest.h"

namespace fovea {

std::string missing_hint(const Path& path) {
  Path above = path;
  Path part;
  while (true) {  // up to the last folder that is there
    part = above.filename().empty() ? above.parent_path().filename() : above.filename();
    const Path next = above.filename().empty() ? above.parent_path().parent_path() : above.parent_path();
    above = next.empty() ? Path(".") : next;
    if (is_folder(above) || above == above.parent_path() || above == ".") break;
  }
  const std::string wanted = part.string();
  std::vector<std::string> names;
  if (is_folder(above))
    for (const Path& entry : entries_of(above)) names.push_back(entry.filename().string());
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string_view near = nearest_name(wanted, views);
  for (const std::string_view name : views)  // "input.txt" for "input", and for "input.txt.gz"
    if (near.empty() && !wanted.empty() && Path(name).stem() == Path(wanted).stem()) near = name;
  if (near.empty()) return "ls " + above.string();
  return "\"" + (above == "." ? Path(near) : above / near).string() + "\"?";
}

}  // namespace fovea
