// All heads at a glance: a row for each layer, a thumbnail for each head.

function thumbnails() {
  return unpacked(meta.thumbnails.block).then((buffer) => new Uint8Array(buffer));
}

function paintThumbnail(canvas, head, bytes) {
  const [rows, columns, at] = head.thumbnail;
  canvas.width = columns; canvas.height = rows;
  const image = new ImageData(columns, rows), lut = [];
  for (let t = 0; t < 256; ++t) lut.push(t === 255 ? kNotANumber : shade(t / 254, false));
  for (let i = 0; i < rows * columns; ++i) image.data.set([...lut[bytes[at + i]], 255], 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Of encoder and decoder also the part; the rollout is of all layers.
const isRollout = (layer) => layer.part === "all";
const layerName = (layer) => (isRollout(layer) ? "all layers" : `layer ${layer.number}${layer.part ? ` ${layer.part}` : ""}`);
const headName = (head) => {
  const layer = meta.layers[head.layer], model = meta.models.length > 1 ? `${meta.models[layer.model].name}: ` : "";
  return `${model}${isRollout(layer) ? "all layers, rolled out" : `layer ${layer.number}, head ${head.head}`}`;
};

class Overview {
  constructor(open) {
    this.open = open;
    this.buttons = [];
    this.wanted = null;
    this.root = element("section", { "aria-label": "all heads" });
    this.chips = element("div", { class: "bar" });
    const counts = new Map();
    for (const head of meta.heads) counts.set(head.class, (counts.get(head.class) || 0) + 1);
    for (const kind of meta.classes.filter((c) => counts.has(c.name)))
      this.chips.append(element("button", { class: "chip", title: kind.help, "aria-pressed": "false", onclick: (e) => this.filter(kind.name, e.currentTarget) },
        element("span", { class: "dot", style: `background:var(--${kind.ink})` }), `${kind.name} ${counts.get(kind.name)}`));
    this.help = element("p", { class: "hint" });
    this.root.append(element("h2", {}, "All heads"),
      element("p", { class: "note" }, "Rows of a map are the tokens that read, columns those that are read; darker is more (on a dark page: brighter). "
        + "Choose a head to open its map; choose a class to find its heads."), this.chips, this.help);
    meta.models.forEach((model, index) => this.addModel(model, index));
    this.paint();
    darkness.addEventListener("change", () => this.paint());
  }

  addModel(model, index) {
    const box = element("div", { class: "heads" });
    if (meta.models.length > 1) this.root.append(element("h3", {}, model.name));
    meta.layers.forEach((layer, at) => {
      if (layer.model !== index) return;
      const row = element("div", { class: `row${layer.heads.length > 12 ? " many" : ""}` });
      for (const id of layer.heads) row.append(this.thumbnail(id, at));
      if (!layer.heads.length) row.append(element("p", { class: "note" }, layer.reason));
      box.append(element("div", { class: "layer" }, element("div", { class: "name", title: layer.place },
        `${layerName(layer)}${layer.reach ? `: ${layer.reach}` : ""}`, element("small", {}, layer.mechanism),
        layer.heads.length ? element("small", {}, layer.reach_text) : null), row));
    });
    this.root.append(box);
  }

  thumbnail(id, layer) {
    const head = meta.heads[id];
    const button = element("button", {
      class: "thumb", tabindex: this.buttons.length ? -1 : 0, "aria-label": `${headName(head)}: ${head.class}. ${head.why}`,
      title: `${headName(head)}\n${head.class}: ${head.why}`, onclick: () => this.open(id), onkeydown: (event) => this.key(event, id),
    }, element("canvas"), element("span", { class: "dot", style: `background:var(--${classInk(head.class)})` }), head.class);
    this.buttons[id] = button;
    button.dataset.layer = layer;
    return button;
  }

  async paint() {
    this.bytes ??= await thumbnails();
    this.buttons.forEach((button, id) => paintThumbnail(button.querySelector("canvas"), meta.heads[id], this.bytes));
  }

  filter(name, chip) {
    this.wanted = this.wanted === name ? null : name;
    for (const other of this.chips.children) other.setAttribute("aria-pressed", `${other === chip && this.wanted !== null}`);
    this.buttons.forEach((button, id) => button.classList.toggle("faint", this.wanted !== null && meta.heads[id].class !== this.wanted));
    this.help.textContent = this.wanted ? meta.classes.find((c) => c.name === name).help : "";
  }

  key(event, id) {
    const head = meta.heads[id], row = meta.layers[head.layer].heads;
    const rows = meta.layers.filter((layer) => layer.heads.length), at = rows.indexOf(meta.layers[head.layer]);
    const beside = (step) => row[row.indexOf(id) + step];
    const other = (step) => rows[at + step] && rows[at + step].heads[Math.min(row.indexOf(id), rows[at + step].heads.length - 1)];
    const next = { ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => other(-1), ArrowDown: () => other(1) }[event.key]?.();
    if (next === undefined) return;
    event.preventDefault();
    this.focus(next);
  }

  focus(id) {
    for (const button of this.buttons) button.tabIndex = -1;
    this.buttons[id].tabIndex = 0;
    this.buttons[id].focus();
  }

  mark(id) {
    this.buttons.forEach((button, at) => button.setAttribute("aria-current", `${at === id}`));
  }
}
