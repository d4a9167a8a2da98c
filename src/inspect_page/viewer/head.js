// One head, opened: its map, the text, its numbers and profiles; and another head beside it.

const indexed = (values) => Array.from(values, (value, at) => [at, value]);

function entropyPlot(data) {
  const head = data.head, most = Array.from({ length: Math.min(2000, data.rows) }, (_, k) => {
    const row = Math.floor(k * data.rows / Math.min(2000, data.rows));
    return [row, Math.log(head.causal ? Math.min(data.columns, row + 1 + data.columns - data.rows) : data.columns)];
  });
  return plotFigure({
    title: `Entropy along the ${wordsOf(head).all}`, file: `${headName(head)} entropy`, x: { name: `${wordsOf(head).one} that reads` }, y: { name: "entropy (nats)", include: [0] },
    caption: "How spread out each row reads. 0: one key alone; on the dashed line: all keys alike.",
    series: [{ name: "entropy", ink: "blue", points: indexed(data.parts.entropy) }, { name: "all keys alike", ink: "grey", dash: "dashed", points: most }],
  });
}

function receivedPlot(data) {
  const sum = data.parts.received.reduce((a, b) => a + b, 0), words = wordsOf(data.head);
  return plotFigure({
    title: `Mass that ${words.many} receive`, file: `${headName(data.head)} received`, x: { name: `${words.one} that is read` }, y: { name: "mass from all rows", include: [0] },
    caption: `A peak is a sink: a ${words.one} that many others read. All masses together are ${number(sum)}, one for each row that reads.`,
    series: [{ name: "mass", ink: "vermilion", points: indexed(data.parts.received) }],
  });
}

function distancePlot(data) {
  const at = data.parts.distance_at, mass = data.parts.distance, words = wordsOf(data.head);
  const points = Array.from(at, (d, k) => [d - data.rows + 1, mass[k]]);
  const back = points.filter((p) => p[0] < 0).map((p) => [-p[0], p[1]]).reverse(), ahead = points.filter((p) => p[0] > 0);
  const series = [{ name: `before the ${words.one}`, ink: "blue", points: back }];
  if (!data.head.causal) series.push({ name: "after it", ink: "vermilion", points: ahead });
  return plotFigure({
    title: "Mass over distance", file: `${headName(data.head)} distance`, x: { name: `${words.many} away`, log: true }, y: { name: "mean mass at that distance", log: true },
    caption: "Straight down to the right: what is nearer counts more. Flat: distance does not matter.", series,
  });
}

function localityPlot(data) {
  const others = meta.heads.filter((h) => h !== data.head && h.model === data.head.model).slice(0, 200);
  return plotFigure({
    title: "Locality", file: `${headName(data.head)} locality`, x: { name: "share of the keys, nearest first", include: [0, 1] }, y: { name: "mass on them", include: [0, 1] },
    caption: `Locally accumulated score; the area below is ${number(data.head.area)}. A curve that rises at once is local, the diagonal reads near and far alike. Faint: the other heads.`,
    series: [...others.map((h) => ({ name: headName(h), ink: "grey", faint: true, key: false, points: curvePoints(h) })),
      { name: "this head", ink: classInk(data.head.class), key: false, points: curvePoints(data.head) }],
  });
}

function factsTable(head) {
  const rows = meta.columns.map((column, k) => [column, head.numbers[k]]).filter(([, value]) => value !== null);
  return element("section", { class: "card" }, element("h3", {}, "Its numbers"),
    element("p", {}, element("span", { class: "dot", style: `display:inline-block;background:var(--${classInk(head.class)})` }), " ",
      element("b", {}, head.class), `: ${head.why}.`),
    head.bad_rows ? element("p", { class: "bad" }, `${head.bad_rows} of ${head.rows} rows have weights that are NaN or infinite; they are drawn in magenta and count in no number.`) : null,
    element("table", { class: "facts" }, element("tbody", {}, rows.map(([column, value]) =>
      element("tr", { title: column.help }, element("th", { scope: "row" }, column.name), element("td", {}, formatted(value, column.format)))))));
}

class HeadPanel {
  constructor(closed) {
    this.closed = closed;
    this.root = element("section", { "aria-label": "opened head", hidden: true });
    this.maps = [];
  }

  async open(id, other = null) {
    const turn = (this.turn = (this.turn || 0) + 1);
    const data = await headData(id), second = other === null ? null : await headData(other);
    if (turn !== this.turn) return;  // another head was chosen meanwhile
    const view = this.maps[0];
    const kept = view && this.id !== undefined && view.data.rows === data.rows && view.data.columns === data.columns ? view : null;
    this.maps.forEach((map) => map.close());
    Object.assign(this, { id, other });
    this.text = hasPatches(data.head) ? new PictureView(data, (p) => this.choose(p)) : new TextView(data, (p) => this.choose(p));
    this.maps = [data, second].filter(Boolean).map((d) => this.map(d));
    this.root.hidden = false;
    if (kept) {
      const place = kept.whole() ? {} : { scale: kept.scale, x: kept.x, y: kept.y };
      for (const map of this.maps) Object.assign(map, { ...place, kind: kept.kind, shading: kept.shading });
    }
    this.build(data);
    if (kept?.chosen) this.choose(kept.chosen);
    window.inspectPage = { panel: this, map: this.maps[0] };  // for those who drive the page from outside
  }

