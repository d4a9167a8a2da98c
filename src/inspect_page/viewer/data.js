"use strict";

// What the file carries: a description in JSON, and for each head a block of numbers, deflated and in base64, which is
// unpacked when the head is opened.
const meta = JSON.parse(document.getElementById("meta").textContent);

async function unpacked(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

const halves = (() => {  // every float16 as a number
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; ++bits) {
    const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    table[bits] = sign * (exponent === 0 ? fraction * 2 ** -24
      : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15));
  }
  return table;
})();

const views = {
  u8: (buffer, at, count) => new Uint8Array(buffer, at, count),
  u16: (buffer, at, count) => new Uint16Array(buffer, at, count),
  u32: (buffer, at, count) => new Uint32Array(buffer, at, count),
  f32: (buffer, at, count) => new Float32Array(buffer, at, count),
  f16: (buffer, at, count) => Float32Array.from(new Uint16Array(buffer, at, count), (bits) => halves[bits]),
};

// How weights became bytes: 0 is less than 2^low, 1 .. levels are 2^(low + step (code - 1)); of signed maps the codes after
// these are the same below zero; 255 is not a number.
class Coding {
  constructor(low, step, signed) {
    Object.assign(this, { low, step, signed, levels: signed ? 127 : 254 });
    this.values = new Float32Array(256);
    for (let code = 1; code < 255; ++code) {
      const negative = code > this.levels;
      this.values[code] = (negative ? -1 : 1) * 2 ** (low + step * (code - 1 - (negative ? this.levels : 0)));
    }
    this.values[255] = NaN;
  }

  code(value) {
    if (Number.isNaN(value)) return 255;
    if (value === 0) return 0;
    const place = Math.round((Math.log2(Math.abs(value)) - this.low) / this.step);
    if (place < 0) return 0;
    return 1 + Math.min(place, this.levels - 1) + (this.signed && value < 0 ? this.levels : 0);
  }

  get spread() { return 2 ** (this.step / 2) - 1; }  // how far from the truth a value may be, as a share
}

// One level of the pyramid: a byte for the mean and one for the largest weight of each cell of `tall` rows and `wide` keys.
class Level {
  constructor(map, tall, wide, coding, mean, max) {
    Object.assign(this, { tall, wide, coding, mean, max });
    this.rows = Math.ceil(map.rows / tall);
    this.columns = Math.ceil(map.columns / wide);
    this.tops = {};
  }

  // The largest magnitude there is: what the colours are stretched to.
  top(kind) {
    if (this.tops[kind] !== undefined) return this.tops[kind];
    const there = new Uint8Array(256);
    for (const code of this[kind]) there[code] = 1;
    let top = 0;
    for (let code = 1; code < 255; ++code) if (there[code]) top = Math.max(top, Math.abs(this.coding.values[code]));
    return (this.tops[kind] = top);
  }

  value(kind, row, column) { return this.coding.values[this[kind][row * this.columns + column]]; }
}

function halved(map, below) {
  const values = below.coding.values, high = Math.log2(Math.max(below.top("max"), 2 ** (below.coding.low + 1)));
  const coding = new Coding(below.coding.low - 4, (high - below.coding.low + 4) / (below.coding.signed ? 126 : 253), below.coding.signed);
  const rows = Math.ceil(below.rows / 2), columns = Math.ceil(below.columns / 2);
  const mean = new Uint8Array(rows * columns), max = new Uint8Array(rows * columns);
  const tall = (r) => Math.min(below.tall, map.rows - r * below.tall), wide = (c) => Math.min(below.wide, map.columns - c * below.wide);
  for (let r = 0; r < rows; ++r)
    for (let c = 0; c < columns; ++c) {
      let sum = 0, count = 0, peak = 0;
      for (let y = 2 * r; y < Math.min(2 * r + 2, below.rows); ++y)
        for (let x = 2 * c; x < Math.min(2 * c + 2, below.columns); ++x) {
          const at = y * below.columns + x, share = tall(y) * wide(x), large = values[below.max[at]];
          sum += share * values[below.mean[at]];
          count += share;
          if (Number.isNaN(large) || Math.abs(large) > Math.abs(peak)) peak = large;
        }
      mean[r * columns + c] = coding.code(sum / count);
      max[r * columns + c] = coding.code(peak);
    }
  return new Level(map, 2 * below.tall, 2 * below.wide, coding, mean, max);
}

