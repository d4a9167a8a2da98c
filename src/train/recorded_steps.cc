#include "train/recorded_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

constexpr std::size_t kShapes = 64;     // that are remembered
constexpr std::size_t kRecordings = 8;  // of these

template <class F>
void for_tensors(const Batch& batch, const F& f) {
  for (const Input* input : {&batch.input, &batch.second})
    for (const Tensor* t : {&input->ids, &input->types, &input->values, &input->marks}) f(*t);
  f(batch.targets);
}

// All that decides what a step does besides the contents of its tensors.
std::vector<std::int64_t> shape_of(std::span<const Batch> parts) {
  std::vector<std::int64_t> key;
  const auto add = [&](const std::vector<std::int32_t>& list) {
    key.push_back(std::ssize(list));
    key.insert(key.end(), list.begin(), list.end());
  };
  for (const Batch& batch : parts) {
    for_tensors(batch, [&](const Tensor& t) {
      key.push_back(t.defined() ? t.rank() : -1);
      if (!t.defined()) return;
      key.push_back(static_cast<std::int64_t>(t.dtype()));
      key.push_back(static_cast<std::int64_t>(t.device()));
      for (int i = 0; i < t.rank(); ++i) key.push_back(t.dim(i));
    });
    for (const Input* input : {&batch.input, &batch.second}) {
      add(input->rows.lengths);
      add(input->rows.cu_seqlens);
    }
    key.push_back(batch.size());
  }
  return key;
}

// A batch like another, in memory of its own: whole numbers on the host, where models look at them.
Batch room_for(const Context& context, const Batch& batch) {
  const Context host({.threads = 1, .seed = context.seed()});
  Batch room = batch;
  for (Input* input : {&room.input, &room.second})
    for (Tensor* t : {&input->ids, &input->types, &input->values, &input->marks})
      if (t->defined()) *t = Tensor::empty(t->device() == Device::cpu ? host : context, t->shape(), t->dtype());
  Tensor& targets = room.targets;
  if (targets.defined())
    targets = Tensor::empty(targets.device() == Device::cpu ? host : context, targets.shape(), targets.dtype());
  return room;
}

void move_in(const Batch& room, const Batch& batch) {
  std::vector<Tensor> to;
  for_tensors(room, [&](const Tensor& t) { to.push_back(t); });
  auto at = to.begin();
  for_tensors(batch, [&](const Tensor& from) {
    if (from.defined()) at->copy_from(from);
    ++at;
  });
}

// "model.layers[0].attention: random numbers are drawn on the host"
std::string reason(const Error& error) {
  return error.where().empty() ? error.message() : fmt::format("{}: {}", error.where(), error.message());
}

// "640 kB", "12.5 MB", "3.20 GB"
std::string size_text(std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1e6) return fmt::format("{:.0f} kB", std::ceil(size / 1e3));
  return size < 1e9 ? fmt::format("{:.1f} MB", size / 1e6) : fmt::format("{:.2f} GB", size / 1e9);
}

}  // namespace

RecordedSteps::RecordedSteps(Context& context, Work work, When when)
    : outer_(context),
      work_(std::move(work)),
      wanted_(when == When::always || (when == When::where_it_pays && Recording::pays(context.device()))) {}

std::vector<double> RecordedSteps::run(std::span<const Batch> parts, std::uint64_t stream) {
  was_played_ = false;
  Entry* const entry = wanted_ ? entry_for(parts) : nullptr;
  if (entry != nullptr && (entry->recording != nullptr || record(*entry, parts, stream)))
    if (auto numbers = play(*entry, parts, stream)) return *std::move(numbers);
  return run_as_it_is(parts);
}

// Memory that recordings hold may be what is missing.
std::vector<double> RecordedSteps::run_as_it_is(std::span<const Batch> parts) {
  ++counts_.run;
  try {
    return work_(outer_, parts).to_vector<double>();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory || counts_.recorded == 0 || !wanted_) throw;
  }
  turn_off("memory is short");
  return work_(outer_, parts).to_vector<double>();
}

// Null: this shape is new.
RecordedSteps::Entry* RecordedSteps::entry_for(std::span<const Batch> parts) {
  Key key = shape_of(parts);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
  const bool known = found != entries_.end();
  if (known)
    entries_.splice(entries_.begin(), entries_, found);
  else
    entries_.emplace_front(std::move(key), Entry());
  if (entries_.size() > kShapes) entries_.pop_back();
  return known ? &entries_.front().second : nullptr;
}

bool RecordedSteps::record(Entry& entry, std::span<const Batch> parts, std::uint64_t stream) {
  entry = Entry();  // an interrupted recording leaves half of it
  std::size_t others = 0;
  for (auto& [key, other] : entries_)
    if (other.recording != nullptr && ++others >= kRecordings) other = Entry();  // the one that was used longest ago
  if (!context_) {
    const Allocator& all = *outer_.allocator();
    context_.emplace(ContextOptions{.threads = outer_.threads(),
                                    .seed = outer_.seed(),
                                    .tf32 = outer_.tf32(),
                                    .memory = {.limit = all.limit() - all.total().now},
                                    .pages = outer_.memory()});
  }
  outer_.allocator()->trim();  // what steps had so far, recordings have from now on
  try {
    for (const Batch& part : parts) {
      entry.parts.push_back(room_for(outer_, part));
      move_in(entry.parts.back(), part);
    }
    entry.stream = stream;
    entry.recording =
        Recording::make(*outer_.memory(), [this, &entry] { entry.numbers = work_(*context_, entry.parts); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    turn_off(reason(error));
    return false;
  }
  ++counts_.recorded;
  news_ = fmt::format("steps of {} sequences are recorded: {} of memory", parts.front().size(), size_text(peak()));
  return true;
}

// None: it could not be played. An error in the batch is told by the step itself, which knows where it is.
std::optional<std::vector<double>> RecordedSteps::play(Entry& entry, std::span<const Batch> parts,
                                                       std::uint64_t stream) {
  for (std::size_t i = 0; i < parts.size(); ++i) move_in(entry.parts[i], parts[i]);
  try {
    if (!entry.recording->play(stream - entry.stream)) return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) turn_off(reason(error));
    if (wanted_ && error.code() != ErrorCode::bad_input) throw;
    return std::nullopt;
  }
  ++counts_.played;
  was_played_ = true;
  return entry.numbers.to_vector<double>();
}

std::string RecordedSteps::news() { return std::exchange(news_, {}); }

void RecordedSteps::drop() {
  entries_.clear();
  if (context_) context_->allocator()->trim();
}

void RecordedSteps::turn_off(const std::string& why) {
  if (!std::exchange(wanted_, false)) return;
  news_ = "steps are not recorded: " + why;
  drop();
}

}  // namespace fovea
