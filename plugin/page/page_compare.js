/* What the panels say of two runs. Numbers are those of `muster compare --format json`. */

const compared = readData("muster-compare");
const sides = [["A", compared.a, page.a], ["B", compared.b, page.b]];
const rowsMost = 20;

const byWord = compared.measure === "beat" ? "from one operation to the next" : "of transfers";

function coverage() {
  const [a, b] = [compared.a, compared.b].map(side => `${count(side.ops)} operations of ${side.ranks} ranks`);
  return `Rests on ${a} of A and ${b} of B: those that were timed on all ranks of a communicator.`;
}

const wrong = "two runs of one job on one machine differ, too, by more than the intervals say: they know of the ups and downs inside " +
  "these two runs only. Compare two runs of A to see by how much.";

/* ---- words ---- */

function kindName(kind) {
  return `${kind.func} from ${bytes(kind.size)}, ${kind.nranks} ranks` + (kind.comm_name ? `, ${kind.comm_name}` : "");
}

function rankName(rank) { return `rank ${rank.rank} on ${rank.host || rank.host_b}`; }

function isCertain(change) { return change !== null && (change.low > 0 || change.high < 0); }

function signed(value, word) { return (value > 0 ? "+" : value < 0 ? "−" : "") + word(Math.abs(value)); }

/* relative: the change is a share, else a time. */
function changeWord(change, relative) {
  if (change === null) return "not known";
  const word = relative ? value => digits(100 * value) + " %" : time;
  return `${signed(change.value, word)} (${signed(change.low, word)} to ${signed(change.high, word)})` +
    (isCertain(change) || change.low === change.high ? "" : ", not certain");
}

function pairWord(pair, relative) { return `${known(pair.a_us)} in A, ${known(pair.b_us)} in B: ${changeWord(pair.change, relative)}`; }

function known(us) { return us === null ? "not known" : time(us); }

/* Colour is for what is certain and large enough to count. */
function counts(change, least) { return isCertain(change) && Math.abs(change.value) >= least; }

function tone(change, least) { return !counts(change, least) ? "unsure" : change.value > 0 ? "guilty" : "better"; }

/* How large, and how certain, beside the line of a picture. word: of the size. */
function sizeWord(change, least, word) {
  return !isCertain(change) ? "not certain" : word(change.value) + (counts(change, least) ? "" : ", too little to count");
}

function times(share) { return share >= 2 ? `${digits(1 + share)}× as long` : signed(share, value => digits(100 * value) + " %"); }

/* ---- pictures: a line of the picture for each row ---- */

/* x: {low, high, ticks, word, log, mark}; rows: {name, tip, tone, size}; drawRow(frame, row, px, y). */
function rowPicture(label, x, rows, drawRow) {
  const width = 900, left = 330, right = 180, rowHeight = 24, foot = 30, height = rows.length * rowHeight + foot;
  const low = x.log ? Math.log(x.low) : x.low, high = x.log ? Math.log(x.high) : x.high;
  const px = value => left + ((x.log ? Math.log(Math.max(value, x.low)) : value) - low) / (high - low || 1) * (width - left - right);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label},
    x.ticks.map(at => [svg("path", {class: at === x.mark ? "limit" : "axis", d: `M${px(at)} 0V${height - foot}`}),
      svg("text", {x: px(at), y: height - foot + 16, "text-anchor": "middle"}, x.word(at))]));
  rows.forEach((row, i) => {
    const y = (i + 0.5) * rowHeight;
    const line = svg("g", {class: row.tone, "data-tip": row.tip}, svg("rect", {x: 0, y: y - rowHeight / 2, width, height: rowHeight,
      fill: "transparent", "data-tip": row.tip}), svg("text", {x: left - 10, y: y + 4, "text-anchor": "end", "data-tip": row.tip}, shortened(row.name, 44)),
      svg("text", {class: "size", x: width - right + 14, y: y + 4, "data-tip": row.tip}, row.size));
    drawRow(line, row, px, y);
    picture.append(line);
  });
  return withTips(picture);
}