// Everything known of one head.
class HeadData {
  constructor(head, buffer) {
    Object.assign(this, { head, rows: head.rows, columns: head.columns });
    this.parts = {};
    for (const [name, [type, at, count]] of Object.entries(head.parts)) this.parts[name] = views[type](buffer, at, count);
    if (this.parts.top_weight) this.parts.top_weight = this.parts.top_weight.map((w) => w / 32768);  // kept in half precision, scaled
    const { tall, wide, low, step } = head.map;
    const coding = new Coding(low, step, head.signed);
    this.levels = [new Level(this, tall, wide, coding, this.parts.mean, this.parts.max || this.parts.mean)];
    this.top = head.top;
  }

  get cell() { return Math.max(this.levels[0].tall, this.levels[0].wide); }
  get single() { return this.cell === 1; }  // cells of one token

  level(index) {
    while (this.levels.length <= index) this.levels.push(halved(this, this.levels[this.levels.length - 1]));
    return this.levels[index];
  }

  // The index of the level whose cells are about a pixel at so many pixels for a token.
  levelFor(scale) {
    const last = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / this.cell / 32)));
    let index = 0;
    while (index < last && this.cell * 2 ** index * scale < 0.75) ++index;
    return index;
  }

  // The largest weights of a row: [[key, weight], ...].
  strongest(row) {
    const { top_key: keys, top_weight: weights } = this.parts, out = [];
    if (!keys) return out;
    const kept = keys.length / this.rows;
    for (let at = row * kept; at < (row + 1) * kept; ++at)
      if (keys[at] < this.columns) out.push([keys[at], weights[at]]);
    return out;
  }

  // One weight: exact where it is among the largest of its row; else what its cell says, and how far that may be off.
  weight(row, column) {
    for (const [key, weight] of this.strongest(row)) if (key === column) return { value: weight, exact: true };
    const base = this.levels[0], r = Math.floor(row / base.tall), c = Math.floor(column / base.wide);
    const value = base.value("mean", r, c);
    return { value, exact: Number.isNaN(value), spread: base.coding.spread, max: base.value("max", r, c), low: 2 ** base.coding.low };
  }

  rowWeights(row) {
    const base = this.levels[0], out = new Float32Array(this.columns), r = Math.floor(row / base.tall);
    for (let j = 0; j < this.columns; ++j) out[j] = base.value("mean", r, Math.floor(j / base.wide));
    for (const [key, weight] of this.strongest(row)) out[key] = weight;
    return out;
  }

  columnWeights(column) {
    const base = this.levels[0], out = new Float32Array(this.rows), c = Math.floor(column / base.wide);
    for (let i = 0; i < this.rows; ++i) out[i] = base.value("mean", Math.floor(i / base.tall), c);
    const keys = this.parts.top_key, weights = this.parts.top_weight, kept = keys ? keys.length / this.rows : 0;
    for (let at = 0; at < this.rows * kept; ++at) if (keys[at] === column) out[Math.floor(at / kept)] = weights[at];
    return out;
  }
}

const opened = new Map();
function headData(index) {  // a promise; the last few heads are kept unpacked
  if (!opened.has(index)) {
    const head = meta.heads[index];
    opened.set(index, unpacked(head.block).then((buffer) => new HeadData(head, buffer)));
    if (opened.size > 8) opened.delete(opened.keys().next().value);
  }
  return opened.get(index);
}
