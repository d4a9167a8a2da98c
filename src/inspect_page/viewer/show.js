// Elements, numbers, tokens and colours: how things look on the page.

function element(tag, properties = {}, ...children) {
  const out = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (name === "style") out.style.cssText = value;
    else if (value === true) out.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) out.setAttribute(name, value);
  }
  out.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return out;
}

function number(value) {  // three significant digits
  if (value === null || value === undefined) return "-";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toString();
  if (size < 0.001) return Number(value.toPrecision(3)).toExponential();
  return Number(value.toPrecision(3)).toString();
}

function formatted(value, format) {
  if (format === "percent" && Number.isFinite(value)) return number(100 * value) + "%";
  return number(value);
}

// Characters that draw nothing, or turn the text around, are shown by name.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;
function visible(text) {
  return text.replace(unseen, (c) => {
    const code = c.codePointAt(0);
    if (code === 10) return "↵";
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    return code === 127 ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

// What rows and columns of a map stand for.
const hasPatches = (head) => Boolean(meta.picture) && meta.picture.model === head.model;
const wordsOf = (head) => (hasPatches(head) ? { one: "patch", many: "patches", all: "picture" } : { one: "token", many: "tokens", all: "text" });

const textOf = (head, side) => meta.texts[side === "row" ? head.row_text : head.column_text].tokens;
function tokenName(tokens, place) {
  const token = tokens[place];
  return token === undefined ? `${place}` : `“${visible(token)}” (${place})`;
}

// Colours: scales of even lightness, made in OKLab.
function fromOklab(L, a, b) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3, m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3,
    s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
  return linear.map((c) => {
    const clipped = Math.min(1, Math.max(0, c));
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
  });
}

const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => darkness.matches;
const mix = (a, b, t) => a + (b - a) * t;

// t in [0, 1], or [-1, 1] of signed maps, as [red, green, blue]. Zero has the colour of the paper.
function shade(t, signed) {
  const dark = isDark(), strength = Math.min(1, Math.abs(t));
  const lightness = dark ? mix(0.2, 0.96, strength) : mix(1, 0.27, strength);
  const chroma = 0.16 * Math.sin(Math.PI * Math.min(0.92, 0.05 + strength * 0.87)) * (strength === 0 ? 0 : 1);
  const hue = signed ? (t < 0 ? 0.9 : 4.35) : dark ? mix(4.6, 1.75, strength) : mix(1.75, 4.75, Math.sqrt(strength));
  return fromOklab(lightness, chroma * Math.cos(hue), chroma * Math.sin(hue));
}
const kNotANumber = [230, 0, 120];

// How strong the colour of a weight is: `kind` of shading, and the largest weight there is.
function strength(value, kind, top) {
  if (!(top > 0) || value === 0) return 0;
  const share = Math.min(1, Math.abs(value) / top);
  const t = kind === "linear" ? share : kind === "root" ? Math.sqrt(share) : Math.max(0, 1 + Math.log2(share) / 14);
  return value < 0 ? -t : t;
}

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }
const inks = ["blue", "vermilion", "green", "pink", "amber", "cyan", "violet", "wine", "teal", "olive", "grey"];
const classInk = (name) => (meta.classes.find((c) => c.name === name) || { ink: "grey" }).ink;

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const saveText = (name, type, text) => save(name, new Blob([text], { type }));
const csvCell = (value) => {
  const text = typeof value === "number" ? `${value}` : `${value ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
};
const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\n").join("");
