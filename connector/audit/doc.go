// Package audit finds out whether every record that the lanes have confirmed ended
// exactly once: from receipts, dead letters, the groups' offsets with their metadata, and
// the offsets that the topics have.
//
// It imports nothing of ours. What it knows of receipts is schemas/receipt.avsc, of
// dead letters their headers, and of the metadata its documented form, so that an error in
// what writes them cannot cancel out. It knows nothing of what records say, and decodes none.
package audit
