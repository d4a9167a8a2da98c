#include <fmt/format.h>

#include "experiment/reproduce/study.h"

// Language models: WikiText, masked and not, and GLUE.
namespace fovea {
namespace {

constexpr const char* kSource = "Qin et al. 2022, ";
constexpr const char* kMasked =
    "Perplexity of masked tokens on the validation part. Published on WikiText-103 with the tokens of GPT-2; on "
    "WikiText-2 where the "
    "training part of -103 is not there, with 8000 tokens trained on it (--quick: bytes). Levels cannot be compared, "
    "orders can.";

std::vector<std::string> wikitext() { return {"wikitext-103", "wikitext-2"}; }

// Table 13 of the paper, the rate of its table and not of its text (0.005).
TrainConfig published_run(std::int64_t steps, std::int64_t batch, std::int64_t warmup) {
  TrainConfig train;
  train.steps = steps;
  train.batch = batch;
  train.schedule = {.kind = ScheduleKind::inverse_sqrt, .peak = 5e-4, .warmup = warmup};
  train.adamw = {.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.01};
  train.clip_value = 0.0;
  train.eval_every = 1000;
  train.keep = 1;
  return train;
}

// Bytes, so that no large vocabulary costs time; 4 layers of width 128. Initial weights by their sizes: with the small
// ones of wide models nothing is learned of which token stands where for thousands of steps.
std::vector<std::string> in_seconds(std::int64_t steps, std::vector<std::string> more) {
  std::vector<std::string> set = {"data.tokenizer=bytes",
                                  "data.length=256",
                                  "data.validation=64",
                                  "data.test=64",
                                  fmt::format("train.steps={}", steps),
                                  "train.batch=8",
                                  "train.lr=2e-3",
                                  "train.warmup=30",
                                  "train.schedule=one_cycle",
                                  "train.clip_norm=1",
                                  "train.eval_every=100",
                                  "train.eval_examples=0",
                                  "model.width=128",
                                  "model.heads=2",
                                  "model.init_deviation=0",
                                  "model.dropout=0",
                                  "model.inner_dropout=0",
                                  "model.attention_dropout=0"};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

constexpr const char *kGluInner = "model.inner=341", *kPlainInner = "model.inner=512";
constexpr std::int64_t kQuickDepth = 4;

Trial masked_trial(std::string name, std::vector<Trial::Word> words = {}, std::int64_t quick_steps = 300) {
  Trial trial{.name = std::move(name), .data = wikitext(), .words = std::move(words)};
  TrainConfig train = published_run(50000, 512, 3000);
  train.adamw.eps = 1e-6;
  train.schedule.kind = ScheduleKind::polynomial;
  trial.protocol.train = train;
  trial.protocol.task = Task::mlm;
  trial.protocol.data.tokenizer = "bpe";
  trial.protocol.data.length = 512;
  trial.quick = {in_seconds(quick_steps, {kGluInner}), kQuickDepth};
  return trial;
}

std::vector<Trial::Word> t1() { return {{"local", "diag:weights=rela,norm=rms"}, {"global", "norm:map=elu"}}; }
std::vector<Trial::Word> t2() { return {{"local", "diag:weights=softmax"}, {"global", "norm:map=elu+1"}}; }

StudyColumn validation_perplexity(std::string name, std::size_t trial) {
  return {std::move(name), trial, "validation_perplexity", Quantity::number, Best::lowest};
}

// RoBERTa with one mechanism or another: feed-forward layers and learned positions.
StudyRow roberta_row(std::string name, std::string attention, double published) {
  return {.name = std::move(name),
          .model = "transnormer-blm",
          .attention = std::move(attention),
          .set = {"model.feed_forward=ffn", "model.activation=gelu", "model.inner=3072", "model.norm=layer",
                  "model.norm_affine=true", "model.positions=learned"},
          .published = {published},
          .quick = {kPlainInner, "model.placement=pre"}};  // norms after the layers need a long warm-up
}

StudyRow rotary(StudyRow row) {
  row.set.emplace_back("model.positions=rope");
  return row;
}

Study masked_study(std::string name, std::string title, std::vector<StudyRow> rows) {
  Study study{.name = std::move(name), .title = std::move(title), .source = kSource, .note = kMasked};
  study.source += study.name;
  study.trials = {masked_trial("wikitext")};
  // Learned positions need many windows.
  study.trials[0].quick.set.insert(study.trials[0].quick.set.end(),
                                   {"data.length=64", "train.batch=32", "train.lr=1e-3"});
  study.columns = {validation_perplexity("perplexity", 0)};
  study.rows = std::move(rows);
  return study;
}

// TransNormer, T1 and T2 beside each other.
Study design_study(std::string name, std::string title, std::vector<StudyRow> rows) {
  Study study{.name = std::move(name), .title = std::move(title), .source = kSource, .note = kMasked};
  study.source += study.name;
  study.trials = {masked_trial("T1", t1()), masked_trial("T2", t2())};
  study.columns = {validation_perplexity("T1", 0), validation_perplexity("T2", 1)};
  study.rows = std::move(rows);
  for (StudyRow& row : study.rows) row.model = "transnormer-blm";
  return study;
}

Study table_1() {
  return masked_study(
      "table-1", "Linear attention with its denominator, without it, and with a norm instead",
      {roberta_row("1 + elu", "linear", 4.98), roberta_row("1 + elu w/o scaling", "norm:norm=none", 797.08),
       roberta_row("NormAttention", "norm", 4.94),
       rotary(roberta_row("NormAttention, rotary positions", "norm", kUnpublished))});
}

Study table_2() {
  Study study = masked_study("table-2", "Relative standard deviation of the gradients of training",
                             {roberta_row("1 + elu", "linear", 0.58), roberta_row("Performer", "performer", 0.47),
                              roberta_row("Vanilla", "softmax", 0.25), roberta_row("NormAttention", "norm", 0.20)});
  study.note =
      "The paper does not say of what. Here: of the norm of all gradients before clipping, its population standard "
      "deviation over all steps "
      "divided by its mean; steps whose norm is not finite are left out.";
  study.trials[0].protocol.train->log_every = 1;
  study.columns = {{"relative deviation", 0, "gradient_deviation", Quantity::number, Best::lowest}};
  return study;
}

Study table_3() {
  return masked_study(
      "table-3", "Softmax and 1 + elu in early and later layers",
      {roberta_row("1 + elu, 1 + elu", "linear*12", 4.98), roberta_row("1 + elu, softmax", "linear*6/softmax*6", 3.90),
       roberta_row("softmax, 1 + elu", "softmax*6/linear*6", 3.76)});
}

Trial next_token_trial(std::string name, std::int64_t quick_steps) {
  Trial trial{.name = std::move(name), .data = wikitext()};
  trial.protocol.train = published_run(100000, 128, 8000);
  trial.protocol.task = Task::lm;
  trial.protocol.data.tokenizer = "words";
  trial.protocol.data.length = 512;
  trial.quick = {in_seconds(quick_steps, {kGluInner}), kQuickDepth};
  return trial;
}

StudyRow alm_row(std::string name, std::string attention, std::vector<double> published) {
  return {.name = std::move(name),
          .model = "transnormer-alm",
          .attention = std::move(attention),
          .published = std::move(published)};
}

// Feed-forward layers and learned positions, as the models it is compared with have.
StudyRow plain_alm_row(std::string name, std::string attention, std::vector<double> published) {
  StudyRow row = alm_row(std::move(name), std::move(attention), std::move(published));
  row.set = {"model.feed_forward=ffn", "model.activation=gelu",  "model.inner=2048",
             "model.norm=layer",       "model.norm_affine=true", "model.positions=learned"};
  row.quick = {kPlainInner};
  return row;
}

Study table_4() {
  Study study{
      .name = "table-4",
      .title = "Language models: perplexity of eight models",
      .source = "Qin et al. 2022, table 4",
      .note =
          "Published on WikiText-103, by words; on WikiText-2 where the training part of -103 is not there (--quick: "
          "bytes). Levels cannot be compared, orders can. LS reads the last 128 tokens and a slot for every 16 before "
          "them."};
  study.trials = {next_token_trial("wikitext", 300)};
  study.columns = {validation_perplexity("validation", 0), {"test", 0, "perplexity", Quantity::number, Best::lowest}};
  study.rows = {plain_alm_row("Vanilla", "softmax", {29.63, 31.01}),
                plain_alm_row("LS", "long-short:chunk=16,slots=1,window=128", {32.37, 32.59}),
                plain_alm_row("FLASH-quad", "flash-quad*10", {31.88, 33.50}),
                plain_alm_row("FLASH", "flash-gau*10", {33.18, 34.63}),
                plain_alm_row("1+elu", "linear", {32.63, 34.25}),
                plain_alm_row("Performer", "performer:features=64", {75.29, 77.65}),
                alm_row("TransNormer T1", "transnormer-t1", {29.89, 31.35}),
                alm_row("TransNormer T2", "transnormer-t2", {29.57, 31.01})};
  return study;
}

Trial glue_trial(std::string name, std::int64_t steps, std::int64_t quick_steps) {
  Trial trial{.name = name, .kind = TrialKind::tuning, .data = {name}, .start = "pretraining"};
  TrainConfig train = published_run(steps, 32, steps / 16);
  train.schedule.kind = ScheduleKind::polynomial;
  train.schedule.peak = 1e-4;
  train.eval_every = steps / 6;
  trial.protocol.train = train;
  trial.protocol.data.length = 128;
  trial.quick.set = {fmt::format("train.steps={}", quick_steps), fmt::format("train.eval_every={}", quick_steps / 2),
                     "train.lr=5e-4", "train.warmup=10"};
  return trial;
}

Study table_5() {
  Study study{.name = "table-5",
              .title = "Masked pretraining, then the tasks of GLUE that are there",
              .source = "Qin et al. 2022, table 5",
              .note =
                  "Three epochs each from the pretrained weights, mean of the tokens, judged on dev; a tenth of the "
                  "training part chooses the "
                  "checkpoint. Pairs of sentences are read apart and compared, where RoBERTa reads them as one."};
  study.trials = {masked_trial("pretraining"), glue_trial("SST-2", 6300, 60), glue_trial("MRPC", 344, 40),
                  glue_trial("CoLA", 800, 40)};
  study.columns = {validation_perplexity("pretraining", 0),
                   {"SST-2", 1, "accuracy", Quantity::percent, Best::highest},
                   {"MRPC (F1)", 2, "f1", Quantity::percent, Best::highest},
                   {"CoLA (Matthews)", 3, "matthews", Quantity::percent, Best::highest}};
  const auto row = [](const char* name, const char* attention, double sst, double mrpc, double cola) {
    StudyRow out = roberta_row(name, attention, kUnpublished);
    out.published = {kUnpublished, sst, mrpc, cola};
    return out;
  };
  study.rows = {
      row("Vanilla", "softmax", 0.9025, 0.8835, 0.3863),     row("FLASH-quad", "flash-quad*24", 0.9094, 0.8173, 0.4128),
      row("FLASH", "flash-gau*24", 0.9071, 0.8250, 0.2940),  row("LS", "long-short", 0.9025, 0.8265, 0.4065),
      row("Performer", "performer", 0.8142, 0.8211, 0.1941), row("1+elu", "linear", 0.8727, 0.8303, kUnpublished)};
  for (const bool first : {true, false}) {
    StudyRow out{.name = first ? "TransNormer T1" : "TransNormer T2",
                 .model = "transnormer-blm",
                 .attention = first ? "transnormer-t1" : "transnormer-t2"};
    out.published =
        first ? std::vector{kUnpublished, 0.9117, 0.8450, 0.4538} : std::vector{kUnpublished, 0.9071, 0.8506, 0.4590};
    study.rows.push_back(std::move(out));
  }
  study.trials[0].quick.set.emplace_back("train.steps=150");
  return study;
}

StudyRow layers(std::string name, std::string attention, std::vector<double> published) {
  return {.name = std::move(name), .attention = std::move(attention), .published = std::move(published)};
}

Study table_8() {
  return design_study("table-8", "Share of local and of global layers",
                      {layers("0 local, 12 global", "{global}*12", {4.23, 4.48}),
                       layers("3 local, 9 global", "{local},block=64*3/{global}*9", {4.13, 3.83}),
                       layers("6 local, 6 global", "{local},block=64*6/{global}*6", {3.82, 3.81}),
                       layers("9 local, 3 global", "{local},block=64*9/{global}*3", {3.87, 3.86}),
                       layers("12 local, 0 global", "{local},block=64*12", {4.75, 4.66})});
}

Study table_9() {
  return design_study("table-9", "Local or global layers first",
                      {layers("global, then local", "{global}*6/{local},block=64*6", {4.13, 4.21}),
                       layers("local, then global", "{local},block=64*6/{global}*6", {3.82, 3.81})});
}

Study table_10() {
  StudyRow plain = layers("FFN", "{local},block=64*6/{global}*6", {3.93, 3.93});
  plain.set = {"model.feed_forward=ffn", "model.activation=gelu", "model.inner=3072"};
  plain.quick = {kPlainInner};
  return design_study("table-10", "Feed-forward layers or gated ones",
                      {plain, layers("GLU", "{local},block=64*6/{global}*6", {3.82, 3.81})});
}

Study table_11() {
  std::vector<StudyRow> rows;
  const std::vector<double> published[] = {{3.92, 3.90}, {3.82, 3.81}, {3.72, 3.69}};
  for (int i = 0; i < 3; ++i)
    rows.push_back(layers(fmt::format("blocks of {}", 32 << i),
                          fmt::format("{{local}},block={}*6/{{global}}*6", 32 << i), published[i]));
  return design_study("table-11", "Size of the blocks of local layers", std::move(rows));
}

std::string repeated(const std::string& pair, int times) {
  std::string out = pair;
  for (int i = 1; i < times; ++i) out += "/" + pair;
  return out;
}

Study table_12() {
  return design_study("table-12", "Local and global layers in turns, beside each other, or one half after the other",
                      {layers("local, global in turns", repeated("{local},block=64/{global}", 6), {4.19, 4.23}),
                       layers("global, local in turns", repeated("{global}/{local},block=64", 6), {4.11, 4.21}),
                       {.name = "parallel", .published = {3.77, 3.82}, .missing = "a layer runs one mechanism"},
                       layers("TransNormer", "{local},block=64*6/{global}*6", {3.82, 3.81})});
}

// Only what a model of the published sizes weighs.
Study table_13() {
  Study study{.name = "table-13",
              .title = "Configurations of the language models, as presets transnormer-alm and transnormer-blm",
              .source = "Qin et al. 2022, tables 4, 5 and 13",
              .note =
                  "The inner sizes 2048 and 1365 of the published table are swapped: with 1365 (alm) and 2048 (blm) "
                  "its numbers of "
                  "parameters come out. alm: 100000 steps of 128 x 512 tokens, warm-up 8000; blm: 50000 of 512 x 512, "
                  "warm-up 3000; "
                  "peak rate 5e-4 (the text says 0.005), AdamW 0.9, 0.98, weight decay 0.01.",
              .seeds = 1};
  study.trials = {{.name = "size", .kind = TrialKind::size}};
  study.columns = {{"parameters", 0, "parameters", Quantity::count}};
  const auto row = [](const char* name, const char* model, const char* attention, const char* vocabulary,
                      double count) {
    return StudyRow{.name = name, .model = model, .attention = attention, .set = {vocabulary}, .published = {count}};
  };
  study.rows = {row("alm T1", "transnormer-alm", "transnormer-t1", "model.vocabulary=267744", 155.99e6),
                row("alm T2", "transnormer-alm", "transnormer-t2", "model.vocabulary=267744", 155.99e6),
                row("blm T1", "transnormer-blm", "transnormer-t1", "model.vocabulary=50265", 124.67e6),
                row("blm T2", "transnormer-blm", "transnormer-t2", "model.vocabulary=50265", 124.67e6)};
  return study;
}

// Which tokens are attended to, by their distance.
Study figure_2() {
  Study study =
      masked_study("figure-2", "How far from itself a token attends, in early layers",
                   {roberta_row("Vanilla", "softmax", kUnpublished), roberta_row("1 + elu", "linear", kUnpublished)});
  study.rows.push_back({.name = "TransNormer T2", .model = "transnormer-blm", .attention = "transnormer-t2"});
  study.source = "Qin et al. 2022, figure 2 (drawn without numbers)";
  study.note =
      "Share of a row's weights on the nearest keys, as many as this share of all; weights of mechanisms without a sum "
      "of 1 are divided by "
      "it, signed ones count by size. First layer, mean over rows and heads.";
  study.trials[0].kind = TrialKind::locality;
  study.columns.clear();
  for (const int percent : {5, 10, 20, 40, 60, 80})
    study.columns.push_back(
        {fmt::format("nearest {}%", percent), 0, fmt::format("mass_{}", percent), Quantity::percent});
  study.seeds = 1;
  return study;
}

}  // namespace

std::vector<Study> language_studies() {
  return {table_1(), table_2(),  table_3(),  table_4(),  table_5(),  table_8(),
          table_9(), table_10(), table_11(), table_12(), table_13(), figure_2()};
}

}  // namespace fovea
