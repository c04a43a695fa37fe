// The day of a table as a strip: when its slots were used, and what became of
// the imports.

import { clock, count, el, many, quoted, span } from "./format.js";

const width = 1000;

function mark(kind, from, to, day, top, height) {
  const [begins, ends] = [Date.parse(day.begins), Date.parse(day.ends)];
  const x = ((from - begins) / (ends - begins)) * width;
  const w = Math.max(((to - from) / (ends - begins)) * width, kind === "now" ? 2 : 5);
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const place = { class: kind, x: Math.min(Math.max(0, x), width - 2).toFixed(1), y: top, width: w.toFixed(1), height };
  for (const [name, value] of Object.entries(place)) rect.setAttribute(name, value);
  return rect;
}

// running is the import on its way, once it takes a slot.
const before = ["sealing", "waiting for a slot", "waiting for its parents", "recording the intent", "paused", "halted"];
export const running = (m) => (m.batch?.import && !before.includes(m.batch.import.step) ? m.batch.import : undefined);

export function strip(m, at, large) {
  const day = m.day;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", large ? "day large" : "day");
  svg.setAttribute("viewBox", `0 0 ${width} 12`);
  svg.setAttribute("preserveAspectRatio", "none");
  if (large) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", words(m));
  } else {
    svg.setAttribute("aria-hidden", "true");
  }
  for (const used of day.used) {
    const t = Date.parse(used.at);
    svg.append(mark("used", t, t, day, 8, 4));
  }
  for (const i of day.imports) svg.append(mark(i.status, Date.parse(i.began), Date.parse(i.ended), day, 1, 6));
  const now = Date.parse(at);
  if (running(m)) svg.append(mark("running", Date.parse(running(m).since), now, day, 1, 6));
  svg.append(mark("now", now, now, day, 0, 12));
  return svg;
}

// words say what the strip shows.
export function words(m) {
  const { day } = m;
  if (!day.owned) return "Another member has this table, or none yet: its slots are not known here.";
  const used = day.perDay - day.left;
  const failed = day.imports.filter((i) => i.status === "FAILED").length;
  return `${count(used)} of ${many(day.perDay, "slot")} used today (${day.zone}), ${day.reserve} of the rest kept for further tries` +
    (failed ? `; ${many(failed, "import")} failed` : "") +
    (day.next ? `; the next new import may go at ${clock(day.next, day.zone)}` : "") + ".";
}

const key = (kind, text) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 9 9");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ class: kind, width: 9, height: 9 })) rect.setAttribute(name, value);
  svg.append(rect);
  return el("span", {}, svg, text);
};

export function timeline(m, at) {
  const { day } = m;
  const hours = [0, 0.25, 0.5, 0.75, 1].map((share) => Date.parse(day.begins) + share * (Date.parse(day.ends) - Date.parse(day.begins)));
  return [
    el("h3", {}, "Slots today"),
    strip(m, at, true),
    el("div", { class: "hours", "aria-hidden": "true" }, ...hours.map((t) => el("span", {}, clock(t, day.zone)))),
    el("p", {}, words(m)),
    el("p", { class: "legend", "aria-hidden": "true" }, key("used", "slot used"), key("FINISHED", "import finished"), key("FAILED", "failed"), key("running", "on its way"), key("now", "now")),
  ];
}

// results is the list of the day's latest imports.
export function results(m) {
  const { day } = m;
  const latest = day.imports.slice(-8).reverse();
  if (latest.length === 0) return [el("h3", {}, "Results today"), el("p", { class: "quiet" }, "This process has seen no import end today.")];
  const rows = latest.map((i) => el("tr", {},
    el("td", {}, clock(i.ended, day.zone)),
    el("td", { class: "why" }, el("span", { class: i.status === "FAILED" ? "bad" : "good" }, i.status), el("small", {}, ...i.mode.split(/(?<=_)/).flatMap((part, n) => (n ? [el("wbr"), part] : [part])))),
    el("td", { class: "n" }, count(i.rows)),
    el("td", { class: i.inError ? "n warn" : "n" }, count(i.inError)),
    el("td", { class: "n" }, span((Date.parse(i.ended) - Date.parse(i.began)) / 1000))));
  const head = el("tr", {}, ...["Ended", "Status"].map((t) => el("th", { scope: "col" }, t)),
    ...["Rows", "In error", "Took"].map((t) => el("th", { scope: "col", class: "n" }, t)));
  return [
    el("h3", {}, latest.length < day.imports.length ? `Results today, the latest ${latest.length}` : "Results today"),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Results of ${m.name} today` }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))),
    files(latest.find((i) => i.inError && i.execution)?.execution),
  ].filter(Boolean);
}

// files says how to fetch the output files of the latest import with rows in error; they hold customers' data, and are not shown here.
const files = (execution) => execution && el("p", {}, "Which rows are in error, where the ETL writes output files: ",
  el("code", { class: "command" }, `feedsink imports files -c feedsink.yaml ${quoted(execution)}`));
