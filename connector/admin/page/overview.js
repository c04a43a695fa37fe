// The sink as a whole: how it is, what needs a person, the lanes.

import { bytes, clock, count, el, fill, many, meter, minutely, rate, span, unknown } from "./format.js";
import { plot } from "./hour.js";
import { total } from "./letters.js";
import { haltWords, pauseWords } from "./mapping.js";

const callWords = { waiting: "closed, but calls wait", tables: "closed, but calls for a table wait", closed: "closed: calls go out", open: "open: calls for a table pause", "half-open": "half-open: one call for a table is tried" };

// kafkaAndDisk are the causes to wait that nothing else on the page tells of.
const kafkaAndDisk = ["missing_topic", "kafka_refused", "kafka_unreachable", "no_place", "schemas", "disk", "ledger_full", "rate"];
// serviceAndDisk are those for which a mapping's import is tried again.
const serviceAndDisk = ["throttled", "unauthorized", "service", "disk"];

// service are those that hold requests to the service back.
const service = ["throttled", "unauthorized", "breaker"];

function serviceWords(w) {
  const whose = w.table ? `Calls for table ${w.table}` : w.lane === "batch" ? "Requests for imports" : "All calls";
  const until = w.until ? ` until ${clock(w.until, undefined, true)}` : "";
  return `${whose} wait${until}: ${w.why}. Nothing is lost; records wait.`;
}

// noToken is the wait for a token, which all lanes have.
const noToken = (w) => w.why.startsWith("the service has given no token");

function noTokenWords(w) {
  return w ? `${w.why}${w.until ? " at " + clock(w.until, undefined, true) : ""}. Nothing is lost; records wait.` : "the service has given no token; it is asked for one now.";
}

