/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* Time series, which lie beside the page. A page from disk may not fetch, but it may load a script. */

const loading = new Map();
const series = new Map();
let specifications = null;
let drawn = [];
let drawing = 0;

/* What the scripts below data/ call. */
window.l4sbenchSeries = (cell, trials) => series.set(cell, trials);
window.l4sbenchSpecifications = (found) => { specifications = found; };

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

/** A box that fills with a trial's charts. */
function seriesOf(cell, trial) {
  const box = el("div", { class: "charts", "aria-live": "off" }, el("p", { class: "quiet" }, "Loading the time series …"));
  const turn = ++drawing;
  if (!data().series) {
    box.replaceChildren(el("p", { class: "quiet" }, "Time series are written when the run has ended."));
    return box;
  }
  (async () => {
    try {
      await load(`${data().series}/specifications.js`);
      await load(`${data().series}/${cell.id}.js`);
    } catch (error) {
      return missing(box, error.message);
    }
    const trials = series.get(cell.id);
    if (turn !== drawing) return undefined;
    if (!trials?.[trial.trial]) return box.replaceChildren(el("p", { class: "message" }, `Trial ${trial.trial} has no samples in the tables${trial.status === "ok" ? "" : `: it is ${trial.status}`}.`));
    const panels = panelsOf(trials[trial.trial]);
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

/** Columns as one object per row; words come as runs `[word, count]`. */
function rowsOf(packed) {
  const names = Object.keys(packed), columns = {};
  for (const name of names) columns[name] = packed[name].flatMap((value) => (Array.isArray(value) ? Array(value[1]).fill(value[0]) : value));
  return (columns[names[0]] ?? []).map((_, at) => Object.fromEntries(names.map((name) => [name, columns[name][at]])));
}

/** The panels of a trial's figure as charts of their own, which may be side by side. */
function panelsOf(trial) {
  const { $schema, vconcat, bin_ms: bin } = specifications.specs[trial.spec];
  const state = Object.entries(trial.state ?? {}).map(([name, packed]) => [name, rowsOf(packed)]);
  const datasets = { flows: rowsOf(trial.flows), queue: rowsOf(trial.queue), fair: trial.fair.map(([from_s, to_s, mbps]) => ({ from_s, to_s, mbps })), ...Object.fromEntries(state) };
  const legend = encodingOf(vconcat[0]).color.legend;
  return vconcat.map((whole) => {
    const panel = structuredClone(whole), encoding = encodingOf(panel), words = encoding.y.title;
    encoding.y.title = null;
    if (encoding.y.type !== "nominal") encoding.y.axis = { tickCount: 4 };
    for (const layer of panel.layer ?? [panel]) layer.encoding.x.axis = { title: null, grid: false };
    for (const channel of [encoding.color, encoding.strokeDash].filter(Boolean)) channel.legend = { ...(channel.legend ?? legend), columns: 1, labelLimit: 260, symbolSize: 250 };
    return { $schema, ...panel, datasets, width: "container", height: 150, bin, words,
      line: (encoding.detail ?? encoding.color).field, value: encoding.y.field, rows: datasets[(panel.layer?.[0] ?? panel).data.name] };
  });
}

const encodingOf = (panel) => (panel.layer?.[0] ?? panel).encoding;

async function draw(box, panels) {
  for (const view of drawn.splice(0)) view.finalize();
  const config = specifications.configs[matchMedia("screen and (prefers-color-scheme: dark)").matches ? "dark" : "light"];
  const own = { ...config, background: "transparent", autosize: { type: "fit-x", contains: "padding" }, view: { stroke: null }, font: "system-ui, sans-serif" };
  const figures = panels.map(({ words }) => el("figure", {}, el("figcaption", {}, words), el("div", { class: "chart" })));
  box.replaceChildren(...figures, el("p", { class: "quiet as-numbers" }, `Seconds since the trial's start; means over ${panels[0].bin} ms. Dotted in goodput: the fair share.`), numbersOf(panels));
  await Promise.all(panels.map(async ({ words, rows, bin, line, value, ...spec }, at) => {
    const description = `${words} over time; the numbers are below the charts`;
    drawn.push(await window.vegaEmbed(figures[at].lastChild, { ...spec, description, config: own }, { actions: false, renderer: "svg", tooltip: { theme: "custom" } }));
  }));
  box.dataset.drawn = "true";
}

/** The same as numbers: the mean of every line over ten equal times, of words the most frequent one. */
function numbersOf(panels) {
  const parts = 10;
  const tables = panels.filter(({ rows }) => rows.length).map(({ words, rows, line, value }) => {
    const end = Math.max(...rows.map((row) => row.t_s));
    const sums = new Map();
    for (const row of rows) {
      if (row[value] === null) continue;
      if (!sums.has(row[line])) sums.set(row[line], Array.from({ length: parts }, () => []));
      sums.get(row[line])[Math.min(parts - 1, Math.max(0, Math.floor((row.t_s / end) * parts)))].push(row[value]);
    }
    const heads = [["from"], ...Array.from({ length: parts }, (_, part) => [`${fixed((end / parts) * part)} s`, "n"])];
    const lines = [...sums].sort(([a], [b]) => rank(a.replace(/-[0-9]+( .*)?$/, "")) - rank(b.replace(/-[0-9]+( .*)?$/, "")));
    return scrolling(words, el("table", { class: "plain" }, el("caption", {}, words), headOf(heads),
      el("tbody", {}, lines.map(([name, means]) => el("tr", {}, el("th", { scope: "row" }, name),
        means.map((values) => el("td", { class: "n" }, typical(values))))))));
  });
  return el("details", { class: "as-numbers" }, el("summary", {}, "The same as numbers, means over tenths of the time"), ...tables);
}

/** The mean of numbers, or the most frequent word. */
function typical(values) {
  if (!values.length || typeof values[0] === "number") return fixed(values.length ? values.reduce((a, b) => a + b) / values.length : null, 2);
  const counts = new Map();
  for (const word of values) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
}
