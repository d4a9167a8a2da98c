// What heads are worth, and whether another mechanism would do: there where it was asked for.

const several = () => meta.models.length > 1;
const modelName = (index) => (several() ? `${meta.models[index].name}: ` : "");
const columnOf = (key) => meta.columns.findIndex((column) => column.key === key);

function importanceFigure(key, title, caption) {
  const column = columnOf(key);
  if (column < 0) return null;
  const series = [];
  for (const kind of meta.classes) {
    const points = meta.heads.filter((h) => h.class === kind.name && Number.isFinite(h.numbers[column]))
      .map((h) => [meta.layers[h.layer].number, h.numbers[column], headName(h)]);
    if (points.length) series.push({ name: kind.name, ink: kind.ink, dots: true, points });
  }
  if (!series.length) return null;
  return plotFigure({
    title, x: { name: "layer", whole: true, include: [-0.5, Math.max(0, ...meta.layers.map((l) => l.number)) + 0.5] },
    y: { name: meta.columns[column].name, include: [0] }, series, caption,
  });
}

function pruningFigure() {
  if (!meta.pruning.length) return null;
  const series = meta.pruning.map((found, k) => ({
    name: several() ? meta.models[found.model].name : "loss", ink: inks[k % inks.length],
    points: found.steps.map(([removed, loss]) => [100 * removed / found.heads, loss === null ? NaN : loss]),
  }));
  return plotFigure({
    title: "The loss as heads are taken out", x: { name: "heads taken out (%)", include: [0, 100] }, y: { name: "loss" }, series,
    caption: "The least important heads first; each layer keeps one. As long as the curve is flat, the heads that are gone did nothing for this.",
  });
}

// Means over the layers of a model, by mechanism and length.
function approximationRows() {
  const rows = new Map();
  for (const found of meta.approximation) {
    const key = `${found.model}/${found.mechanism}/${found.length}`;
    if (!rows.has(key)) rows.set(key, { ...found, all: [] });
    rows.get(key).all.push(found);
  }
  const mean = (all, name) => {
    const values = all.map((one) => one[name]).filter((value) => value !== null);
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  };
  return [...rows.values()].map((row) => ({
    ...row, reason: row.all.every((one) => one.reason) ? row.reason : "", layers: row.all.length,
    ...Object.fromEntries(["output_error", "divergence", "top_agreement", "time"].map((name) => [name, mean(row.all, name)])),
  }));
}

function approximationSection() {
  if (!meta.approximation.length) return null;
  const rows = approximationRows(), names = [...new Set(rows.map((row) => modelName(row.model) + row.mechanism))];
  const series = names.map((name, k) => ({
    name, ink: inks[k % inks.length],
    points: rows.filter((row) => modelName(row.model) + row.mechanism === name && row.output_error !== null).map((row) => [row.length, row.output_error]),
  })).filter((one) => one.points.length).map((one) => ({ ...one, dots: one.points.length === 1 }));
  const heads = ["in place of softmax", "tokens", "layers", "error of the output (%)", "divergence (nats)", "top keys that agree (%)", "time of softmax"];
  const cells = (row) => (row.reason ? [element("td", { class: "words", colspan: 4 }, row.reason)]
    : [number(100 * row.output_error), number(row.divergence), number(100 * row.top_agreement), `${number(row.time)}x`].map((text) => element("td", {}, text)));
  const table = element("table", {}, element("thead", {}, element("tr", {}, heads.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, element("th", { scope: "row" }, modelName(row.model) + row.mechanism),
      element("td", {}, row.length), element("td", {}, row.layers), cells(row)))));
  return element("section", {}, element("h2", {}, "Would another mechanism do?"),
    element("p", { class: "note" }, "Each mechanism in place of softmax on the very q, k and v of the layers, the mean over them; what it would learn for itself is drawn. "
      + "An error of 100% is as much as giving nothing at all."),
    element("div", { class: "plots" }, series.length ? plotFigure({
      title: "Error of the output", x: { name: "tokens", log: true }, y: { name: "error, as a share of the output", include: [0] }, series,
      caption: "How far the output of a layer is from that of softmax, over the length of the text.",
    }) : null), element("div", { class: "wide" }, table));
}

function worthSection() {
  const figures = [
    importanceFigure("importance", "How much the loss feels each head", "A dot is a head: the slope of the loss by a gate on its output, as a share of its layer's. Near 0: it could as well be left out."),
    importanceFigure("loss_without", "What the loss grows by without each head", "A dot is a head, taken out alone. Below 0: the model does better without it."),
    pruningFigure()].filter(Boolean);
  return figures.length ? element("section", {}, element("h2", {}, "What heads are worth"), element("div", { class: "plots" }, figures)) : null;
}