function factors(rows) {
  const values = rows.flatMap(row => [1 + row.change.low, 1 + row.change.high, 1]).filter(value => value > 0);
  const low = Math.min(...values) / 1.15, high = Math.max(...values) * 1.15;
  const ticks = high / low > 6 ? logTicks(low, high, 2) : linearTicks(low, high, 8);
  return {low, high, log: true, mark: 1, ticks, word: value => `${+value.toPrecision(3)}×`};
}

function classPicture(kinds) {
  const rows = kinds.filter(kind => kind[compared.measure].change !== null).slice(0, rowsMost).map(kind => {
    const pair = kind[compared.measure];
    return {name: kindName(kind), change: pair.change, tone: tone(pair.change, page.least.share), size: sizeWord(pair.change, page.least.share, times),
      tip: `${kindName(kind)}, ${percent(kind.weight, 1)} of A's time: ${pairWord(pair, true)}`};
  });
  if (!rows.length) return null;
  const worst = rows.filter(row => row.tone === "guilty").slice(0, 3).map(row => row.tip).join("; ");
  return rowPicture(`Kinds of operations: how many times as long they take in B. ${worst || "None is slower by enough to count."}`, factors(rows), rows,
    (line, row, px, y) => line.append(
      svg("path", {class: "span", d: `M${px(1 + row.change.low)} ${y}H${px(1 + row.change.high)}`}),
      svg("circle", {class: "value", cx: px(1 + row.change.value), cy: y, r: 5, "data-tip": row.tip})));
}

/* A before, B after; rows hold a_us and b_us. */
function besidePicture(label, rows) {
  const high = Math.max(...rows.flatMap(row => [row.pair.a_us, row.pair.b_us])) * 1.05 || 1;
  return rowPicture(label, {low: 0, high, ticks: linearTicks(0, high, 7), word: value => value ? time(value) : "0"}, rows, (line, row, px, y) => line.append(
    svg("path", {class: "span", d: `M${px(row.pair.a_us)} ${y}H${px(row.pair.b_us)}`}),
    svg("circle", {class: "before", cx: px(row.pair.a_us), cy: y, r: 4.5, "data-tip": row.tip}),
    svg("circle", {class: "value", cx: px(row.pair.b_us), cy: y, r: 5, "data-tip": row.tip})));
}

/* ---- the panels ---- */

function showHead() {
  const change = compared.change;
  showVerdict(compared.verdict, page.slower);
  document.getElementById("headline").textContent = compared.limit === null ? ""
    : `Limit ${digits(100 * compared.limit)} %: ${compared.worse === null ? "not known" : compared.worse ? "exceeded" : "kept"}.`;
  document.getElementById("origin").textContent = clean(`A: ${compared.a.run.join(" ")} — B: ${compared.b.run.join(" ")}` +
    (change ? ` — ${changeWord(change, true)}, by the time ${byWord}` : ""));
}

function showClasses() {
  const kinds = compared.classes, picture = classPicture(kinds);
  panel("classes", "What became slower, and what faster", wrong, picture ? el("figure", {}, picture, el("figcaption", {},
    `A line is a kind of operation; the dot is how many times as long it takes in B (time ${byWord}), the bar where the true value lies in 199 of ` +
    `200 cases. Red: certainly slower, by ${+(100 * page.least.share).toFixed(2)} % or more. Blue: certainly faster by as much. Grey: not certain, or ` +
    "too little to count. Worst first, by what it costs the run." +
    (kinds.length > rowsMost ? ` The first ${rowsMost} of ${kinds.length}.` : "")))
    : el("p", {}, "Too few operations of any kind were timed in both runs to tell a change."),
    later("As a table", () => table("Operations of both runs", ["<operation", "A's time", "A", "B", "<change", "transfer A", "transfer B",
      "<change", "waiting A", "waiting B"], kinds.map(kind => [kindName(kind), percent(kind.weight, 1), known(kind.beat.a_us), known(kind.beat.b_us),
      changeWord(kind.beat.change, true), known(kind.transfer.a_us), known(kind.transfer.b_us), changeWord(kind.transfer.change, true),
      known(kind.waiting.a_us), known(kind.waiting.b_us)]))));
}

