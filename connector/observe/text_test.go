package observe

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// situations are mappings in every state that looks different.
func situations() []MappingImports {
	return []MappingImports{
		{
			Mapping: "customers", Table: "clients", Owned: true, SlotsLeft: new(9), SlotsPerDay: 12,
			Open: &OpenFile{Rows: 311, Bytes: 40960, Since: noon.Add(-5 * time.Minute)},
			Import: &contract.ImportStatus{
				Import: contract.Import{Part: 1, Parts: 2, Mode: "CREATE_OR_UPDATE", ETL: "101", File: "c.csv.gz", Rows: 5000, Bytes: 123456, Attempt: 1, Execution: "1004"},
				Step:   contract.Importing, Since: noon.Add(-130*time.Second - 400*time.Millisecond),
			},
		},
		{
			Mapping: "consents", Table: "consents", Owned: true, SlotsLeft: new(0), SlotsPerDay: 3,
			Import: &contract.ImportStatus{
				Import: contract.Import{Part: 1, Parts: 1, Mode: "UPDATE_ONLY", ETL: "7", File: "d.csv.gz", Rows: 1, Bytes: 80, Attempt: 3},
				Step:   contract.Halting, Since: noon.Add(time.Second), // its clock is ahead
			},
			Halted: "import d.csv.gz, execution 12: FAILED: duplicate headers", Kept: []string{"d.csv.gz.failed"},
		},
		{Mapping: "visits", Table: "visits", Owned: true, SlotsLeft: new(12), SlotsPerDay: 12, Open: &OpenFile{Rows: 1, Bytes: 9, Since: noon, Due: noon.Add(90 * time.Minute)}},
		{Mapping: "quiet", Table: "quiet", Owned: true, SlotsLeft: new(12), SlotsPerDay: 12},
		{
			Mapping: "flooded", Table: "flooded", Owned: true, SlotsLeft: new(12), SlotsPerDay: 12,
			Halted: "mapping flooded is halted in the batch lane: 95 of the last 100 were refused alike (dlq.flood). Once the cause is gone: feedsink imports release --mapping flooded",
		},
		{Mapping: "theirs", Table: "theirs", SlotsPerDay: 12},
	}
}

func TestImportsListShowsAllThatAPersonMustSee(t *testing.T) {
	const want = `MAPPING    STEP        FOR    MODE              EXECUTION  PART    TRY  ROWS  BYTES   OPEN ROWS  GOES OUT    SLOTS LEFT  FILE
customers  importing   2m10s  CREATE_OR_UPDATE  1004       1 of 2  1    5000  123456  311        -           9 of 12     c.csv.gz
consents   halted      0s     UPDATE_ONLY       -          1 of 1  3    1     80      -          -           0 of 3      d.csv.gz
visits     collecting  0s     -                 -          -       -    -     -       1          in 1h30m0s  12 of 12    -
quiet      idle        -      -                 -          -       -    -     -       -          -           12 of 12    -
flooded    halted      -      -                 -          -       -    -     -       -          -           12 of 12    -
theirs     not here    -      -                 -          -       -    -     -       -          -           -           -

consents is halted: import d.csv.gz, execution 12: FAILED: duplicate headers
consents keeps a file in the spool: d.csv.gz.failed
mapping flooded is halted in the batch lane: 95 of the last 100 were refused alike (dlq.flood). Once the cause is gone: feedsink imports release --mapping flooded`
	if got := ImportsText(situations(), noon); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := ImportsText(nil, noon), "This process has no batch lane."; got != want {
		t.Errorf("nothing: got %q, want %q", got, want)
	}
}

func TestImportsShowHasALineForEachThing(t *testing.T) {
	const want = `mapping     customers
table       clients
step        importing, for 2m10s
file        c.csv.gz
mode        CREATE_OR_UPDATE
etl         101
execution   1004
part        1 of 2
try         1
rows        5000
bytes       123456
open file   311 rows, 40960 bytes, for 5m0s
slots left  9 of 12
halted      -`
	if got := situations()[0].Text(noon); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
