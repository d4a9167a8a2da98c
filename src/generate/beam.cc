#include "generate/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "generate/sampler.h"
#include "tensor/views.h"

namespace fovea {
namespace {

// A beginning that is followed.
struct Beam {
  Tokens ids;  // new ones
  double log_probability = 0.0;
  nn::Past past;
};

struct Extension {
  double log_probability;
  std::size_t beam;
  std::int32_t id;

  bool operator<(const Extension& other) const {  // the better first
    if (log_probability != other.log_probability) return log_probability > other.log_probability;
    return beam != other.beam ? beam < other.beam : id < other.id;
  }
};

// The beams of one prompt.
class Search {
 public:
  Search(const Decoder& decoder, const BeamTask& task, const GenerateOptions& options)
      : decoder_(decoder),
        start_(task.start),
        options_(options),
        most_(task.most),
        width_(static_cast<std::size_t>(options.beams)) {
    open_.push_back({{}, 0.0, decoder_.new_past()});
  }

  std::int64_t rows() const { return over_ ? 0 : std::ssize(open_); }  // that the next step has of this search

  void add_to(std::vector<Reading>& readings) {
    if (over_) return;
    for (Beam& beam : open_) {
      if (length_ == 0)
        readings.push_back({&beam.past, start_.tokens, start_.source});
      else
        readings.push_back({&beam.past, std::span<const std::int32_t>(beam.ids).last(1)});
    }
  }

  // logits (rows(), vocabulary) of that step.
  void take(const Tensor& logits, bool interrupted) {
    ++length_;
    extend(best_of(logits));
    if (length_ != most_ && !interrupted && !settled()) return;
    over_ = true;
    const GenerateEnd end = interrupted ? GenerateEnd::interrupted : GenerateEnd::max_tokens;
    for (const Beam& beam : open_) close({beam.ids, end, score(beam.log_probability, std::ssize(beam.ids)), {}});
    open_.clear();
  }

  Generated best() const { return done_.front(); }  // of a search that is over

 private:
  double score(double log_probability, std::int64_t length) const {
    return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  // Twice as many as are followed: if every other one ends there are still enough.
  std::vector<Extension> best_of(const Tensor& logits) {
    const Tensor rows = on_host(logits);
    for (std::size_t b = 0; b < open_.size(); ++b) {
      const std::span row = row_of(rows, b);
      check_logits(row);
      if (options_.repetition_penalty != 1.0) {
        Tokens seen(start_.tokens.begin(), start_.tokens.end());
        seen.insert(seen.end(), open_[b].ids.begin(), open_[b].ids.end());
        penalize(row, seen, options_.repetition_penalty);
      }
    }
    if (!same_place(rows, logits)) logits.copy_from(rows);
    const Tensor logs = on_host(log_softmax(decoder_.tape(), logits).value());
    std::vector<Extension> best;
    for (std::size_t b = 0; b < open_.size(); ++b) add_best(row_of(logs, b), b, best);
    std::sort_heap(best.begin(), best.end());
    return best;
  }

  // `best` is a heap with the worst of those kept in front: most tokens are turned away by one comparison.
  void add_best(std::span<const float> logs, std::size_t beam, std::vector<Extension>& best) const {
    const double before = open_[beam].log_probability;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      const Extension one{before + static_cast<double>(logs[i]), beam, static_cast<std::int32_t>(i)};
      if (best.size() == 2 * width_) {
        if (!(one < best.front())) continue;
        std::pop_heap(best.begin(), best.end());
        best.pop_back();
      }
      best.push_back(one);
      std::push_heap(best.begin(), best.end());
    }
  }

  // Extensions become the open beams of the next step. Copies of a past share its memory until one of them is moved on.
  void extend(const std::vector<Extension>& best) {
    std::vector<Beam> next;
    for (std::size_t rank = 0; rank < best.size() && next.size() < width_; ++rank) {
      const Extension& c = best[rank];
      const Beam& from = open_[c.beam];
      Tokens ids = from.ids;
      ids.push_back(c.id);
      const bool ends = std::find(options_.stop_ids.begin(), options_.stop_ids.end(), c.id) != options_.stop_ids.end();
      if (!ends)
        next.push_back({std::move(ids), c.log_probability, from.past});
      else if (rank < width_)
        close({std::move(ids), GenerateEnd::stop_id, score(c.log_probability, length_), {}});
    }
    open_ = std::move(next);
  }

  void close(Generated done) {
    done_.push_back(std::move(done));
    std::stable_sort(done_.begin(), done_.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    if (done_.size() > width_) done_.resize(width_);
  }

  // Log-probabilities only fall; a positive penalty rewards length.
  bool settled() const {
    if (open_.empty()) return true;
    if (done_.size() < width_) return false;
    if (options_.beam_stop == BeamStop::enough) return true;
    const bool may_gain = options_.beam_stop == BeamStop::certain && options_.length_penalty > 0.0;
    const std::int64_t last = may_gain ? most_ : length_;
    return score(open_[0].log_probability, last) <= done_.back().score;
  }

  std::span<float> row_of(const Tensor& rows, std::size_t row) const {
    const auto width = static_cast<std::size_t>(rows.dim(1));
    return {rows.data<float>() + row * width, width};
  }

  const Decoder& decoder_;
  Start start_;
  const GenerateOptions& options_;
  std::int64_t most_;
  std::size_t width_;
  std::int64_t length_ = 0;  // of the open beams
  bool over_ = false;
  std::vector<Beam> open_;       // best first
  std::vector<Generated> done_;  // best first, `width_` at most
};

}  // namespace

std::vector<Generated> beam_search(const Decoder& decoder, std::span<const BeamTask> tasks,
                                   const GenerateOptions& options, const std::atomic<bool>* stop) {
  std::vector<Search> searches;
  for (const BeamTask& task : tasks) searches.emplace_back(decoder, task, options);
  for (;;) {
    std::vector<Reading> readings;
    for (Search& search : searches) search.add_to(readings);
    if (readings.empty()) break;
    const Tensor logits = decoder.step(readings);
    const bool interrupted = stop != nullptr && stop->load();
    std::int64_t row = 0;
    for (Search& search : searches) {
      const std::int64_t rows = search.rows();
      if (rows > 0) search.take(logits.slice(0, row, row + rows), interrupted);
      row += rows;
    }
  }
  std::vector<Generated> results;
  for (const Search& search : searches) results.push_back(search.best());
  return results;
}

}  // namespace fovea
