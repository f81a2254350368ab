/* What the panels say, from the two JSON texts in this file. Numbers of ranks and operations are those of the report. */

const report = readData("muster-report");

const ranks = report.ranks, costs = page.costs, heat = page.heat;
const waited = sum(ranks.map(rank => rank.waited_us));
const unit = waited >= 3.6e9 ? {us: 3.6e9, word: "GPU-hours"} : waited >= 1e6 ? {us: 1e6, word: "GPU-seconds"}
  : {us: 1e3, word: "GPU-milliseconds"};
const guiltyRanks = new Set(page.findings.filter(f => !f.finding.resolved && !f.finding.retracted).flatMap(f => f.finding.ranks || []));
const guilty = new Set(ranks.flatMap((rank, i) => guiltyRanks.has(rank.rank) ? [i] : []));

function rankWord(i) {
  return ranks[i].rank === null ? `process ${ranks[i].pid}` : `rank ${ranks[i].rank}`;
}

/* Those that lie in one place of a picture. */
function ranksWord(at) {
  const some = at.slice(0, 4).map(i => ranks[i].rank === null ? "?" : ranks[i].rank).sort((a, b) => a - b).join(", ");
  return at.length === 1 ? rankWord(at[0]) : `ranks ${some}` + (at.length > 4 ? ` and ${at.length - 4} more` : "");
}

function hostWord(i) { return costs[i].host || "a host not known"; }

function whoIs(i) {
  const gpu = ranks[i].gpu && ranks[i].gpu.index !== null ? `, GPU ${ranks[i].gpu.index}` : "";
  return `${rankWord(i)} on ${hostWord(i)}${gpu}`;
}

function inUnit(us) { return us ? digits(us / unit.us) : "0"; }

function kindWord(kind) {
  const [func, algo, proto, graph] = page.kinds[kind];
  return [func, algo, proto, graph ? "in a CUDA graph" : ""].filter(word => word).join(" ");
}

function commWord(comm) {
  const of = page.comms[comm];
  return (of.name ? of.name + " " : "") + of.id.slice(0, 8) + `, ${of.nranks} ranks`;
}

function moment(us) {
  if (heat.begin_unix_s === null) return "+" + time(us);
  return new Date(heat.begin_unix_s * 1000 + us / 1000).toISOString().slice(11, heat.length_us < 6e7 ? 23 : 19);
}

/* ---- what a panel rests on ---- */

function coverage() {
  const ops = sum(ranks.map(rank => rank.ops)), compared = sum(ranks.map(rank => rank.timing.joint_ops));
  const timed = sum(ranks.map(rank => rank.timing.timed_ops));
  const sources = [...new Set(ranks.map(rank => rank.timing.source).filter(source => source && source !== "none"))];
  const expected = page.comms.reduce((most, comm) => Math.max(most, comm.nranks), 0);
  const seen = expected ? `${ranks.length} of ${Math.max(expected, ranks.length)} ranks` : `${ranks.length} ranks`;
  return `Rests on ${seen}; ${percent(timed, ops)} of their ${count(ops)} operations timed` +
    (sources.length ? ` (by ${sources.join(", ")})` : "") + `, ${percent(compared, ops)} compared across ranks` +
    (page.missing_ops ? `; ${count(page.missing_ops)} operations are missing` : "") + ".";
}

const chained = "a rank that comes last because it waited itself, in a pipeline say, is charged here too. " +
  "Its own time and the findings tell those apart.";

/* ---- the panels ---- */

function showHead() {
  showVerdict(page.verdict, page.state === "held_back");
  const length = heat.length_us / 1e6, gpus = ranks.length;
  document.getElementById("headline").textContent = page.joint_ops
    ? `In ${count(page.joint_ops)} compared operations the ranks waited ${inUnit(waited)} ${unit.word} for each other` +
      (length > 0 ? `: ${percent(waited / 1e6, gpus * length)} of the time of ${gpus} GPUs over ${time(heat.length_us)}.` : ".")
    : "No operation could be compared across ranks, so nothing is said about who waited for whom.";
  const hosts = new Set(ranks.map((rank, i) => hostWord(i)));
  document.getElementById("origin").textContent = clean(`${report.run.join(" ")} — ${gpus} ranks on ${hosts.size} ` +
    (hosts.size === 1 ? `host (${[...hosts][0]})` : "hosts"));
}

