#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "dist/threads.h"
#include "laws.h"

namespace fovea::dist {
namespace {

TEST(Group, KeepsTheLawsOnAnyNumberOfThreads) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(ranks);
    run_threads(ranks, laws::all);
  }
}

TEST(Group, OfOneMovesNothing) {
  const Group alone;
  laws::all(alone);
  EXPECT_TRUE(alone.traffic().empty());
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(Group, RefusesSumsOfHalfNumbers) {
  const std::string text = error_of([] {
    run_threads(2, [](const Group& group) {
      const Context context({.threads = 1});
      group.all_reduce(Tensor::zeros(context, {3}, DType::bf16));
    });
  });
  EXPECT_TRUE(has(text, "f32 or f64, not bf16")) << text;
}

TEST(Group, NamesTheRankThatFailed) {
  std::atomic<int> told = 0;
  const std::string text = error_of([&] {
    run_threads(3, [&](const Group& group) {
      if (group.rank() == 1) fail(ErrorCode::out_of_memory, "no room", "here", "less");
      try {
        group.barrier();
      } catch (const RankFailure& error) {
        told += has(error.what(), "rank 1: no room") && error.code() == ErrorCode::out_of_memory;
        throw;
      }
    });
  });
  EXPECT_TRUE(has(text, "no room")) << text;
  EXPECT_EQ(told, 2);
}

TEST(Group, NamesTheRankThatStalls) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = error_of([] {
    run_threads(
        3,
        [](const Group& group) {
          group.barrier();
          if (group.rank() != 2) group.barrier();
        },
        0.2);
  });
  EXPECT_TRUE(has(text, "rank 2 did not answer within 0.2 s")) << text;
  EXPECT_TRUE(has(text, "barrier 2 of all ranks")) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Group, RefusesRanksThatDisagree) {
  const std::string text = error_of([] {
    run_threads(2, [](const Group& group) {
      const Context context({.threads = 1});
      group.all_reduce(Tensor::zeros(context, {group.rank() == 0 ? 8 : 4}));
    });
  });
  EXPECT_TRUE(has(text, "bytes, ")) << text;
  EXPECT_TRUE(has(text, "the same program with the same settings")) << text;
}

TEST(Worker, WorksInOrderAndTellsOfTheFirstFailure) {
  Worker worker;
  std::vector<int> done;
  for (int i = 0; i < 50; ++i) worker.submit([&, i] { done.push_back(i); });
  worker.wait();
  ASSERT_EQ(done.size(), 50u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  worker.submit([] { fail(ErrorCode::io, "broken"); });
  worker.submit([&] { done.push_back(-1); });
  EXPECT_TRUE(has(error_of([&] { worker.wait(); }), "broken"));
  EXPECT_EQ(done.back(), 49);
  worker.submit([&] { done.push_back(50); });
  worker.wait();
  EXPECT_EQ(done.back(), 50);
}

TEST(Mesh, ReadsItsAxes) {
  EXPECT_EQ(MeshShape::parse("", 3).text(), "data=3,sequence=1,tensor=1,pipeline=1");
  EXPECT_EQ(MeshShape::parse("sequence=4", 4).text(), "data=1,sequence=4,tensor=1,pipeline=1");
  EXPECT_EQ(MeshShape::parse("sequence=3,data=2", 6).text(), "data=2,sequence=3,tensor=1,pipeline=1");
  EXPECT_EQ(MeshShape::parse("pipeline=1,tensor=2", 2).tensor, 2);
}

TEST(Mesh, RefusesWhatIsNone) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data=2,sequence=2", "2 x 2 x 1 x 1 = 4 ranks, but there are 6"},
      {"data", "is no axis=ranks"},
      {"data=0", "gives no number of ranks"},
      {"data=2x", "gives no number of ranks"},
      {"data=", "gives no number of ranks"},
      {"data=2,data=3", "axis data is given twice"},
      {"rows=6", "unknown axis \"rows\""},
      {"pipeline=0", "gives no number of ranks"},
      {"data=6,", "is no axis=ranks"}};
  for (const auto& [text, words] : cases) {
    const std::string error = error_of([&, &t = text] { MeshShape::parse(t, 6); });
    EXPECT_TRUE(has(error, words)) << text << ": " << error;
  }
}

TEST(Mesh, GroupsThoseWhoShareWeights) {
  run_threads(8, [](const Group& all) {
    const Mesh mesh(all, MeshShape::parse("data=2,sequence=2,tensor=2", 8));
    const auto sum = [&](const Group& group) {
      double total = 0.0;
      const auto rank = static_cast<double>(all.rank());
      for (const double other : group.all_gather(std::span(&rank, 1))) total += other;
      return total;
    };
    const int r = all.rank(), tensor = r % 2, sequence = r / 2 % 2, data = r / 4;
    EXPECT_EQ(mesh.tensor.rank(), tensor);
    EXPECT_EQ(mesh.sequence.rank(), sequence);
    EXPECT_EQ(mesh.data.rank(), data);
    EXPECT_EQ(sum(mesh.tensor), 2 * (r - tensor) + 1);
    EXPECT_EQ(sum(mesh.same_weights), 12 + 4 * tensor);
    EXPECT_EQ(sum(mesh.same_examples), 16 * data + 6);
  });
}

// Each axis has a weight of its own in the rank: which ranks a group has is seen by their sum.
TEST(Mesh, GroupsStages) {
  run_threads(8, [](const Group& all) {
    const Mesh mesh(all, MeshShape::parse("pipeline=2,data=2,tensor=2", 8));
    const auto ranks = [&](const Group& group) {
      std::vector<int> members;
      const auto rank = static_cast<double>(all.rank());
      for (const double other : group.all_gather(std::span(&rank, 1))) members.push_back(static_cast<int>(other));
      return members;
    };
    const int r = all.rank(), stage = r / 4, data = r / 2 % 2, tensor = r % 2;
    EXPECT_EQ(mesh.pipeline.rank(), stage);
    EXPECT_EQ(mesh.data.rank(), data);
    EXPECT_EQ(ranks(mesh.pipeline), (std::vector{r % 4, r % 4 + 4}));
    EXPECT_EQ(ranks(mesh.data), (std::vector{4 * stage + tensor, 4 * stage + tensor + 2}));
    EXPECT_EQ(ranks(mesh.same_weights), ranks(mesh.data));
    EXPECT_EQ(ranks(mesh.same_examples), ranks(mesh.tensor));
    EXPECT_EQ(ranks(mesh.same_layers), (std::vector{4 * stage, 4 * stage + 1, 4 * stage + 2, 4 * stage + 3}));
    EXPECT_EQ(ranks(mesh.all_weights), (std::vector{2 * data, 2 * data + 1, 2 * data + 4, 2 * data + 5}));
  });
}

TEST(Mesh, GroupsNeighboursOfASequence) {
  run_threads(6, [](const Group& all) {
    const Mesh mesh(all, MeshShape::parse("data=2,sequence=3", 6));
    EXPECT_EQ(mesh.sequence.size(), 3);
    EXPECT_EQ(mesh.sequence.rank(), all.rank() % 3);
    EXPECT_EQ(mesh.data.size(), 2);
    EXPECT_EQ(mesh.data.rank(), all.rank() / 3);
    EXPECT_EQ(mesh.leads(), all.rank() == 0);
    const double own = all.rank();
    EXPECT_EQ(mesh.data.all_gather(std::span(&own, 1)).back(), 3.0 + all.rank() % 3);
  });
}

}  // namespace
}  // namespace fovea::dist
