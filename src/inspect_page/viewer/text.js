// The text, coloured by what a chosen token reads, or by who reads it.

const kWindow = 1500;  // tokens shown at a time

class TextView {
  constructor(data, choose) {
    Object.assign(this, { data, choose, reads: true, token: Math.max(0, data.rows - 1), from: 0 });
    this.select = element("select", { "aria-label": "direction", onchange: (e) => { this.reads = e.target.value === "reads"; this.turn(); } },
      element("option", { value: "reads" }, "what it reads"), element("option", { value: "read" }, "who reads it"));
    this.pane = element("div", { class: "tokens", tabindex: 0, role: "application", "aria-label": "text: arrows choose a token" });
    this.said = element("p", { class: "hint" });
    this.earlier = element("button", { onclick: () => this.shift(-1) }, "← earlier");
    this.later = element("button", { onclick: () => this.shift(1) }, "later →");
    this.root = element("section", { class: "card" }, element("h3", {}, "The text"),
      element("div", { class: "bar" }, element("label", {}, "colour shows", this.select), element("span", { class: "spring" }), this.earlier, this.later), this.pane, this.said);
    this.pane.addEventListener("click", (event) => {
      const at = event.target.closest("[data-at]");
      if (at) this.pick(Number(at.dataset.at));
    });
    this.pane.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.pick(Math.max(0, Math.min(this.size() - 1, this.token + step)));
    });
    this.show();
  }

  size() { return this.reads ? this.data.rows : this.data.columns; }
  weights() { return this.reads ? this.data.rowWeights(this.token) : this.data.columnWeights(this.token); }
  turn() { this.token = Math.min(this.token, this.size() - 1); this.show(); }

  pick(token) {
    this.token = token;
    this.show(true);
    const weights = this.weights();
    let best = 0;
    weights.forEach((w, at) => { if (Math.abs(w) > Math.abs(weights[best])) best = at; });
    this.choose(this.reads ? [token, best] : [best, token]);
  }

  // Another part of the program chose a cell of the map.
  set([row, column]) {
    const token = this.reads ? row : column;
    if (token === this.token) return;
    this.token = token;
    this.show(true);
  }

  shift(pages) {
    this.from = Math.max(0, this.from + pages * kWindow);
    this.fill();
  }

  show(follow) {
    if (follow || this.token < this.from || this.token >= this.from + kWindow) {
      if (this.token < this.from || this.token >= this.from + kWindow) this.from = Math.max(0, this.token - kWindow / 2);
    }
    this.fill();
  }

  fill() {
    const head = this.data.head, tokens = textOf(head, this.reads ? "column" : "row"), own = textOf(head, this.reads ? "row" : "column");
    const same = head.row_text === head.column_text, weights = this.weights();
    const count = weights.length, last = Math.min(count, this.from + kWindow);
    let top = 0;
    for (const w of weights) if (Math.abs(w) > top) top = Math.abs(w);
    this.pane.replaceChildren();
    for (let at = this.from; at < last; ++at) this.pane.append(this.span(tokens, at, weights[at], top, same));
    this.earlier.hidden = this.from === 0;
    this.later.hidden = last === count;
    this.said.textContent = `${tokenName(own, this.token)} ${this.reads ? "reads the coloured tokens; the strongest colour is" : "is read by the coloured tokens; the strongest colour is"} ${number(top)}. Click another token.`;
    const chosen = this.pane.querySelector(".chosen");
    if (!chosen) return;  // scrollIntoView would move the page, too
    const above = chosen.offsetTop - this.pane.scrollTop;
    if (above < 0 || above > this.pane.clientHeight - 30) this.pane.scrollTop += above - this.pane.clientHeight / 2;
  }

  span(tokens, at, weight, top, same) {
    const raw = tokens[at] ?? `${at} `, t = strength(weight, "root", top);
    const out = element("span", { "data-at": at, title: `${tokenName(tokens, at)}: ${number(weight)}` });
    out.textContent = raw.split("\n").map(visible).join("↵\n");
    if (Number.isNaN(weight)) out.className = "odd";
    else if (t !== 0) out.style.background = `color-mix(in srgb, var(--${t < 0 ? "vermilion" : "blue"}) ${Math.round(85 * Math.abs(t))}%, transparent)`;
    if (Math.abs(t) > 0.6) out.style.color = "var(--paper)";
    if (same && at === this.token) out.classList.add("chosen");
    return out;
  }
}

// A picture in patches in place of a text.
class PictureView {
  constructor(data, choose) {
    Object.assign(this, { data, choose, token: 0, reads: true });
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": "picture: arrows choose a patch" });
    this.said = element("p", { class: "hint" });
    this.root = element("section", { class: "card picture" }, element("h3", {}, "The picture"), this.canvas, this.said);
    this.picture = new Image();
    this.picture.onload = () => this.show();
    this.picture.src = meta.picture.source;
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect(), { rows, columns } = meta.picture;
      this.pick(Math.floor((event.clientY - box.top) / box.height * rows), Math.floor((event.clientX - box.left) / box.width * columns));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const place = Math.max(0, this.token - this.first()), { columns } = meta.picture;
      this.pick(Math.floor(place / columns) + step[0], place % columns + step[1]);
    });
  }

  first() { return this.data.columns - meta.picture.rows * meta.picture.columns; }  // rows before those of patches

  pick(row, column) {
    const { rows, columns } = meta.picture;
    if (row < 0 || column < 0 || row >= rows || column >= columns) return;
    this.token = this.first() + row * columns + column;
    this.show();
    this.choose([this.token, this.token]);
  }

  set([row]) { this.token = row; this.show(); }

  show() {
    const { rows, columns } = meta.picture, size = Math.max(8, Math.floor(420 / Math.max(rows, columns)));
    const g = this.canvas.getContext("2d"), weights = this.data.rowWeights(this.token);
    this.canvas.width = size * columns; this.canvas.height = size * rows;
    g.imageSmoothingEnabled = false;
    g.drawImage(this.picture, 0, 0, this.canvas.width, this.canvas.height);
    let top = 0;
    for (const w of weights) if (Math.abs(w) > top) top = Math.abs(w);
    for (let p = 0; p < rows * columns; ++p) {
      const t = strength(weights[this.first() + p], "root", top), x = p % columns * size, y = Math.floor(p / columns) * size;
      const veil = (ink, alpha) => { g.globalAlpha = alpha; g.fillStyle = css(ink); g.fillRect(x, y, size, size); g.globalAlpha = 1; };
      veil("card", 0.9 * (1 - Math.abs(t)));  // what is read stays clear
      if (t < 0) veil("vermilion", 0.5 * -t);
      if (this.first() + p === this.token) { g.strokeStyle = css("vermilion"); g.lineWidth = 3; g.strokeRect(x + 1.5, y + 1.5, size - 3, size - 3); }
    }
    this.said.textContent = `${tokenName(textOf(this.data.head, "row"), this.token)} reads the clear patches; the clearest has ${number(top)}. Click another patch.`;
  }
}
