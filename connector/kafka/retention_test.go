package kafka_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// filed says that the topics' records go into files of these tables.
func filed(tables ...string) func(*kafka.Config) {
	return func(c *kafka.Config) { c.Filed = func(string) []string { return tables } }
}

// overtaken is a broker whose log of a[0] begins at 10 and ends at 20, though the
// group has committed 3.
func overtaken(t *testing.T, l ack.Ledger) *broker {
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 20)
	b.left(0, 3, l)
	b.deleteBelow("a", 0, 10)
	return b
}

func running(table string, upTo int64) ack.Import {
	return ack.Import{State: ack.Running, Table: table, File: table + "-1.csv.gz", Execution: "4711", UpTo: upTo, Part: 1, Parts: 1, Attempt: 1}
}

func TestRetentionOvertakingARunningImportIsNoLoss(t *testing.T) {
	t.Parallel()
	b := overtaken(t, ack.Ledger{Imports: []ack.Import{running("customers", 15)}})
	first := b.join(autoLane(t), filed("customers"))
	first.awaitOffsets("a", 0, upTo(10, 20)...)
	first.awaitLog("retention has deleted records that are not confirmed")
	first.stop()
	if offset, l := b.ledger("a", 0); offset != 3 || len(l.Imports) != 1 {
		t.Errorf("ledger while the import runs: got %d %+v, want 3 and the import", offset, l.Imports)
	}
	second := b.join(newLane(t), filed("customers"))
	second.awaitOffsets("a", 0) // all is confirmed but what the import has
	eventually(t, "the import is adopted", func() (bool, any) { return len(second.Partitions()) == 1 && second.Joined(), nil })
	p := second.assignment("a", 0)
	if !p.Covered("customers", 14) || p.Covered("customers", 15) {
		t.Error("the import does not cover the records below 15, or others")
	}
	second.confirms("customers", p.Adopted()[0].Claim)
	b.awaitCommit("a", 0, 20)
	if st, _ := p.Status(); len(st.Halted) > 0 {
		t.Errorf("halted: %v", st.Halted)
	}
}

// Nothing comes after the records that are gone: the commit moves all the same.
func TestRetentionOvertakingTheWholeLogOfAnImportIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.left(0, 3, ack.Ledger{Imports: []ack.Import{running("customers", 10)}})
	b.deleteBelow("a", 0, 10)
	m := b.join(newLane(t), filed("customers"))
	m.awaitLog("retention has deleted records that are not confirmed")
	m.confirms("customers", m.assignment("a", 0).Adopted()[0].Claim)
	b.awaitCommit("a", 0, 10)
}

func TestRetentionOvertakingConfirmedRecordsIsNoLoss(t *testing.T) {
	t.Parallel()
	b := overtaken(t, ack.Ledger{Done: ack.Ranges{{From: 3, To: 12}}})
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, upTo(12, 20)...)
	b.awaitCommit("a", 0, 20)
}

func TestRetentionOvertakingWhatNoRunningImportHasHaltsThePartition(t *testing.T) {
	t.Parallel()
	with := func(change func(*ack.Import)) []ack.Import {
		im := running("customers", 15)
		change(&im)
		return []ack.Import{im}
	}
	for name, c := range map[string]struct {
		imports []ack.Import
		tables  []string
		reason  string
	}{
		"no import":                    {nil, []string{"customers"}, "customers has no running import"},
		"no files at all":              {nil, nil, "before they were read"},
		"of one of two tables":         {[]ack.Import{running("customers", 15)}, []string{"customers", "orders"}, "orders has no running import"},
		"of fewer records":             {[]ack.Import{running("customers", 8)}, []string{"customers"}, "has those below offset 8 only"},
		"built again":                  {with(func(im *ack.Import) { im.State = ack.Rebuild }), []string{"customers"}, "was not loaded, and can't be built again"},
		"refused":                      {with(func(im *ack.Import) { im.State = ack.Refused }), []string{"customers"}, "was not loaded, and can't be built again"},
		"perhaps not sent":             {with(func(im *ack.Import) { im.State, im.Execution = ack.Intended, "" }), []string{"customers"}, "it is not known whether it was sent"},
		"other parts still to be sent": {with(func(im *ack.Import) { im.Parts = 2 }), []string{"customers"}, "number 1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := overtaken(t, ack.Ledger{Imports: c.imports})
			m := b.join(autoLane(t), filed(c.tables...))
			m.awaitHalt("a", 0, "the committed offset 3 is below the log's start 10", c.reason)
			if got := m.offsets("a", 0); len(got) > 0 {
				t.Errorf("records of the halted partition handed on: got %v, want none", got)
			}
		})
	}
}

// What the other lane wrote meanwhile would have to be read again, to tell whose
// value of a key is the newer one.
func TestRetentionOvertakingAnImportOfBothLanesHaltsThePartition(t *testing.T) {
	t.Parallel()
	b := overtaken(t, ack.Ledger{Imports: []ack.Import{running("customers", 15)}})
	m := b.join(autoLane(t), filed("customers"), func(c *kafka.Config) {
		c.Other, c.TopicOf = "feedsink-other", func(string) kafka.TopicRoutes {
			return kafka.TopicRoutes{LaneRoutes: ack.LaneRoutes{Batch: true, Shared: true}, Follows: true}
		}
	})
	m.awaitHalt("a", 0, "below the log's start 10", "which keys of it the other lane wrote")
}

// One partition's ledger may be a step ahead of another's.
func TestRetentionOvertakingAnImportThatAnotherLedgerKnowsToHaveFailedHaltsThePartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 20)
	b.produce("a", 1, 20)
	im := running("customers", 15)
	b.left(0, 3, ack.Ledger{Imports: []ack.Import{im}})
	b.deleteBelow("a", 0, 10)
	im.State = ack.Rebuild
	b.left(1, 0, ack.Ledger{Imports: []ack.Import{im}})
	m := b.join(autoLane(t), filed("customers"))
	m.awaitHalt("a", 0, "below the log's start 10", "was not loaded, and can't be built again")
}

// The file that had the only copy of the records has failed.
func TestImportThatFailsAfterRetentionTookItsRecordsHaltsThePartition(t *testing.T) {
	t.Parallel()
	im := running("customers", 15)
	b := overtaken(t, ack.Ledger{Imports: []ack.Import{im}})
	m := b.join(autoLane(t), filed("customers"))
	m.awaitOffsets("a", 0, upTo(10, 20)...)
	im.State, im.Attempt = ack.Rebuild, 2
	m.startsOver(im, m.assignment("a", 0).Adopted()[0].Claim)
	m.awaitHalt("a", 0, "below the log's start 10", "file customers-1.csv.gz of table customers had some of them and was not loaded")
}

// That the other lane reads the topic, too, is no matter where no key is in both.
func TestRetentionOvertakingAnImportOfASharedTopicIsNoLoss(t *testing.T) {
	t.Parallel()
	b := overtaken(t, ack.Ledger{Imports: []ack.Import{running("customers", 15)}})
	m := b.join(autoLane(t), filed("customers"), func(c *kafka.Config) {
		c.Other = "feedsink-other"
		c.TopicOf = func(string) kafka.TopicRoutes { return kafka.TopicRoutes{LaneRoutes: ack.LaneRoutes{Shared: true}} }
	})
	m.awaitOffsets("a", 0, upTo(10, 20)...)
}
