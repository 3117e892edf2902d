/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* The panel of one cell: means, trials, time series, what ran, and how to run it again. */

/** Fill the panel with a cell and one of its trials (the first valid one unless `wanted` names another). */
function showCell(cell, wanted) {
  const { trial_columns: columns } = data();
  const trials = cell.trials.map((row) => named(columns, row));
  const chosen = trials.find((trial) => String(trial.trial) === wanted)
    ?? trials.find((trial) => trial.status === "ok") ?? trials[0];
  byId("cell").replaceChildren(
    cellHead(cell),
    cellNumbers(cell, trials),
    ...pathOf(cell),
    ...(cell.sides?.length ? [dots(cell, trials)] : []),
    ...otherFigures(cell, trials),
    trialTable(cell, trials, chosen),
    ...reportedBy(cell),
    el("h3", { id: "series-title" }, `Time series of trial ${chosen.trial}`),
    seriesOf(cell, chosen),
    ...rerun(cell),
    ...whatRan(chosen),
    ...factorList(cell),
  );
  return chosen;
}

function cellHead(cell) {
  const close = el("a", { class: "close", href: cell.entry ? `#entry/${cell.entry}` : "#" }, "Close");
  const where = cell.entry ? `against ${cell.column}` : cell.company;
  return el("div", {},
    el("div", { class: "cell-head" },
      el("h2", { id: "cell-title", tabindex: "-1" }, cell.label, " ", el("span", { class: "against" }, where)), close),
    el("p", { class: "quiet" }, el("code", {}, cell.id)));
}

/** What texts call a flow group: by its congestion control, unless another group of the cell has the same. */
const nameOf = (cell, group) => cell.names?.[group] ?? group;
const pairOf = (cell) => data().groups.map((group) => nameOf(cell, group));
const rateOf = (cell) => cell.factors.rate_mbps ?? data().fixed.rate_mbps;
const scaled = (estimate, by) => estimate?.map((value) => (value === null ? null : value * by));

/** The figures that one looks for first; the others are in the table below. */
function cellNumbers(cell, trials) {
  if (cell.measured) return numberList(measuredNumbers(cell, trials));
  if (!cell.entry) return el("p", {}, `${plural(trials.length, "trial")} of a cell that is not in the decision table; other cells may be measured against it.`);
  const [l4s, classic] = pairOf(cell), percent = 100 / rateOf(cell);
  const both = (of) => [of(cell.l4s), of(cell.classic)];
  const values = (estimates, digits = 1) => estimates.map((own) => fixed(mean(own), digits)).join(" v ");
  const intervals = (estimates) => [l4s, classic].map((name, at) => `${name}${ends(estimates[at])}`).join(" v ");
  const shares = both((group) => scaled(group.goodput, percent)), delays = both((group) => group.delay);
  const used = cell.further?.utilisation, sure = cell.unsure ? `${cell.glyph === "?" ? "" : "? "}${cell.unsure}` : cell.sides.map((side) => side.text).join("; ");
  return numberList([
    [`${cell.glyph} ${cell.word}`, sure, `verdict w-${cell.unsure && cell.word !== "undecided" ? "undecided" : cell.word}`],
    [cell.valid ? `${values(shares)}\u00a0%` : "–", `of the link: ${intervals(shares)}`],
    [cell.valid ? `${values(delays)} ms` : "–", `delay: ${intervals(delays)}`],
    [used === undefined ? "–" : `${fixed(used * 100)}\u00a0%`, `of the link used in ${cell.valid} valid ${cell.valid === 1 ? "trial" : "trials"}${cell.left_out ? `, ${cell.left_out} left out` : ""}`],
  ]);
}

