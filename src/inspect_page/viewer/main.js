// The page: what was looked at, all heads, the opened head, the model as a whole, the numbers.

const curvePoints = (head) => [[0, 0], ...head.curve.map((y, p) => (meta.paper_curve ? [y, (p + 1) / head.curve.length] : [(p + 1) / head.curve.length, y]))];

function meanCurve(heads) {
  const size = Math.min(...heads.map((h) => h.curve.length));
  return Array.from({ length: size }, (_, p) => heads.reduce((sum, h) => sum + h.curve[p], 0) / heads.length);
}

function localityFigure() {
  const layers = meta.layers.filter((layer) => !isRollout(layer) && layer.heads.some((id) => meta.heads[id].curve.length));
  if (!layers.length) return null;
  const several = meta.models.length > 1, series = [];
  for (const [k, layer] of layers.entries()) {
    const heads = layer.heads.map((id) => meta.heads[id]).filter((h) => h.curve.every((y) => y !== null));
    if (!heads.length) continue;
    const dash = several ? dashes[layer.model % dashes.length] : "solid", ink = inks[(several ? layer.number : k) % inks.length];
    series.push({ name: `${several ? `${meta.models[layer.model].name} ` : ""}${layerName(layer)} ${layer.mechanism}`, ink, dash, points: curvePoints({ curve: meanCurve(heads) }) });
  }
  series.push({ name: "near and far alike", ink: "grey", dash: "dashed", points: [[0, 0], [1, 1]] });
  return plotFigure({
    title: "Which layers are local", x: { name: "share of the keys, nearest first", include: [0, 1] }, y: { name: "mass on them", include: [0, 1] }, series,
    caption: "Locally accumulated attention (Figure 2a of the TransNormer paper), the mean over the heads of each layer. A layer that rises at once reads its neighbourhood; one along the diagonal reads the whole text.",
  });
}

function entropyFigure() {
  const series = [];
  for (const kind of meta.classes) {
    const points = meta.heads.filter((h) => h.class === kind.name && Number.isFinite(h.entropy) && !isRollout(meta.layers[h.layer])).map((h) => [meta.layers[h.layer].number, h.entropy, headName(h)]);
    if (points.length) series.push({ name: kind.name, ink: kind.ink, dots: true, points });
  }
  return plotFigure({
    title: "How spread out heads read", x: { name: "layer", whole: true, include: [-0.5, Math.max(0, ...meta.layers.map((l) => l.number)) + 0.5] },
    y: { name: "entropy, as a share of its most", include: [0, 1] }, series,
    caption: "A dot is a head. 0: each token reads one key alone; 1: all keys alike.",
  });
}

function numbersTable(open) {
  const known = meta.columns.map((c, k) => k).filter((k) => meta.heads.some((h) => h.numbers[k] !== null));
  const head = element("thead", {}, element("tr", {}, ["head", "class", ...known.map((k) => meta.columns[k].name)].map((name) => element("th", { scope: "col" }, name))));
  const body = element("tbody", {}, meta.heads.map((h, id) => element("tr", {},
    element("th", { scope: "row" }, element("a", { href: `#head-${id}`, onclick: (e) => { e.preventDefault(); open(id); } }, headName(h))),
    element("td", { class: "words" }, h.class), known.map((k) => element("td", {}, formatted(h.numbers[k], meta.columns[k].format))))));
  const csv = () => csvText([["model", "layer", "place", "mechanism", "head", "class", ...meta.columns.map((c) => c.key)],
    ...meta.heads.map((h) => { const l = meta.layers[h.layer]; return [meta.models[l.model].name, l.number, l.place, l.mechanism, h.head, h.class, ...h.numbers]; })]);
  return element("details", {}, element("summary", {}, "Numbers of all heads"), element("div", { class: "wide" }, element("table", {}, head, body)),
    element("div", { class: "save" }, element("button", { onclick: () => saveText("heads.csv", "text/csv", csv()) }, "CSV")));
}

function howTo() {
  const row = (keys, words) => element("p", {}, keys.map((k) => [element("kbd", {}, k), " "]), words);
  return element("details", {}, element("summary", {}, "Keys, and how this page was made"),
    row(["Tab", "Enter"], "go to a head and open it; arrows go from head to head"), row(["arrows"], "in a map: the next weight (with Shift ten further); in the text: the next token"),
    row(["+", "-", "0"], "zoom in and out, show all; the wheel and two fingers do it, too"), row(["Escape"], "closes the head"),
    element("p", { class: "note" }, `${meta.precision} Rows are divided by the sum of their magnitudes before anything is measured.`),
    meta.command ? element("pre", {}, meta.command) : null);
}

// "0, 2 to 5" for 0, 2, 3, 4, 5.
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) {
    const last = runs.at(-1);
    if (last && last[1] === n - 1) last[1] = n; else runs.push([n, n]);
  }
  return runs.map(([a, b]) => (b > a + 1 ? `${a} to ${b}` : b > a ? `${a}, ${b}` : `${a}`)).join(", ");
}

// What can be said of a model at once: which layers are local and global, how many heads may have found nothing to read.
function shortly(model, index) {
  const layers = meta.layers.filter((layer) => layer.model === index && !isRollout(layer));
  const heads = layers.flatMap((layer) => layer.heads.map((id) => meta.heads[id]));
  const idle = heads.filter((head) => head.class === "delimiter" || head.class === "broadcast").length;
  const reaches = ["local", "mixed", "global"].map((reach) => [reach, layers.filter((layer) => layer.reach === reach).map((layer) => layer.number)]);
  const words = reaches.filter(([, numbers]) => numbers.length).map(([reach, numbers]) => `${reach}: ${numbers.length > 1 ? "layers" : "layer"} ${ranges(numbers)}`);
  if (idle) words.push(`${idle} of ${heads.length} heads read little but delimiters or one token`);
  return words.length ? element("p", { class: "shortly" }, meta.models.length > 1 ? element("b", {}, `${model.name}  `) : null, words.join(" · ")) : null;
}

function start() {
  const page = document.getElementById("page");
  const panel = new HeadPanel((id) => { overview.mark(-1); overview.focus(id); history.replaceState(null, "", " "); });
  const open = (id) => { overview.mark(id); history.replaceState(null, "", `#head-${id}`); return panel.open(id); };
  const overview = new Overview(open);
  page.replaceChildren(element("h1", {}, meta.title), element("p", { class: "lead" }, meta.sentence),
    element("p", { class: "caution" }, "A map shows what a head reads, not why a model answers as it does: what a head reads may be undone, repeated or ignored further up. "
      + "To learn whether a head matters, take it away and see what it costs."),
    ...meta.models.map(shortly).filter(Boolean), overview.root, panel.root,
    ...[meta.heads.length ? element("section", {}, element("h2", {}, "The model as a whole"), element("div", { class: "plots" }, localityFigure(), entropyFigure())) : null, worthSection(), approximationSection()].filter(Boolean),
    numbersTable(open), howTo(), element("footer", {}, `Made by fovea ${meta.version}. This file needs nothing else and asks for nothing over the network.`));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") panel.close(); });
  darkness.addEventListener("change", () => panel.repaint());
  const asked = /^#head-(\d+)$/.exec(location.hash);
  if (asked && meta.heads[asked[1]]) open(Number(asked[1]));
  document.documentElement.dataset.ready = "yes";
}
start();