function showFindings() {
  panel("findings", "Findings", "", page.findings.length ? page.findings.map(findingArticle)
    : el("p", {}, "None. Looked for: hangs, late ranks, slow transfers, degraded paths, ranks that chose differently."));
}

function sayCell(cell, at) {
  const from = at.bin / heat.bins * heat.length_us, to = (at.bin + 1) / heat.bins * heat.length_us;
  const place = `${whoIs(at.row)}, ${moment(from)} to ${moment(to)}`;
  if (!cell) return place + ": nobody waited for it";
  return `${place}: others waited ${time(cell.value)} in all, it came last to ${count(cell.ops)} operations; the dearest: ` +
    `${kindWord(cell.kind)} of ${bytes(cell.bytes)}, operation ${cell.number} of ${commWord(cell.comm)}, ${time(cell.worst)}. ` +
    `Times: ${heat.source || "none"}.`;
}

function showHeat() {
  const cells = [];
  heat.cells.forEach((flat, row) => {
    for (let i = 0; i + 7 < flat.length; i += 8)
      cells.push({row, bin: flat[i], value: flat[i + 1], ops: flat[i + 2], worst: flat[i + 3], kind: flat[i + 4],
        comm: flat[i + 5], number: flat[i + 6], bytes: flat[i + 7]});
  });
  const order = ranks.map((rank, i) => i).sort((a, b) => costs[b].cost_us - costs[a].cost_us || a - b);
  const worst = order.filter(i => costs[i].cost_us > 0).slice(0, 3);
  const label = "Heat map, ranks by time: how long the others waited for each rank. " +
    (worst.length ? "Most for " + worst.map(i => `${whoIs(i)}, ${time(costs[i].cost_us)}`).join("; ") : "Nobody waited.");
  const map = cells.length ? new HeatMap({label, cells, guilty, bins: heat.bins, say: sayCell,
    rows: ranks.map((rank, i) => `${shortened(hostWord(i), 16)} ${rank.rank === null ? "?" : rank.rank}`),
    groups: ranks.map((rank, i) => hostWord(i)), timeOf: bin => moment(bin / heat.bins * heat.length_us)}) : null;
  panel("heat", "What each rank cost the others, over time", chained + " Clocks of GPUs are laid beside each other for this " +
    "picture; a cell may stand a few microseconds off.",
    map ? [map.controls(), el("figure", {}, map.canvas, el("figcaption", {}, "A row is a rank, by host. The stronger the colour, the longer " +
      `the others waited for it; the strongest: ${time(map.most)} of waiting in ${time(heat.length_us / heat.bins)}.`)), map.text]
      : el("p", {}, "Nobody waited for anybody in what was compared."),
    later("As a table", () => table("What each rank cost the others", ["<rank", "<host", "GPU", "cost the others", "waited itself",
      "own time", "last in", "compared"], order.map(i => [rankWord(i), hostWord(i),
      ranks[i].gpu && ranks[i].gpu.index !== null ? String(ranks[i].gpu.index) : "", time(costs[i].cost_us), time(costs[i].wait_us),
      costs[i].own_us === null ? "not known" : time(costs[i].own_us), count(costs[i].last), count(costs[i].ops)]))));
  if (map) map.draw();
}

function rowWord(row) {
  const inside = ranks.map((rank, i) => i).filter(i => costs[i].row === row);
  if (inside.length === 1) return rankWord(inside[0]) + (new Set(costs.map(cost => cost.host)).size > 1 ? ` ${hostWord(inside[0])}` : "");
  const hosts = [...new Set(inside.map(hostWord))];
  return hosts.length === 1 ? hosts[0] : `${hosts[0]} to ${hosts[hosts.length - 1]}`;
}