function measuredNumbers(cell, trials) {
  const items = cell.measured.flatMap(({ group, goodput, share, delay, sojourn, verdicts, frame_p50, frame_p95, frame_rate, freezes, slowdown, rpm }) => [
    ...(verdicts ?? []).map(([words, judged, rule]) => [words, `${group}'s ${judged}, by rule ${rule}`]),
    ...(frame_p50 ? [[`${fixed(mean(frame_p50))} ms`, `half of ${group}'s frames${ends(frame_p50)}`]] : []),
    ...(frame_p95 ? [[`${fixed(mean(frame_p95))} ms`, `95 % of ${group}'s frames${ends(frame_p95)}`]] : []),
    ...(frame_rate ? [[fixed(mean(frame_rate)), `whole frames per second, ${group}${ends(frame_rate)}`]] : []),
    ...(freezes ? [[fixed(mean(freezes)), `freezes in a trial, ${group}${ends(freezes)}`]] : []),
    ...(slowdown ? [[fixed(mean(slowdown)), `slowdown of ${group}: completion time by that with an equal share and no queue${ends(slowdown)}`]] : []),
    ...(rpm ? [[fixed(mean(rpm), 0), `round trips per minute, ${group}${ends(rpm, 0)}`]] : []),
    [`${fixed(mean(share))} %`, `of the link's rate, ${group}${ends(share)}`],
    [fixed(mean(goodput)), `Mbit/s, ${group}${ends(goodput)}`],
    ...(delay ? [[fixed(mean(delay)), `ms, ${group}'s smoothed RTT minus base RTT${ends(delay)}`]] : []),
    ...(sojourn ? [[fixed(mean(sojourn), 2), `ms in the queue, ${group}'s packets${ends(sojourn, 2)}`]] : []),
  ]);
  return [...items, [`${cell.valid} of ${trials.length}`, `trials valid${cell.left_out ? `, ${cell.left_out} left out` : ""}`]];
}

function numberList(items) {
  return el("ul", { class: items.length === 4 ? "numbers four" : "numbers", "aria-label": "Means over the valid trials" },
    items.map(([value, words, kind]) => el("li", { class: kind }, el("b", {}, value), words)));
}

/** All other figures that the cell has, as a table that opens. Quantiles are of all samples together. */
function otherFigures(cell, trials) {
  const has = cell.further ?? {}, { l4s = {}, classic = {} } = cell, rows = [];
  const shown = (estimate, digits = 1) => (estimate ? `${fixed(mean(estimate), digits)}${ends(estimate, digits)}` : null);
  const two = (words, own, other) => { if (own ?? other) rows.push([words, own ?? "–", other ?? "–"]); };
  const one = (words, value) => rows.push([words, value]);
  const of = (name, digits, by = 1) => (name in has ? fixed(has[name] * by, digits) : null);
  two("Goodput, Mbit/s", shown(l4s.goodput), shown(classic.goodput));
  two("Delay: smoothed RTT minus base RTT, ms", shown(l4s.delay), shown(classic.delay));
  two("Delay in its flows' first 5 s, ms", of("l4s_delay_first_5s_ms", 1), null);
  two("Delay after these, ms", of("l4s_delay_after_5s_ms", 1), null);
  for (const [name, words] of [["sojourn", "Queuing delay of packets"], ["srtt", "Smoothed RTT"]]) {
    for (const q of ["p50", "p95", "p99", "p999"]) two(`${words}, ${q.replace("p999", "p99.9")}, ms`, of(`l4s_${name}_${q}_ms`, 1), null);
  }
  for (const ms of ["100", "1000"]) two(`Variation of goodput in ${ms} ms bins`, of(`l4s_variation_${ms}ms`, 2), of(`classic_variation_${ms}ms`, 2));
  two("Harm to its goodput, %", shown(l4s.harm), shown(classic.harm));
  two("Harm to its RTT, %", shown(l4s.delay_harm), shown(classic.delay_harm));
  two("Harm beside its own kind, %", shown(l4s.same_harm), shown(classic.same_harm));
  if ("ratio" in has) one("Goodput of a flow of the one over one of the other", of("ratio", 2));
  if ("jain" in has && has.flows > 1) one(`Jain's index of ${has.flows} flows`, of("jain", 3));
  if ("utilisation" in has && !cell.entry) one("Of the link used, %", of("utilisation", 1, 100));
  if (cell.held) one("Limit of the queue", `${cell.held}${cell.dropped ? `; it dropped ${cell.dropped} packets in the valid trials and marked none` : ""}`);
  one("Valid trials", `${cell.valid} of ${trials.length}`);
  if (cell.bimodal) one("Two modes", "trials fall into two groups; the mean describes neither");
  const heads = [["Figure"], ...pairOf(cell).slice(0, 2).map((name) => [name, "n"])];
  if (heads.length < 3) heads.push(["", "n"]);
  const body = rows.map(([words, ...values]) => el("tr", {}, el("th", { scope: "row" }, words),
    values.map((value) => el("td", { class: "n", colspan: values.length === 1 ? 2 : null }, value))));
  const two_modes = cell.bimodal ? [el("p", { class: "message" }, "two modes: trials fall into two groups; the mean describes neither")] : [];
  return [...two_modes, part("All figures", scrolling("All figures", el("table", { class: "plain loose" }, headOf(heads), el("tbody", {}, body))))];
}

