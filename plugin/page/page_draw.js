"use strict";
/* Elements, words for numbers, and the pictures. Text goes in as text, never as markup. */

/* Control characters, and those that turn the direction of writing, are shown as U+FFFD. */
function clean(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

function add(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, clean(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : clean(child));
  }
  return node;
}

function el(tag, attributes, ...children) {
  return add(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return add(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/* ---- words ---- */

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2);
}

function time(us) {
  const size = Math.abs(us);
  return size >= 3.6e9 ? digits(us / 3.6e9) + " h" : size >= 1e6 ? digits(us / 1e6) + " s"
    : size >= 1e3 ? digits(us / 1e3) + " ms" : digits(us) + " µs";
}

function count(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return (Number.isInteger(value) ? value : value.toFixed(1)) + " " + units[unit];
}

function shortened(text, most) {
  return text.length <= most ? text : text.slice(0, most / 2 - 1) + "…" + text.slice(1 - most / 2);
}

function percent(part, whole) {
  return whole > 0 ? digits(100 * part / whole) + " %" : "none";
}

/* ---- what the pointer, or the keyboard, is at ---- */

function showTip(text, x, y) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = clean(text);
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 4)) + "px";
  tip.style.top = Math.max(4, y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18) + "px";
}

/* Elements of a picture that say something carry it as data-tip. */
function withTips(picture) {
  picture.addEventListener("pointermove", event => {
    const at = event.target.closest("[data-tip]");
    showTip(at && at.dataset.tip, event.clientX, event.clientY);
  });
  picture.addEventListener("pointerleave", () => showTip(""));
  return picture;
}

/* ---- tables ---- */

/* head: names, those that begin with "<" are text; rows: arrays of text, or of elements. */
function table(caption, head, rows) {
  const text = head.map(name => name.startsWith("<"));
  const cell = (tag, value, i, scope) => value instanceof Element ? value
    : el(tag, {class: text[i] ? "text" : null, scope}, value);
  return el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
    el("table", {"aria-label": caption},
      el("thead", {}, el("tr", {}, head.map((name, i) => cell("th", name.replace(/^</, ""), i, "col")))),
      el("tbody", {}, rows.map(row => el("tr", {}, row.map((value, i) => cell("td", value, i)))))));
}

