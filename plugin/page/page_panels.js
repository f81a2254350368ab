/* What pages have in common. Each kind of page has a coverage() of its own: the words for what its panels rest on. */

function readData(id) { return JSON.parse(document.getElementById(id).textContent); }

const page = readData("muster-page");

const sum = values => values.reduce((all, value) => all + (value || 0), 0);

function panel(id, title, wrong, ...content) {
  document.getElementById("panels").append(el("section", {id, "aria-labelledby": id + "-title"},
    el("h2", {id: id + "-title"}, title), el("p", {class: "quiet coverage"}, coverage()), content,
    wrong ? el("p", {class: "quiet"}, "What would make this wrong: " + wrong) : null));
}

/* Of several culprits each has a line. */
function whenList(when) {
  return when.length > 1 ? [el("p", {}, "When:"), el("ul", {}, when.map(line => el("li", {}, line)))] : null;
}

/* What the sentence ends with is the first evidence, as a rule: said once. */
function findingArticle(item) {
  const finding = item.finding, evidence = (finding.evidence || []).filter(line => !item.text.endsWith(": " + line));
  return el("article", {class: finding.resolved || finding.retracted ? "over" : null},
    el("h3", {}, item.text), finding.advice ? el("p", {}, el("b", {}, "Next: "), finding.advice) : null,
    evidence.length ? el("ul", {}, evidence.map(line => el("li", {}, line))) : null,
    item.causes ? el("p", {}, "Causes: " + item.causes) : null, item.cost ? el("p", {}, "Cost: " + item.cost) : null, whenList(item.when),
    (finding.not_observable || []).map(line => el("p", {class: "quiet"}, "Not seen: " + line)),
    el("p", {class: "quiet"}, `${finding.kind}, confidence ${finding.confidence}` + (item.when.length === 1 ? ", " + item.when[0] : "") + (finding.retracted ? ", withdrawn" : finding.resolved ? ", over by now" : "")));
}

/* What was not seen, and apart from it what was looked at and is fine. */
function unseenAndFine(lines) {
  const list = some => el("ul", {}, some.map(line => el("li", {}, line.replace(/^ok: /, ""))));
  const fine = lines.filter(line => line.startsWith("ok: ")), other = lines.filter(line => !line.startsWith("ok: "));
  return [other.length ? list(other) : el("p", {}, "Nothing that muster knows of."),
    fine.length ? [el("p", {}, el("b", {}, "Looked at, and fine:")), list(fine)] : null];
}

function showVerdict(lines, guilty) {
  const verdict = document.getElementById("verdict");
  verdict.replaceChildren(...lines.map((line, i) => el("span", {class: i ? "more" : "first"}, line)));
  verdict.classList.toggle("guilty", guilty);
  document.title = clean(`${document.title}: ${lines[0]}`).slice(0, 120);
}

/* Pairs of a name and a value. */
function factList(facts) {
  return el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function ofThisFile(command) {
  return [["Command", page.command || "not told"], ["Page made", new Date(page.made_unix_s * 1000).toISOString().replace(/\.000Z/, "Z")],
    ["Data", `in this file: muster ${command} THIS-FILE --format json`]];
}

function showAll(...shows) {
  for (const show of shows) show();
  document.documentElement.dataset.ready = "yes";
}

