#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/kit/options.h"
#include "cli/kit/run_options.h"
#include "cli/kit/verb.h"
#include "experiment/scale/mesh_forecast.h"
#include "experiment/settings.h"
#include "measure/machine.h"
#include "models/presets.h"
#include "report/table.h"

// fovea plan: how ranks should divide a training step, foretold from steps of shallow models on this machine.
namespace fovea::cli {
namespace {

struct PlanOptions {
  MachineOptions machine;
  RunChoices choices;
  std::string name, ranks = "1,2,4,8", memory, link;
  std::optional<std::string> dtype;
  std::int64_t length = 0, batch = 0, classes = 10, vocabulary = 256, cores = 0, most = 3;
};

struct Planned {
  RunSettings settings;
  TrainingStep step;
  StepModel model;
  RankLink link;
  std::string link_source;
  std::vector<std::pair<std::int64_t, MeshForecasts>> forecasts;  // by number of ranks
};

RunSettings settings_of(const PlanOptions& options) {
  RunChoices choices = options.choices;
  if (options.dtype) choices.dtype = parse_dtype(*options.dtype);
  if (is_preset(options.name))
    choices.model = options.name;
  else
    choices.name_attention(options.name, "fovea plan");
  Protocol protocol;
  protocol.data.source.clear();
  RunSettings settings = new_run(protocol, choices);
  ModelConfig& model = settings.model;
  if (model.vocabulary == 0) model.vocabulary = options.vocabulary;
  if (model.task == Task::classify && model.classes == 0) model.classes = options.classes;
  if (options.length > 0) model.max_length = options.length;
  return settings;
}

RankLink link_of(const PlanOptions& options, const dist::Group& ranks, std::string& source) {
  if (!options.link.empty()) {
    source = "as given";
    return RankLink::parse(options.link);
  }
  if (ranks.size() > 1) {
    source = fmt::format("measured between {} ranks", ranks.size());
    return RankLink::measure(ranks);
  }
  source = "assumed; --link says yours, mpirun measures it";
  return {};
}

std::string mesh_text(const dist::MeshShape& shape) {
  return fmt::format("{} x {}{}", shape.data, shape.sequence, shape.divides(dist::Divide::state) ? " +state" : "");
}

double tokens_per_second(const Planned& plan, const MeshForecast& mesh) {
  return static_cast<double>(plan.step.batch * plan.step.length) / mesh.seconds();
}

Table table_of(const Planned& plan, std::int64_t most) {
  Table table({{"memory", Quantity::bytes},
               {"moved", Quantity::bytes},
               {"compute", Quantity::seconds},
               {"exchange", Quantity::seconds},
               {"tokens/s", Quantity::count},
               {"ideal", Quantity::percent}},
              "data x sequence");
  const double alone = plan.model.seconds(static_cast<double>(plan.step.batch), static_cast<double>(plan.step.length));
  for (const auto& [ranks, forecasts] : plan.forecasts)
    for (std::size_t i = 0; i < std::min(forecasts.meshes.size(), static_cast<std::size_t>(most)); ++i) {
      const MeshForecast& mesh = forecasts.meshes[i];
      TableCell memory(mesh.memory);
      memory.missed = !mesh.fits;
      table.add(mesh_text(mesh.shape),
                {memory, mesh.received, mesh.compute, mesh.exchange, tokens_per_second(plan, mesh),
                 alone / mesh.seconds() / static_cast<double>(ranks)});
    }
  return table;
}

Json json_of(const Planned& plan) {
  Json rows = Json::array();
  for (const auto& [ranks, forecasts] : plan.forecasts)
    for (const MeshForecast& mesh : forecasts.meshes)
      rows.push_back({{"ranks", ranks},
                      {"data", mesh.shape.data},
                      {"sequence", mesh.shape.sequence},
                      {"divide_state", mesh.shape.divides(dist::Divide::state)},
                      {"memory", mesh.memory},
                      {"weights", mesh.weights},
                      {"received", mesh.received},
                      {"compute", mesh.compute},
                      {"exchange", mesh.exchange},
                      {"seconds", mesh.seconds()},
                      {"fits", mesh.fits}});
  return {{"model", plan.settings.name()},
          {"length", plan.step.length},
          {"batch", plan.step.batch},
          {"parameters", plan.model.weights()},
          {"probed_length", plan.model.probed_length},
          {"probed_batch", plan.model.probed_batch},
          {"link", {{"bytes_per_second", plan.link.bytes_per_second}, {"latency", plan.link.latency}}},
          {"meshes", rows}};
}

std::string heading(const Planned& plan, const std::string& where) {
  std::string text = fmt::format(
      "{}: {} parameters, {} x {} tokens a step\n"
      "timed here: one and two layers on {}, {} x {} tokens\n"
      "link: {} ({})\n",
      plan.settings.name(), quantity_text(Quantity::count, static_cast<double>(plan.model.weights())), plan.step.batch,
      plan.step.length, where, plan.model.probed_batch, plan.model.probed_length, plan.link.text(), plan.link_source);
  if (plan.model.probed_length < plan.step.length)
    text +=
        fmt::format("longer sequences are foretold from how time grows up to {} tokens\n", plan.model.probed_length);
  return text;
}

// What is left out, and what to type for the best of the most ranks.
std::string advice(const Planned& plan) {
  const auto& [ranks, forecasts] = plan.forecasts.back();
  std::string text;
  for (const std::string& reason : forecasts.left_out) text += "left out: " + reason + "\n";
  if (forecasts.meshes.empty()) return text;
  const MeshForecast& best = forecasts.meshes.front();
  if (!best.fits)
    return text + "no division fits: try more ranks, --set train.accumulation=N,\n--set model.checkpointing=true\n";
  return text + fmt::format("best of {}: mpirun -n {} fovea train ... --mesh data={},sequence={}{}\n", ranks, ranks,
                            best.shape.data, best.shape.sequence, best.shape.divides(dist::Divide::state) ? " --divide state" : "");
}

void run(const PlanOptions& options, const Console& console) {
  const dist::Group& ranks = console.ranks->all();
  Planned plan;
  plan.link = link_of(options, ranks, plan.link_source);
  plan.settings = settings_of(options);
  plan.step = {.length = options.length > 0 ? options.length : plan.settings.model.max_length,
               .batch = options.batch > 0 ? options.batch : plan.settings.train.batch,
               .accumulation = plan.settings.train.accumulation};
  const ContextOptions machine = options.machine.context(console);
  const int threads = Context(machine).threads();
  plan.model = probe_steps(machine, plan.settings.model, plan.settings.train,
                           {.length = plan.step.length,
                            .batch = std::max<std::int64_t>(1, plan.step.batch / plan.step.accumulation),
                            .ranks = ranks,
                            .told = [&](const std::string& what) { console.detail(what + "\n"); }});
  Cluster cluster{
      .cores = static_cast<double>(options.cores), .threads = static_cast<double>(threads), .link = plan.link};
  if (!options.memory.empty()) cluster.memory = static_cast<double>(parse_bytes(options.memory, "--memory"));
  for (const std::int64_t n : split_numbers(options.ranks, "--ranks")) {
    cluster.ranks = n;
    plan.forecasts.emplace_back(n, forecast_meshes(plan.model, plan.settings.model, plan.step, cluster));
  }
  const std::string where = fmt::format("{}{} {}", ranks.size() > 1 ? fmt::format("{} ranks of ", ranks.size()) : "",
                                        threads, threads == 1 ? "thread" : "threads");
  console.document(json_of(plan));
  console.print(heading(plan, where) + "\n" + table_of(plan, options.most).text(Terminal::of(STDOUT_FILENO)) + "\n" +
                advice(plan));
}

}  // namespace

void add_plan(Program& program) {
  const auto options = std::make_shared<PlanOptions>();
  const Arguments verb = program.add(
      {"plan",
       "Foretells memory, traffic and time of training on several ranks. Names the best division of the work.",
       {"fovea plan gpt --attention norm --length 65536 --ranks 8 --memory 16GB --link 25GB/s,5us",
        "mpirun -n 2 build/release/bin/dist/fovea plan transnormer-t2 --threads 1 --ranks 1,2"}},
      [options](const Console& console) { run(*options, console); });
  program.share_last();
  verb.add_option("name", options->name, "model to train, or the mechanism of its layers").required();
  verb.add_option("--attention", options->choices.attention, "mechanism of its layers").type_name("NAME");
  verb.add_option("--config", options->choices.config, "JSON file; settings as run.json has them").type_name("FILE");
  verb.add_option("--set", options->choices.set, "change one setting: model.width=128 (repeatable)")
      .type_name("NAME=VALUE")
      .repeatable();
  verb.add_option("--dtype", options->dtype, "of activations: f32, bf16").type_name("TYPE");
  verb.add_option("--length", options->length, "tokens of a sequence [the model's longest]")
      .type_name("N")
      .check(in_range(2, 1e9));
  verb.add_option("--batch", options->batch, "examples of a step, all ranks together [train.batch]")
      .type_name("N")
      .check(in_range(1, 1e9));
  verb.add_option("--ranks", options->ranks, "numbers of ranks, separated by commas").type_name("N,...").show_default();
  verb.add_option("--memory", options->memory, "of a rank; what needs more is marked: 16GB").type_name("SIZE");
  verb.add_option("--link", options->link, "bandwidth and latency between two ranks: 25GB/s,5us")
      .type_name("RATE,TIME");
  verb.add_option("--cores", options->cores, "cores that all ranks share [each has its own]")
      .type_name("N")
      .check(in_range(1, 1e6));
  verb.add_option("--rows", options->most, "divisions shown for each number of ranks")
      .type_name("N")
      .check(in_range(1, 1000))
      .show_default();
  add_machine_options(verb, options->machine);
}

}  // namespace fovea::cli
