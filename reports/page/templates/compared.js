/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Filters the cells of a comparison, and opens the one that the address names. */

const byId = (id) => document.getElementById(id);
const cells = [...document.querySelectorAll("details.change")];

function filter() {
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const cell of cells) {
    cell.hidden = (byId("only").checked && cell.dataset.changed === undefined) || !words.every((word) => cell.dataset.words.includes(word));
    if (!cell.hidden) shown += 1;
  }
  for (const group of document.querySelectorAll("section.outcome")) group.hidden = !group.querySelector("details.change:not([hidden])");
  byId("count").textContent = `${shown} of ${cells.length} cells`;
  byId("none").hidden = shown > 0;
}

function open() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const cell = cells.find((one) => one.id === wanted);
  if (!cell) return;
  cell.open = true;
  cell.scrollIntoView();
  cell.querySelector("summary").focus({ preventScroll: true });
}

byId("only").addEventListener("change", filter);
byId("words").addEventListener("input", filter);
document.querySelector("form.search").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.altKey && !event.metaKey && event.target !== byId("words")) {
    event.preventDefault();
    byId("words").focus();
  }
});
window.addEventListener("hashchange", open);
window.addEventListener("beforeprint", () => {
  for (const cell of cells) if (!cell.hidden && !cell.open && cell.dataset.changed !== undefined) { cell.open = true; cell.dataset.printed = ""; }
});
window.addEventListener("afterprint", () => {
  for (const cell of document.querySelectorAll("details[data-printed]")) { cell.open = false; delete cell.dataset.printed; }
});
filter();
open();