// problems are what an operator has to know first: {words, more}.
export function problems(status, rows, members) {
  const found = [];
  for (const m of status.mappings) {
    if (m.halted?.length) found.push({ grave: true, mapping: m.name, words: "is halted", more: () => haltWords(m, 2), facts: [m.halted, m.release] });
  }
  for (const { name, address, mapping: m } of members.halted()) {
    found.push({ grave: true, mapping: m.name, elsewhere: status.mappings.every((own) => own.name !== m.name), words: `is halted at the member ${name}`, more: () => haltWords(m, 2, `${location.protocol}//${address}`), facts: [m.halted, m.release, address] });
  }
  for (const m of status.mappings) {
    if (m.paused?.length) found.push({ mapping: m.name, words: "is paused by a person", more: () => pauseWords(m), facts: m.paused });
  }
  const { reload } = status;
  if (reload?.error) found.push({ grave: true, words: `The configuration file was read again at ${clock(reload.at, undefined, true)} and is not in force; the former one is: ${reload.error}` });
  else if (reload?.needRestart?.length) found.push({ words: `The configuration file has changed in keys that need a restart: ${reload.needRestart.join(", ")}.` });
  if (status.stopping) found.push({ words: `Stopping: the calls in flight end, at most until ${clock(status.stopping, undefined, true)}; what they confirm is committed. Nothing is lost.` });
  for (const reason of status.unready ?? []) if (!reason.startsWith("stopping")) found.push({ grave: true, words: `Not ready: ${!status.token && reason.includes("token") ? noTokenWords(status.waits.find(noToken)) : reason}` });
  for (const lane of status.lanes) found.push(...waitsForRoutes(lane));
  for (const w of status.waits) {
    if (noToken(w)) continue; // said already
    if (w.mapping && serviceAndDisk.includes(w.cause)) found.push({ grave: true, mapping: w.mapping, words: `waits: ${w.why}. Nothing is lost; it goes on by itself.` });
    else if (w.cause === "retried") found.push({ grave: true, mapping: w.mapping, words: `has calls that fail: ${w.why}. Nothing is lost; records wait.` });
    else if (service.includes(w.cause)) found.push({ grave: true, words: serviceWords(w) });
    else if (w.cause === "dead_member") found.push({ words: `The ${w.lane} lane waits: ${w.why}${w.until ? `, about ${clock(w.until, undefined, true)}` : ""}. Nothing is lost; it goes on by itself.` });
    else if (kafkaAndDisk.includes(w.cause)) found.push({ grave: true, words: `The ${w.lane} lane waits: ${w.why}. Nothing is lost; it goes on by itself.` });
  }
  const { spool } = status;
  if (spool && spool.bytes >= 0.8 * spool.maxBytes) {
    found.push({ grave: spool.bytes >= spool.maxBytes, words: `The spool holds ${bytes(spool.bytes)} of ${bytes(spool.maxBytes)}; ${spool.bytes >= spool.maxBytes ? "the batch lane pauses until an import has made room" + (status.waits.find((w) => w.cause === "spool_full")?.why.split("made room")[1] ?? "") : "when it is full, the batch lane pauses"}.` });
  }
  if (spool && spool.freeBytes < 0.15 * spool.maxBytes && spool.freeBytes < spool.maxBytes - spool.bytes) {
    found.push({ grave: spool.freeBytes === 0, words: `The spool's disk has ${bytes(spool.freeBytes)} left, less than the spool may take; ${spool.freeBytes === 0 ? "the batch lane waits until there is room" : "when it is full, the batch lane waits"}.` });
  }
  for (const m of status.mappings) {
    const state = rows.get(m.name)?.state;
    if (state?.grave === "care" && !m.paused?.length) found.push({ mapping: m.name, words: m.batch?.kept?.length ? "has files in the spool for a person to look at: " + m.batch.kept.join(", ") : "has no slot left today: its file grows until tomorrow" });
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
    if (p.mapping && p.elsewhere) {
      item.append(el("b", {}, p.mapping), " ");
    } else if (p.mapping) {
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
  el("dl", {}, ...facts.flatMap(([k, v, tone, drawn]) => [el("dt", {}, k),
    el("dd", { class: [tone, drawn && "drawn"].filter(Boolean).join(" ") || undefined }, ...(drawn ? [drawn] : []), el("span", {}, v))])));

const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);

export function showTiles(tiles, status, rates, hour) {
  const shown = status.lanes.map((l) => {
    const topics = [...new Set(l.partitions.map((p) => p.topic))];
    const held = status.waits.filter((w) => w.lane === l.lane && service.includes(w.cause));
    const wait = held.length && l.calls?.breaker === "closed" ? (held.every((w) => w.table) ? "tables" : "waiting") : "";
    return { ...l, breaker: wait || l.calls?.breaker, partitions: l.partitions.length, rate: rates.of(l.lane, topics), topics: topics.length,
      lag: l.partitions.length && l.partitions.every((p) => p.lag >= 0) ? sum(l.partitions, (p) => p.lag) : undefined,
      oldest: Math.max(0, ...status.mappings.map((m) => m.oldestUnconfirmedSeconds[l.lane] ?? 0)),
      waiting: sum(l.partitions, (p) => p.pending + (p.buffered ?? 0) + (p.importing ?? 0)) };
  });
  fill(tiles, [shown, hour.shown, status.spool, status.deadLetters, status.token, status.at], () => [
    ...shown.map((l) => {
      const points = hour.lane(l.lane) ?? {};
      const drawn = (kind) => plot(kind, points[kind], hour.shown);
      return tile(`${l.lane === "batch" ? "Batch" : "Immediate"} lane`,
        ["Group", l.group],
        ["Partitions", l.joined ? `${count(l.partitions)} of ${many(l.topics, "topic")}` : "waiting for a place in the group", l.joined ? "" : "warn"],
        ["Lag", count(l.lag)], ["Waiting", count(l.waiting)],
        ["Oldest unconfirmed", l.oldest ? span(l.oldest) : "none", "", drawn("freshness")],
        ["Confirmed", rate(l.rate), "", drawn("confirmed")],
        ...(l.calls ? [
          ["Calls", points.calls?.length ? minutely(points.calls.at(-1)) : unknown, "", drawn("calls")],
          ["Calls in flight", `${count(l.calls.inFlight)} of ${count(l.calls.limit)}`],
          ["Breaker", callWords[l.breaker] ?? l.breaker, { closed: "good", waiting: "warn", tables: "warn" }[l.breaker] ?? "bad"],
        ] : []));
    }),
    tile("Process",
      ["Running for", span((Date.parse(status.at) - Date.parse(status.started)) / 1000)],
      ["Token of the service", status.token ? "there" : status.tokenRefused ? `refused: ${status.tokenRefused}` : "none yet", status.token ? "good" : "bad"],
      ...(status.spool ? [["Spool", el("span", {}, `${bytes(status.spool.bytes)} of ${bytes(status.spool.maxBytes)}`, meter(status.spool.bytes / status.spool.maxBytes))]] : []),
      ["Dead letters", count(total(status.deadLetters)), status.deadLetters.length ? "warn" : ""]),
  ]);
}
