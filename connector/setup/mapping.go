package setup

import (
	"slices"
	"strings"
)

func (w *writer) mapping(t *table) {
	w.line("  - name: %s\n    topics: [%s]", quotedMapping(t.name), text(t.Topic))
	if t.when != "" {
		w.whenLines(t)
	}
	if t.Format != "json" {
		w.line("    format: %s", t.Format)
	}
	switch {
	case t.inEvents():
		w.line("    envelope: cloudevents                   # attributes are headers: {from: headers.ce_subject, to: …}")
	case t.shape == debezium:
		w.line("    envelope: debezium")
	}
	kind := "profileTable"
	if t.custom {
		kind = "customTable"
	}
	if t.twin != "" {
		w.line("    # DECIDE: a table has one mapping. If this is the table of %s, name this topic there, too, and remove this mapping.", t.twin)
	}
	if t == w.tables[0] {
		w.line("    # DECIDE: the table's name, and profileTable or customTable. The service cannot be asked which tables it has:")
		w.line("    # of a name that it does not know, all records become dead letters (not_found).")
	} else {
		w.line("    # DECIDE: the table's name, and profileTable or customTable.")
	}
	w.line("    %s: %s", kind, text(t.name))
	w.keyLines(t)
	if key := t.kafkaKey(); key != "text" {
		w.line("    kafkaKey: %s                          # how the key of a record without a value is read: it deletes the row", key)
	}
	w.opLines(t)
	if len(t.fields) > 0 {
		w.fieldLines(t)
	}
	w.routeLines(t)
}

// whenLines divide a topic of several tables. A record without a value is of the table
// whose key is the record's, if there is one such table.
func (w *writer) whenLines(t *table) {
	w.line("    # DECIDE: %s of the topic's records. What no mapping takes is skipped, kinds that no sampled record has among it: name such kinds", t.share)
	w.line("    # where they belong, and remove the mappings that no table wants.")
	when := t.when
	if t.Tombstones > 0 {
		keyed := 0
		for _, o := range w.tables {
			if o.Sample == t.Sample && o.byKafkaKey() {
				keyed++
			}
		}
		switch {
		case keyed == 1 && t.byKafkaKey():
			when = "value == nil or " + when
			w.line("    # DECIDE: a record without a value deletes the row of its key from this table, for its key is the Kafka key.")
		case keyed != 1:
			w.line("    # DECIDE: which table a record without a value deletes from. No mapping takes it; `value == nil or …` would.")
		}
	}
	w.line("    when: %s", quoted(when))
}

// byKafkaKey reports whether the table's key is the records' key.
func (t *table) byKafkaKey() bool {
	return t.key != nil && t.key.isKafkaKey(t.records)
}

func (w *writer) keyLines(t *table) {
	switch {
	case t.custom:
		w.line("    key: businessKey")
	case t.key != nil:
		w.line("    key: %s   # DECIDE: must be a unique key of the table", quoted(t.key.to))
	default:
		w.line("    key: %s   # DECIDE: must be a unique key of the table", quoted(t.eventKey()))
	}
	switch {
	case t.key == nil:
	case t.custom && !t.byKafkaKey():
		w.line("    # DECIDE: %s is the key, because %s.", quoted(t.key.path), t.why)
	default: // a profile's says DECIDE above
		w.line("    # %s is the key, because %s.", quoted(t.key.path), t.why)
	}
	for _, f := range t.fields {
		if !t.custom && !f.header && f != t.key && slices.Contains([]string{"profileid", "serviceid"}, bare(f.last())) {
			w.line("    # profileId: %s   # DECIDE: if it is the service's own id of the profile, which calls for patches and deletes need", quoted(f.path))
			return
		}
	}
}

// eventKey is the unique key that canonical profile events name.
func (t *table) eventKey() string {
	for _, section := range []string{"key", "attributes"} {
		for _, r := range t.records {
			if members := r.Value.Get(section).Items(); len(members) > 0 {
				return members[0].Name
			}
		}
	}
	return "customerNumber"
}

// opLines say what the records do, and what a wrong guess would lose.
func (w *writer) opLines(t *table) {
	op := t.op()
	if t.opBy != "" {
		w.line("    # %s", t.opBy)
	}
	if t.has(opPatch) || t.has(opMerge) {
		if t.custom {
			w.line("    # DECIDE: an upsert may erase what its record does not name:")
		} else {
			w.line("    # DECIDE: an upsert replaces the whole profile, and so erases what its record does not name:")
		}
		for _, note := range t.notes {
			w.line("    #   %s;", note)
		}
		if t.has(opMerge) {
			w.line("    # so these are merges, which change what they name, and create the row if there is none.")
		} else {
			w.line("    # so these are patches, which change what they name and create nothing: without a row they are dead letters.")
			w.line("    # If they may come before the row is there, write merge for patch: it creates the row.")
		}
	}
	for _, k := range t.ends() {
		w.line("    # DECIDE: does %s (%s) delete the row? Here it does not; if it does, let its op be \"delete\".", k.word, percent(len(k.rows), len(t.records)))
	}
	if t.unseen() {
		w.line("    # A kind that no sampled record has comes to nil: a dead letter (value, op) until it is named here. As an upsert it might erase a row.")
	}
	switch {
	case t.has(opDelete):
		w.line("    op: %s   # DECIDE: what deletes a row", quoted(op))
	case op != "":
		w.line("    op: %s", quoted(op))
	case t.opBy != "":
		w.line("    # op: upsert                            # the default; all of these kinds name all of a row")
	}
}

