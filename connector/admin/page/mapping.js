// One mapping: its line in the list, and what the line opens.

import { bytes, clock, count, el, fill, many, meter, rate, span, unknown } from "./format.js";
import { results, strip, timeline } from "./day.js";

// lanesOf is the mapping's part in each lane it has: its topics' partitions.
export function lanesOf(m, status, rates) {
  return m.lanes.map((name) => {
    const lane = status.lanes.find((l) => l.lane === name);
    const parts = lane ? lane.partitions.filter((p) => m.topics.includes(p.topic)) : [];
    const sum = (of) => parts.reduce((n, p) => n + (of(p) ?? 0), 0);
    return {
      name, runs: lane !== undefined, group: lane?.group, partitions: parts.length,
      lag: parts.length > 0 && parts.every((p) => p.lag >= 0) ? sum((p) => p.lag) : undefined,
      rate: rates.of(name, m.topics),
      waiting: sum((p) => p.pending) + sum((p) => p.buffered) + sum((p) => p.importing),
      pending: sum((p) => p.pending), buffered: sum((p) => p.buffered), importing: sum((p) => p.importing),
    };
  });
}

export const lettersOf = (m, status) => status.deadLetters.filter((d) => d.mapping === m.name || (!d.mapping && m.topics.includes(d.topic)));

// stateOf is the mapping in one word, the gravest first.
export function stateOf(m, lanes) {
  if (m.halted?.length) return { grave: "halted", mark: "■", word: "halted", tone: "bad" };
  if (m.batch?.kept?.length) return { grave: "care", mark: "▲", word: "files kept", tone: "warn" };
  if (m.day?.owned && m.day.left === 0) return { grave: "care", mark: "▲", word: "no slot left", tone: "warn" };
  if (!lanes.some((l) => l.partitions > 0)) return { mark: "○", word: "not here", tone: "quiet" };
  return { mark: "●", word: "running", tone: "good" };
}

const cell = (title, ...content) => el("span", { class: "cell" }, el("span", { class: "label" }, title), ...content);

const unseen = (text) => el("span", { class: "unseen" }, text);

function lines(lanes) {
  const head = el("span", { class: "lines label", "aria-hidden": "true" }, el("span", {}, "Lane"), ...["Lag", "Confirmed", "Waiting"].map((t) => el("span", { class: "n" }, t)));
  return el("span", { class: "lines-cell" }, head,
    ...lanes.map((l) => el("span", { class: "lines" },
      el("span", { class: "quiet" }, l.name),
      el("span", { class: "n" }, unseen("lag "), l.partitions ? count(l.lag) : unknown),
      el("span", { class: "n" }, unseen("confirmed "), l.partitions ? rate(l.rate) : unknown),
      el("span", { class: "n" }, unseen("waiting "), l.partitions ? count(l.waiting) : unknown))));
}

function openFile(m, at) {
  if (!m.batch) return cell("Open file", el("span", { class: "quiet" }, unknown));
  const { batch, roll } = m;
  if (!batch.opened) return cell("Open file", el("span", { class: "quiet" }, "empty"));
  const age = (Date.parse(at) - Date.parse(batch.opened)) / 1000;
  return cell("Open file", meter(Math.max(batch.rows / roll.rows, batch.bytes / roll.bytes, age / roll.seconds) * 0.899),
    many(batch.rows, "row"), el("small", {}, span(age) + " old"));
}

function slots(m, at) {
  if (!m.day) return cell("Slots today", el("span", { class: "quiet" }, unknown));
  if (!m.day.owned) return cell("Slots today", el("span", { class: "quiet" }, "not known here"));
  return cell("Slots today", strip(m, at, false),
    el("span", m.day.left === 0 ? { class: "warn" } : {}, `${count(m.day.left)} of ${count(m.day.perDay)} left`));
}

function importNow(m, at) {
  const imp = m.batch?.import;
  if (!imp) return cell("Import", el("span", { class: "quiet" }, m.batch ? "none" : unknown));
  return cell("Import", imp.step, el("small", {}, "for " + span((Date.parse(at) - Date.parse(imp.since)) / 1000)));
}

// Row is a mapping's place in the list. It stays while the mapping does.
export class Row {
  constructor(name) {
    this.summary = el("summary");
    this.parts = ["halts", "lanes", "file", "import", "day", "results", "letters"].map((part) => el("section", part === "halts" || part === "day" ? { class: "wide" } : {}));
    this.details = el("details", {}, this.summary, el("div", { class: "detail" }, ...this.parts));
    this.item = el("li", { id: "mapping-" + name }, this.details);
    this.details.addEventListener("toggle", () => this.open());
  }

  // update shows the mapping as it is now, what is closed only when it opens.
  update(m, status, rates) {
    const lanes = lanesOf(m, status, rates);
    const letters = lettersOf(m, status);
    const state = stateOf(m, lanes);
    this.now = [m, status.at, lanes, letters];
    this.state = state;
    this.text = [m.name, m.table, ...m.topics, m.bundle ?? ""].join(" ").toLowerCase();
    this.item.className = state.grave ?? "";
    const dead = letters.reduce((n, d) => n + d.count, 0);
    fill(this.summary, [m, status.at, lanes, dead], () => [
      el("span", { class: "name" }, el("b", {}, m.name), " ", el("span", { class: state.tone }, el("span", { "aria-hidden": "true" }, state.mark + " "), state.word),
        el("small", {}, `${m.topics.join(", ")} → ${m.table}`)),
      lines(lanes), openFile(m, status.at), slots(m, status.at), importNow(m, status.at),
      el("span", { class: "cell n" }, el("span", { class: "label" }, "Dead letters"), unseen("dead letters "), el("span", dead ? { class: "warn" } : { class: "quiet" }, count(dead))),
    ]);
    this.open();
  }

