package connector

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// TestPatchOfNothingIsTriedThreeTimesMoreOnceTheBatchLaneHasPassedIt: one try may find
// nothing between the delete and the upsert by which that lane brings a row's newest state.
func TestPatchOfNothingIsTriedThreeTimesMoreOnceTheBatchLaneHasPassedIt(t *testing.T) {
	compiled, problems := router.Compile([]router.Mapping{{
		Name: "orders", Topics: []string{"shop"}, CustomTable: "orders", Key: "businessKey",
		Routes: []router.Route{{When: `op == "patch"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert:  &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"},
			Columns: []router.Column{{Name: "businessKey"}, {Name: "seq"}},
			Roll:    router.Roll{Rows: 10, Bytes: 1 << 20, Age: time.Second}, SlotsPerDay: 12,
		},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	// Of a partition that only one lane reads, the other has passed all.
	p := &part{recordState: &recordState{partition: new(kafka.Partition)}, mapping: compiled.Mappings()[0], op: schemas.Patch}
	tries := 0
	for p.Premature() {
		tries++
	}
	if tries != lastTries {
		t.Errorf("tries: got %d, want %d", tries, lastTries)
	}
}