/* An end of the scale has no label where a limit's would touch it, on a phone. */
const APART_PERCENT = 17;
const LANE = 92;

/** Both groups: what they got in every trial, mean and interval, beside what the rule wants of them. */
function dots(cell, trials) {
  const words = cell.sides.map((side) => side.text).join("; ");
  return el("svg", { class: "dots", viewBox: `0 0 600 ${LANE * cell.sides.length}`, role: "img", "aria-label": words },
    cell.sides.map((side, place) => el("g", { transform: `translate(0 ${LANE * place})` }, lane(side, trials))));
}

function lane(side, trials) {
  const got = trials.map((trial) => trial.status === "ok" && groupsOf(trial).find((group) => group.group === side.group)?.goodput_mbps)
    .filter((mbps) => typeof mbps === "number").map((mbps) => (mbps / side.whole) * 100);
  const [middle, from, to] = side.keeps;
  const most = Math.max(100, to ?? 0, ...got), x = (percent) => 20 + Math.max(0, percent) * (560 / most);
  const [low = null, high = most] = side.limits.map(([limit]) => limit);
  const edges = [[0, "0"], [100, `${side.top} ${side.unit}`]].filter(([end]) => side.limits.every(([limit]) => Math.abs(end - limit) > APART_PERCENT));
  return [
    el("text", { x: x(0), y: 15 }, side.text),
    el("rect", { x: x(0), y: 24, width: x(most) - x(0), height: 30, fill: "var(--sunk)" }),
    low === null ? null : el("rect", { x: x(low), y: 24, width: x(high) - x(low), height: 30, fill: "var(--ok-ground)" }),
    side.limits.map(([limit]) => el("line", { class: "limit", x1: x(limit), x2: x(limit), y1: 24, y2: 60, stroke: "var(--ink)", "stroke-width": 1, "stroke-dasharray": "3 2" })),
    got.map((percent, place) => el("circle", { cx: x(percent), cy: 38 + ((place * 7) % 13) - 6, r: 4.5, fill: "var(--link)", "fill-opacity": 0.65, stroke: "var(--ground)" })),
    from === null ? null : el("line", { class: "interval", x1: x(from), x2: x(to), y1: 54, y2: 54, stroke: "var(--ink)", "stroke-width": 3 }),
    el("line", { x1: x(middle), x2: x(middle), y1: 22, y2: 59, stroke: "var(--ink)", "stroke-width": 2 }),
    [...edges, ...side.limits].map(([at, text]) => el("text", { x: x(at), y: 76, "text-anchor": at === 100 ? "end" : "middle" }, text)),
  ];
}

function groupsOf(trial) {
  return trial.groups.map((row) => named(data().group_columns, row)).sort((a, b) => rank(a.group) - rank(b.group));
}

/** Percent of the link's rate that the L4S group got in a trial; null when it does not count. */
function shareOf(cell, trial) {
  const own = groupsOf(trial).find((group) => group.group === data().groups[0]);
  const rate = rateOf(cell);
  return trial.status === "ok" && typeof own?.goodput_mbps === "number" && rate ? (own.goodput_mbps / rate) * 100 : null;
}

const GROUP_NUMBERS = [
  ["goodput_mbps", "Mbit/s", 1],
  ["srtt_minus_base_ms", "delay ms", 2],
  ["srtt_p50_ms", "RTT p50 ms", 2],
  ["srtt_p95_ms", "RTT p95 ms", 2],
  ["srtt_p99_ms", "RTT p99 ms", 2],
  ["ce_percent", "marked %", 2],
  ["retransmits_packets", "sent again", 0],
];