  open() {
    if (!this.details.open || !this.now) return;
    const [m, at, lanes, letters] = this.now;
    const [halts, lanePart, file, imp, day, done, dead] = this.parts;
    const show = (part, there, facts, build) => {
      part.hidden = !there;
      if (there) fill(part, facts, build);
    };
    show(halts, m.halted?.length, [m.halted, m.release], () => [el("h3", {}, "Halted"), ...haltWords(m)]);
    show(lanePart, true, lanes, () => laneDetail(lanes));
    show(file, m.batch, [m.batch, m.roll, at], () => fileDetail(m, at));
    show(imp, m.batch?.import, [m.batch?.import, at], () => importDetail(m, at));
    show(day, m.day, [m.day, m.batch?.import, at], () => timeline(m, at));
    show(done, m.day, m.day, () => results(m));
    show(dead, true, letters, () => letterDetail(m, letters));
  }
}

// haltWords are why a mapping is halted, at most so many reasons of it, and what
// to do about it.
export function haltWords(m, most = m.halted.length) {
  const words = m.halted.slice(0, most).map((reason) => el("p", {}, reason));
  if (m.halted.length > most) words.push(el("p", { class: "quiet" }, `… and ${many(m.halted.length - most, "more reason")}, shown with the mapping`));
  if (m.release) {
    words.push(el("p", {}, `Once the cause is gone, this lets it go on${m.bundle ? `, for all of bundle ${m.bundle}` : ""}: `,
      el("code", { class: "command" }, `${m.release} --server ${location.origin}`)));
  }
  return words;
}

function laneDetail(lanes) {
  const head = el("tr", {}, el("th", { scope: "col" }, "Lane"), ...["Partitions", "Calling", "In the file", "Importing"].map((t) => el("th", { scope: "col", class: "n" }, t)));
  const rows = lanes.map((l) => el("tr", {}, el("th", { scope: "row" }, l.name),
    ...[l.runs ? count(l.partitions) : "not run here",
      l.name === "immediate" ? count(l.pending) : unknown,
      l.name === "batch" ? count(l.buffered) : unknown,
      l.name === "batch" ? count(l.importing) : unknown].map((t) => el("td", { class: "n" }, t))));
  return [
    el("h3", {}, "Lanes, of the partitions that this process has"),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Lanes" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))),
  ];
}

function fileDetail(m, at) {
  const { batch, roll } = m;
  const age = batch.opened ? (Date.parse(at) - Date.parse(batch.opened)) / 1000 : 0;
  const of = (title, have, most, form) => [el("dt", {}, title), el("dd", {}, `${form(have)} of ${form(most)}`, meter(0.899 * Math.min(1, have / most)))];
  return [
    el("h3", {}, m.bundle ? "Open file: the bundle's are complete, added up, at the first of" : "Open file: complete at the first of"),
    el("dl", {}, ...of("Rows", batch.rows, roll.rows, count), ...of("Size", batch.bytes, roll.bytes, bytes), ...of("Age", age, roll.seconds, span),
      ...(batch.kept?.length ? [el("dt", {}, "Kept to look at"), el("dd", {}, batch.kept.join(", "))] : [])),
  ];
}

function importDetail(m, at) {
  const i = m.batch.import;
  const facts = {
    Step: `${i.step}, for ${span((Date.parse(at) - Date.parse(i.since)) / 1000)}`,
    Bundle: i.bundle,
    File: i.file && (i.parts > 1 ? `${i.file} (${i.part} of ${i.parts})` : i.file),
    Rows: i.rows === undefined ? undefined : `${count(i.rows)}, ${bytes(i.bytes ?? 0)}`,
    Mode: i.mode && `${i.mode}, ETL ${i.etl}`,
    Attempt: i.attempt, Execution: i.execution, "Waits for": i.waitsFor,
  };
  return [el("h3", {}, "Import on its way"),
    el("dl", {}, ...Object.entries(facts).filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, String(v))]))];
}

function letterDetail(m, letters) {
  if (letters.length === 0) return [el("h3", {}, "Dead letters"), el("p", { class: "quiet" }, "None since this process began.")];
  return [el("h3", {}, "Dead letters since this process began"),
    el("dl", {}, ...letters.flatMap((d) => [
      el("dt", {}, d.reason),
      el("dd", {}, `${count(d.count)}${d.mapping ? "" : ", not decodable"}; latest: `,
        ...d.latest.flatMap((c, n) => [n ? ", " : "", el("code", {}, d.topic ? `${d.topic}[${c.partition}]@${c.offset}` : "a row that matches no record")]), ` at ${clock(d.latest[0].at, undefined, true)}`),
    ]))];
}
