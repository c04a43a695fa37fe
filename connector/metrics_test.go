package connector

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// promised is every metric of the sink with its labels.
var promised = map[string]string{
	"feedsink_records_total":                                "outcome topic",
	"feedsink_writes_total":                                 "lane mapping op outcome",
	"feedsink_write_duration_seconds":                       "mapping op",
	"feedsink_calls_total":                                  "mapping op status",
	"feedsink_delivery_seconds":                             "lane mapping",
	"feedsink_objective_records_total":                      "kept mapping route",
	"feedsink_objective_ratio":                              "mapping route",
	"feedsink_freshness_seconds":                            "lane mapping",
	"feedsink_waiting":                                      "cause lane",
	"feedsink_build_info":                                   "commit goversion version",
	"feedsink_config_last_reload_success_timestamp_seconds": "",
	"feedsink_config_last_reload_successful":                "",
	"feedsink_unconfirmed_records":                          "partition state topic",
	"feedsink_calls_in_flight":                              "",
	"feedsink_concurrency_limit":                            "",
	"feedsink_breaker_state":                                "table",
	"feedsink_batch_rows":                                   "mapping",
	"feedsink_batch_bytes":                                  "mapping",
	"feedsink_batch_age_seconds":                            "mapping",
	"feedsink_imports_total":                                "mapping mode status",
	"feedsink_import_duration_seconds":                      "mapping",
	"feedsink_import_slots_remaining":                       "table",
	"feedsink_dead_letters_total":                           "reason topic",
	"feedsink_receipts_total":                               "outcome",
	"feedsink_unread_fields_total":                          "topic",
	"feedsink_pending_bytes":                                "",
	"feedsink_pending_max_bytes":                            "",
	"feedsink_spool_bytes":                                  "",
	"feedsink_spool_free_bytes":                             "",
	"feedsink_halted":                                       "mapping",
	"feedsink_paused":                                       "mapping",
	"feedsink_lag_records":                                  "lane topic",
	"feedsink_stalled_seconds":                              "lane topic",
	"feedsink_spool_max_bytes":                              "",
	"feedsink_token_ok":                                     "",
	"feedsink_lane_running":                                 "group lane",

	"feedsink_partitions_waiting_for_routes": "lane",
}

func TestMetricsAreTheContract(t *testing.T) {
	sink := atWork(t)
	// A record is counted when its commit was acknowledged, a moment later.
	var families []*dto.MetricFamily
	until(t, "every record is counted", func() bool {
		families = gathered(t, sink)
		return sum(families, "feedsink_records_total") == 7
	})
	got := map[string]string{}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels, pairs []string
			for _, l := range m.GetLabel() {
				labels, pairs = append(labels, l.GetName()), append(pairs, l.GetValue())
			}
			got[f.GetName()] = strings.Join(labels, " ")
			values[f.GetName()+" "+strings.Join(pairs, " ")] = m.GetCounter().GetValue()
		}
		if f.GetHelp() == "" {
			t.Errorf("%s: has no help", f.GetName())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(promised)) {
		if got[name] == "" && (name == "feedsink_unconfirmed_records" || name == "feedsink_stalled_seconds") { // there are none at present
			continue
		}
		if labels, there := got[name]; !there || labels != promised[name] {
			t.Errorf("%s: got labels %q (there: %v), want %q", name, labels, there, promised[name])
		}
	}
	for name := range got {
		own := strings.HasPrefix(name, "feedsink_") && !strings.HasPrefix(name, "feedsink_kafka_") // those are the client's
		_, known := promised[name]
		known = known || name == "feedsink_import_step_seconds" // only while there is an import
		if own && !known {
			t.Errorf("%s: is no metric that was promised", name)
		}
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promtool check metrics: got %v and error %v, want nothing", problems, err)
	}
	documented(t, families)
	for what, want := range map[string]float64{
		"feedsink_records_total confirmed crm":                       2,
		"feedsink_records_total other_lane crm":                      2,
		"feedsink_records_total confirmed shop":                      1,
		"feedsink_records_total dead_letter shop":                    2,
		"feedsink_writes_total immediate customers upsert applied":   1,
		"feedsink_writes_total batch customers upsert applied":       1,
		"feedsink_writes_total immediate orders upsert retried":      1,
		"feedsink_writes_total immediate orders upsert applied":      1,
		"feedsink_writes_total immediate orders patch rejected":      1,
		"feedsink_calls_total customers upsert 200":                  1,
		"feedsink_calls_total orders upsert 503":                     1,
		"feedsink_calls_total orders upsert 200":                     1,
		"feedsink_calls_total orders patch 404":                      1,
		"feedsink_imports_total customers CREATE_OR_UPDATE FINISHED": 1,
		"feedsink_dead_letters_total decode shop":                    1,
		"feedsink_dead_letters_total not_found shop":                 1,
		"feedsink_objective_records_total yes customers urgent":      1,
		"feedsink_objective_records_total no customers urgent":       0,
		"feedsink_objective_records_total yes customers 2":           1,
		"feedsink_objective_records_total no customers 2":            0,
		"feedsink_receipts_total called":                             2,
		"feedsink_receipts_total imported":                           1,
		"feedsink_receipts_total dead_letter":                        2,
	} {
		if got := values[what]; got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
}

// documented compares what a run shows with the page that lists it.
func documented(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	page, err := os.ReadFile("../deploy/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "| `feedsink_"); ok {
			name, _, _ = strings.Cut(name, "`")
			listed["feedsink_"+name] = true
		}
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "feedsink_kafka_") || !strings.HasPrefix(f.GetName(), "feedsink_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want := fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
		if !strings.Contains(string(page), want) {
			t.Errorf("deploy/metrics.md: want the line\n%s", want)
		}
	}
	for name := range promised {
		if !listed[name] {
			t.Errorf("%s: is not listed in deploy/metrics.md", name)
		}
	}
}

func gathered(t *testing.T, s *Sink) []*dto.MetricFamily {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sum is a counter over all of its labels.
func sum(families []*dto.MetricFamily, name string) (total float64) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}
