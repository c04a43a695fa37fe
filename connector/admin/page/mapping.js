// One mapping: its line in the list, and what the line opens.

import { bytes, clock, count, el, fill, many, meter, percent, quoted, rate, span, unknown, when } from "./format.js";
import { kinds, plot } from "./hour.js";
import { detail as letterDetail, total } from "./letters.js";
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

// troubles are the causes to wait that are no part of every day, as waiting for a slot is.
const troubles = ["throttled", "unauthorized", "breaker", "retried", "service", "disk", "schemas", "missing_topic", "kafka_refused", "kafka_unreachable"];

// troubled tells whether something is in the way of the mapping, of its table or topics,
// or of a whole lane that it takes.
function troubled(m, status) {
  const named = (w) => (w.mapping ? w.mapping === m.name : w.table ? w.table === m.table : w.topic ? m.topics.includes(w.topic) : true);
  return status.waits.some((w) => troubles.includes(w.cause) && m.lanes.includes(w.lane) && named(w));
}

// stateOf is the mapping in one word, the gravest first.
export function stateOf(m, lanes, holder, status) {
  if (m.halted?.length) return { grave: "halted", mark: "■", word: "halted", tone: "bad" };
  if (m.paused?.length) return { grave: "care", mark: "‖", word: "paused", tone: "warn" };
  if (m.batch?.kept?.length) return { grave: "care", mark: "▲", word: "files kept", tone: "warn" };
  if (m.day?.owned && m.day.left === 0) return { grave: "care", mark: "▲", word: "no slot left", tone: "warn" };
  if (!lanes.some((l) => l.partitions > 0)) return holder ? { mark: "○", word: "at " + holder.name, tone: "quiet" } : { mark: "○", word: "not here", tone: "quiet" };
  if (troubled(m, status)) return { grave: "waits", mark: "▲", word: "waiting", tone: "warn" };
  return { mark: "●", word: "running", tone: "good" };
}

// oldest is how old the oldest record is that is not confirmed, in words; undefined: none waits.
function oldest(m) {
  const waits = Object.entries(m.oldestUnconfirmedSeconds).filter(([, seconds]) => seconds > 0);
  if (waits.length === 0) return undefined;
  return "oldest unconfirmed " + waits.map(([lane, seconds]) => span(seconds) + (m.lanes.length > 1 ? ` (${lane})` : "")).join(", ");
}

// kept is how an objective was kept in the last hour, in words.
const kept = (o) => (o.kept === undefined ? "none yet" : `kept ${percent(o.kept)}`);

const within = (o) => `${/^\d/.test(o.route) ? "route " : ""}${o.route} within ${o.withinSeconds < 1 ? `${o.withinSeconds * 1000} ms` : span(o.withinSeconds)}`;

const missed = (o) => o.kept !== undefined && o.kept < o.objective;

// objectives are how fresh the records of the mapping's routes are to be, and were.
const objectives = (m) => (m.objectives ?? []).map((o) => el("small", {}, `${within(o)}: `, el("span", missed(o) ? { class: "warn" } : {}, kept(o))));

// waits are what a mapping's import on its way waits for, in words.
function waits(m, status) {
  if (!m.batch?.import) return undefined; // fileWaits tells of the open file
  const words = status.waits.filter((w) => w.mapping === m.name).map((w) => w.why + (w.until ? `, until ${when(w.until, status.at, m.day?.zone)}` : ""));
  return words.length === 0 ? undefined : words.join("; ");
}