function shaded(us, most) {
  const part = most > 0 ? Math.sqrt(us / most) : 0, cell = el("td", {}, inUnit(us));
  if (part > 0.02) cell.style.background = `color-mix(in srgb, var(--warm) ${Math.round(part * 60)}%, transparent)`;
  return cell;
}

function showMatrix() {
  const matrix = page.matrix;
  if (!matrix || !(waited > 0)) {
    panel("matrix", "Who waited for whom", "", el("p", {}, "Nobody waited for anybody in what was compared."));
    return;
  }
  /* Nobody waited for the ranks of the other columns. */
  const shown = matrix.columns.map((i, c) => c).filter(c => matrix.us.some(row => row[c] > 0));
  const rest = matrix.us.some(row => row[matrix.columns.length] > 0);
  const used = [...shown, ...(rest ? [matrix.columns.length] : [])];
  const most = Math.max(...matrix.us.map(row => Math.max(...row)));
  const totals = matrix.us[0].map((value, c) => sum(matrix.us.map(row => row[c])));
  const head = ["<waited", ...shown.map(c => matrix.columns[c]).map(i => el("th", {scope: "col", class: guilty.has(i) ? "guilty" : null},
    "for " + rankWord(i))), rest ? "for all others" : null, "sum"].filter(name => name !== null);
  const line = (word, values, all) => [word, ...used.map(c => all(values[c])), inUnit(sum(values))];
  const rows = matrix.us.map((row, r) => line(rowWord(r), row, us => shaded(us, most)));
  rows.push(line("sum", totals, us => el("td", {}, el("b", {}, inUnit(us)))));
  const grid = el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Who waited for whom"},
    el("table", {"aria-label": `Who waited for whom, in ${unit.word}`},
      el("thead", {}, el("tr", {}, head.map(name => name instanceof Element ? name : el("th", {scope: "col"}, name.replace(/^</, ""))))),
      el("tbody", {}, rows.map(row => el("tr", {}, row.map((value, i) => value instanceof Element ? value
        : el(i ? "td" : "th", i ? {} : {scope: "row"}, value)))))));
  panel("matrix", "Who waited for whom", chained, el("p", {}, `${unit.word}; the sum of all is the headline's ${inUnit(waited)}.` +
    (rest ? ` The ${shown.length} ranks that cost most have a column.`
      : shown.length < ranks.length ? " Nobody waited for the ranks without a column." : "")), el("figure", {}, grid));
}

function showScatter() {
  const points = costs.map((cost, i) => ({i, x: cost.own_ops ? cost.own_us / cost.own_ops : null,
    y: cost.ops ? cost.wait_us / cost.ops : null})).filter(p => p.x !== null && p.y !== null);
  if (points.length < 2) {
    panel("scatter", "Own time against waiting", "", el("p", {}, "No rank's own time is known: it takes operations that were timed one after the other."));
    return;
  }
  const axis = (values, name) => {
    const high = Math.max(...values) * 1.06 || 1, low = Math.min(...values) * 0.94;
    const from = low > high / 2 ? low : 0;
    return {low: from, high, name, word: time, ticks: linearTicks(from, high, 7)};
  };
  const named = new Set([...guilty, ...[...points].sort((a, b) => costs[b.i].cost_us - costs[a.i].cost_us).slice(0, 3).map(p => p.i)]);
  const picture = plot("Scatter: each rank's own time an operation against its waiting an operation. Who holds others back has " +
    "much of the first and little of the second.",
    axis(points.map(p => p.x), "own time before an operation, mean"), axis(points.map(p => p.y), "waiting in it, mean"),
    (frame, px, py, box) => {
      const labels = [];
      [...points].sort((a, b) => guilty.has(b.i) - guilty.has(a.i) || named.has(b.i) - named.has(a.i)).forEach(p => {
        const near = labels.find(at => Math.hypot((px(p.x) - at.x) / 4, py(p.y) - at.y) <= 13);
        if (near) Object.assign(near, {left: Math.min(near.left, px(p.x)), right: Math.max(near.right, px(p.x)), ranks: [...near.ranks, p.i]});
        else if (named.has(p.i)) labels.push({x: px(p.x), y: py(p.y), left: px(p.x), right: px(p.x), ranks: [p.i]});
        frame.append(svg("circle", {class: guilty.has(p.i) ? "dot guilty" : "dot", cx: px(p.x), cy: py(p.y), r: points.length > 200 ? 3 : 5,
          "data-tip": `${whoIs(p.i)}: own time ${time(p.x)}, waiting ${time(p.y)} an operation; cost the others ${time(costs[p.i].cost_us)}`}));
      });
      labels.forEach(label => {
        const end = label.x > box.right - 110, blamed = label.ranks.some(i => guilty.has(i));
        frame.append(svg("text", {class: blamed ? "guilty" : null, x: end ? label.left - 8 : label.right + 8, y: label.y + 4,
          "text-anchor": end ? "end" : "start"}, ranksWord(label.ranks)));
      });
    });
  panel("scatter", "Own time against waiting", "own time is known only where the operation before was timed too; unequal work, as of " +
    "pipeline stages, is own time as well.", el("figure", {}, picture, el("figcaption", {},
    "A dot is a rank. Who holds the others back lies at the right and low; who waits lies at the left and high.")));
}