const TOOLS = { lean: "l4sbench's own tool" };

function trialTable(cell, trials, chosen) {
  const groups = [...new Set(trials.flatMap((trial) => groupsOf(trial).map((group) => group.group)))];
  const any = (name) => trials.some((trial) => groupsOf(trial).some((group) => group[name] !== null));
  const numbers = GROUP_NUMBERS.filter(([name]) => any(name));
  const compared = Boolean(cell.entry);
  const remarks = trials.some((trial) => trial.reasons || trial.flags);
  const heads = [["Trial"], ["Status"], ...(compared ? [["% of rate", "n"]] : []), ["used %", "n"], ["Group"],
    ...numbers.map(([, words]) => [words, "n"]), ["ECN"], ...(remarks ? [["Remarks"]] : [])];
  /* one line per flow group: side by side, two groups are wider than a page */
  const bodies = trials.map((trial) => {
    const own = new Map(groupsOf(trial).map((group) => [group.group, group]));
    const shown = groups.filter((group) => own.has(group));
    const all = { rowspan: Math.max(1, shown.length) };
    const rate = rateOf(cell);
    const sum = [...own.values()].reduce((total, group) => total + (group.goodput_mbps ?? 0), 0);
    return el("tbody", { "aria-current": trial === chosen ? "true" : null }, (shown.length ? shown : [null]).map((group, at) => el("tr", {},
      at ? null : [
        el("th", { scope: "rowgroup", ...all }, el("a", { href: cellLink(cell.id, trial.trial), "aria-label": `Trial ${trial.trial}` }, trial.trial)),
        el("td", all, trial.status),
        compared ? el("td", { class: "n", ...all }, fixed(shareOf(cell, trial))) : null,
        el("td", { class: "n", ...all }, own.size && rate ? fixed((sum / rate) * 100) : "–")],
      el("td", {}, group ? nameOf(cell, group) : "–"),
      numbers.map(([name, , digits]) => el("td", { class: "n" }, fixed(own.get(group)?.[name], digits))),
      el("td", {}, own.get(group)?.ecn || "–"),
      remarks && !at ? el("td", { class: "wide", ...all }, [trial.reasons, trial.flags].filter(Boolean).join("; ")) : null)));
  });
  const about = named(data().group_columns, chosen.groups[0] ?? []);
  return el("div", {}, el("h3", {}, "Trials"),
    scrolling("Trials of this cell", el("table", { class: "plain trials" }, headOf(heads), bodies)),
    el("p", { class: "quiet" }, `Trial ${chosen.trial}: seed ${chosen.seed}, ${chosen.testbed ? `on testbed ${chosen.testbed}` : "testbed not known"}, traffic from ${TOOLS[chosen.traffic] ?? chosen.traffic ?? "an unknown tool"}`
      + `${about.flows > 1 ? `, ${about.flows} flows of ${nameOf(cell, about.group)}` : ""}`
      + `${chosen.skew_ms === null ? "" : `, nodes began within ${chosen.skew_ms} ms`}, raw files in `, rawFiles(cell, chosen)));
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._+=,-]*$/;

/** The folder of a trial's raw files, and of its captures for Wireshark, as links where they are beside this page. */
function rawFiles(cell, trial) {
  const place = [cell.id, trial.folder], { raw, without_raw: missing } = data();
  const here = raw && !missing.includes(place.join("/"));
  const link = (shown, ...parts) => (here && parts.every((name) => PLAIN_NAME.test(name))
    ? el("a", { href: [raw, ...parts.map(encodeURIComponent), ""].join("/") }, shown) : shown);
  const capturing = linesOf(trial.programs, data().programs)
    .filter(([, lines]) => lines.some(([, command]) => command.startsWith("tcpdump "))).map(([node]) => node);
  return [link(`cells/${place.join("/")}/`, ...place),
    ...capturing.flatMap((node) => [", captures (pcap) in ", link(`raw/${node}/`, ...place, "raw", node)])];
}

