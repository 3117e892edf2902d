/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* The list of all cells, and the box that narrows it down. */

const SHOWN = 20;
let texts = null;

/** Everything a cell can be found by, in lower case. */
function searchText(cell) {
  const flags = cell.trials.flatMap((row) => [row[1], row[2], row[3]]);
  const factors = Object.entries({ ...data().fixed, ...cell.factors }).map(([name, value]) => `${name}=${value}`);
  return [cell.label, cell.question, cell.row, cell.column && `against ${cell.column}`, cell.company, cell.word, cell.unsure && "unsure", cell.bimodal && "two modes bimodal", cell.left_out && "left out", cell.id, ...new Set(flags), ...factors]
    .filter(Boolean).join(" ").toLowerCase();
}

function found(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return data().cells;
  texts ??= data().cells.map(searchText);
  return data().cells.filter((_, place) => wanted.every((word) => texts[place].includes(word)));
}

function listCells(words, all = false) {
  const cells = found(words), shown = all ? cells : cells.slice(0, SHOWN);
  byId("find-count").textContent = words ? `${cells.length.toLocaleString("en")} of ${plural(data().cells.length, "cell")}` : plural(cells.length, "cell");
  const parts = [scrolling("Cells", data().cells.some((cell) => cell.measured) ? measuredTable(shown) : judgedTable(shown))];
  if (!cells.length) parts.splice(0, 1, el("p", { class: "message" }, "No cell has all these words."));
  if (cells.length > shown.length) parts.push(el("p", {}, el("button", { type: "button", click: () => listCells(words, true) }, `Show all ${cells.length.toLocaleString("en")}`)));
  byId("find-list").replaceChildren(...parts);
}

const headOf = (heads) => el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text))));
const trialsOf = (cell) => `${cell.valid ?? cell.trials.length}${cell.left_out ? ` (${cell.left_out} left out)` : ""}`;

/** Without verdicts: a line per flow group; columns that no group has are left out. */
function measuredTable(cells) {
  const kinds = [["goodput", "Mbit/s", 1], ["share", "% of rate", 1], ["delay", "delay ms", 1], ["sojourn", "per packet ms", 2], ["sojourn_p99", "p99 ms", 2],
    ["frame_p50", "frame p50 ms", 1], ["frame_p95", "frame p95 ms", 1], ["frame_rate", "frames/s", 1], ["freezes", "freezes", 1],
    ["slowdown", "slowdown", 1], ["rpm", "RPM", 0]]
    .filter(([name]) => data().cells.some((cell) => cell.measured.some((group) => group[name])));
  const judged = data().cells.some((cell) => cell.measured.some((group) => group.verdicts));
  const bodies = cells.map((cell) => el("tbody", {}, cell.measured.map((group, at) => el("tr", {},
    at ? null : el("th", { scope: "rowgroup", rowspan: cell.measured.length }, el("a", { href: cellLink(cell.id) }, cell.label)),
    el("td", {}, group.group),
    kinds.map(([name, , digits]) => el("td", { class: "n" }, fixed(mean(group[name]), digits), el("span", { class: "quiet" }, ends(group[name], digits)))),
    judged ? el("td", {}, group.verdicts?.map(([words]) => words).join(", ") ?? "–") : null,
    at ? null : el("td", { class: "n", rowspan: cell.measured.length }, trialsOf(cell))))));
  return el("table", { class: "plain trials" }, headOf([["Cell"], ["Group"], ...kinds.map(([, words]) => [words, "n"]), ...(judged ? [["Verdict"]] : []), ["Trials", "n"]]), bodies);
}

/** The name of a group where all cells of the decision table have the same. */
function calledAlike(group) {
  const names = new Set(data().cells.filter((cell) => cell.entry).map((cell) => nameOf(cell, group)));
  return names.size === 1 ? [...names][0] : group;
}

function judgedTable(shown) {
  const [l4s, classic] = data().groups.map(calledAlike);
  const heads = [["Cell"], ["Against"], ["Verdict"], ["% of rate", "n"], [`${l4s} Mbit/s`, "n"], [`${classic} Mbit/s`, "n"], ["delay ms", "n"], ["Trials", "n"]];
  const rows = shown.map((cell) => el("tr", {},
    el("th", { scope: "row" }, el("a", { href: cellLink(cell.id) }, cell.label)),
    el("td", { class: cell.column ? null : "company" }, cell.column ?? cell.company),
    el("td", {}, cell.word ? `${cell.glyph} ${cell.word}` : "not in the table"),
    el("td", { class: "n" }, fixed(mean(cell.share))),
    el("td", { class: "n" }, fixed(mean(cell.l4s?.goodput))),
    el("td", { class: "n" }, fixed(mean(cell.classic?.goodput))),
    el("td", { class: "n" }, fixed(mean(cell.l4s?.delay))),
    el("td", { class: "n" }, trialsOf(cell))));
  return el("table", { class: "plain" }, headOf(heads), el("tbody", {}, rows));
}

/** The list is drawn when the browser has nothing better to do: a large page must open at once. */
function startFinding() {
  const box = byId("find-words");
  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => listCells(box.value.trim()), 120);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.value) {
      box.value = "";
      listCells("");
      event.stopPropagation();
    }
  });
  (window.requestIdleCallback ?? setTimeout)(() => listCells(box.value.trim()));
}
