#include "experiment/tasks.h"

#include "core/nearest.h"
#include "experiment/protocols.h"
#include "io/file.h"

namespace fovea {
namespace {

constexpr Metric kAccuracy{"accuracy", &Scores::accuracy};

Protocol generated(const char* source, std::int64_t train) {
  Protocol protocol;
  protocol.data.source = source;
  protocol.data.train = train;
  return protocol;
}

// Files that people have.
Protocol from_files(Task task, const char* kind) {
  Protocol protocol;
  protocol.data.source.clear();
  protocol.data.kind = kind;
  protocol.task = task;
  return protocol;
}

constexpr std::string_view kTransNormerPaper = "Qin et al. 2022, table 6", kArenaPaper = "Tay et al. 2021, table 1";

constexpr PublishedScore kListOpsOfTransNormer[] = {
    {"transformer", 0.3837}, {"kernelized", 0.3878},     {"nystrom", 0.3851},        {"linformer", 0.3745},
    {"informer", 0.3253},    {"performer", 0.3802},      {"reformer", 0.3768},       {"bigbird", 0.3925},
    {"skyformer", 0.3869},   {"long-short", 0.4030},     {"cosformer", 0.3650},      {"flash-quad", 0.4220},
    {"flash-gau", 0.3870},   {"transnormer-t1", 0.4103}, {"transnormer-t2", 0.4160},
};
constexpr PublishedScore kListOpsOfArena[] = {
    {"transformer", 0.3637}, {"longformer", 0.3563}, {"linformer", 0.3570}, {"reformer", 0.3727},
    {"sinkhorn", 0.3367},    {"bigbird", 0.3605},    {"linear", 0.1613},    {"performer", 0.1801},
};
constexpr PublishedScore kTextOfTransNormer[] = {
    {"transformer", 0.6195}, {"kernelized", 0.6022},     {"nystrom", 0.6483},        {"linformer", 0.5893},
    {"informer", 0.6264},    {"performer", 0.6419},      {"reformer", 0.6293},       {"bigbird", 0.6386},
    {"skyformer", 0.6470},   {"long-short", 0.6662},     {"cosformer", 0.6770},      {"flash-quad", 0.6410},
    {"flash-gau", 0.6410},   {"transnormer-t1", 0.6690}, {"transnormer-t2", 0.7220},
};
constexpr PublishedScore kTextOfArena[] = {
    {"transformer", 0.6427}, {"longformer", 0.6285}, {"linformer", 0.5394}, {"reformer", 0.5610},
    {"sinkhorn", 0.6120},    {"bigbird", 0.6402},    {"linear", 0.6590},    {"performer", 0.6540},
};
constexpr PublishedScore kRetrievalOfTransNormer[] = {
    {"transformer", 0.8069}, {"kernelized", 0.8177},     {"nystrom", 0.8052},        {"linformer", 0.7819},
    {"informer", 0.7757},    {"performer", 0.8004},      {"reformer", 0.7899},       {"bigbird", 0.8028},
    {"skyformer", 0.8206},   {"long-short", 0.8168},     {"cosformer", 0.8315},      {"flash-quad", 0.8300},
    {"flash-gau", 0.8610},   {"transnormer-t1", 0.8311}, {"transnormer-t2", 0.8382},
};
constexpr PublishedScore kRetrievalOfArena[] = {
    {"transformer", 0.5746}, {"longformer", 0.5689}, {"linformer", 0.5227}, {"reformer", 0.5340},
    {"sinkhorn", 0.5383},    {"bigbird", 0.5929},    {"linear", 0.5309},    {"performer", 0.5382},
};
constexpr PublishedScore kImageOfTransNormer[] = {
    {"transformer", 0.4057}, {"kernelized", 0.4129},     {"nystrom", 0.4130},        {"linformer", 0.3796},
    {"informer", 0.3810},    {"performer", 0.4143},      {"reformer", 0.4887},       {"bigbird", 0.4316},
    {"skyformer", 0.4077},   {"long-short", 0.4760},     {"cosformer", 0.5123},      {"flash-quad", 0.4830},
    {"flash-gau", 0.4740},   {"transnormer-t1", 0.5160}, {"transnormer-t2", 0.4960},
};
constexpr PublishedScore kImageOfArena[] = {
    {"transformer", 0.4244}, {"longformer", 0.4222}, {"linformer", 0.3856}, {"reformer", 0.3807},
    {"sinkhorn", 0.4123},    {"bigbird", 0.4083},    {"linear", 0.4234},    {"performer", 0.4277},
};
constexpr PublishedScore kPathfinderOfTransNormer[] = {
    {"transformer", 0.6526}, {"kernelized", 0.7073},     {"nystrom", 0.6948},        {"linformer", 0.6093},
    {"informer", 0.5783},    {"performer", 0.6630},      {"reformer", 0.6649},       {"bigbird", 0.6872},
    {"skyformer", 0.7073},   {"long-short", 0.6998},     {"cosformer", 0.7196},      {"flash-quad", 0.6328},
    {"flash-gau", 0.7025},   {"transnormer-t1", 0.7592}, {"transnormer-t2", 0.7680},
};
constexpr PublishedScore kPathfinderOfArena[] = {
    {"transformer", 0.7140}, {"longformer", 0.6971}, {"linformer", 0.7634}, {"reformer", 0.6850},
    {"sinkhorn", 0.6745},    {"bigbird", 0.7487},    {"linear", 0.7530},    {"performer", 0.7705},
};
constexpr Published kListOps[] = {
    {kTransNormerPaper, 50000, 32, kListOpsOfTransNormer},
    {kArenaPaper, 5000, 32, kListOpsOfArena},
};
constexpr Published kText[] = {
    {kTransNormerPaper, 50000, 16, kTextOfTransNormer},
    {kArenaPaper, 20000, 32, kTextOfArena},
};
constexpr Published kRetrieval[] = {
    {kTransNormerPaper, 50000, 16, kRetrievalOfTransNormer},
    {kArenaPaper, 5000, 32, kRetrievalOfArena},
};
constexpr Published kImage[] = {
    {kTransNormerPaper, 50000, 256, kImageOfTransNormer},
    {kArenaPaper, 35000, 256, kImageOfArena},
};
constexpr Published kPathfinder[] = {
    {kTransNormerPaper, 50000, 128, kPathfinderOfTransNormer},
    {kArenaPaper, 62000, 512, kPathfinderOfArena},
};

constexpr std::string_view kTextFiles =
    "a folder with train.tsv and test.tsv: label, text (IMDb's 25000 and 25000 reviews)";
constexpr std::string_view kPairFiles =
    "a folder with papers.tsv and pairs.{train,valid,test}.tsv (citing pairs of papers)";
constexpr std::string_view kImageFiles = "a folder with CIFAR-10: grey idx files, or its binary batches";

}  // namespace

std::span<const ArenaTask> arena_tasks() {
  static const std::vector<ArenaTask> tasks = {
      {"listops",
       "ListOps",
       {},
       kAccuracy,
       arena_protocols(generated("listops", 32000), 16, {32, 1000, 1e-4, 4, 512, 32, 5000}),
       kListOps},
      {"text", "Text", kTextFiles, kAccuracy,
       arena_protocols(from_files(Task::classify, "labels"), 16, {16, 80, 1e-4, 4, 256, 32, 20000}), kText},
      {"retrieval", "Retrieval", kPairFiles, kAccuracy,
       arena_protocols(from_files(Task::match, "pairs"), 8, {16, 800, 2e-4, 4, 128, 32, 5000}), kRetrieval,
       "papers.tsv"},
      {"image", "Image", kImageFiles, kAccuracy,
       arena_protocols(from_files(Task::classify, "pictures"), 32, {256, 175, 1e-4, 1, 128, 256, 35000}), kImage},
      {"pathfinder",
       "Pathfinder",
       {},
       kAccuracy,
       arena_protocols(generated("pathfinder", 32000), 32, {128, 312, 2e-4, 4, 32, 512, 62000}),
       kPathfinder},
  };
  return tasks;
}

const ArenaTask& arena_task(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ArenaTask& task : arena_tasks()) names.push_back(task.name);
  return arena_tasks()[place_of_name(name, names, "task", "lra")];
}

bool ArenaTask::is_stood_in_for(const std::string& data) const {
  if (stand_in.empty()) return false;
  const Path file = Path(data) / stand_in;
  return is_there(file) || is_there(Path(file.string() + ".xz"));
}

const Protocol& ArenaTask::protocol(std::string_view wanted) const {
  std::vector<std::string_view> names;
  for (const TaskProtocol& known : protocols) names.push_back(known.name);
  return protocols[place_of_name(wanted, names, "protocol", "--protocol")].settings;
}

}  // namespace fovea