// fileWaits is what a file waits for that is complete and has not gone, in words;
// undefined: there is none.
export function fileWaits(m, status) {
  if (!m.batch?.due) return undefined;
  const of = (cause) => status.waits.find((w) => w.lane === "batch" && w.cause === cause && (!w.mapping || w.mapping === m.name));
  const paused = m.paused?.find((p) => p.lane === "batch");
  const imp = m.batch.import;
  if (m.halted?.length) return "waits until the mapping is released";
  if (paused) return "waits until the mapping is resumed" + (paused.until ? `, or ${when(paused.until, status.at)}` : "");
  if (imp) return `waits for the import before it: ${imp.step}`;
  if (of("disk")) return "waits for room on the spool's disk";
  if (of("slot")) return "waits for a slot" + (of("slot").until ? `: ${when(of("slot").until, status.at, m.day?.zone)}` : "");
  if (of("throttled")) return "waits until the service wants requests again" + (of("throttled").until ? `: ${clock(of("throttled").until, undefined, true)}` : "");
  return m.bundle ? "goes out with its bundle" : "goes out now";
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

const share = (have, most) => (most ? have / most : 0); // 0: there is no such limit

function openFile(m, status, holder) {
  if (!m.batch) return cell("Open file", el("span", { class: "quiet" }, unknown));
  const { batch, roll } = m;
  if (!batch.opened) return cell("Open file", el("span", { class: "quiet" }, "empty"));
  const age = (Date.parse(status.at) - Date.parse(batch.opened)) / 1000;
  const waiting = holder ? batch.due && "complete" : fileWaits(m, status);
  const fullest = Math.max(share(batch.rows, roll.rows), share(batch.bytes, roll.bytes), share(age, roll.seconds));
  return cell("Open file", meter(Math.min(1, fullest) * 0.899),
    many(batch.rows, "row"), el("small", {}, span(age) + " old"), waiting ? el("small", { class: "text" }, waiting) : undefined);
}

function slots(m, at, known) {
  if (!m.day) return cell("Slots today", el("span", { class: "quiet" }, unknown));
  if (!m.day.owned) return cell("Slots today", el("span", { class: "quiet" }, known ? "no member has it" : "another member's"));
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
    this.parts = ["halts", "pauses", "elsewhere", "lanes", "objectives", "hour", "file", "import", "day", "results", "letters"].map((part) => el("section", ["halts", "pauses", "elsewhere", "hour", "day", "results", "letters"].includes(part) ? { class: "wide" } : {}));
    this.details = el("details", {}, this.summary, el("div", { class: "detail" }, ...this.parts));
    this.item = el("li", { id: "mapping-" + name }, this.details);
    this.details.addEventListener("toggle", () => this.open());
  }

  // update shows the mapping as it is now, what is closed only when it opens.
  update(m, status, rates, hour, members) {
    const lanes = lanesOf(m, status, rates);
    const letters = lettersOf(m, status);
    const holder = m.day && !m.day.owned ? members.holder(m.name) : undefined;
    const file = holder ? { ...holder.mapping, paused: m.paused } : m; // whose table it is knows its files
    const state = stateOf(m, lanes, holder, status);
    this.now = [m, status, lanes, letters, hour, holder, members, file];
    this.state = state;
    this.text = [m.name, m.table, ...m.topics, m.bundle ?? ""].join(" ").toLowerCase();
    this.item.className = state.grave ?? "";
    const dead = total(letters);
    const waiting = waits(m, status);
    fill(this.summary, [m, status.at, lanes, dead, waiting, holder, members.known], () => [
      el("span", { class: "name" }, el("b", {}, m.name), " ", el("span", { class: state.tone }, el("span", { "aria-hidden": "true" }, state.mark + " "), state.word),
        el("small", {}, `${m.topics.join(", ")} → ${m.table}`), oldest(m) && el("small", {}, oldest(m)), ...objectives(m), holder && el("small", { class: "text" }, "its file and imports are at " + holder.name), waiting && el("small", { class: "text" }, waiting)),
      lines(lanes), openFile(file, status, holder), slots(file, status.at, members.known), importNow(file, status.at),
      el("span", { class: "cell n" }, el("span", { class: "label" }, "Dead letters"), unseen("dead letters "), el("span", dead ? { class: "warn" } : { class: "quiet" }, count(dead))),
    ]);
    this.open();
  }

  open() {
    if (!this.details.open || !this.now) return;
    const [m, status, lanes, letters, hour, holder, members, file] = this.now;
    const { at } = status;
    const [halts, pauses, elsewhere, lanePart, objectivePart, hourPart, filePart, imp, day, done, dead] = this.parts;
    const show = (part, there, facts, build) => {
      part.hidden = !there;
      if (there) fill(part, facts, build);
    };
    show(halts, m.halted?.length, [m.halted, m.release], () => [el("h3", {}, "Halted"), ...haltWords(m)]);
    show(pauses, m.paused?.length, m.paused, () => [el("h3", {}, "Paused"), ...pauseWords(m)]);
    show(elsewhere, m.day && !m.day.owned, [holder?.name, holder?.address, members.known, members.silent()], () => elsewhereWords(holder, members));
    show(lanePart, true, lanes, () => laneDetail(lanes));
    show(objectivePart, m.objectives, m.objectives, () => objectiveDetail(m));
    show(hourPart, true, [hour.mapping(m.name), hour.shown.to], () => hourDetail(m, hour));
    show(filePart, file.batch, [file, fileWaits(file, status), at], () => fileDetail(file, status, holder));
    show(imp, file.batch?.import, [file.batch?.import, at, holder?.address], () => importDetail(file, at, holder));
    show(day, file.day?.owned, [file.day, file.batch?.import, at], () => timeline(file, at));
    show(done, file.day?.owned, file.day, () => results(file));
    show(dead, true, letters, () => letterDetail(m, letters));
  }
}

