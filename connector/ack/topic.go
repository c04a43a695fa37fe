package ack

// Differs reports whether the ids are of two topics. A broker that tells no ids
// answers zero, which says nothing.
func (id TopicID) Differs(from TopicID) bool {
	return id != from && id != TopicID{} && from != TopicID{}
}

// OfEarlierTopic is what the ledger of an earlier topic says for one of the same name that is
// read from an offset on. The slots are of a table and a day, whatever topic feeds it, halts
// and pauses of a mapping. An import that may be running is awaited, so that no newer row is
// overtaken by its rows, but covers nothing: it has no fingerprint. What was to be done
// with records of that topic is over, as they are gone.
func (l *Ledger) OfEarlierTopic(at int64) Ledger {
	kept := Ledger{Slots: l.Slots, Halts: l.Halts, Pauses: l.Pauses}
	for _, im := range l.Imports {
		if im.State == Intended || im.State == Running || im.State == Reconciling {
			im.UpTo, im.Since, im.Fingerprint = at, at, 0
			kept.Imports = append(kept.Imports, im)
		}
	}
	return kept
}
