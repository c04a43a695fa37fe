// The last hour as small plots: how fresh, how many records and calls a minute. The
// sink keeps the points; see /history.

import { clock, el, minutely, span } from "./format.js";

const [width, height] = [120, 24];
const made = (tag, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
};

export const kinds = {
  freshness: { title: "Oldest unconfirmed", form: (n) => (n === 0 ? "none" : span(n)) },
  confirmed: { title: "Confirmed", form: minutely },
  calls: { title: "Calls", form: minutely },
};

// plot draws the points of a kind; what it shows is said beside it, and to those who
// cannot see it. Undefined: there are no points yet.
export function plot(kind, points, hour) {
  if (!points || points.length < 2) return undefined;
  const most = Math.max(...points);
  const hourful = 3600 / hour.every;
  const x = (i) => width - ((points.length - 1 - i) / (hourful - 1)) * width;
  const y = (n) => height - 1 - (most > 0 ? n / most : 0) * (height - 3);
  const line = points.map((n, i) => `${x(i).toFixed(1)},${y(n).toFixed(1)}`).join(" ");
  const { title, form } = kinds[kind];
  const minutes = Math.round(((points.length - 1) * hour.every) / 60);
  const words = `${title} in the last ${minutes >= 59 ? "hour" : minutes < 2 ? "minute" : minutes + " minutes"}: at most ${form(most)}, at ${clock(hour.to)} ${form(points.at(-1))}`;
  const svg = made("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": words });
  const said = made("title", {});
  said.textContent = words;
  svg.append(said,
    made("polygon", { class: "area", points: `${x(0).toFixed(1)},${height} ${line} ${width},${height}` }),
    made("polyline", { class: "line", points: line, "vector-effect": "non-scaling-stroke" }));
  return el("span", { class: "plotted" }, svg, el("small", { "aria-hidden": "true" }, most > 0 ? `max ${form(most)}` : kind === "freshness" ? "none waited" : "none"));
}

const every = 15000; // milliseconds; points are 30 s apart

// Hour asks for the points of all, and of the mappings that are open.
export class Hour {
  #asked = 0;
  #of = "";
  #hour;

  // lane is the hour of all mappings, by kind; undefined while it is not known.
  lane = (name) => this.#hour?.lanes[name];
  mapping = (name) => this.#hour?.mappings?.[name];
  get shown() {
    return this.#hour ?? { every: 30 };
  }

  // follow asks again once there may be more; failure leaves the plots as they are.
  async follow(open) {
    const of = open.map((name) => "mapping=" + encodeURIComponent(name)).join("&");
    if (of === this.#of && Date.now() - this.#asked < every) return;
    [this.#asked, this.#of] = [Date.now(), of];
    try {
      const answer = await fetch("history?" + of, { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (answer.ok) this.#hour = await answer.json();
    } catch {
      // The status, which is asked for more often, says that nothing answers.
    }
  }
}