/* Made when it is opened first: it may be long. */
function later(summary, make) {
  const details = el("details", {}, el("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}

/* ---- axes ---- */

function niceStep(span, wanted) {
  const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find(step => step * power >= raw) * power;
}

function linearTicks(low, high, wanted) {
  const ticks = [], step = high > low ? niceStep(high - low, wanted) : 1;
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && ticks.length < 50; at += step) ticks.push(at);
  return ticks;
}

function logTicks(low, high, base) {
  const ticks = [], every = Math.max(1, Math.ceil(Math.log(high / low) / Math.log(base) / 9));
  for (let power = Math.ceil(Math.log(low) / Math.log(base) - 1e-9); base ** power <= high * 1.0001; power += every)
    ticks.push(base ** power);
  return ticks;
}

/* A frame for points: x and y are {low, high, ticks, word, name, log}. */
function plot(label, x, y, draw) {
  const width = 900, height = 340, left = 78, right = 20, top = 14, bottom = 44;
  const scale = (axis, from, to) => value => {
    const low = axis.log ? Math.log(axis.low) : axis.low, high = axis.log ? Math.log(axis.high) : axis.high;
    return from + ((axis.log ? Math.log(value) : value) - low) / (high - low || 1) * (to - from);
  };
  const px = scale(x, left, width - right), py = scale(y, height - bottom, top);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label},
    x.ticks.map(at => [svg("path", {class: "axis", d: `M${px(at)} ${top}V${height - bottom}`}),
      svg("text", {x: px(at), y: height - bottom + 16, "text-anchor": "middle"}, x.word(at))]),
    y.ticks.map(at => [svg("path", {class: "axis", d: `M${left} ${py(at)}H${width - right}`}),
      svg("text", {x: left - 6, y: py(at) + 4, "text-anchor": "end"}, y.word(at))]),
    svg("text", {class: "quiet", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, x.name),
    svg("text", {class: "quiet", x: 14, y: (top + height - bottom) / 2, "text-anchor": "middle",
      transform: `rotate(-90 14 ${(top + height - bottom) / 2})`}, y.name));
  draw(picture, px, py, {left, right: width - right, top, bottom: height - bottom});
  return withTips(picture);
}

/* ---- the heat map ---- */

/* Paper is white whatever the screen is. */
const paper = {"--text": "#1a1a1a", "--quiet": "#5a5a5a", "--line": "#d4d4d4", "--guilty": "#b3001b", "--mark": "#2456a6",
  "--cold": "#f1f1f3", "--warm": "#f2a33a", "--hot": "#8f0018"};
let printing = matchMedia("print").matches;
addEventListener("beforeprint", () => { printing = true; });
addEventListener("afterprint", () => { printing = false; });

function colour(name) {
  if (printing) return paper[name];
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function mix(from, to, part) {
  const parse = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
  const a = parse(from), b = parse(to);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * part)).join(" ")})`;
}

/* cells: {row, bin, value}; rows: label of each; say: a cell's words; timeOf: a bin's begin in words.
 * Drag, buttons and keys choose a part of it. */
class HeatMap {
  constructor({label, cells, rows, groups, guilty, bins, say, timeOf}) {
    Object.assign(this, {rows, groups, guilty, bins, say, timeOf});
    this.cells = [...cells].sort((a, b) => a.value - b.value);
    this.most = this.cells.length ? this.cells[this.cells.length - 1].value : 0;
    this.at = new Map(cells.map(cell => [cell.row * bins + cell.bin, cell]));
    this.cursor = null;
    this.canvas = el("canvas", {tabindex: 0, role: "img", "aria-label": label});
    this.text = el("p", {class: "quiet", "aria-live": "polite"});
    this.whole();
    this.listen();
  }

  whole() { this.view = {row: 0, rows: this.rows.length, bin: 0, bins: this.bins}; this.draw(); }

  /* Part of the map, kept inside it. */
  show(row, rows, bin, bins) {
    rows = Math.max(1, Math.min(this.rows.length, Math.round(rows)));
    bins = Math.max(1, Math.min(this.bins, Math.round(bins)));
    this.view = {rows, bins, row: Math.max(0, Math.min(this.rows.length - rows, Math.round(row))),
      bin: Math.max(0, Math.min(this.bins - bins, Math.round(bin)))};
    this.draw();
  }

  zoom(factor) {
    const v = this.view, c = this.cursor || {row: v.row + v.rows / 2, bin: v.bin + v.bins / 2};
    this.show(c.row - v.rows * factor / 2, v.rows * factor, c.bin - v.bins * factor / 2, v.bins * factor);
  }

  measure() {
    this.width = Math.max(320, this.canvas.clientWidth || 900);
    this.left = Math.min(170, this.width / 4);
    this.height = Math.max(60, Math.min(560, this.view.rows * 20)) + 24;
    this.cellWidth = (this.width - this.left) / this.view.bins;
    this.cellHeight = (this.height - 24) / this.view.rows;
  }

  draw() {
    this.measure();
    const ratio = window.devicePixelRatio || 1, v = this.view, canvas = this.canvas;
    canvas.width = this.width * ratio;
    canvas.height = this.height * ratio;
    canvas.style.height = this.height + "px";
    const ink = canvas.getContext("2d");
    ink.scale(ratio, ratio);
    ink.fillStyle = colour("--cold");
    ink.fillRect(this.left, 0, this.width - this.left, this.height - 24);
    const cold = colour("--cold"), warm = colour("--warm"), hot = colour("--hot");
    const wide = Math.max(this.cellWidth, 1.5), high = Math.max(this.cellHeight, 1.5);
    for (const cell of this.cells) {
      if (cell.row < v.row || cell.row >= v.row + v.rows || cell.bin < v.bin || cell.bin >= v.bin + v.bins) continue;
      const part = Math.sqrt(cell.value / this.most);
      ink.fillStyle = part < 0.5 ? mix(cold, warm, part * 2) : mix(warm, hot, part * 2 - 1);
      ink.fillRect(this.left + (cell.bin - v.bin) * this.cellWidth, (cell.row - v.row) * this.cellHeight, wide, high);
    }
    this.drawLabels(ink);
    this.drawCursor(ink);
  }

  drawLabels(ink) {
    const v = this.view, every = Math.max(1, Math.ceil(13 / this.cellHeight));
    ink.font = "11px system-ui, sans-serif";
    ink.textBaseline = "middle";
    ink.textAlign = "right";
    let free = -1;
    const put = row => {
      const y = Math.max(7, (row - v.row + 0.5) * this.cellHeight); /* rows may be thinner than a letter */
      ink.fillStyle = colour(this.guilty.has(row) ? "--guilty" : "--text");
      ink.fillText((this.guilty.has(row) ? "▶ " : "") + clean(this.rows[row]), this.left - 6, y, this.left - 8);
      return y;
    };
    const marked = [...this.guilty].filter(row => row >= v.row && row < v.row + v.rows).map(put);
    for (let row = v.row; row < v.row + v.rows; row++) {
      const y = (row - v.row + 0.5) * this.cellHeight;
      if ((row - v.row) % every === 0 && y > free && marked.every(m => Math.abs(m - y) >= 13)) free = put(row) + 12;
      if (row > v.row && this.groups[row] !== this.groups[row - 1] && this.cellHeight > 3) {
        ink.fillStyle = colour("--line");
        ink.fillRect(0, (row - v.row) * this.cellHeight, this.width, 1);
      }
    }
    ink.fillStyle = colour("--quiet");
    const marks = Math.max(2, Math.floor((this.width - this.left) / 150));
    for (let i = 0; i <= marks; i++) {
      const x = this.left + (this.width - this.left) * i / marks;
      ink.textAlign = i === 0 ? "left" : i === marks ? "right" : "center";
      ink.fillText(this.timeOf(v.bin + v.bins * i / marks), x, this.height - 10);
    }
  }

  drawCursor(ink) {
    const v = this.view, c = this.cursor, d = this.drag;
    ink.strokeStyle = colour("--mark");
    ink.lineWidth = 2;
    if (c) ink.strokeRect(this.left + (c.bin - v.bin) * this.cellWidth, (c.row - v.row) * this.cellHeight,
      Math.max(3, this.cellWidth), Math.max(3, this.cellHeight));
    if (d) ink.strokeRect(Math.min(d.x, d.toX), Math.min(d.y, d.toY), Math.abs(d.toX - d.x), Math.abs(d.toY - d.y));
  }

  place(x, y) {
    const v = this.view;
    return {bin: v.bin + Math.floor((x - this.left) / this.cellWidth), row: v.row + Math.floor(y / this.cellHeight)};
  }

  /* The cell there; where cells are smaller than what a hand can point at, the dearest around. */
  find(x, y) {
    const from = this.place(x - 2, y - 2), to = this.place(x + 2, y + 2), own = this.place(x, y);
    let best = this.at.get(own.row * this.bins + own.bin);
    if (best && this.cellWidth > 4 && this.cellHeight > 4) return best;
    for (let row = from.row; row <= to.row; row++)
      for (let bin = Math.max(0, from.bin); bin <= Math.min(this.bins - 1, to.bin); bin++) {
        const cell = this.at.get(row * this.bins + bin);
        if (cell && (!best || cell.value > best.value)) best = cell;
      }
    return best;
  }

  move(rows, bins) {
    const v = this.view, c = this.cursor || {row: v.row, bin: v.bin};
    this.cursor = {row: Math.max(0, Math.min(this.rows.length - 1, c.row + rows)),
      bin: Math.max(0, Math.min(this.bins - 1, c.bin + bins))};
    const inside = (at, from, n) => at >= from && at < from + n;
    if (!inside(this.cursor.row, v.row, v.rows) || !inside(this.cursor.bin, v.bin, v.bins))
      this.show(this.cursor.row - v.rows / 2, v.rows, this.cursor.bin - v.bins / 2, v.bins);
    this.text.textContent = clean(this.say(this.at.get(this.cursor.row * this.bins + this.cursor.bin), this.cursor));
    this.draw();
  }

  listen() {
    const keys = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const other = {"+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.whole()};
    this.canvas.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (keys[event.key]) this.move(...keys[event.key]);
      else if (other[event.key]) other[event.key]();
      else return;
      event.preventDefault();
    });
    const local = event => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.canvas.addEventListener("pointerdown", event => {
      const [x, y] = local(event);
      this.drag = x >= this.left ? {x, y, toX: x, toY: y} : null;
    });
    this.canvas.addEventListener("pointermove", event => {
      const [x, y] = local(event);
      if (this.drag) { Object.assign(this.drag, {toX: x, toY: y}); this.draw(); }
      const cell = x >= this.left ? this.find(x, y) : null;
      showTip(cell ? this.say(cell, cell) : "", event.clientX, event.clientY);
    });
    this.canvas.addEventListener("pointerleave", () => { this.drag = null; showTip(""); this.draw(); });
    this.canvas.addEventListener("pointerup", () => {
      const d = this.drag;
      this.drag = null;
      if (d && Math.abs(d.toX - d.x) > 6 && Math.abs(d.toY - d.y) > 6) {
        const a = this.place(Math.min(d.x, d.toX), Math.min(d.y, d.toY));
        const b = this.place(Math.max(d.x, d.toX), Math.max(d.y, d.toY));
        this.show(a.row, b.row - a.row + 1, a.bin, b.bin - a.bin + 1);
      } else this.draw();
    });
    for (const name of ["resize", "beforeprint", "afterprint"]) addEventListener(name, () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  controls() {
    const button = (text, act) => {
      const node = el("button", {type: "button"}, text);
      node.addEventListener("click", act);
      return node;
    };
    return el("p", {class: "controls"}, button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)),
      button("Whole run", () => this.whole()),
      el("span", {class: "quiet"}, "drag over the map, or arrow keys, + − 0"));
  }
}