function strip(item, index) {
  const width = 900, height = 26, left = 160, right = 170;
  const most = Math.max(...item.late_us.filter(us => us !== null), 1e-3);
  const x = us => left + us / most * (width - left - right);
  let path = "";
  item.late_us.forEach((us, i) => { if (us !== null && item.gpu[i] !== item.last) path += `M${x(us).toFixed(1)} 6v12`; });
  const words = `${kindWord(item.kind)} of ${bytes(item.bytes)}, operation ${item.number} of ${commWord(item.comm)}, at ${moment(item.at_us)}: ` +
    `${rankWord(item.last)} came last, ${time(most)} after the first; the others waited ${time(item.wait_us)} in all, ` +
    `the transfer took ${time(item.transfer_us)}. Times: ${item.source}.`;
  const lastLate = item.late_us[item.gpu.indexOf(item.last)], blamed = guilty.has(item.last);
  return el("li", {}, svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words, "data-tip": words},
    svg("rect", {x: 0, y: 0, width, height, fill: "transparent", "data-tip": words}),
    svg("text", {x: 0, y: 17, "data-tip": words}, `${index + 1}. ${page.kinds[item.kind][0]} ${bytes(item.bytes)}`),
    svg("path", {class: "axis", d: `M${left} 12H${width - right}`}), svg("path", {class: "ticks", d: path}),
    svg("circle", {class: blamed ? "dot guilty" : "dot", cx: x(lastLate), cy: 12, r: 5}),
    svg("text", {class: blamed ? "guilty" : null, x: x(lastLate) + 9, y: 16}, `${rankWord(item.last)}, ${time(most)}`)));
}

function showStrips() {
  panel("strips", "Who came when: the operations that were waited for most", "arrivals are told by durations, not by clocks: " +
    "it takes an operation that all ranks leave together.", page.strips.length ? [withTips(el("ol", {class: "strips"}, page.strips.map(strip))),
    el("p", {class: "quiet"}, "A line is an operation, from its first rank to its last; a tick is a rank, the dot came last, red where a finding names it. Each line has a scale of its own.")]
    : el("p", {}, "Nobody waited for anybody in what was compared."));
}

