/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Opens the cell of a comparison that the address names; on paper, all that changed. */

const cells = startFilter("details.change", "section.outcome");

function open() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const cell = cells.find((one) => one.id === wanted);
  if (!cell) return;
  cell.open = true;
  cell.scrollIntoView();
  cell.querySelector("summary").focus({ preventScroll: true });
}

window.addEventListener("hashchange", open);
window.addEventListener("beforeprint", () => {
  for (const cell of cells) if (!cell.hidden && !cell.open && cell.dataset.changed !== undefined) { cell.open = true; cell.dataset.printed = ""; }
});
window.addEventListener("afterprint", () => {
  for (const cell of document.querySelectorAll("details[data-printed]")) { cell.open = false; delete cell.dataset.printed; }
});
open();
