/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Links into the page, the back button, and the keyboard. The address is the only state: #entry/KEY opens
   an entry's heat map, #cell/ID a cell, #cell/ID/2 its second trial, # closes both. Any of them may end in
   ?delay, which shows delay instead of goodput. */

const title = document.title, start = document.body.dataset.start;
let last = null;

function where() {
  const [place] = location.hash.slice(1).split("?");
  const [kind, ...rest] = place.split("/");
  if (kind === "entry") return { kind, entry: rest.map(decode).join("/") };
  if (kind === "cell") return { kind, cell: decode(rest[0] ?? ""), trial: rest[1] };
  return { kind: kind === "" ? "home" : "other" };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a broken link names nothing, which is said below
  }
}

const heatOf = (key) => [...document.querySelectorAll(".heat")].find((section) => section.dataset.entry === key);
const linkOf = (attribute, value) => [...document.querySelectorAll(`a[data-${attribute}]`)].find((link) => link.dataset[attribute] === value);

const DELAY = "?delay";

/** The switch follows an address that has ?delay, and any other address follows the switch. */
function metric() {
  const delay = byId("metric-delay");
  if (!delay) return;
  if (location.hash.endsWith(DELAY)) delay.checked = true;
  else if (delay.checked) keepMetric();
}

/** Write the switch into the address, without a step of the back button. */
function keepMetric() {
  const place = location.hash.replace(/\?.*$/, "");
  history.replaceState(null, "", `${place || "#"}${byId("metric-delay").checked ? DELAY : ""}`);
}

/** Make the page show what its address says. `moved`: by the reader, so the focus goes there. */
function go(moved) {
  const now = where();
  if (now.kind === "other") return;
  metric();
  const cell = now.kind === "cell" ? data().byId.get(now.cell) : null;
  const key = cell ? cell.entry : now.entry;
  const heat = key ? heatOf(key) : null;
  const broken = (now.kind === "cell" && !cell) || (now.kind === "entry" && !heat);
  for (const section of document.querySelectorAll(".heat")) section.hidden = section !== heat;
  byId("map").hidden = !heat;
  mark("entry", heat ? key : null);
  mark("cell", cell ? cell.id : null);
  const sameCell = cell && last?.kind === "cell" && last.cell === cell.id;
  byId("cell").hidden = !cell;
  let trial = null;
  if (cell) trial = showCell(cell, now.trial);
  else byId("cell").replaceChildren();
  trail(heat, key, cell);
  if (broken) say(`This page has no ${now.kind} ${now.cell ?? now.entry}.`);
  else if (moved || (now.kind !== "home" && !isKept())) arrive(now, heat, cell, sameCell, trial);
  last = now;
}

function say(text) {
  announce(text);
  byId("trail").replaceChildren(el("li", {}, text));
}

/** Bring what was opened into view, give it the focus, and say so. */
function arrive(now, heat, cell, sameCell, trial) {
  if (cell && sameCell) {
    byId("cell").querySelector("tr[aria-current] a")?.focus({ preventScroll: true });
    announce(`Trial ${trial.trial}`);
  } else if (cell) {
    reach(byId("cell-title"));
    announce(`Cell ${cell.label}${cell.word ? `: ${cell.word}` : ""}, ${plural(cell.trials.length, "trial")}`);
  } else if (heat && last?.kind === "cell" && last.entry === undefined && linkOf("cell", last.cell)?.closest(".heat") === heat) {
    reach(linkOf("cell", last.cell));
  } else if (heat) {
    reach(heat.querySelector("h2"));
    announce(`Heat map of ${heat.getAttribute("aria-label")}, ${plural(heat.querySelectorAll("a[data-cell]").length, "cell")}`);
  } else if (last) {
    reach((last.kind === "entry" && linkOf("entry", last.entry)) || byId("decision"));
    announce(start);
  }
}

function reach(target) {
  target.focus({ preventScroll: true });
  const box = target.getBoundingClientRect();
  if (target.matches("a") ? box.top < 60 || box.bottom > innerHeight : true) target.scrollIntoView({ block: target.matches("a") ? "center" : "start" });
}

function mark(attribute, value) {
  for (const link of document.querySelectorAll(`a[data-${attribute}][aria-current]`)) link.removeAttribute("aria-current");
  const link = value === null ? null : linkOf(attribute, value);
  link?.setAttribute("aria-current", "true");
  if (link) rove(link);
}

/** Where the reader is: decision table, entry, cell. */
function trail(heat, key, cell) {
  const items = [["#", start]];
  if (heat) items.push([`#entry/${key}`, heat.getAttribute("aria-label")]);
  if (cell) items.push([cellLink(cell.id), cell.label]);
  byId("trail").replaceChildren(...items.map(([href, text], place) =>
    el("li", {}, el("a", { href, "aria-current": place === items.length - 1 ? "location" : null }, text))));
  document.title = items.length > 1 ? `${items.at(-1)[1]} – ${title}` : title;
}

/* A grid is one stop of the Tab key; arrows move within. */
function rove(link) {
  const grid = link.closest("[role=grid]");
  for (const other of grid.querySelectorAll("td a")) other.tabIndex = other === link ? 0 : -1;
}

const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

/** Where a key leads from a link of a grid; over places without one to the next that has one. */
function neighbour(link, key, far) {
  const rows = [...link.closest("[role=grid]").querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.querySelector("a")));
  let y = rows.findIndex((row) => row.includes(link)), x = rows[y].indexOf(link);
  if (key === "Home" || key === "End") {
    const line = (far ? rows.flat() : rows[y]).filter(Boolean);
    return key === "Home" ? line[0] : line.at(-1);
  }
  const [dy, dx] = MOVES[key];
  for (y += dy, x += dx; rows[y] && x >= 0 && x < rows[y].length; y += dy, x += dx) if (rows[y][x]) return rows[y][x];
  return null;
}

function onKey(event) {
  if (event.altKey || event.metaKey) return;
  const link = event.target.closest?.("[role=grid] td a");
  if (link && (event.key in MOVES || event.key === "Home" || event.key === "End")) {
    const next = neighbour(link, event.key, event.ctrlKey);
    event.preventDefault();
    if (next) { rove(next); next.focus(); }
  } else if (event.key === "Escape") {
    const now = where();
    const cell = now.kind === "cell" ? data().byId.get(now.cell) : null;
    if (now.kind !== "home" && now.kind !== "other") location.hash = cell?.entry ? `#entry/${cell.entry}` : "#";
  } else if (event.key === "/" && !event.ctrlKey && !event.target.matches("input")) {
    event.preventDefault();
    byId("find-words").focus();
    byId("find").scrollIntoView({ block: "start" });
  }
}

for (const grid of document.querySelectorAll("[role=grid]")) {
  const first = grid.querySelector("td a");
  if (first) rove(first);
}
document.addEventListener("keydown", onKey);
document.addEventListener("focusin", (event) => {
  const link = event.target.closest?.("[role=grid] td a");
  if (link) rove(link);
});
for (const choice of document.querySelectorAll("input[name=metric]")) choice.addEventListener("change", keepMetric);
window.addEventListener("hashchange", () => go(true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  const now = where(), cell = now.kind === "cell" ? data().byId.get(now.cell) : null;
  if (cell) showCell(cell, now.trial); // charts have the colours of the scheme in them
});
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("#cell details:not([open]), .notes details:not([open])")) { part.open = true; part.dataset.printed = ""; }
});
window.addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-printed]")) { part.open = false; delete part.dataset.printed; }
});
startFinding();
go(false);
