/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The l4sbench authors */
/* The path of a cell's flows: senders, what delays, the queue at the bottleneck, receivers. */

const NARROW = "(max-width: 44rem)";
const SHORTEST = 10;

/** A box with a title and a line below it, both cut to its width. */
function box({ x, y, w, h = 46, title, below = "", kind = "" }) {
  const room = (text, per) => { const most = Math.max(SHORTEST, Math.floor((w - 18) / per)); return text.length > most ? `${text.slice(0, most - 1)}…` : text; };
  return el("g", { class: `box ${kind}` },
    el("title", {}, [title, below].filter(Boolean).join(": ")),
    el("rect", { x, y, width: w, height: h, rx: 6 }),
    kind && kind !== "queue" ? el("rect", { class: "edge", x, y, width: 5, height: h, rx: 2 }) : null,
    el("text", { x: x + 13, y: y + (below ? 20 : 28) }, room(title, 7.6)),
    below ? el("text", { class: "below", x: x + 13, y: y + 37 }, room(below, 6.3)) : null);
}

const wire = (x1, y1, x2, y2, kind = "") => el("path", { class: `wire ${kind}`, d: x1 === x2 || y1 === y2 ? `M${x1} ${y1}L${x2} ${y2}` : Math.abs(x2 - x1) > Math.abs(y2 - y1) ? `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}` : `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}` });

/** Drawn across, and on a phone downwards. */
function pathOf(cell) {
  const { flows, rtt, disturbed, rate, queue, held } = cell.path ?? {};
  if (!flows) return [];
  const kinds = data().groups, kindOf = (group) => (kinds.indexOf(group) === 0 ? "l4s" : kinds.indexOf(group) === 1 ? "classic" : "other");
  const senders = [...flows].sort(([a], [b]) => rank(a) - rank(b)).map(([group, title, below]) => ({ kind: kindOf(group), title, below }));
  const delay = { title: rtt ? `RTT ${rtt}` : "delay", below: disturbed };
  const bottleneck = { title: queue || "queue", below: held, kind: "queue" };
  const down = matchMedia(NARROW).matches;
  const words = `Path: ${flows.map(([, title, below]) => `${title} (${below})`).join(" and ")}, ${delay.title}, then ${bottleneck.title}${held ? ` (${held})` : ""} at ${rate}`;
  const drawing = down ? downwards(senders, delay, bottleneck, rate) : across(senders, delay, bottleneck, rate);
  return [el("figure", { class: "path" },
    el("svg", { viewBox: `0 0 ${drawing.width} ${drawing.height}`, role: "img", "aria-label": words }, drawing.shapes))];
}

function across(senders, delay, bottleneck, rate) {
  const step = 56, height = Math.max(1, senders.length) * step + 8, middle = height / 2;
  const shapes = senders.flatMap((own, at) => {
    const y = 4 + at * step;
    return [wire(200, y + 23, 250, middle, own.kind), wire(760, middle, 810, y + 23, own.kind), box({ ...own, x: 4, y, w: 196 }), box({ x: 810, y, w: 106, title: "receiver", kind: own.kind })];
  });
  return { width: 920, height, shapes: [...shapes, wire(380, middle, 440, middle), wire(640, middle, 760, middle),
    box({ ...delay, x: 250, y: middle - 23, w: 130 }), box({ ...bottleneck, x: 440, y: middle - 23, w: 210 }),
    el("text", { class: "rate", x: 706, y: middle - 8, "text-anchor": "middle" }, rate)] };
}

function downwards(senders, delay, bottleneck, rate) {
  const rows = Math.ceil(senders.length / 2), top = 4 + rows * 54, shapes = [];
  senders.forEach((own, at) => {
    const x = at % 2 ? 176 : 4, y = 4 + Math.floor(at / 2) * 54, w = 160;
    shapes.push(wire(x + w / 2, y + 46, 170, top + 18, own.kind), wire(170, top + 158, x + w / 2, top + 196, own.kind), box({ ...own, x, y, w }));
    if (at < 2) shapes.push(box({ x, y: top + 196, w, h: 40, title: "receiver", kind: own.kind }));
  });
  return { width: 340, height: top + 240, shapes: [...shapes, wire(170, top + 64, 170, top + 84), wire(170, top + 130, 170, top + 158),
    box({ ...delay, x: 60, y: top + 18, w: 220 }), box({ ...bottleneck, x: 60, y: top + 84, w: 220 }),
    el("text", { class: "rate", x: 182, y: top + 150 }, rate)] };
}
