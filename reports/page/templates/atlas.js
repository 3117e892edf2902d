/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* The map: what is chosen is in the address, so that a link keeps it. */

const CELL = ["rate", "rtt", "buffer", "upTo", "verdict", "sure", "trials", "leftOut", "old", "instead", "mine", "other", "myDelay", "otherDelay", "used", "harm", "each"];
const DELAYS_MS = [1, 2, 5, 10, 15, 30];
const UNUSED_PERCENT = [2, 5, 10, 20, 30, 50];
const known = JSON.parse(byId("page-data").textContent);
const columns = known.columns.map((column) => ({ ...column, cells: column.cells.map((values) => Object.fromEntries(CELL.map((name, place) => [name, values[place] ?? null]))) }));

/** The place of the first limit that a value does not pass. */
const stepOf = (value, limits) => { const place = limits.findIndex((limit) => value <= limit); return place < 0 ? limits.length : place; };
const share = (value) => ({ text: fixed(value, 0), tint: `s${Math.round(Math.min(value, 100) / 10)}` });
const delay = (value) => ({ text: fixed(value, value < 10 ? 1 : 0), tint: `d${stepOf(value, DELAYS_MS)}` });
const steps = (limits, unit) => [...limits.map((limit, place) => [`d${place}`, `up to ${limit} ${unit}`]), [`d${limits.length}`, "more"]];
const harm = (value) => ({ ...share(100 - Math.max(value, 0)), text: fixed(value, 0) });
const shares = () => [["s0", "0 %"], ["s2", "20 %"], ["s5", "50 %"], ["s8", "80 %"], ["s10", "100 %"]];

/** What can be shown: its name in addresses, its title, what it is of a cell, how it looks, and its key. */
const SHOWN = {
  verdict: { title: () => "verdict", look: (cell) => ({ text: known.verdicts[cell.verdict] ?? cell.verdict, tint: `w-${cell.verdict}` }), key: (column) => Object.entries(known.verdicts).map(([word, glyph]) => [`w-${word}`, `${glyph} ${inWords(word, column)}`]) },
  "share-to": { title: (column) => `share of ${column.labels[0]}, % of the link`, of: (cell) => cell.mine, look: share, key: shares },
  "share-against": { title: (column) => `share of ${column.labels[1]}, % of the link`, of: (cell) => cell.other, look: share, key: shares },
  "delay-to": { title: (column) => `delay of ${column.labels[0]}, ms`, of: (cell) => cell.myDelay, look: delay, key: () => steps(DELAYS_MS, "ms") },
  "delay-against": { title: (column) => `delay of ${column.labels[1]}, ms`, of: (cell) => cell.otherDelay, look: delay, key: () => steps(DELAYS_MS, "ms") },
  harm: { title: (column) => `harm to ${column.labels[1]}, % of its goodput alone`, of: (cell) => cell.harm, look: harm, key: () => [["s10", "0 %"], ["s8", "20 %"], ["s5", "50 %"], ["s2", "80 %"], ["s0", "100 %"]] },
  used: { title: () => "use of the link, %", of: (cell) => cell.used, look: (value) => ({ text: fixed(value, 0), tint: `d${stepOf(100 - value, UNUSED_PERCENT)}` }), key: () => [...UNUSED_PERCENT.map((limit, place) => [`d${place}`, `${100 - limit} % or more`]), [`d${UNUSED_PERCENT.length}`, "less"]] },
};

function inWords(verdict, column) {
  return { ok: "okay", "l4s-starved": `${column.labels[0]} starves`, "classic-starved": `${column.labels[1]} starves`, both: "both starve" }[verdict] ?? verdict;
}

const form = byId("choices");
const field = (name) => form.elements[name];
const fields = ["queue", "buffer", "flows", "shown"];
const distinct = (values) => [...new Set(values)];

/** The cell of a place: its own, or that of a smaller buffer that holds for this one, too. */
function cellAt(column, buffer, rate, rtt) {
  const here = column.cells.filter((cell) => cell.rate === rate && cell.rtt === rtt);
  return here.find((cell) => cell.buffer === buffer) ?? here.find((cell) => cell.buffer <= buffer && buffer <= cell.upTo) ?? null;
}

