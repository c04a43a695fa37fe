// The tables that other members of the deployment have: this one asks them (/members),
// if it is configured to know them (admin.webhook.members).

const every = 10000; // milliseconds

export class Members {
  #asked = 0;
  #answer = { known: undefined, members: [] };
  #own;

  // follow asks if some table is not this member's; failure leaves what is known.
  async follow(status) {
    this.#own = status;
    const elsewhere = status.mappings.some((m) => m.day && !m.day.owned);
    if (!elsewhere || Date.now() - this.#asked < every) return;
    this.#asked = Date.now();
    try {
      const answer = await fetch("members", { cache: "no-store", signal: AbortSignal.timeout(8000) });
      if (answer.ok) this.#answer = await answer.json();
    } catch {
      // as for the hour
    }
  }

  get known() {
    return this.#answer.known;
  }

  #others() {
    return this.#answer.members.filter((o) => o.member !== this.#own?.member || o.started !== this.#own?.started);
  }

  // name is what a member is called: by its machine, or where that is not told, by its address.
  static name = (o) => o.member || o.address;

  // silent are the members that could not be asked.
  silent = () => this.#answer.members.filter((o) => o.error);

  // holder is the member that has a mapping's table, with the mapping as it tells it:
  // {name, address, mapping}; undefined: none that could be asked.
  holder(name) {
    for (const o of this.#others()) {
      const mapping = o.mappings.find((m) => m.name === name && m.day?.owned);
      if (mapping) return { name: Members.name(o), address: o.address, mapping };
    }
    return undefined;
  }

  // halted are the mappings that are halted at other members.
  halted() {
    return this.#others().flatMap((o) => o.mappings.filter((m) => m.halted?.length).map((mapping) => ({ name: Members.name(o), address: o.address, mapping })));
  }
}
