package ack

// Differs reports whether the ids are of two topics. A broker that tells no ids
// answers zero, which says nothing.
func (id TopicID) Differs(from TopicID) bool {
	return id != from && id != TopicID{} && from != TopicID{}
}
