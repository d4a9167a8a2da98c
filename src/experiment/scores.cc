#include "experiment/scores.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "core/statistics.h"

namespace fovea {

double Scores::interval() const { return classes() ? share_margin(accuracy, examples) : 0.0; }

double Scores::perplexity() const { return std::exp(loss); }

double Scores::bits_per_character() const {
  return characters_per_token > 0.0 ? loss / std::numbers::ln2 / characters_per_token : NAN;
}

void Scores::fields(FieldVisitor& v) {
  v("task", task, "what is asked of the model", one_of(task_names()));
  v("loss", loss, "on the test split, of the best checkpoint");
  v("accuracy", accuracy, "on the test split, of the best checkpoint", between(0, 1));
  v("deviation", deviation, "mean absolute error of numbers", at_least(0));
  if (task == Task::regress) {
    v("pearson", pearson, "correlation of what was given and what is right", between(-1, 1));
    v("spearman", spearman, "the same of their ranks", between(-1, 1));
  }
  v("majority_share", majority, "accuracy of always giving the most frequent answer", between(0, 1));
  v("characters_per_token", characters_per_token, "of the text; 0: unknown", at_least(0));
  v("examples", examples, "that they were measured on; 0: unknown", at_least(0));
  v("loss_margin", loss_margin, "half of the 95% interval of the loss; 0: unknown", at_least(0));
}

Scores scores_of(Task task, const EvalReport& report, const Split& split) {
  return {task,
          report.loss,
          report.accuracy,
          report.deviation,
          0.0,
          0.0,
          split.majority(),
          task == Task::mlm ? 0.0 : split.characters_per_token(),
          report.examples,
          task == Task::forecast ? 0.0 : report.loss_margin};  // windows of one series overlap
}

std::string scores_text(const Scores& s) {
  if (s.classes())
    return fmt::format("accuracy {:.2f}%{}{}, loss {:.4f}", 100.0 * s.accuracy,
                       s.examples > 0 ? fmt::format(" ± {:.1f}", 100.0 * s.interval()) : "",
                       s.majority > 0.0 ? fmt::format(" (majority class {:.1f}%)", 100.0 * s.majority) : "", s.loss);
  if (s.numbers())
    return fmt::format("{}MSE {:.4f}, MAE {:.4f}",
                       s.pearson == 0.0 ? ""
                                        : fmt::format("Pearson {:.3f} ± {:.3f}, Spearman {:.3f}, ", s.pearson,
                                                      correlation_margin(s.pearson, s.examples), s.spearman),
                       s.loss, s.deviation);
  if (s.task == Task::image_text) return fmt::format("loss {:.4f}, accuracy {:.2f}%", s.loss, 100.0 * s.accuracy);
  std::string text = fmt::format("loss {:.4f}, perplexity {:.3f}", s.loss, s.perplexity());
  if (s.characters_per_token > 0.0) text += fmt::format(", {:.3f} bits per character", s.bits_per_character());
  return text;
}

Json scores_json(const Scores& s) {
  Json json{{"task", task_names()[static_cast<std::size_t>(s.task)]}, {"loss", s.loss}};
  if (s.numbers()) {
    json["mse"] = s.loss;
    json["mae"] = s.deviation;
    if (s.task == Task::regress) json.update({{"pearson", s.pearson}, {"spearman", s.spearman}});
    return json;
  }
  json["accuracy"] = s.accuracy;
  if (s.classes()) json["majority_share"] = s.majority;
  if (s.examples > 0 && s.classes()) json["accuracy_interval"] = s.interval();
  if (!s.classes() && s.task != Task::image_text) json["perplexity"] = s.perplexity();
  if (s.loss_margin > 0.0) json["loss_interval"] = s.loss_margin;
  if (s.characters_per_token > 0.0) json["bits_per_character"] = s.bits_per_character();
  return json;
}

std::vector<ScoreColumn> score_columns(const Scores& s) {
  const auto none = [](const Scores&) { return 0.0; };
  const ScoreColumn loss{{"loss", Quantity::number, Best::lowest},
                         [](const Scores& x) { return x.loss; },
                         [](const Scores& x) { return x.loss_margin; }};
  if (s.classes() || s.task == Task::image_text)
    return {{{"accuracy", Quantity::percent, Best::highest},
             [](const Scores& x) { return x.accuracy; },
             [](const Scores& x) { return x.interval(); }},
            loss};
  const std::vector<ScoreColumn> errors{
      {{"MSE", Quantity::number, Best::lowest},
       [](const Scores& x) { return x.loss; },
       [](const Scores& x) { return x.loss_margin; }},
      {{"MAE", Quantity::number, Best::lowest}, [](const Scores& x) { return x.deviation; }, none}};
  if (s.task == Task::forecast) return errors;
  if (s.task == Task::regress)
    return {{{"Pearson", Quantity::number, Best::highest},
             [](const Scores& x) { return x.pearson; },
             [](const Scores& x) { return correlation_margin(x.pearson, x.examples); }},
            {{"Spearman", Quantity::number, Best::highest},
             [](const Scores& x) { return x.spearman; },
             [](const Scores& x) { return correlation_margin(x.spearman, x.examples); }},
            errors[0],
            errors[1]};
  std::vector<ScoreColumn> columns{loss,
                                   {{"perplexity", Quantity::number, Best::lowest},
                                    [](const Scores& x) { return x.perplexity(); },
                                    [](const Scores& x) { return x.perplexity() * x.loss_margin; }}};
  if (s.characters_per_token > 0.0)
    columns.push_back({{"bits/char", Quantity::number, Best::lowest},
                       [](const Scores& x) { return x.bits_per_character(); },
                       [](const Scores& x) { return x.loss_margin * x.bits_per_character() / x.loss; }});
  return columns;
}

TableCell score_cell(double value, double margin) {
  const bool known = margin > 0.0 && std::isfinite(margin);
  TableCell cell(value, known ? margin : 0.0);
  if (!known) cell.margin = kUnknownMargin;
  return cell;
}

}  // namespace fovea
