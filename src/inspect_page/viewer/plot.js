// Small plots in SVG, each with its data to save.

const dashes = ["solid", "dashed", "dotted"];
const kPlot = { width: 520, height: 300, left: 66, right: 14, top: 12, bottom: 44 };

function ticks(low, high, log) {
  const out = [];
  if (log) {
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
      for (const k of high / low > 1000 ? [1] : [1, 2, 5]) if (k * 10 ** p >= low * 0.999 && k * 10 ** p <= high * 1.001) out.push(k * 10 ** p);
    return out;
  }
  const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) out.push(Math.abs(value) < 1e-9 * step ? 0 : value);
  return out;
}

class Axis {
  constructor(values, log, include = []) {
    let low = Infinity, high = -Infinity;
    const take = (value) => {
      if (!Number.isFinite(value) || (log && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const value of values) take(value);
    include.forEach(take);
    if (!(low <= high)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    Object.assign(this, { low, high, log });
  }

  place(value) {
    const warp = (v) => (this.log ? Math.log(v) : v);
    return (warp(value) - warp(this.low)) / (warp(this.high) - warp(this.low));
  }
}

// Long series become as many points as there are pixels: the mean of each stretch, in a band from least to most.
function thinned(points) {
  const most = 400;
  if (points.length <= most) return { line: points, band: null };
  const line = [], upper = [], lower = [];
  for (let k = 0; k < most; ++k) {
    const from = Math.floor(k * points.length / most), to = Math.floor((k + 1) * points.length / most);
    let sum = 0, count = 0, least = Infinity, largest = -Infinity;
    for (let i = from; i < to; ++i) {
      const y = points[i][1];
      if (!Number.isFinite(y)) continue;
      sum += y; ++count; least = Math.min(least, y); largest = Math.max(largest, y);
    }
    const x = points[Math.floor((from + to) / 2)][0];
    line.push([x, count ? sum / count : NaN]);
    if (count) { upper.push([x, largest]); lower.push([x, least]); }
  }
  return { line, band: [...upper, ...lower.reverse()] };
}

// plot: {title, caption, x: {name, log, include, whole}, y, series: [{name, points, ink, faint, dots, dash}]}
function plotSvg(plot) {
  const { width, height, left, right, top, bottom } = kPlot;
  const points = (k) => plot.series.flatMap((s) => s.points.map((p) => p[k]));
  const x = new Axis(points(0), plot.x.log, plot.x.include), y = new Axis(points(1), plot.y.log, plot.y.include);
  const px = (v) => left + x.place(v) * (width - left - right), py = (v) => height - bottom - y.place(v) * (height - top - bottom);
  const svg = element("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plot.title });
  const text = (at, words, anchor, more = {}) => element("svg:text", { x: at[0], y: at[1], "text-anchor": anchor, class: "soft", ...more }, words);
  const line = (a, b, more) => element("svg:line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], style: "stroke:var(--line)", ...more });
  for (const t of ticks(y.low, y.high, y.log)) svg.append(line([left, py(t)], [width - right, py(t)]), text([left - 7, py(t) + 4], number(t), "end"));
  for (const t of ticks(x.low, x.high, x.log).filter((t) => !plot.x.whole || Number.isInteger(t))) svg.append(line([px(t), height - bottom], [px(t), height - bottom + 4]), text([px(t), height - bottom + 18], number(t), "middle"));
  svg.append(line([left, height - bottom], [width - right, height - bottom], { style: "stroke:var(--muted)" }),
    text([(left + width - right) / 2, height - 6], plot.x.name, "middle"),
    text([13, (top + height - bottom) / 2], plot.y.name, "middle", { transform: `rotate(-90 13 ${(top + height - bottom) / 2})` }));
  for (const series of plot.series) drawSeries(svg, series, plot, (p) => [px(p[0]), py(p[1])]);
  return svg;
}

function drawSeries(svg, series, plot, at) {
  const shown = ([x, y]) => Number.isFinite(x) && Number.isFinite(y) && !(plot.x.log && x <= 0) && !(plot.y.log && y <= 0);
  const path = (points) => {
    let out = "", pen = false;
    for (const p of points) {
      if (!shown(p)) { pen = false; continue; }
      out += `${pen ? "L" : "M"}${at(p).map((v) => v.toFixed(1)).join(" ")}`;
      pen = true;
    }
    return out;
  };
  const ink = `var(--${series.ink})`;
  if (series.dots) {
    for (const p of series.points) {
      if (!shown(p)) continue;
      const [cx, cy] = at(p);
      svg.append(element("svg:circle", { cx, cy, r: 4, style: `fill:${ink}`, "fill-opacity": 0.75 }, element("svg:title", {}, `${series.name} ${p[2] ?? ""}: ${number(p[1])}`)));
    }
    return;
  }
  const { line, band } = thinned(series.points);
  if (band) svg.append(element("svg:path", { d: path(band) + "Z", style: `fill:${ink}`, "fill-opacity": 0.18 }));
  svg.append(element("svg:path", {
    d: path(line), fill: "none", style: `stroke:${ink}`, "stroke-width": series.faint ? 1 : 2, "stroke-opacity": series.faint ? 0.35 : 1,
    "stroke-dasharray": { dashed: "7 4", dotted: "2 4" }[series.dash] ?? null, "stroke-linejoin": "round",
  }, element("svg:title", {}, series.name)));
}

// The picture by itself, in the colours that the reader sees.
function loneSvg(svg) {
  const copy = svg.cloneNode(true);
  const names = [...inks, "paper", "text", "muted", "line", "card"];
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", kPlot.width); copy.setAttribute("height", kPlot.height);
  copy.prepend(element("svg:style", {}, `svg{${names.map((n) => `--${n}:${css(n)}`).join(";")};background:var(--card)}`
    + "text{fill:var(--text);font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.soft{fill:var(--muted)}"));
  return new XMLSerializer().serializeToString(copy);
}

function savePlotPng(name, svg) {
  const picture = new Image();
  picture.onload = () => {
    const canvas = element("canvas", { width: 2 * kPlot.width, height: 2 * kPlot.height }), g = canvas.getContext("2d");
    g.fillStyle = css("card");
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(`${name}.png`, blob));
  };
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(loneSvg(svg));
}

const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

function plotFigure(plot) {
  const svg = plotSvg(plot), name = fileName(`${plot.file || plot.title}`);
  const rows = () => [["series", plot.x.name, plot.y.name], ...plot.series.flatMap((s) => s.points.map((p) => [s.name, p[0], p[1]]))];
  const named = plot.series.filter((s) => s.key !== false);
  return element("figure", { class: "card" }, element("h3", {}, plot.title), svg,
    named.length > 1 && element("div", { class: "keys" }, named.map((s) =>
      element("span", {}, element("span", s.dots ? { class: "dot", style: `background:var(--${s.ink})` }
        : { class: "line", style: `border-top:3px ${s.dash || "solid"} var(--${s.ink})` }), s.name))),
    element("figcaption", {}, plot.caption),
    element("div", { class: "save" },
      element("button", { onclick: () => saveText(`${name}.svg`, "image/svg+xml", loneSvg(svg)) }, "SVG"),
      element("button", { onclick: () => savePlotPng(name, svg) }, "PNG"),
      element("button", { onclick: () => saveText(`${name}.csv`, "text/csv", csvText(rows())) }, "CSV")));
}