function rankRows(name) {
  const size = rank => Math.abs(rank[name].change.value);
  return compared.ranks.filter(rank => rank[name].change !== null && rank[name].a_us !== null && rank[name].b_us !== null)
    .sort((a, b) => size(b) - size(a) || a.rank - b.rank).slice(0, rowsMost)
    .map(rank => ({name: rankName(rank), pair: rank[name], tone: tone(rank[name].change, page.least.us),
      size: sizeWord(rank[name].change, page.least.us, value => signed(value, time)), tip: `${rankName(rank)}: ${pairWord(rank[name], false)}`}));
}

function rankFigure(name, label, caption) {
  const rows = rankRows(name);
  return rows.length ? [el("h3", {}, label), el("figure", {}, besidePicture(`${label}, an operation, in A and in B. ` +
    rows.slice(0, 3).map(row => row.tip).join("; "), rows), el("figcaption", {}, caption))] : null;
}

function showRanks() {
  const title = "Ranks", more = compared.ranks.length > rowsMost ? ` The ${rowsMost} that changed most of ${compared.ranks.length}.` : "";
  if (!compared.ranks.length) {
    panel("ranks", title, "", el("p", {}, `Ranks are not compared: A has ${compared.a.ranks}, B has ${compared.b.ranks}.`));
    return;
  }
  panel("ranks", title, wrong, rankFigure("cost", "The others waited for it",
    `Hollow: A, full: B, an operation. Red: certainly more${page.least.us > 0 ? `, by ${time(page.least.us)} or more` : ""}. ` +
    `Blue: certainly less${page.least.us > 0 ? " by as much" : ""}. ` +
    "Grey: not certain, or too little to count." + more),
    rankFigure("own", "Its own time", "What a rank does from its earlier operations to the start of the next: hollow A, full B." + more),
    later("As a table", () => table("Ranks of both runs", ["<rank", "<host in A", "<host in B", "others waited A", "B", "<change", "own time A", "B", "<change"],
      compared.ranks.map(rank => [`rank ${rank.rank}`, rank.host_a, rank.host_b, known(rank.cost.a_us), known(rank.cost.b_us),
        changeWord(rank.cost.change, false), known(rank.own.a_us), known(rank.own.b_us), changeWord(rank.own.change, false)]))));
}

function showFindings() {
  const part = (title, findings, none) => [el("h3", {}, title), findings.length ? findings.map(findingArticle) : el("p", {}, none)];
  panel("findings", "Findings that came and went", "", part("Came: in B, not in A", page.came, "None."), part("Went: in A, not in B", page.went, "None."));
}

function showOnly() {
  const list = (title, items) => items.length ? [el("h3", {}, `${title}: ${items.length}`), el("ul", {}, items.slice(0, 50).map(item => el("li", {}, item))),
    items.length > 50 ? el("p", {class: "quiet"}, `and ${items.length - 50} more, in the data`) : null] : null;
  const lists = [list("Operations that came", compared.classes_came.map(kindName)), list("Operations that went", compared.classes_went.map(kindName)),
    list("Ranks that came", compared.ranks_came.map(rankName)), list("Ranks that went", compared.ranks_went.map(rankName))].filter(one => one);
  panel("only", "In one run only: not compared", "", lists.length ? lists : el("p", {}, "Nothing: both runs have the same kinds of operations and ranks."));
}

function showUnseen() {
  const parts = sides.map(([name, , more]) => [name, [...new Set(more.notes)]]).filter(([, notes]) => notes.length);
  panel("unseen", "What was not seen", "", parts.length ? parts.map(([name, notes]) => [el("h3", {}, name), unseenAndFine(notes)])
    : el("p", {}, "Nothing that muster knows of."));
}

function showRuns() {
  const hosts = more => [...new Set(more.hosts)];
  const facts = sides.flatMap(([name, side, more]) => [[`${name}: run`, side.run.join(" ")], [`${name}: hosts`, hosts(more).slice(0, 64).join(", ") +
    (hosts(more).length > 64 ? `, ${hosts(more).length - 64} more` : "")], [`${name}: NCCL`, [...new Set(more.nccl)].join(", ")]]);
  panel("run", "The runs", "", factList([...facts, ["muster", compared.muster], ...ofThisFile("compare")]));
}

showAll(showHead, showClasses, showRanks, showFindings, showOnly, showUnseen, showRuns);
