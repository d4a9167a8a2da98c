// A map that can be zoomed: rows read, columns are read. Only the tiles in sight are drawn, each from the level of the
// pyramid whose cells are about as large as a pixel.

const kTile = 256, kProfile = 54, kGap = 6;

class MapView {
  constructor(data, options) {
    Object.assign(this, { data, options, kind: "mean", shading: "root", chosen: null, hovered: null, pointers: new Map(), tiles: new Map() });
    this.canvas = element("canvas", { class: "view", tabindex: 0, role: "application", "aria-label": options.label });
    this.tip = element("div", { class: "tip", hidden: true });
    this.scaleCanvas = element("canvas", { width: 256, height: 1 });
    this.low = element("span"); this.high = element("span");
    this.readout = element("p", { class: "readout", role: "status" });
    this.root = element("div", {}, element("div", { class: "map" }, this.canvas, this.tip),
      element("div", { class: "scale" }, this.low, this.scaleCanvas, this.high), this.readout);
    this.listen();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.root);
  }

  close() { this.watcher.disconnect(); this.tiles.clear(); }

  resize() {
    const width = this.root.clientWidth;
    if (!width || width === this.width) return;
    const whole = this.whole();
    this.width = width;
    this.side = Math.max(120, Math.min(width - kProfile - kGap, window.innerHeight * 0.85));
    this.height = this.side + kGap + kProfile;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.height = `${this.height}px`;
    if (whole || this.x === undefined) this.fit(); else this.moved();
  }

  // The scale at which everything is in sight.
  least() { return this.side / Math.max(this.data.rows, this.data.columns); }
  whole() { return this.scale === undefined || this.scale <= this.least() * 1.0001; }

  fit() {
    this.scale = this.least();
    this.x = this.y = 0;
    this.moved();
  }

  moved(silent) {
    if (!this.width) return;  // not laid out yet: resize() comes back to it
    this.scale = Math.min(64, Math.max(this.least(), this.scale));
    const seen = this.side / this.scale;
    const bound = (at, size) => (seen >= size ? (size - seen) / 2 : Math.min(size - seen, Math.max(0, at)));
    this.x = bound(this.x, this.data.columns);
    this.y = bound(this.y, this.data.rows);
    if (!silent) this.options.moved?.(this);
    this.redraw();
  }

  follow(other) {  // the same place in the same text
    this.scale = other.scale; this.x = other.x; this.y = other.y;
    this.moved(true);
  }

  zoom(factor, px = this.side / 2, py = this.side / 2) {
    const column = this.x + px / this.scale, row = this.y + py / this.scale;
    this.scale = Math.min(64, Math.max(this.least(), this.scale * factor));
    this.x = column - px / this.scale;
    this.y = row - py / this.scale;
    this.moved();
  }

  setKind(kind) { this.kind = kind; this.repaint(); }
  setShading(shading) { this.shading = shading; this.repaint(); }
  repaint() { this.tiles.clear(); this.redraw(); }

  redraw() {
    if (this.pending || !this.width) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  // The weight that the strongest colour stands for: in sight of single weights the largest of all, else the largest of
  // the cells, but so much that rows that read all keys alike look pale, as in the thumbnails.
  top(level) {
    if (this.showsSingle() || !level.top(this.kind)) return this.data.top;
    return Math.min(this.data.top, Math.max(level.top(this.kind), 8 / this.data.columns));
  }
  showsSingle() { return !this.data.single && this.data.cell * this.scale > 12; }

  lut(level) {
    const top = this.top(level), out = new Uint32Array(256), bytes = new Uint8Array(out.buffer);
    for (let code = 0; code < 256; ++code) {
      const value = level.coding.values[code];
      const rgb = Number.isNaN(value) ? kNotANumber : shade(strength(value, this.shading, top), this.data.head.signed);
      bytes.set([...rgb, 255], 4 * code);
    }
    return out;
  }

  tile(index, level, row, column) {
    const key = `${index}/${this.showsSingle()}/${row}/${column}`;
    const found = this.tiles.get(key);
    if (found) return found;
    if (this.tiles.size > 160) this.tiles.delete(this.tiles.keys().next().value);
    const lutKey = `lut ${index}/${this.showsSingle()}`;
    if (!this.tiles.has(lutKey)) this.tiles.set(lutKey, this.lut(level));
    const lut = this.tiles.get(lutKey), codes = level[this.kind];
    const wide = Math.min(kTile, level.columns - column * kTile), tall = Math.min(kTile, level.rows - row * kTile);
    const image = new ImageData(wide, tall), pixels = new Uint32Array(image.data.buffer);
    for (let r = 0; r < tall; ++r) {
      const from = (row * kTile + r) * level.columns + column * kTile;
      for (let c = 0; c < wide; ++c) pixels[r * wide + c] = lut[codes[from + c]];
    }
    const canvas = document.createElement("canvas");
    canvas.width = wide; canvas.height = tall;
    canvas.getContext("2d").putImageData(image, 0, 0);
    this.tiles.set(key, canvas);
    return canvas;
  }

  draw() {
    const started = performance.now(), g = this.canvas.getContext("2d");
    const index = this.data.levelFor(this.scale * this.ratio), level = this.data.level(index);
    g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.save();
    g.beginPath(); g.rect(0, 0, this.side, this.side); g.clip();
    this.drawTiles(g, index, level);
    if (this.showsSingle()) this.drawSingle(g);
    this.drawChosen(g);
    g.restore();
    g.strokeStyle = css("line");
    g.strokeRect(0.5, 0.5, this.side - 1, this.side - 1);
    this.drawProfiles(g);
    this.drawScale(level);
    this.frames = (this.frames || 0) + 1;
    this.drawn = performance.now() - started;
  }

  drawTiles(g, index, level) {
    const wide = level.wide * this.scale, tall = level.tall * this.scale;
    g.imageSmoothingEnabled = Math.min(wide, tall) * this.ratio < 1;
    const left = -this.x * this.scale, upper = -this.y * this.scale;
    const first = (at, size) => Math.max(0, Math.floor(-at / (kTile * size)));
    for (let row = first(upper, tall); row * kTile < level.rows && upper + row * kTile * tall < this.side; ++row)
      for (let column = first(left, wide); column * kTile < level.columns && left + column * kTile * wide < this.side; ++column) {
        const tile = this.tile(index, level, row, column);
        g.drawImage(tile, left + column * kTile * wide, upper + row * kTile * tall, tile.width * wide, tile.height * tall);
      }
  }

  // Where cells are larger than tokens: the largest weights of each row, as they are.
  drawSingle(g) {
    const last = Math.min(this.data.rows, Math.ceil(this.y + this.side / this.scale)), size = Math.max(1.5, this.scale);
    for (let row = Math.max(0, Math.floor(this.y)); row < last; ++row)
      for (const [key, weight] of this.data.strongest(row)) {
        const x = (key - this.x) * this.scale;
        if (x < -size || x > this.side) continue;
        g.fillStyle = `rgb(${shade(strength(weight, this.shading, this.data.top), this.data.head.signed)})`;
        g.fillRect(x, (row - this.y) * this.scale, size, size);
      }
  }

  drawChosen(g) {
    const mark = (place, ink) => {
      if (!place) return;
      const [row, column] = place, size = Math.max(1, this.scale);
      const x = (column - this.x) * this.scale, y = (row - this.y) * this.scale;
      g.fillStyle = g.strokeStyle = ink;
      g.globalAlpha = 0.55;
      if (size < 4) { g.fillRect(0, y, this.side, 1); g.fillRect(x, 0, 1, this.side); }
      else { g.strokeRect(0, y, this.side, size); g.strokeRect(x, 0, size, this.side); }
      g.globalAlpha = 1;
      if (size >= 4) g.strokeRect(x, y, size, size);
    };
    g.lineWidth = 1;
    mark(this.chosen, css("vermilion"));
    if (this.hovered) mark(this.hovered, css("muted"));
  }

  // Below the map the weights of the chosen row, beside it those of the chosen column.
  drawProfiles(g) {
    const place = this.hovered || this.chosen;
    if (!place) return;
    const key = place.join();
    if (this.profileKey !== key) {
      this.profileKey = key;
      this.profiles = [this.data.rowWeights(place[0]), this.data.columnWeights(place[1])];
    }
    const [across, along] = this.profiles;
    this.drawProfile(g, across, this.x, (at, size, length) => g.fillRect(at, this.side + kGap + kProfile - length, size, length));
    this.drawProfile(g, along, this.y, (at, size, length) => g.fillRect(this.side + kGap, at, length, size));
  }

  drawProfile(g, weights, from, bar) {
    const first = Math.max(0, Math.floor(from)), last = Math.min(weights.length, Math.ceil(from + this.side / this.scale));
    let top = 0;
    for (let i = first; i < last; ++i) if (Math.abs(weights[i]) > top) top = Math.abs(weights[i]);
    if (!(top > 0)) return;
    const share = Math.max(1, Math.floor(1 / this.scale));
    for (let i = first; i < last; i += share) {
      let peak = 0;
      for (let k = i; k < Math.min(i + share, last); ++k)
        if (!(Math.abs(weights[k]) <= Math.abs(peak))) peak = weights[k];
      g.fillStyle = css(Number.isNaN(peak) ? "bad" : peak < 0 ? "vermilion" : "blue");
      const length = Number.isNaN(peak) ? kProfile : Math.abs(peak) / top * kProfile;
      bar(Math.max(0, (i - from) * this.scale), Math.max(1, this.scale * share - (this.scale > 4 ? 1 : 0)), length);
    }
  }

  drawScale(level) {
    const top = this.top(level), signed = this.data.head.signed, g = this.scaleCanvas.getContext("2d");
    const key = `${top}/${this.shading}/${isDark()}`;
    if (this.scaleKey === key) return;
    this.scaleKey = key;
    for (let x = 0; x < 256; ++x) {
      g.fillStyle = `rgb(${shade(signed ? (x - 127.5) / 127.5 : x / 255, signed)})`;
      g.fillRect(x, 0, 1, 1);
    }
    this.low.textContent = signed ? number(-top) : this.shading === "log" ? number(top / 2 ** 14) : "0";
    this.high.textContent = number(top);
  }

  // The (row, column) below a point of the canvas.
  at(px, py) {
    if (px < 0 || py < 0 || px >= this.side || py >= this.side) return null;
    const row = Math.floor(this.y + py / this.scale), column = Math.floor(this.x + px / this.scale);
    return row >= 0 && column >= 0 && row < this.data.rows && column < this.data.columns ? [row, column] : null;
  }

  describe([row, column]) {
    const head = this.data.head, found = this.data.weight(row, column);
    const base = this.data.levels[0];
    const sure = found.exact ? number(found.value)
      : !this.data.single ? `mean of ${base.tall} x ${base.wide} tokens here: ${number(found.value)}, the largest ${number(found.max)}`
        : found.value === 0 ? (head.causal && column > row ? "0: not yet written" : `less than ${number(found.low)}`)
          : `${number(found.value)} ± ${number(100 * found.spread)}%`;
    return [tokenName(textOf(head, "row"), row), tokenName(textOf(head, "column"), column), sure];
  }

  say(place) {
    this.readout.replaceChildren();
    if (!place) return;
    const [reader, read, weight] = this.describe(place);
    this.readout.append(element("b", {}, reader), " reads ", element("b", {}, read), ": ", element("b", { class: "value" }, weight));
  }

  hover(place, px, py) {
    this.hovered = place;
    this.tip.hidden = !place;
    if (place) {
      const [reader, read, weight] = this.describe(place);
      this.tip.textContent = `${reader} → ${read}\n${weight}`;
      this.tip.style.left = `${Math.max(0, Math.min(px + 14, this.width - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${py + 16 + this.tip.offsetHeight > this.height ? py - this.tip.offsetHeight - 8 : py + 16}px`;
    }
    this.say(place || this.chosen);
    this.redraw();
  }

  choose(place, silent) {
    this.chosen = place && [Math.min(place[0], this.data.rows - 1), Math.min(place[1], this.data.columns - 1)];
    this.say(this.chosen);
    if (this.chosen && !silent) this.options.chosen?.(this.chosen);
    this.redraw();
  }

  // Brings a place into sight.
  reveal([row, column]) {
    const seen = this.side / this.scale, near = (at, from) => (at < from || at >= from + seen ? at - seen / 2 : from);
    this.x = near(column, this.x); this.y = near(row, this.y);
    this.moved();
  }
}
