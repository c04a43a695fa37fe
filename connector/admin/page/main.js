// Asks /status every two seconds while somebody looks, and shows it.

import { Bundles } from "./bundles.js";
import { clock, el, fill, many } from "./format.js";
import { Hour } from "./hour.js";
import { overview } from "./letters.js";
import { Members } from "./members.js";
import { Rates } from "./rates.js";
import { Row } from "./mapping.js";
import { problems, showProblems, showTiles } from "./overview.js";

const every = 2000; // milliseconds between an answer and the next question
const patience = 10000; // milliseconds that an answer may take

const $ = (id) => document.getElementById(id);
const rates = new Rates();
const hour = new Hour();
const members = new Members();
const rows = new Map(); // by mapping
const bundles = new Bundles($("list"));
let latest; // the status shown
let timer;

function show(status) {
  latest = status;
  rates.add(status);
  for (const name of rows.keys()) {
    if (status.mappings.every((m) => m.name !== name)) {
      rows.get(name).item.remove();
      rows.delete(name);
    }
  }
  for (const m of status.mappings) {
    if (!rows.has(m.name)) rows.set(m.name, new Row(m.name));
    bundles.place(m, rows.get(m.name).item);
    rows.get(m.name).update(m, status, rates, hour, members);
  }
  const found = problems(status, rows, members);
  $("attention").hidden = found.length === 0;
  showProblems($("problems"), found, reveal);
  showTiles($("tiles"), status, rates, hour);
  $("letters").hidden = status.deadLetters.length === 0;
  if (status.deadLetters.length) fill($("letters"), status.deadLetters, () => overview(status.deadLetters));
  const halted = status.mappings.filter((m) => m.halted?.length).length;
  if (halted) say(`${halted} halted`, "bad");
  else if (!status.ready) say("not ready", "bad");
  else if (found.length) say("running, needs attention", "warn");
  else say("running", "good");
  $("about").textContent = `${status.member ? status.member + " · " : ""}${status.version} · as of ${clock(status.at, undefined, true)}`;
  document.title = (halted ? `■ ${halted} halted` : found.length ? "▲ attention" : "● running") + " – feedsink";
  filter();
  hour.follow([...rows].filter(([, row]) => row.details.open).map(([name]) => name));
  members.follow(status);
}

function say(words, tone) {
  const state = $("state");
  if (state.textContent !== words) state.textContent = words; // or it would be read aloud each time
  state.className = "pill " + tone;
}

// filter hides the mappings that were not asked for.
function filter() {
  const wanted = $("filter").value.trim().toLowerCase();
  let shown = 0;
  for (const row of rows.values()) {
    row.item.hidden = !row.text.includes(wanted) || ($("only").checked && !row.state.grave);
    if (!row.item.hidden) shown++;
  }
  bundles.tidy();
  const words = shown === rows.size ? many(rows.size, "mapping") : `${shown} of ${many(rows.size, "mapping")}`;
  if ($("shown").textContent !== words) $("shown").textContent = words;
  $("columns").hidden = shown === 0;
  $("list").hidden = shown === 0;
  $("none").hidden = shown > 0;
  $("none").textContent = $("only").checked && !wanted ? "No mapping needs attention." : "No mapping is called so.";
}

// reveal opens a mapping and goes to it.
function reveal(name) {
  $("filter").value = "";
  $("only").checked = false;
  filter();
  const row = rows.get(name);
  row.details.open = true;
  row.item.scrollIntoView({ block: "start" });
  row.summary.focus();
}

function lost(why) {
  if ($("lost").hidden) {
    const since = latest ? ` What you see is as of ${clock(latest.at, undefined, true)}.` : "";
    $("lost").replaceChildren(el("b", {}, "No connection to feedsink"), ` since ${clock(Date.now(), undefined, true)}: ${why}.${since} Asking again every two seconds.`);
    $("lost").hidden = false;
  }
  $("main").classList.add("stale");
  say("connection lost", "bad");
  document.title = "connection lost – feedsink";
}

async function ask() {
  clearTimeout(timer);
  let status;
  try {
    const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(patience) });
    if (!answer.ok) throw new Error(answer.status === 401 ? "the token is missing or wrong; load the page again" : `it answered ${answer.status}`);
    status = await answer.json();
  } catch (error) {
    lost(error.name === "TimeoutError" ? "it does not answer" : error instanceof TypeError ? "it cannot be reached" : error.message);
  }
  if (!document.hidden) timer = setTimeout(ask, every);
  if (!status) return;
  $("lost").hidden = true;
  $("main").classList.remove("stale");
  show(status);
}

document.addEventListener("visibilitychange", () => document.hidden || ask());
$("filter").addEventListener("input", filter);
$("only").addEventListener("change", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== $("filter") && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $("filter").focus();
  }
});
ask();