const chosenColumns = () => columns.filter((column) => column.flows === field("flows").value);
const chosenColumn = () => chosenColumns().find((column) => column.queue === field("queue").value) ?? chosenColumns()[0];

/** The place of the cell that is open, or null. */
let open = null;

function fill(name, options, value) {
  const wanted = options.map(([key]) => String(key));
  field(name).replaceChildren(...options.map(([key, text]) => el("option", { value: key }, text)));
  field(name).value = wanted.includes(String(value)) ? value : wanted[0];
}

function fillQueues(wanted) {
  fill("queue", chosenColumns().map((column) => [column.queue, column.queue]), wanted);
}

function fillShown(wanted) {
  fill("shown", Object.entries(SHOWN).map(([key, one]) => [key, one.title(chosenColumn())]), wanted);
}

function restore() {
  const stated = new URLSearchParams(location.hash.slice(1));
  // where nothing is stated, the map is shown of which most is known
  const most = columns.flatMap((column) => known.buffers.map((buffer) => [column, buffer, column.cells.filter((cell) => cell.verdict && cell.buffer <= buffer && buffer <= cell.upTo).length]));
  const [column, buffer] = most.reduce((best, one) => (one[2] > best[2] ? one : best));
  fill("flows", distinct(columns.map((one) => one.flows)).map((text) => [text, text]), stated.get("flows") ?? column.flows);
  fillQueues(stated.get("queue") ?? column.queue);
  fill("buffer", known.buffers.map((size) => [size, `${size} BDP`]), stated.get("buffer") ?? buffer);
  fillShown(stated.get("shown") ?? "verdict");
  const rate = known.rates.find(([, text]) => text === stated.get("rate")), rtt = known.rtts.find(([, text]) => text === stated.get("rtt"));
  open = rate && rtt ? { rate, rtt } : null;
  draw();
}

function remember() {
  const stated = new URLSearchParams(fields.map((name) => [name, field(name).value]));
  if (open) { stated.set("rate", open.rate[1]); stated.set("rtt", open.rtt[1]); }
  history.replaceState(null, "", `#${stated}`);
}

function draw() {
  const column = chosenColumn(), shown = SHOWN[field("shown").value], buffer = Number(field("buffer").value);
  byId("map-title").textContent = `${column.queue}, ${buffer} BDP, ${column.flows}: ${shown.title(column)}`;
  byId("key").replaceChildren(...shown.key(column).map(([tint, text]) => el("li", { class: tint }, text)));
  const head = el("tr", {}, el("td", {}, "Mbit/s, ms"), known.rtts.map(([ms]) => el("th", { scope: "col" }, String(ms))));
  const rows = [...known.rates].reverse().map((rate) => el("tr", {}, el("th", { scope: "row" }, String(rate[0])), known.rtts.map((rtt) => el("td", {}, square(column, shown, buffer, rate, rtt)))));
  const table = el("table", { class: "plane", "aria-labelledby": "map-title" }, el("thead", {}, head), el("tbody", {}, rows));
  byId("plane").replaceChildren(table);
  if (!table.querySelector("[tabindex='0']")) table.querySelector("button")?.setAttribute("tabindex", "0");
  drawOpened(column, buffer);
}

function square(column, shown, buffer, rate, rtt) {
  const cell = cellAt(column, buffer, rate[0], rtt[0]);
  if (cell === null) return null;
  const value = cell.verdict === null ? null : shown.of ? mean(shown.of(cell)) : cell;
  const { text, tint } = value === null || value === undefined ? { text: "–", tint: "none" } : shown.look(value);
  const isOpen = open !== null && open.rate === rate && open.rtt === rtt;
  const spoken = `${rate[0]} Mbit/s, ${rtt[0]} ms: ${cell.verdict === null ? "not run" : shown.of ? text : inWords(cell.verdict, column)}`;
  const press = () => { open = { rate, rtt }; remember(); draw(); byId("opened").focus({ preventScroll: true }); byId("opened").scrollIntoView({ block: "nearest" }); };
  return el("button", { type: "button", class: `${tint}${cell.verdict !== null && !cell.sure ? " doubt" : ""}`, "aria-label": spoken, title: spoken, "aria-current": isOpen ? "true" : null, tabindex: isOpen ? "0" : "-1", "data-rate": rate[1], "data-rtt": rtt[1], click: press }, text);
}