func (w *writer) routeLines(t *table) {
	name := mappingName(t.name)
	skip := "before it, {when: CONDITION, lane: skip} for what the table does not want"
	lane := t.lane()
	switch {
	case lane == "auto":
		w.line("    # auto: a row waits for its file, and is a call before that while calls are to spare; a snapshot does not need a month of calls.")
		w.line("    # Every op has an import here, which auto wants. `feedsink plan` says what auto, batch and immediate would cost.")
		w.line("    routes: [{lane: auto}]                  # %s", skip)
	case lane == "batch":
		w.line("    routes: [{lane: batch}]                 # not auto, for none of these records has a call; %s", skip)
	case t.files():
		w.line("    routes: [{lane: immediate}]             # DECIDE: not auto, for a file would lose dataCollection; if that is no matter, auto")
	default:
		w.line("    routes: [{lane: immediate}]             # DECIDE: not auto yet, for that wants an import, and so an ETL, for each op that records have:")
		w.line("    # routes: [{lane: auto}]                # calls while they are to spare, the rest by files. With the imports below `feedsink plan` compares")
		w.line("    #                                       # the lanes, before there is an ETL. Before a route, {when: CONDITION, lane: skip} for what is not wanted")
	}
	if t.files() {
		w.line("    # A call can patch or delete a profile only by the service's own id of it, and none merges one: these go by files. check and run")
		w.line("    # refuse this file until ETLs are named here; plan does not. `feedsink etl create -c FILE --mapping %s` prints the lines.", name)
		if t.collects() {
			w.line("    # DECIDE: a file has no column for dataCollection, so these change consents and leave as it was when and where they were given.")
		}
		w.line("    imports:")
		if t.has(opMerge) {
			w.line("      merge: {mode: CREATE_OR_UPDATE}")
		} else {
			w.line("      patch: {mode: UPDATE_ONLY}              # for merges, merge: {mode: CREATE_OR_UPDATE}")
		}
		if t.has(opDelete) || t.Tombstones > 0 {
			w.line("      delete: {mode: DELETE}")
		}
		upsert := "# upsert"
		if lane == "auto" {
			upsert = "upsert"
		}
		w.line("      %s: {mode: CREATE_OR_UPDATE}", upsert)
		w.line("      columns: [%s]", listed(t.columns(), quoted))
		return
	}
	w.line("    # imports:")
	w.line("    #   upsert: {mode: CREATE_OR_UPDATE}      # then: feedsink etl create -c FILE --mapping %s", name)
	w.line("    #   delete: {mode: DELETE}")
	w.line("    #   columns: [%s]", listed(t.columns(), quoted))
	if p := t.parent; p != nil {
		w.line("    # after: [%s]   # with imports: %s seems to be its key, so its files go first; or bundle: NAME in both, for one ZIP",
			quotedMapping(p.table.name), quoted(p.field.path))
	}
	if !t.custom && (t.Tombstones > 0 || t.shape == debezium || t.has(opDelete)) {
		w.line("    # Deletes of profiles need an import of mode DELETE, or the service's profile id: without, they are dead letters.")
	}
}

// lane is the one to begin with: auto where nothing speaks against it.
func (t *table) lane() string {
	switch {
	case t.files() && !t.has(opUpsert):
		return "batch"
	case t.files() && !t.collects():
		return "auto"
	}
	return "immediate"
}

// collects reports whether records say when and where consents were given.
func (t *table) collects() bool {
	return slices.ContainsFunc(t.fields, func(f *field) bool { return strings.HasPrefix(f.to, dataCollection) })
}

// files reports whether some records can only go by files.
func (t *table) files() bool { return !t.custom && (t.has(opPatch) || t.has(opMerge)) }

// columns are what a file would have.
func (t *table) columns() []string {
	key := businessKey
	if !t.custom {
		key = t.eventKey()
		if t.key != nil {
			key = t.key.to
		}
	}
	columns := []string{key}
	add := func(name string) {
		if !slices.Contains(columns, name) && !t.computed(name) {
			columns = append(columns, name)
		}
	}
	for _, f := range t.fields {
		switch {
		case f == t.key, t.unmapped(f), strings.HasPrefix(f.to, dataCollection):
		case len(f.segments) > 0:
			for _, s := range f.segments {
				add(s.to)
			}
		default:
			add(f.to)
		}
	}
	for _, r := range t.records {
		for section, prefix := range map[string]string{"attributes": "", "properties": "", "subscriptions": subscriptionsAt, "segments": segmentsAt} {
			if t.shape != profileEvents && t.shape != recordEvents {
				break
			}
			for _, m := range r.Value.Get(section).Items() {
				add(prefix + m.Name)
			}
		}
	}
	slices.Sort(columns[1:])
	return columns
}
