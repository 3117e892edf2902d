/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* What the other parts share. Text only ever becomes text: nothing here builds HTML of strings. */

const LINE = "\x1e", FIELD = "\x1f", NUMBER = /\x1d/g;
const byId = (id) => document.getElementById(id);

let parsed = null;
/** What the page knows about cells; parsed when it is first needed, as it is most of a large page. */
function data() {
  if (parsed === null) {
    parsed = JSON.parse(byId("page-data").textContent);
    parsed.byId = new Map(parsed.cells.map((cell) => [cell.id, cell]));
  }
  return parsed;
}

const SVG = new Set(["svg", "g", "line", "rect", "circle", "text", "path", "title"]);

/** An element. Attributes that are null or false are left out; a function becomes a listener. */
function el(tag, attributes, ...children) {
  const made = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A number for people; a dash where there is none. */
const fixed = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));

/** Estimates are `[mean, low, high]`, the ends of the interval null where there is none. */
const mean = (estimate) => estimate?.[0];
const ends = (estimate, digits = 1) => (estimate && estimate[1] !== null && estimate[2] !== null ? ` (${fixed(estimate[1], digits)} to ${fixed(estimate[2], digits)})` : "");

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Sorts flow groups: those that the rule compares come first. */
const rank = (group) => [...data().groups, group].indexOf(group);

/** Rows of columns as one object per row. */
const named = (columns, row) => Object.fromEntries(columns.map((name, place) => [name, row[place]]));

/** Say something to who listens to the page. */
function announce(text) {
  byId("live").textContent = text;
}

const cellLink = (id, trial) => `#cell/${encodeURIComponent(id)}${trial ? `/${trial}` : ""}`;

/** A command with a button that copies it. */
function copyable(text, what) {
  const shown = el("pre", { tabindex: "0" }, el("code", {}, text));
  const button = el("button", { type: "button", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      announce(`${what} copied`);
    } catch {
      // no clipboard here: select it, so that the keyboard can copy it
      getSelection().selectAllChildren(shown);
      button.textContent = "Selected";
      announce(`${what} selected; copy it with the keyboard`);
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return el("div", { class: "with-copy" }, shown, button);
}

/** A table in a box that scrolls sideways, which the keyboard can do too. */
function scrolling(label, table) {
  if (!table.caption) table.setAttribute("aria-label", label);
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
}
