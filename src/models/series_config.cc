#include <fmt/format.h>

#include "fovea/model.h"
#include "io/field_visitor.h"

namespace fovea {

void SeriesConfig::fit(const Dataset& data) {
  const auto take = [](const char* name, std::int64_t& size, std::int64_t found) {
    if (size == 0) size = found;
    if (size != found)
      fail(ErrorCode::bad_input, fmt::format("{} in the data, {} in the model", found, size),
           fmt::format("series.{}", name), "0: taken from the data");
  };
  take("length", length, data.max_length);
  take("label", label, data.second_max_length - data.horizon);
  take("horizon", horizon, data.horizon);
  take("channels", channels, data.channels);
  take("marks", marks, data.marks);
}

void SeriesConfig::check() const {
  if (kind == Forecaster::memformer && length > 0 && patch > length)
    fail(ErrorCode::usage, fmt::format("a patch of {} rows, but only {} are read", patch, length), "patch",
         "at most series.length");
  if (length > 0 && label > length)
    fail(ErrorCode::usage, fmt::format("a decoder cannot read {} of {} rows again", label, length), "label",
         "at most series.length");
}

void SeriesConfig::fields(FieldVisitor& v) {
  constexpr double kMost = 1 << 24;
  v("kind", kind, "kind of forecaster", one_of({"informer", "memformer"}));
  v("length", length, "rows that are read; 0: taken from the data", between(0, kMost));
  v("label", label, "of these, last rows that a decoder reads again; 0: taken from the data", between(0, kMost));
  v("horizon", horizon, "rows that are foretold; 0: taken from the data", between(0, kMost));
  v("channels", channels, "numbers of a row; 0: taken from the data", between(0, 1 << 16));
  v("marks", marks, "features of a row's time; 0: taken from the data", between(0, 1 << 12));
  v("distil", distil, "informer: half as many rows after every layer but the last");
  v("patch", patch, "memformer: rows that are read as one", between(1, 1 << 16));
  v("stride", stride, "memformer: rows from one patch to the next", between(1, 1 << 16));
  v("memory_rows", memory_rows, "memformer: of the memory", between(1, 1 << 16));
  v("memory_width", memory_width, "memformer: of the memory", between(1, 1 << 16));
  v("recurrent", recurrent, "memformer: patches are read one after another, with a gated state");
}

}  // namespace fovea