const estimate = (of, digits) => (of === null ? "–" : `${fixed(mean(of), digits)}${ends(of, digits)}`);

function drawOpened(column, buffer) {
  const place = byId("opened");
  const cell = open === null ? null : cellAt(column, buffer, open.rate[0], open.rtt[0]);
  place.hidden = cell === null;
  if (cell === null) return;
  const words = [`aqm=${column.aqm}`, `rate=${open.rate[1]}`, `rtt=${open.rtt[1]}`, `buffer_bdp=${buffer}`, `to=${column.to}`, `against=${column.against}`];
  if (column.ecn !== "off") words.push(`ecn=${column.ecn}`);
  if (column.step !== null) words.push(`min_qlen_step=${column.step}p`);
  const title = el("h2", {}, `${column.queue}, ${open.rate[0]} Mbit/s, ${open.rtt[0]} ms, ${buffer} BDP`);
  const command = copyable(`l4sbench ask ${words.join(" ")} --run`, "the command");
  if (cell.verdict === null) {
    place.replaceChildren(title, el("p", {}, "This cell has not been run yet. This command runs it:"), command);
    return;
  }
  const [mine, other] = column.labels;
  const rows = [
    ["Verdict", `${known.verdicts[cell.verdict] ?? ""} ${inWords(cell.verdict, column)}${cell.sure ? "" : ", unsure: confidence intervals do not bear it out"}`],
    ["Trials", `${plural(cell.trials, "valid trial")}${cell.leftOut ? `, ${cell.leftOut} left out` : ""}`],
    [`${mine}, % of the link`, estimate(cell.mine, 1)],
    [`${other}, % of the link`, estimate(cell.other, 1)],
    [`Delay of ${mine}, ms`, estimate(cell.myDelay, 1)],
    [`Delay of ${other}, ms`, estimate(cell.otherDelay, 1)],
    ["Use of the link, %", estimate(cell.used, 1)],
    ...(cell.harm ? [[`Harm to ${other}, % of its goodput alone`, estimate(cell.harm, 0)]] : []),
  ];
  const [each, otherEach] = cell.each;
  if (each.length) rows.splice(2, 0, ["Each trial", each.map((value, trial) => `${fixed(value, 1)} and ${fixed(otherEach[trial], 1)} %`).join("; ")]);
  if (cell.buffer !== buffer) rows.push(["Buffer", `run with ${cell.buffer} BDP; the limit does not bind, so it holds up to ${cell.upTo} BDP`]);
  const instead = known.instead[new Map(cell.instead).get(buffer)];
  if (instead) rows.push(["Set this instead", instead]);
  if (cell.old) rows.push(["Old", "a kernel, modules or a wire other than those of this version made it"]);
  const list = el("dl", {}, rows.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  place.replaceChildren(title, list, el("p", { class: "small" }, "Means over the trials with 95 % confidence intervals, of harm 90 %; delay is the smoothed RTT above the base RTT. This command runs the cell again:"), command);
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

byId("plane").addEventListener("keydown", (event) => {
  const move = MOVES[event.key], at = event.target.closest("td");
  if (!move || !at) return;
  event.preventDefault();
  const [down, right] = move;
  let row = at.parentElement, place = at.cellIndex, next = null;
  while (row && !next) {
    row = down < 0 ? row.previousElementSibling : down > 0 ? row.nextElementSibling : row;
    place += right;
    if (!row?.cells[place]) return;
    next = row.cells[place].querySelector("button");
  }
  if (!next) return;
  for (const button of byId("plane").querySelectorAll("[tabindex='0']")) button.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
});

form.addEventListener("change", (event) => {
  if (event.target.name === "flows") fillQueues(field("queue").value);
  fillShown(field("shown").value);
  remember();
  draw();
  announce(byId("map-title").textContent);
});
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", restore);
restore();
