// Words and numbers as the page shows them, and the one way elements are made.
// What a mapping or a topic is called only ever becomes text, never markup.

const whole = new Intl.NumberFormat("en");
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const hundredth = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

export const unknown = "–";

export const count = (n) => (n === undefined || n < 0 ? unknown : whole.format(n));

export const rate = (n) => (n === undefined ? unknown : (n > 0 && n < 10 ? tenth.format(n) : whole.format(Math.round(n))) + "/s");

export const minutely = (n) => (n > 0 && n < 10 ? tenth.format(n) : whole.format(Math.round(n))) + "/min";

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (unit === "B" || n >= 100 ? whole.format(Math.round(n)) : tenth.format(n)) + " " + unit;
    n /= 1024;
  }
}

// span is a time in its two largest units.
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

// clock is the time of day in a zone. A zone that the browser does not know is
// shown as UTC, with its name.
export function clock(at, zone = undefined, seconds = false) {
  const form = { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined };
  try {
    return new Intl.DateTimeFormat("en-GB", { ...form, timeZone: zone }).format(new Date(at));
  } catch {
    return new Intl.DateTimeFormat("en-GB", { ...form, timeZone: "UTC" }).format(new Date(at)) + " UTC";
  }
}

// when is a time in a zone with its name, where that is not the reader's, and with its
// date, if it is of another day than now.
export function when(at, now, zone = undefined) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const date = (t) => {
    try {
      return new Date(t).toLocaleDateString("en-GB", { timeZone: zone });
    } catch {
      return new Date(t).toLocaleDateString("en-GB", { timeZone: "UTC" });
    }
  };
  return clock(at, zone) + (zone && zone !== own ? ` (${zone})` : "") + (date(at) === date(now) ? "" : " on " + date(at));
}

// percent is a share, never rounded up: all is only what is all. Its sign stays beside it.
export const percent = (share) => hundredth.format(Math.floor(share * 1e4 + 1e-6) / 100) + "\u00a0%";

// many is a number with its noun.
export const many = (n, one, more = one + "s") => `${count(n)} ${n === 1 ? one : more}`;

// el makes an element; text stays text.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

// fill builds an element's content anew only if what it shows has changed, so
// that focus and selection outlive an update.
export function fill(element, facts, build) {
  const key = JSON.stringify(facts);
  if (element.shown === key) return;
  element.shown = key;
  element.replaceChildren(...[build()].flat().filter((child) => child !== undefined));
}

// meter is a bar that is filled to a share. The text beside it says the same.
export function meter(share) {
  const bar = el("i", share >= 0.9 ? { class: "high" } : {});
  bar.style.width = `${Math.min(100, Math.max(0, share * 100))}%`;
  return el("span", { class: "meter", "aria-hidden": "true" }, bar);
}

// quoted is a name for a shell.
export const quoted = (name) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