// elsewhereWords say which member has the mapping's table.
function elsewhereWords(holder, members) {
  const silent = members.silent().map((o) => el("p", { class: "warn" }, `The member at ${o.address} could not be asked: ${o.error}`));
  if (holder) return [el("h3", {}, "Table"), el("p", {}, `The member ${holder.name} (${holder.address}) has this table: open file, slots and import are its.`), ...silent];
  if (members.known) return [el("h3", {}, "Table"), el("p", {}, "No member that could be asked has this table: its partitions are being handed over, or their member is silent."), ...silent];
  return [el("h3", {}, "Table"), el("p", {}, "Another member has this table, or none has it yet; its slots and file are on that member's page. With admin.webhook.members, all members' tables are shown here.")];
}

// objectiveDetail is the mapping's objectives beside the last hour.
function objectiveDetail(m) {
  return [el("h3", {}, "Objectives, and the last hour of this process"),
    el("dl", {}, ...m.objectives.flatMap((o) => [el("dt", {}, `${within(o)}, ${o.lane}`),
      el("dd", missed(o) ? { class: "warn" } : {}, `${kept(o)}${o.records ? ` of ${many(o.records, "record")}` : ""}, objective ${percent(o.objective)}`)]))];
}

// hourDetail is the mapping's last hour, by lane.
function hourDetail(m, hour) {
  const cells = m.lanes.flatMap((lane) => Object.entries(kinds).map(([kind, { title, form }]) => {
    const points = hour.mapping(m.name)?.[lane]?.[kind];
    const drawn = plot(kind, points, hour.shown);
    return drawn && el("div", {}, el("span", { class: "quiet" }, `${title}, ${lane}`), el("b", {}, form(points.at(-1))), drawn);
  })).filter(Boolean);
  if (cells.length === 0) return [el("h3", {}, "The last hour"), el("p", { class: "quiet" }, "A point is taken every 30 seconds; there are not two yet.")];
  return [el("h3", {}, "The last hour of this process"), el("div", { class: "plots" }, ...cells)];
}

// haltWords are why a mapping is halted, at most so many reasons of it, and what
// to do about it.
export function haltWords(m, most = m.halted.length, server = location.origin) {
  const words = m.halted.slice(0, most).map((reason) => el("p", {}, reason));
  if (m.halted.length > most) words.push(el("p", { class: "quiet" }, `… and ${many(m.halted.length - most, "more reason")}, shown with the mapping`));
  if (m.release) {
    words.push(el("p", {}, `Once the cause is gone, this lets it go on${m.bundle ? `, for all of bundle ${m.bundle}` : ""}: `,
      el("code", { class: "command" }, `${m.release} --server ${server}`)));
  }
  return words;
}

// pauseWords are in which lanes a person has paused a mapping, why, and what ends that.
export function pauseWords(m) {
  const words = m.paused.map((p) => el("p", {},
    `Since ${clock(p.at, undefined, true)}, in the ${p.lane} lane${p.until ? `, until ${clock(p.until, undefined, true)} on ${new Date(p.until).toLocaleDateString("en-GB")}` : ""}${p.reason ? ": " + p.reason : ""}`));
  return [...words, el("p", {}, "This lets it go on: ", el("code", { class: "command" }, `feedsink resume --mapping ${m.name} --server ${location.origin}`))];
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

function fileDetail(m, status, holder) {
  const { at } = status;
  const { batch, roll } = m;
  const waiting = holder ? undefined : fileWaits(m, status);
  const age = batch.opened ? (Date.parse(at) - Date.parse(batch.opened)) / 1000 : 0;
  const of = (title, have, most, form) => [el("dt", {}, title),
    el("dd", {}, most ? `${form(have)} of ${form(most)}` : form(have), meter(0.899 * Math.min(1, share(have, most))))];
  return [
    el("h3", {}, m.bundle ? "Open file: the bundle's are complete, added up, at the first of" : "Open file: complete at the first of"),
    el("dl", {}, ...of("Rows", batch.rows, roll.rows, count), ...of("Size", batch.bytes, roll.bytes, bytes), ...of("Age", age, roll.seconds, span),
      ...(roll.at ? [el("dt", {}, "Times of day"), el("dd", {}, roll.at.join(", "))] : []),
      ...(batch.full ? [el("dt", {}, "Before it, as large as a file may be"), el("dd", {}, many(batch.full, "file"))] : []),
      ...(waiting ? [el("dt", {}, "Complete"), el("dd", { class: "warn" }, waiting)] : m.due ? [el("dt", {}, "Goes out"), el("dd", {}, `${Date.parse(m.due) > Date.parse(at) ? "in " + span((Date.parse(m.due) - Date.parse(at)) / 1000) : "now"}, or once it is full`)] : []),
      ...(batch.kept?.length ? [el("dt", {}, "Kept to look at"), el("dd", {}, batch.kept.join(", "))] : [])),
  ];
}

function importDetail(m, at, holder) {
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
    el("dl", {}, ...Object.entries(facts).filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, String(v))])),
    el("p", {}, "All that is known of it: ", el("code", { class: "command" }, `feedsink imports show --mapping ${quoted(m.name)} --server ${holder ? "http://" + holder.address : location.origin}`))];
}
