package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/deadletter"
)

func TestHistoryKeepsTheNewestCoordinatesOfEachKind(t *testing.T) {
	l := NewHistory()
	for offset := range int64(9) {
		l.DeadLetter(&deadletter.Record{Topic: "crm", Partition: 2, Offset: offset}, deadletter.Reason{Code: "value", Mapping: "customers"})
	}
	l.DeadLetter(&deadletter.Record{Topic: "crm", Offset: 70}, deadletter.Reason{Code: "decode"})
	got := l.DeadLetters()
	if len(got) != 2 || got[0].Reason != "value" || got[0].Count != 9 || got[1].Mapping != "" || got[1].Count != 1 {
		t.Fatalf("got %+v, want 9 of value, then 1 of decode that no mapping has", got)
	}
	latest := got[0].Latest
	if len(latest) != deadLettersKept || latest[0].Offset != 8 || latest[deadLettersKept-1].Offset != 4 || latest[0].Partition != 2 {
		t.Errorf("got %+v, want offsets 8 to 4 of partition 2", latest)
	}
	latest[0].Offset = -1
	if again := l.DeadLetters()[0].Latest[0].Offset; again != 8 {
		t.Errorf("after the answer was changed: got %d, want 8", again)
	}
}

func TestHistoryForgetsTheOldestImports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewHistory()
		for range importsKept + 3 {
			l.ImportEnded(contract.Import{Mapping: "customers", Rows: 5}, contract.Results{Status: contract.Finished, InError: 1}, time.Minute)
			time.Sleep(time.Hour)
		}
		all := l.ImportsSince("customers", time.Time{})
		if len(all) != importsKept {
			t.Fatalf("got %d imports, want %d", len(all), importsKept)
		}
		last := all[len(all)-1]
		if last.Rows != 5 || *last.InError != 1 || last.Status != "FINISHED" || last.Ended.Sub(last.Began) != time.Minute {
			t.Errorf("got %+v, want 5 rows, 1 in error, a minute long", last)
		}
		if got := l.ImportsSince("customers", time.Now().Add(-150*time.Minute)); len(got) != 2 {
			t.Errorf("of the last two and a half hours: got %d, want 2", len(got))
		}
		if got := l.ImportsSince("orders", time.Time{}); got == nil || len(got) != 0 {
			t.Errorf("of another mapping: got %#v, want a list without elements", got)
		}
	})
}