/** Numbers that the cell's own programs wrote at {json}, by flow group. */
function reportedBy(cell) {
  if (!cell.reported) return [];
  const rows = cell.reported.map(([group, name, estimate]) => el("tr", {}, el("td", {}, nameOf(cell, group)), el("th", { scope: "row" }, name),
    el("td", { class: "n" }, significant(estimate[0])),
    el("td", { class: "n" }, estimate[1] === null ? "–" : `${significant(estimate[1])} to ${significant(estimate[2])}`)));
  const heads = [["Group"], ["Number"], ["mean", "n"], ["95 % interval", "n"]];
  return [el("h3", {}, "What its programs reported"),
    scrolling("Numbers of the programs", el("table", { class: "plain" }, headOf(heads), el("tbody", {}, rows)))];
}

/** A number of unknown size and unit, with four digits. */
const significant = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

function rerun(cell) {
  if (!cell.rerun) return [];
  return [el("h3", {}, "Run this cell again"),
    el("p", {}, "In the run directory, where the matrix is (", el("code", {}, "l4sbench bundle"), " packs it for another machine); the "
      + "result goes into the folder ", el("code", {}, "again"), " beside that of all runs:"),
    copyable(cell.rerun, "Command")];
}

/** `[node, [[field, ...], ...]]` of every node, from the texts that many trials share but for long numbers. */
function linesOf(places, texts) {
  return places.map(([node, place, ...numbers]) => {
    const text = texts[place].replace(NUMBER, () => numbers.shift());
    return [node, text.split(LINE).map((line) => line.split(FIELD))];
  });
}

function whatRan(trial) {
  const programs = linesOf(trial.programs, data().programs), hosts = linesOf(trial.hosts, data().hosts);
  const chosen = (test) => programs.flatMap(([node, steps]) =>
    steps.filter(([phase, command]) => phase !== "readback" && test(command)).map(([, command]) => `${node.padEnd(12)} ${command}`));
  const queues = chosen((command) => command.startsWith("tc "));
  const settings = chosen((command) => /^(sysctl|modprobe) /.test(command));
  const found = [el("h3", {}, `What ran in trial ${trial.trial}`)];
  if (!programs.length) return [...found, el("p", {}, "The tables have no program of this trial.")];
  if (queues.length) found.push(el("h4", {}, "Queues and delays"), listing(queues));
  if (settings.length) found.push(part("Sysctls and modules as set", listing(settings)));
  found.push(kernels(trial, hosts));
  for (const [node, steps] of programs) {
    found.push(part(`Program of ${node}: ${plural(steps.length, "step")}`,
      listing(steps.map(([phase, command]) => `${phase.padEnd(9)} ${command}`))));
  }
  for (const [node, rows] of hosts) {
    found.push(part(`Read back from ${node}: ${plural(rows.length, "value")}`,
      listing(rows.map(([kind, name, value]) => `${kind.padEnd(10)} ${name} = ${value}`))));
  }
  return found;
}

const listing = (lines) => el("pre", { tabindex: "0" }, el("code", {}, lines.join("\n")));
const part = (title, ...content) => el("details", {}, el("summary", {}, title), ...content);

function kernels(trial, hosts) {
  const rows = hosts.map(([node, facts]) => {
    const of = (kind) => facts.filter(([own]) => own === kind);
    return el("tr", {}, el("th", { scope: "row" }, node),
      el("td", {}, of("kernel").map(([, , value]) => value).join(", ") || "–"),
      el("td", {}, of("module").map(([, name, value]) => `${name} ${value}`).join(", ") || "–"),
      el("td", { class: "wide" }, of("qdisc").map(([, name, value]) => el("div", {}, el("code", {}, `${name} ${value}`)))));
  });
  if (!rows.length) return el("p", {}, `Kernels: ${trial.kernels ?? "not known"}; modules: ${trial.modules ?? "none"}`);
  return el("div", {}, el("h4", {}, "Kernels, modules, and queues as read back"),
    scrolling("Kernels, modules and queues", el("table", { class: "plain hosts" },
      headOf([["Node"], ["Kernel"], ["Modules (srcversion)"], ["Queues"]]), el("tbody", {}, rows))));
}

function factorList(cell) {
  const line = ([name, value]) => `${name} = ${value}`;
  return [el("h3", {}, "Factors"),
    el("p", {}, "Those that differ within the run:"), listing(Object.entries(cell.factors).map(line)),
    part("Those that all its cells share", listing(Object.entries(data().fixed).map(line)))];
}
