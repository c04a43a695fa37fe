// Places for the mappings' lines: in the list, or in that of their bundle, whose
// files go as one ZIP and are one import.

import { el, many } from "./format.js";

export class Bundles {
  constructor(list) {
    this.list = list;
    this.groups = new Map(); // by bundle: {item, title, list}
  }

  // place puts a mapping's line where it belongs; one that is there stays.
  place(m, line) {
    const list = m.bundle ? this.group(m.bundle).list : this.list;
    if (line.parentNode !== list) list.append(line);
  }

  group(name) {
    if (!this.groups.has(name)) {
      const title = el("span", { class: "quiet" });
      const list = el("ul", { "aria-label": "Bundle " + name });
      const item = el("li", { class: "bundle" }, el("h3", {}, `Bundle ${name} `, title), list);
      this.groups.set(name, { item, title, list });
      this.list.append(item);
    }
    return this.groups.get(name);
  }

  // tidy hides the bundles of which no mapping is shown, and forgets those that
  // have none any longer.
  tidy() {
    for (const [name, { item, title, list }] of this.groups) {
      const lines = [...list.children];
      if (lines.length === 0) {
        item.remove();
        this.groups.delete(name);
        continue;
      }
      item.hidden = lines.every((line) => line.hidden);
      const words = `– one import for ${many(lines.length, "mapping")}: their files go as one ZIP`;
      if (title.textContent !== words) title.textContent = words;
    }
  }
}