  map(data) {
    const map = new MapView(data, {
      label: `map of ${headName(data.head)}: arrows choose a weight, + and - zoom, 0 shows all, Escape closes`,
      moved: (moved) => this.maps.forEach((m) => { if (m !== moved && m.data.rows === moved.data.rows && m.data.columns === moved.data.columns) m.follow(moved); }),
      chosen: (place) => this.choose(place),
    });
    return map;
  }

  choose(place) {
    for (const map of this.maps) map.choose(place, true);
    this.text.set(place);
  }

  build(data) {
    const title = element("h2", { tabindex: -1 }, `${headName(data.head)[0].toUpperCase()}${headName(data.head).slice(1)}`);
    const map = (view) => element("section", { class: "card" },
      element("h3", {}, this.maps.length > 1 ? `${headName(view.data.head)} · ${view.data.head.class}` : "Its map"),
      element("p", { class: "note" }, meta.layers[view.data.head.layer].map), view.root,
      element("div", { class: "save" }, element("button", { onclick: () => this.savePng(view) }, "PNG"),
        element("button", { onclick: () => this.saveCsv(view) }, "CSV of what is in sight")));
    const side = element("div", { class: "side" }, this.text.root, factsTable(data.head));
    this.root.replaceChildren(title, this.toolbar(data),
      element("div", { class: `opened${this.maps.length > 1 ? " pair" : ""}` }, this.maps.map(map), side),
      element("div", { class: "plots" }, entropyPlot(data), receivedPlot(data), distancePlot(data), localityPlot(data)));
    title.scrollIntoView({ block: "start" });
    this.maps[0].canvas.focus({ preventScroll: true });
  }

  toolbar(data) {
    const all = (act) => () => this.maps.forEach(act);
    const option = (value, words, chosen) => element("option", { value, selected: chosen }, words);
    const shading = element("select", { onchange: (e) => this.maps.forEach((m) => m.setShading(e.target.value)) },
      [["root", "square root"], ["linear", "linear"], ["log", "logarithm"]].map(([value, words]) => option(value, words, value === this.maps[0].shading)));
    const kind = element("select", { onchange: (e) => this.maps.forEach((m) => m.setKind(e.target.value)) },
      [["mean", "their mean"], ["max", "the largest"]].map(([value, words]) => option(value, words, value === this.maps[0].kind)));
    const beside = element("select", { onchange: (e) => this.open(this.id, e.target.value === "" ? null : Number(e.target.value)) }, option("", "nothing"),
      meta.heads.map((head, id) => (id === this.id ? null : option(id, `${headName(head)} (${head.class})`, id === this.other))));
    return element("div", { class: "bar" },
      element("button", { onclick: all((m) => m.zoom(1.5)), title: "zoom in (+)", "aria-label": "zoom in" }, "+"),
      element("button", { onclick: all((m) => m.zoom(1 / 1.5)), title: "zoom out (-)", "aria-label": "zoom out" }, "−"),
      element("button", { onclick: all((m) => m.fit()), title: "show all (0)" }, "Show all"),
      element("label", {}, "colours", shading), element("label", {}, "many weights in a pixel", kind),
      meta.heads.length > 1 ? element("label", {}, "beside it", beside) : null,
      element("span", { class: "spring" }), element("button", { onclick: () => this.close(), title: "Escape" }, "Close"));
  }

  close() {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.turn = (this.turn || 0) + 1;
    this.maps.forEach((map) => map.close());
    this.maps = [];
    this.closed(this.id);
    this.id = undefined;
  }

  savePng(view) { view.canvas.toBlob((blob) => save(`${fileName(headName(view.data.head))}.png`, blob)); }

  // Weights of the rows and keys in sight, as far as they are known: exact, or the value of their cell.
  saveCsv(view) {
    const seen = view.side / view.scale, head = view.data.head, rows = [["row", "key", "row token", "key token", "weight", "exact"]];
    const end = (from, size) => Math.min(size, Math.ceil(from + Math.min(seen, 256)));
    for (let i = Math.max(0, Math.floor(view.y)); i < end(view.y, view.data.rows); ++i)
      for (let j = Math.max(0, Math.floor(view.x)); j < end(view.x, view.data.columns); ++j) {
        const found = view.data.weight(i, j);
        rows.push([i, j, textOf(head, "row")[i], textOf(head, "column")[j], found.value, found.exact ? 1 : 0]);
      }
    saveText(`${fileName(headName(head))}.csv`, "text/csv", csvText(rows));
  }

  repaint() { this.maps.forEach((map) => { map.scaleKey = ""; map.repaint(); }); this.text?.show(); }
}
