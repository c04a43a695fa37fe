package observe

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// TestSeriesAreFoundOnce: whoever is first, all count in the same series, and
// none is there before it is needed.
func TestSeriesAreFoundOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("got %d metrics and error %v before the first write, want none", len(families), err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				outcome := []string{"applied", "rejected"}[i%2]
				m.WritesEnded("customers", schemas.Immediate, schemas.Upsert, outcome, 1)
			}
		})
	}
	all.Wait()
	for _, outcome := range []string{"applied", "rejected"} {
		var got dto.Metric
		if err := m.writes.WithLabelValues("customers", "immediate", "upsert", outcome).Write(&got); err != nil || got.GetCounter().GetValue() != 400 {
			t.Errorf("%s: got %v writes and error %v, want 400", outcome, got.GetCounter().GetValue(), err)
		}
	}
}

func BenchmarkSeries(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		m.WritesEnded("customers", schemas.Immediate, schemas.Upsert, "applied", 1)
	}
}

func BenchmarkSeriesByLabels(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		m.writes.WithLabelValues("customers", schemas.Immediate.String(), schemas.Upsert.String(), "applied").Inc()
	}
}

func BenchmarkJudged(b *testing.B) {
	m, o := NewMetrics(prometheus.NewRegistry()), &router.Objective{Mapping: "customers", Route: "gold", Within: time.Second}
	for name, of := range map[string]*router.Objective{"objective": o, "none": nil} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Judged(of, time.Millisecond, 1)
			}
		})
	}
}

// TestDeadLettersOfNoRecordBegin: their first are an increase, to Prometheus, where this
// process sends files.
func TestDeadLettersOfNoRecordBegin(t *testing.T) {
	load := router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}
	for name, c := range map[string]struct {
		lane string
		runs []schemas.Lane
		want int
	}{
		"files":                     {"batch", schemas.Lanes, 1},
		"files, by another process": {"batch", []schemas.Lane{schemas.Immediate}, 0},
		"calls":                     {"immediate", schemas.Lanes, 0},
	} {
		compiled, problems := router.Compile([]router.Mapping{{
			Name: "customers", Topics: []string{"crm"}, ProfileTable: "customers", Key: "customerNumber", Routes: []router.Route{{Lane: c.lane}},
			Imports: router.Imports{Upsert: &load, Columns: []router.Column{{Name: "customerNumber"}}},
		}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		m := NewMetrics(prometheus.NewRegistry())
		m.Begin(compiled.Mappings(), c.runs)
		if got := m.deadLetters.DeletePartialMatch(prometheus.Labels{"topic": "", "reason": "import_row"}); got != c.want {
			t.Errorf("%s: got %d series, want %d", name, got, c.want)
		}
	}
}
