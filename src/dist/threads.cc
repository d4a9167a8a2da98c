#include "dist/threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

namespace fovea::dist {
namespace {

using Message = std::vector<std::byte>;

// Where messages wait for those who want them.
struct Post {
  explicit Post(int count) : ranks(count) {}

  int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<std::uint64_t, int, int>, std::deque<Message>> boxes;  // channel, from, to
  std::optional<RankFailure> failure;                                        // the first
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Post> post, int rank) : post_(std::move(post)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return post_->ranks; }

  void exchange(const Call& call, std::span<const Outgoing> out, std::span<const Incoming> in) override {
    std::unique_lock lock(post_->mutex);
    for (const Outgoing& o : out)
      post_->boxes[{call.channel, rank_, o.to}].emplace_back(o.bytes.begin(), o.bytes.end());
    post_->changed.notify_all();
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit());
    for (const Incoming& i : in) {
      std::deque<Message>& box = post_->boxes[{call.channel, i.from, rank_}];
      const bool came = post_->changed.wait_until(lock, until, [&] { return !box.empty() || post_->failure; });
      if (post_->failure) throw *post_->failure;
      if (!came) fail_stalled(call, std::span(&i.from, 1), limit());
      const Message message = std::move(box.front());
      box.pop_front();
      if (message.size() != i.bytes.size()) fail_size(call, i.from, message.size(), i.bytes.size());
      std::copy(message.begin(), message.end(), i.bytes.begin());
    }
  }

  void fail(const Error& error) noexcept override {
    const std::lock_guard lock(post_->mutex);
    if (!post_->failure) post_->failure.emplace(rank_, error);
    post_->changed.notify_all();
  }

 private:
  std::shared_ptr<Post> post_;
  int rank_;
};

// What the rank threw by itself; null: nothing.
std::exception_ptr run_rank(ThreadTransport& transport, const std::function<void()>& work) {
  try {
    work();
  } catch (const RankFailure&) {
    return nullptr;
  } catch (const Error& error) {
    transport.fail(error);
    return std::current_exception();
  } catch (const std::exception& error) {
    transport.fail(Error(ErrorCode::internal, error.what()));
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void run_threads(int ranks, const std::function<void(const Group& all)>& work, double limit) {
  const auto post = std::make_shared<Post>(ranks);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto transport = std::make_shared<ThreadTransport>(post, rank);
      transport->set_limit(limit);
      failures[static_cast<std::size_t>(rank)] = run_rank(*transport, [&] { work(Group(transport, "all ranks")); });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace fovea::dist