function showBandwidth() {
  const rows = report.ops.filter(op => op.busbw_gbs > 0 && op.size > 0);
  if (!rows.length) {
    panel("bandwidth", "Bus bandwidth by size", "", el("p", {}, "No operation was timed, so no bandwidth is known."));
    return;
  }
  const sizes = rows.map(op => op.size), rates = rows.map(op => op.busbw_gbs);
  const limits = page.limits.filter(limit => limit.gbs > 0);
  const x = {low: Math.min(...sizes) / 1.5, high: Math.max(...sizes) * 1.5, log: true, word: bytes, name: "size (class)"};
  const y = {low: Math.min(...rates) / 1.5, high: Math.max(...rates, ...limits.map(limit => limit.gbs)) * 1.5, log: true,
    word: v => v >= 1 ? count(v) : String(+v.toPrecision(1)), name: "GB/s"};
  x.ticks = logTicks(x.low, x.high, 2);
  y.ticks = logTicks(y.low, y.high, 10);
  const funcs = [...new Set(rows.map(op => op.func))], palette = colour("--series").split(" ");
  const tint = func => palette[funcs.indexOf(func) % palette.length];
  const say = op => `${op.func} of ${bytes(op.size)}, ${op.nranks === null ? "?" : op.nranks} ranks, ` +
    `${[op.algo, op.proto].filter(word => word && word !== "unknown").join(" ")}: ` +
    `${op.busbw_gbs.toFixed(2)} GB/s at the median of ${time(op.p50_us)}, ${count(op.count)} operations, ${op.comm_name || op.comm || ""}`;
  const picture = plot("Scatter: bus bandwidth against size, a dot a class of operations.", x, y, (frame, px, py, box) => {
    limits.forEach(limit => frame.append(svg("path", {class: "limit", d: `M${box.left} ${py(limit.gbs)}H${box.right}`}),
      svg("text", {class: "quiet", x: box.right, y: py(limit.gbs) - 4, "text-anchor": "end"}, `${limit.what}: ${digits(limit.gbs)} GB/s`)));
    rows.forEach(op => frame.append(svg("circle", {class: "dot", cx: px(op.size), cy: py(op.busbw_gbs), r: 5,
      style: `fill:${tint(op.func)}`, "data-tip": say(op)})));
    funcs.forEach((func, i) => frame.append(svg("circle", {cx: box.left + 14, cy: box.top + 12 + i * 17, r: 5, style: `fill:${tint(func)}`}),
      svg("text", {x: box.left + 24, y: box.top + 16 + i * 17}, func)));
  });
  panel("bandwidth", "Bus bandwidth by size", "it is the median of whole operations, waiting included: what waited for a late rank looks slow here.",
    el("figure", {}, picture, el("figcaption", {}, limits.length ? "Dashed: what links allow, as the driver names them." : "What the links allow was not recorded.")),
    later("As a table", () => table("Bus bandwidth by size", ["<function", "size", "ranks", "<algorithm", "<protocol", "operations", "median", "GB/s"],
      rows.map(op => [op.func, bytes(op.size), op.nranks === null ? "" : String(op.nranks), op.algo || "", op.proto || "", count(op.count),
        time(op.p50_us), op.busbw_gbs.toFixed(2)]))));
}

function showUnseen() {
  const lines = [...new Set([...report.gaps, ...page.not_observable])];
  panel("unseen", "What was not seen", "", unseenAndFine(lines));
}

function showRun() {
  const versions = [...new Set(ranks.map(rank => rank.nccl || "not known"))];
  const hosts = new Map();
  ranks.forEach((rank, i) => hosts.set(hostWord(i), (hosts.get(hostWord(i)) || 0) + 1));
  const facts = [["Run", report.run.join(" ")], ["Hosts", [...hosts].slice(0, 64).map(([host, n]) => `${host} (${n})`).join(", ") +
    (hosts.size > 64 ? `, ${hosts.size - 64} more` : "")], ["NCCL", versions.join(", ")], ["muster", report.muster],
    ...ofThisFile("report")];
  if (heat.begin_unix_s !== null) facts.splice(1, 0, ["Began", new Date(heat.begin_unix_s * 1000).toISOString()]);
  panel("run", "The run", "", factList(facts));
}

showAll(showHead, showFindings, showHeat, showMatrix, showScatter, showStrips, showBandwidth, showUnseen, showRun);
