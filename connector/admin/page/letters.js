// Dead letters: how many records went to the dead-letter topic, why, and how to look at
// them. Of what they say nothing is shown.

import { clock, count, el, quoted } from "./format.js";

// reasons are the codes of the dead letters' headers, in words.
const reasons = {
  decode: "the record cannot be decoded",
  value: "a value does not fit its field",
  no_id: "a profile's patch or delete without the service's id",
  conflict: "the service answers 409: keys of different rows",
  not_found: "the service has no such row",
  rejected: "the service refuses the call",
  import_row: "the import put the row in error",
};

// where are the records that became letters last; of rows that match no record that is not known.
const where = (d) => (d.topic ? d.latest.map((c) => `${d.topic}[${c.partition}]@${c.offset}`) : []);

// latest is when the last letter of a kind came.
const latest = (d) => clock(d.latest[0].at, undefined, true);

export const total = (letters) => letters.reduce((n, d) => n + d.count, 0);

// ask says how to ask where a row's records are: that of the latest letter, if there is one. No key is shown.
const ask = (m, letters) => {
  const place = letters.flatMap(where)[0];
  return el("p", {}, place ? "Where the latest letter's record and the others of its key are: " : "Where the records of a key are: ",
    el("code", { class: "command" }, `feedsink why -c feedsink.yaml --mapping ${quoted(m.name)} ${place ? "--record " + quoted(place) : "KEY"}`));
};

// list is a command that lists letters.
function list(d, mapping) {
  const of = mapping ? ` --mapping ${quoted(mapping)}` : d?.topic ? ` --topic ${quoted(d.topic)}` : "";
  return `feedsink dlq list -c feedsink.yaml${of}${d ? " --reason " + d.reason : ""}`;
}

const table = (label, head, rows) => el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
  el("table", {}, el("thead", {}, el("tr", {}, ...head.map(([t, kind]) => el("th", { scope: "col", class: kind }, t)))), el("tbody", {}, ...rows)));

const why = (d) => el("td", { class: "why" }, el("code", {}, d.reason), el("small", {}, d.topic ? reasons[d.reason] ?? "" : "rows in error that match no record"));

const advice = (command) => el("p", {}, "To look at them, where the configuration is: ", el("code", { class: "command" }, command));

// overview are the kinds of letters of the whole process, the most frequent first.
export function overview(letters, most = 8) {
  const rows = letters.slice(0, most).map((d) => el("tr", {},
    el("td", { class: "why" }, d.mapping ?? `not decoded, of ${d.topic}`), why(d),
    el("td", { class: "n warn" }, count(d.count)), el("td", { class: "n" }, latest(d))));
  return [
    el("h2", { id: "letters-title" }, "Dead letters ", el("span", { class: "quiet" }, `${count(total(letters))} since this process began`)),
    table("Dead letters", [["Mapping"], ["Reason"], ["Records", "n"], ["Last", "n"]], rows),
    letters.length > most && el("p", { class: "quiet" }, `… and ${count(letters.length - most)} more kinds, shown with their mappings`),
    advice("feedsink dlq list -c feedsink.yaml --by mapping,reason"),
  ].filter(Boolean);
}

// detail are those of one mapping, with where they came from.
export function detail(m, letters) {
  if (letters.length === 0) return [el("h3", {}, "Dead letters"), el("p", { class: "quiet" }, "None since this process began."), ask(m, letters)];
  const rows = letters.flatMap((d) => [
    el("tr", {}, why(d), el("td", { class: "n warn" }, count(d.count)), el("td", { class: "n" }, latest(d))),
    d.topic && el("tr", {}, el("td", { colspan: "3", class: "from" }, "latest from ", ...where(d).flatMap((text, n) => [n ? ", " : "", el("code", {}, text)]))),
  ]).filter(Boolean);
  const own = letters.filter((d) => d.mapping);
  return [
    el("h3", {}, "Dead letters since this process began"),
    table(`Dead letters of ${m.name}`, [["Reason"], ["Records", "n"], ["Last", "n"]], rows),
    advice(own.length ? list(own.length === 1 ? own[0] : undefined, m.name) : list(letters[0])),
    ask(m, letters),
  ];
}
