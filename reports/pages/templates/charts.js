/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Time series, which lie beside the page. A page from disk may not fetch, but it may load a script. */

const loading = new Map();
const series = new Map();
let drawn = [];
let drawing = 0;

/** What the scripts below data/ call. */
window.l4sbenchSeries = (cell, trials) => series.set(cell, trials);

/** Load a script beside the page, once. */
function load(name) {
  if (!loading.has(name)) {
    loading.set(name, new Promise((resolve, reject) => {
      const script = el("script", { src: name.split("/").map(encodeURIComponent).join("/") });
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => { loading.delete(name); reject(new Error(name)); });
      document.head.append(script);
    }));
  }
  return loading.get(name);
}

const PANELS = [
  ["goodput_mbps", "Goodput, Mbit/s, per second"],
  ["srtt_ms", "Smoothed RTT, ms"],
  ["queue_ms", "In the queue, ms"],
  ["marks_percent", "Packets with a CE mark, %, per second"],
  ["cwnd_packets", "Congestion window, packets"],
];

/** A box that fills with a trial's charts. */
function seriesOf(cell, trial) {
  const box = el("div", { class: "charts", "aria-live": "off" }, el("p", { class: "quiet" }, "Loading the time series …"));
  const turn = ++drawing;
  (async () => {
    try {
      if (!data().series) throw new Error("no series");
      await load(`${data().series}/${cell.id}.js`);
    } catch {
      return missing(box, `${data().series}/${cell.id}.js`);
    }
    const panels = series.get(cell.id)?.[trial.trial];
    if (turn !== drawing) return undefined;
    if (!panels) return box.replaceChildren(el("p", { class: "message" }, `Trial ${trial.trial} has no samples in the tables${trial.status === "ok" ? "" : `: it is ${trial.status}`}.`));
    try {
      await load(data().drawing);
    } catch {
      missing(box, data().drawing);
      box.append(numbersOf(panels));
      return undefined;
    }
    return turn === drawing ? draw(box, panels) : undefined;
  })();
  return box;
}

function missing(box, name) {
  box.replaceChildren(el("p", { class: "message", role: "alert" },
    "The time series are not beside this page: ", el("code", {}, name),
    " is missing. Copy the whole report folder, or write it again with ", el("code", {}, "l4sbench report"),
    ". Everything else on this page is whole."));
}

async function draw(box, panels) {
  for (const view of drawn.splice(0)) view.finalize();
  const shown = PANELS.filter(([name]) => panels[name]);
  const figures = shown.map(([name, title]) => el("figure", {}, el("figcaption", {}, title), el("div", { class: "chart", "data-panel": name })));
  box.replaceChildren(...figures, numbersOf(panels));
  const ends = shown.flatMap(([name]) => Object.values(panels[name]).map(([times]) => times.at(-1)));
  await Promise.all(shown.map(async ([name, title], at) => {
    const made = await window.vegaEmbed(figures[at].lastChild, spec(title, panels[name], Math.max(...ends), figures[at]), { actions: false, renderer: "svg", tooltip: { theme: "custom" } });
    drawn.push(made);
  }));
  box.dataset.drawn = "true";
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Flows are named by their group. */
const place = (line) => rank(line.replace(/-[0-9]+$/, ""));
const byPlace = (a, b) => place(a) - place(b);

/** Lines told apart by colour and by dash. */
function spec(title, lines, end, box) {
  const names = Object.keys(lines).sort(byPlace);
  const values = names.flatMap((line) => lines[line][0].map((t, at) => ({ t, value: lines[line][1][at], line })));
  const ink = colour("--ink"), quiet = colour("--quiet"), grid = colour("--line");
  const axis = { labelColor: quiet, titleColor: quiet, gridColor: grid, domainColor: grid, tickColor: grid, titleFontWeight: "normal" };
  const others = [colour("--both"), colour("--ok"), colour("--undecided"), colour("--quiet")];
  let next = 0;
  const range = names.map((name) => [colour("--l4s"), colour("--classic")][place(name)] ?? others[next++ % others.length]);
  const dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]];
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    description: `${title} over time, lines: ${names.join(", ")}`,
    width: "container", height: 150, background: "transparent", autosize: { type: "fit-x", contains: "padding" },
    data: { values },
    mark: { type: "line", strokeWidth: 1.5, interpolate: "linear", tooltip: true },
    encoding: {
      x: { field: "t", type: "quantitative", title: "s", scale: { domain: [0, end], nice: false }, axis: { ...axis, grid: false } },
      y: { field: "value", type: "quantitative", title: null, axis: { ...axis, tickCount: 4 } },
      color: { field: "line", type: "nominal", scale: { domain: names, range }, legend: { title: null, orient: "top", labelColor: ink, symbolType: "stroke", labelLimit: 300, columns: box.clientWidth < 420 ? 1 : 2 } },
      strokeDash: { field: "line", type: "nominal", scale: { domain: names, range: names.map((_, at) => dashes[at % dashes.length]) } },
    },
    config: { view: { stroke: null }, font: "system-ui, sans-serif" },
  };
}

/** The same as numbers: the mean of every line over ten equal times. */
function numbersOf(panels) {
  const parts = 10;
  const tables = PANELS.filter(([name]) => panels[name]).map(([name, title]) => {
    const lines = Object.entries(panels[name]).sort(([a], [b]) => byPlace(a, b)), end = Math.max(...lines.map(([, [times]]) => times.at(-1)));
    const mean = ([times, values], part) => {
      const own = values.filter((_, at) => Math.min(parts - 1, Math.max(0, Math.floor((times[at] / end) * parts))) === part);
      return own.length ? own.reduce((sum, value) => sum + value, 0) / own.length : null;
    };
    const heads = Array.from({ length: parts }, (_, part) => el("th", { scope: "col", class: "n" }, `${fixed((end / parts) * part)} s`));
    return scrolling(title, el("table", { class: "plain" }, el("caption", {}, title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "from"), heads)),
      el("tbody", {}, lines.map(([line, points]) => el("tr", {}, el("th", { scope: "row" }, line),
        heads.map((_, part) => el("td", { class: "n" }, fixed(mean(points, part), 2))))))));
  });
  return el("details", { class: "as-numbers" }, el("summary", {}, "The same as numbers, means over tenths of the time"), ...tables);
}
