// Rates are made here, of watermarks that the page has seen some seconds apart:
// the sink keeps none.

const memory = 12; // seconds that a rate is taken over

export class Rates {
  #seen = []; // {at, marks}, the oldest first

  add(status) {
    const marks = new Map();
    for (const lane of status.lanes) {
      for (const p of lane.partitions) marks.set(`${lane.lane} ${p.topic} ${p.partition}`, p.watermark);
    }
    const at = Date.parse(status.at) / 1000;
    if (this.#seen.length > 0 && at < this.#seen.at(-1).at) this.#seen = []; // another process answers, or its clock was set
    this.#seen.push({ at, marks });
    while (this.#seen.length > 2 && at - this.#seen[1].at >= memory) this.#seen.shift();
  }

  // of is how many records a second a lane confirms of the topics; undefined
  // while that cannot be told.
  of(lane, topics) {
    const [first, last] = [this.#seen[0], this.#seen.at(-1)];
    if (!first || last.at - first.at < 1) return undefined;
    let sum;
    for (const [key, mark] of last.marks) {
      const before = first.marks.get(key);
      const [which, topic] = key.split(" ");
      if (which !== lane || !topics.includes(topic) || before === undefined || before < 0 || mark < 0) continue;
      sum = (sum ?? 0) + Math.max(0, mark - before);
    }
    return sum === undefined ? undefined : sum / (last.at - first.at);
  }
}
