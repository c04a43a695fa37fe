package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// calm is how long Prometheus has seen a sink before its trouble begins.
const calm = 20 * time.Minute

// remember puts a sink's metrics into Prometheus: as they were before, every minute
// of calm, and from then on, for as long as the trouble lasts, as they are since.
// What counts seconds goes on counting.
func (p *prometheus) remember(before, since model.Vector, trouble time.Duration) {
	p.t.Helper()
	app := p.store.Appender(p.t.Context())
	for at := time.Duration(0); at <= calm+trouble; at += every {
		samples, age := before, 0.0
		if at > calm {
			samples, age = since, (at - calm).Seconds()
		}
		for _, s := range samples {
			b := labels.NewBuilder(labels.FromStrings("namespace", "feeds", "job", "feedsink", "pod", "feedsink-0"))
			for name, value := range s.Metric {
				b.Set(string(name), string(value))
			}
			v := float64(s.Value)
			switch name := s.Metric[model.MetricNameLabel]; {
			case name == "feedsink_import_step_seconds", name == "feedsink_stalled_seconds", name == "feedsink_freshness_seconds" && v > 0:
				v += age
			}
			if _, err := app.Append(0, b.Labels(), at.Milliseconds(), v); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

// cause is trouble that a running sink is brought into, and what is raised by it.
type cause struct {
	variables map[string]string
	imports   time.Duration
	lanes     []schemas.Lane
	lasts     time.Duration // 0: half an hour
	make      func(w *world) (since model.Vector)
	raises    []string
}

var causes = map[string]cause{
	"none": {
		make: func(w *world) model.Vector {
			w.produce("crm", customer("C1", "now"), customer("C2", "later"))
			w.produce("shop", order("o1"))
			return w.until("all is confirmed", func(s model.Vector) bool {
				return value(s, "feedsink_records_total", "outcome", "confirmed") == 3 && value(s, "feedsink_lag_records") == 0
			})
		},
	},
	"a record that can never be applied, and no dead-letter topic": {
		variables: map[string]string{"DLQ": ""},
		make: func(w *world) model.Vector {
			w.produce("shop", `{`)
			return w.until("the mapping halts", func(s model.Vector) bool {
				return value(s, "feedsink_halted", "mapping", "orders") == 1 && value(s, "feedsink_lag_records") > 0
			})
		},
		raises: []string{"FeedsinkCallsStalled", "FeedsinkMappingHalted", "FeedsinkNotFresh"},
	},
	"a wrong API key": {
		variables: map[string]string{"KEY": "another"},
		make: func(w *world) model.Vector {
			return w.until("it has no token", func(s model.Vector) bool { return value(s, "feedsink_token_ok") == 0 })
		},
		raises: []string{"FeedsinkTokenFailing"},
	},
	"a service that fails": {
		variables: map[string]string{"FAILURES": "3"},
		make: func(w *world) model.Vector {
			w.api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
			w.produce("shop", order("o1"), order("o2"))
			return w.until("the breaker opens", func(s model.Vector) bool {
				return value(s, "feedsink_breaker_state") == 2 && value(s, "feedsink_lag_records") > 0
			})
		},
		raises: []string{"FeedsinkBreakerOpen", "FeedsinkCallsStalled", "FeedsinkNotFresh"},
	},
	"one key that is refused over and over": {
		make: func(w *world) model.Vector {
			w.api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: sandbox.Status(503)})
			w.produce("shop", order("o1"), order("o2"))
			return w.until("the others are confirmed", func(s model.Vector) bool {
				return value(s, "feedsink_writes_total", "outcome", "applied") == 1 && value(s, "feedsink_writes_total", "outcome", "retried") > 2 &&
					value(s, "feedsink_lag_records", "topic", "shop") > 0
			})
		},
		raises: []string{"FeedsinkCallsStalled", "FeedsinkNotFresh"},
	},
	"an import that does not end": {
		imports: 24 * time.Hour, lasts: 7 * time.Hour,
		make: func(w *world) model.Vector {
			w.produce("crm", customer("C1", "later"))
			return w.until("the import is at work", func(s model.Vector) bool {
				return value(s, "feedsink_import_step_seconds", "step", "importing") > 0 && value(s, "feedsink_lag_records", "lane", "batch") > 0 &&
					value(s, "feedsink_lag_records", "lane", "immediate") == 0
			})
		},
		raises: []string{"FeedsinkFilesStalled", "FeedsinkImportOverdue"},
	},
	"an objective that calls cannot keep": {
		variables: map[string]string{"WITHIN": "1us"}, lasts: 4 * time.Minute,
		make: func(w *world) model.Vector {
			w.produce("crm", customer("C1", "now"))
			return w.until("it was late", func(s model.Vector) bool {
				return value(s, "feedsink_objective_records_total", "kept", "no") == 1 && value(s, "feedsink_lag_records") == 0
			})
		},
		raises: []string{"FeedsinkObjectiveMissed", "FeedsinkObjectiveMissedSlowly"},
	},
	"a lane whose other lane does not run": {
		lanes: []schemas.Lane{schemas.Batch},
		make: func(w *world) model.Vector {
			w.produce("crm", customer("C1", "now"))
			return w.until("the record waits for the immediate lane", func(s model.Vector) bool {
				return value(s, "feedsink_partitions_waiting_for_routes", "lane", "batch") == 1 && value(s, "feedsink_lag_records") == 1
			})
		},
		raises: []string{"FeedsinkLaneAbsent", "FeedsinkRoutesDiffer"},
	},
	"a topic full of broken records": {
		lasts: 10 * time.Minute,
		make: func(w *world) model.Vector {
			w.produce("shop", slices.Repeat([]string{"{", "{", "{", order("o1")}, 50)...)
			return w.until("they are dead letters", func(s model.Vector) bool {
				return value(s, "feedsink_dead_letters_total", "reason", "decode") == 150 && value(s, "feedsink_lag_records") == 0
			})
		},
		raises: []string{"FeedsinkDeadLetterFlood", "FeedsinkDeadLetters"},
	},
	"a topic of broken records alone": {
		lasts: 10 * time.Minute,
		make: func(w *world) model.Vector {
			w.produce("shop", slices.Repeat([]string{"{"}, 150)...)
			return w.until("the mapping halts", func(s model.Vector) bool {
				return value(s, "feedsink_halted", "mapping", "orders") == 1 && value(s, "feedsink_lag_records") == 150-94 &&
					value(s, "feedsink_dead_letters_total", "reason", "decode") == 94
			})
		},
		raises: []string{"FeedsinkDeadLetters", "FeedsinkMappingHalted"},
	},
	"one slot a day": {
		variables: map[string]string{"SLOTS": "1"},
		make: func(w *world) model.Vector {
			w.produce("crm", customer("C1", "later"))
			return w.until("the import is confirmed", func(s model.Vector) bool {
				return value(s, "feedsink_records_total", "outcome", "confirmed") == 1 && value(s, "feedsink_import_slots_remaining") == 0 && value(s, "feedsink_lag_records") == 0
			})
		},
		raises: []string{"FeedsinkNoSlotLeft"},
	},
	"a file that the service refuses": {
		lasts: 10 * time.Minute,
		make: func(w *world) model.Vector {
			w.api.FailImports("customers", 1, "the execution timed out")
			w.produce("crm", customer("C1", "later"))
			return w.until("the second try succeeds", func(s model.Vector) bool {
				return value(s, "feedsink_imports_total", "status", "FAILED") == 1 && value(s, "feedsink_records_total", "outcome", "confirmed") == 1 && value(s, "feedsink_lag_records") == 0
			})
		},
		raises: []string{"FeedsinkImportFailed"},
	},
	"a changed configuration with a mistake": { // every reload of these sinks reads one
		make: func(w *world) model.Vector {
			if told, err := w.sink.Reload(w.t.Context()); err == nil {
				w.t.Errorf("reload: got %v, want an error", told)
			}
			return w.until("it is told", func(s model.Vector) bool { return value(s, "feedsink_config_last_reload_successful") == 0 })
		},
		raises: []string{"FeedsinkReloadFailed"},
	},
	"a small spool": {
		variables: map[string]string{"SPOOL": "17KiB", "AGE": "10h"}, imports: 24 * time.Hour,
		make: func(w *world) model.Vector {
			for n := range 100 { // one file of 16 KiB and a little more
				w.produce("crm", customer(fmt.Sprintf("C%06d", n), strings.Repeat("x", 200)))
			}
			return w.until("the spool is nearly full", func(s model.Vector) bool {
				const step = "feedsink_import_step_seconds" // one that passes is none to go on for hours from
				return value(s, "feedsink_spool_bytes") > 0.9*17*1024 && value(s, "feedsink_lag_records", "lane", "immediate") == 0 &&
					value(s, step) == value(s, step, "step", "importing")
			})
		},
		raises: []string{"FeedsinkSpoolNearlyFull"},
	},
}

// Each alert is raised by its cause in a sink that really runs, and no other one.
func TestAlertsAreRaisedByTheirCauses(t *testing.T) {
	raised := map[string]bool{"FeedsinkAbsent": true} // without a sink; see the test below
	for name, c := range causes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.imports, c.variables, c.lanes...)
			before := w.until("the sink is at work", func(s model.Vector) bool {
				return value(s, "feedsink_token_ok") == 1 || c.variables["KEY"] != ""
			})
			since := c.make(w)
			if c.lasts == 0 {
				c.lasts = 30 * time.Minute
			}
			p := newPrometheus(t, promqltest.LoadedStorage(t, ""))
			p.remember(before, since, c.lasts)
			p.until(calm + c.lasts)
			var got []string
			for _, alert := range p.alerts() {
				if len(p.firing(alert.Name())) > 0 {
					got = append(got, alert.Name())
				}
			}
			if slices.Sort(got); !slices.Equal(got, c.raises) {
				t.Errorf("got %q, want %q", got, c.raises)
			}
		})
		for _, name := range c.raises {
			raised[name] = true
		}
	}
	for _, alert := range newPrometheus(t, promqltest.LoadedStorage(t, "")).alerts() {
		if !raised[alert.Name()] {
			t.Errorf("%s: no cause raises it", alert.Name())
		}
	}
}

func TestNobodyThereIsAnAlert(t *testing.T) {
	p := newPrometheus(t, promqltest.LoadedStorage(t, ""))
	p.until(calm)
	if got := len(p.firing("FeedsinkAbsent")); got != 1 {
		t.Errorf("got %d alerts, want 1", got)
	}
}
