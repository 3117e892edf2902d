/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* What the reader had before them stays when the page reloads itself. A page from disk may have no storage, but
   every entry of the history has a state. */

const STOPS = "a[href], button, input, summary, [tabindex]";
const parts = () => [...document.querySelectorAll("details")];

function keep() {
  const at = document.activeElement, stops = [...document.querySelectorAll(STOPS)];
  const inputs = [...document.querySelectorAll("input")].map((input) => [input.id || input.value, input.value, input.checked]);
  history.replaceState({ kept: { x: scrollX, y: scrollY, stop: stops.indexOf(at), word: at?.textContent, open: parts().map((part) => part.open), inputs } }, "");
  history.scrollRestoration = "manual";
}

/** Whether this page is what `keep` left, so that nothing is to be brought into view. */
const isKept = () => Boolean(history.state?.kept);

function resume() {
  const kept = history.state?.kept;
  history.scrollRestoration = "auto";
  if (!kept) return;
  history.replaceState(null, "");
  for (const input of document.querySelectorAll("input")) {
    const [, value, checked] = kept.inputs.find(([name]) => name === (input.id || input.value)) ?? [];
    if (value === undefined) continue;
    if (input.type === "search" ? input.value !== value : input.checked !== checked) {
      if (input.type === "search") input.value = value;
      else input.checked = checked;
      input.dispatchEvent(new Event(input.type === "search" ? "input" : "change", { bubbles: true }));
    }
  }
  if (kept.open.length === parts().length) parts().forEach((part, place) => { part.open = kept.open[place]; });
  const stop = [...document.querySelectorAll(STOPS)][kept.stop];
  if (stop?.textContent === kept.word) stop.focus({ preventScroll: true });
  scrollTo(kept.x, kept.y);
}
