/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* A page of a run that goes on looks again when a newer one should be there. */

const STALE_MS = 120000;

function startReloading() {
  const going = byId("going"), every = 1000 * Number(going.dataset.every), pause = byId("going-pause");
  if (!every) return;
  const at = Number(going.dataset.at), left = 1000 * Number(going.dataset.left);
  const due = Math.max(at + every, Date.now() + Math.min(every, 3000)) + 500;
  let stopped = false, touched = 0;
  const seconds = (ms) => { const s = Math.round(ms / 1000); return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.round(s / 60) % 60} min`; };
  const busy = () => document.hidden || Date.now() - touched < 2500 || !getSelection().isCollapsed;

  function tick() {
    const age = Date.now() - at, stale = age > Math.max(STALE_MS, 4 * every);
    byId("going-age").textContent = stale ? `Written ${seconds(age)} ago: the run may be gone.` : `Written ${seconds(Math.max(0, age))} ago.`;
    going.classList.toggle("stale", stale);
    if (byId("going-left")) byId("going-left").textContent = left > age ? `about ${seconds(left - age)} left` : "nearly done";
    if (!stopped && Date.now() >= due && !busy()) {
      keep();
      location.reload();
    }
  }

  pause.addEventListener("click", () => {
    stopped = !stopped;
    pause.setAttribute("aria-pressed", String(stopped));
    pause.textContent = stopped ? "Reload again" : "Stop reloading";
  });
  for (const kind of ["input", "keydown", "pointerdown", "wheel"]) addEventListener(kind, () => { touched = Date.now(); }, { passive: true });
  setInterval(tick, 1000);
  tick();
}

resume();
startReloading();
