// Package replay tries dead letters again. It applies each dead letter by calls of its
// own, beside the running sink, and sees to it that an older value never stays
// over a newer one of the same row.
//
// A dead letter is an old record: what came after it in its partition may have been
// applied long ago. So the partition is read from the dead letter's record to its end
// first. A dead letter whose values were all replaced since is done without a call;
// what was not replaced is sent together with what changed since, as the row's
// newest state. When the call is answered the partition is read on, to its end as
// it stood then: whatever changed the row meanwhile may have been overtaken by
// the call, so its newest state is sent again, until nothing came between. What
// is produced later than that the sink applies later too. And a dead letter waits
// until the sink has confirmed everything before it in its partition, so that
// nothing older can follow.
//
// Before the first call it is noted, in Kafka, which dead letters are about to be
// sent (Marks). A run that is killed may leave a call of unknown outcome; the
// next one waits until it can't be applied any more, and does not take such a
// dead letter for superseded without sending the row's newest state. An attempt that
// came to no answer before another was answered is treated alike. To delete a
// profile that such a call has brought back takes the service's id: where it is
// not known, an upsert of the key alone tells.
//
// The order that is kept is the one that the sink keeps: of one row's records in
// one partition. Where a topic does not hold any more what followed a dead letter's
// record, nobody can tell whether it is the newest, and it is left where it is.
//
// It knows dead letters, rows and their order. It knows nothing about HTTP, and what a
// record means it asks the router.
package replay
