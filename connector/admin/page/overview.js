// The sink as a whole: how it is, what needs a person, the lanes.

import { bytes, clock, count, el, fill, many, meter, rate, span, unknown } from "./format.js";
import { haltWords } from "./mapping.js";

const callWords = { closed: "closed: calls go out", open: "open: calls for a table pause", "half-open": "half-open: one call for a table is tried" };

// problems are what an operator has to know first: {words, more}.
export function problems(status, rows) {
  const found = [];
  for (const m of status.mappings) {
    if (m.halted?.length) found.push({ grave: true, mapping: m.name, words: "is halted", more: () => haltWords(m, 2), facts: [m.halted, m.release] });
  }
  for (const reason of status.unready ?? []) found.push({ grave: true, words: "Not ready: " + reason });
  for (const lane of status.lanes) {
    for (const w of lane.calls?.waits ?? []) {
      const whose = w.table ? `Calls for table ${w.table}` : "All calls";
      found.push({ grave: true, words: `${whose} wait until ${clock(w.until, undefined, true)}: ${w.why}. Then one is tried. Nothing is lost; records wait.` });
    }
  }
  for (const lane of status.lanes) found.push(...waitsForRoutes(lane));
  const { spool } = status;
  if (spool && spool.bytes >= 0.8 * spool.maxBytes) {
    found.push({ grave: spool.bytes >= spool.maxBytes, words: `The spool holds ${bytes(spool.bytes)} of ${bytes(spool.maxBytes)}; when it is full, the batch lane pauses.` });
  }
  for (const m of status.mappings) {
    const state = rows.get(m.name)?.state;
    if (state?.grave === "care") found.push({ mapping: m.name, words: m.batch?.kept?.length ? "has files in the spool for a person to look at: " + m.batch.kept.join(", ") : "has no slot left today: its file grows until tomorrow" });
  }
  return found;
}

// waitsForRoutes are the partitions of a lane that wait for the other lane, once for
// each topic and reason.
function waitsForRoutes(lane) {
  const waits = new Map();
  for (const p of lane.partitions) {
    if (!p.waiting) continue;
    const key = JSON.stringify([p.topic, p.waiting]);
    waits.set(key, [...(waits.get(key) ?? []), p.partition]);
  }
  return [...waits].map(([key, ids]) => {
    const [topic, why] = JSON.parse(key);
    return { words: `Records of ${topic} (${ids.length === 1 ? "partition" : "partitions"} ${ids.join(", ")}) wait in the ${lane.lane} lane: ${why}. Nothing is lost.` };
  });
}

export function showProblems(list, found, reveal) {
  fill(list, found.map((p) => [p.mapping, p.words, p.grave, p.facts]), () => found.map((p) => {
    const item = el("li", {}, el("span", { class: p.grave ? "bad" : "warn", "aria-hidden": "true" }, p.grave ? "■ " : "▲ "));
    if (p.mapping) {
      const link = el("a", { href: "#mapping-" + encodeURIComponent(p.mapping) }, p.mapping);
      link.addEventListener("click", (event) => {
        event.preventDefault();
        reveal(p.mapping);
      });
      item.append(link, " ");
    }
    item.append(p.words, ...(p.more ? p.more() : []));
    return item;
  }));
}

const tile = (title, ...facts) => el("div", { class: "tile" }, el("h3", {}, title),
  el("dl", {}, ...facts.flatMap(([k, v, tone]) => [el("dt", {}, k), el("dd", tone ? { class: tone } : {}, v)])));

const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);

export function showTiles(tiles, status, rates) {
  const shown = status.lanes.map((l) => {
    const topics = [...new Set(l.partitions.map((p) => p.topic))];
    return { ...l, partitions: l.partitions.length, rate: rates.of(l.lane, topics), topics: topics.length,
      lag: l.partitions.length && l.partitions.every((p) => p.lag >= 0) ? sum(l.partitions, (p) => p.lag) : undefined,
      waiting: sum(l.partitions, (p) => p.pending + (p.buffered ?? 0) + (p.importing ?? 0)) };
  });
  fill(tiles, [shown, status.spool, status.deadLetters, status.token, status.at], () => [
    ...shown.map((l) => tile(`${l.lane === "batch" ? "Batch" : "Immediate"} lane`,
      ["Group", l.group],
      ["Partitions", l.joined ? `${count(l.partitions)} of ${many(l.topics, "topic")}` : "waiting for a place in the group", l.joined ? "" : "warn"],
      ["Lag", count(l.lag)], ["Confirmed", rate(l.rate)], ["Waiting", count(l.waiting)],
      ...(l.calls ? [
        ["Calls in flight", `${count(l.calls.inFlight)} of ${count(l.calls.limit)}`],
        ["Breaker", callWords[l.calls.breaker] ?? l.calls.breaker, l.calls.breaker === "closed" ? "good" : "bad"],
      ] : []))),
    tile("Process",
      ["Running for", span((Date.parse(status.at) - Date.parse(status.started)) / 1000)],
      ["Token of the service", status.token ? "there" : "none yet", status.token ? "good" : "bad"],
      ...(status.spool ? [["Spool", el("span", {}, `${bytes(status.spool.bytes)} of ${bytes(status.spool.maxBytes)}`, meter(status.spool.bytes / status.spool.maxBytes))]] : []),
      ["Dead letters", count(sum(status.deadLetters, (d) => d.count)), status.deadLetters.length ? "warn" : ""],
      ...byReason(status.deadLetters)),
  ]);
}

// byReason adds the dead letters up over topics and mappings.
function byReason(letters) {
  const reasons = new Map();
  for (const d of letters) reasons.set(d.reason, (reasons.get(d.reason) ?? 0) + d.count);
  return [...reasons].map(([reason, n]) => ["– " + reason, n === 0 ? unknown : count(n)]);
}
