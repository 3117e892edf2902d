/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* A box that finds cells by words, and one that leaves only those that changed. */

const byId = (id) => document.getElementById(id);

/** Filter the elements of `selector`; those of `group` that have none left are not shown either. */
function startFilter(selector, group) {
  const cells = [...document.querySelectorAll(selector)];

  function filter() {
    const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const cell of cells) {
      cell.hidden = (byId("only").checked && cell.dataset.changed === undefined) || !words.every((word) => cell.dataset.words.includes(word));
      if (!cell.hidden) shown += 1;
    }
    if (group) for (const part of document.querySelectorAll(group)) part.hidden = !part.querySelector(`${selector}:not([hidden])`);
    byId("count").textContent = `${shown} of ${cells.length} cells`;
    byId("none").hidden = shown > 0;
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
  filter();
  return cells;
}
