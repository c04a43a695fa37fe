package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// unitTests is the part of promtool's format that the rules' tests use.
type unitTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []unitTest     `json:"tests"`
}

type unitTest struct {
	Name     string         `json:"name"`
	Interval model.Duration `json:"interval"`
	Input    []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	Alerts []struct {
		At       model.Duration `json:"eval_time"`
		Name     string         `json:"alertname"`
		Expected []struct {
			Labels      map[string]string `json:"exp_labels"`
			Annotations map[string]string `json:"exp_annotations"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

func readUnitTests(t *testing.T) (u unitTests) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/alerts/feedsink.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &u); err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(u.EvaluationInterval); got != every || !slices.Equal(u.RuleFiles, []string{filepath.Base(rulesFile)}) {
		t.Fatalf("got rules %q every %v, want %q every %v", u.RuleFiles, got, rulesFile, every)
	}
	return u
}

// The unit tests of the rules as promtool would run them, on the same engine.
func TestAlertsAreRaisedWhenTheyShould(t *testing.T) {
	for _, test := range readUnitTests(t).Tests {
		t.Run(test.Name, func(t *testing.T) {
			load := "load " + test.Interval.String() + "\n"
			for _, in := range test.Input {
				load += "  " + in.Series + " " + in.Values + "\n"
			}
			p := newPrometheus(t, promqltest.LoadedStorage(t, load))
			for _, alert := range test.Alerts {
				p.until(time.Duration(alert.At))
				var want []string
				for _, e := range alert.Expected {
					want = append(want, raised{labels.FromMap(e.Labels), labels.FromMap(e.Annotations)}.String())
				}
				slices.Sort(want)
				var got []string
				for _, r := range p.firing(alert.Name) {
					got = append(got, r.String())
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s at %v:\n got %q\nwant %q", alert.Name, alert.At, got, want)
				}
			}
		})
	}
}

// A new alert comes with a test that raises it, one that does not, and a page that
// says what to do.
func TestEveryAlertHasTestsAndARunbook(t *testing.T) {
	tested, spared := map[string]bool{}, map[string]bool{}
	for _, test := range readUnitTests(t).Tests {
		for _, alert := range test.Alerts {
			tested[alert.Name] = tested[alert.Name] || len(alert.Expected) > 0
			spared[alert.Name] = spared[alert.Name] || len(alert.Expected) == 0
		}
	}
	pages := map[string]bool{}
	for _, alert := range newPrometheus(t, promqltest.LoadedStorage(t, "")).alerts() {
		if !tested[alert.Name()] || !spared[alert.Name()] {
			t.Errorf("%s: raised by a test: %v, not raised by a near miss: %v", alert.Name(), tested[alert.Name()], spared[alert.Name()])
		}
		if severity := alert.Labels().Get("severity"); severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity is %q", alert.Name(), severity)
		}
		_, page, ok := strings.Cut(alert.Annotations().Get("runbook_url"), "/blob/main/")
		pages[filepath.Base(page)] = true
		text, err := os.ReadFile(filepath.Join(root, page))
		if !ok || err != nil {
			t.Errorf("%s: runbook %q: %v", alert.Name(), page, err)
			continue
		}
		for _, section := range []string{"# " + strings.TrimSuffix(filepath.Base(page), ".md") + "\n", "## What it means\n", "## What to do\n"} {
			if !strings.Contains(string(text), section) {
				t.Errorf("%s: lacks %q", page, section)
			}
		}
		if !strings.Contains(string(text), alert.Name()) {
			t.Errorf("%s: does not name %s", page, alert.Name())
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy/runbooks/Feedsink*.md"))
	if err != nil || len(files) != len(pages) {
		t.Errorf("runbooks: got %s, %v, want %d: one for each alert, no other", files, err, len(pages))
	}
}

func TestChartCarriesTheRules(t *testing.T) {
	names := func(file string) (names []string) {
		rule := one[*monitoringv1.PrometheusRule](t, objects(t, file), "")
		for _, group := range rule.Spec.Groups {
			for _, r := range group.Rules {
				names = append(names, r.Alert)
			}
		}
		slices.Sort(names)
		return names
	}
	var want []string
	for _, alert := range newPrometheus(t, promqltest.LoadedStorage(t, "")).alerts() {
		want = append(want, alert.Name())
	}
	slices.Sort(want)
	if got := names("testdata/values/files-only.yaml"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// That installation leaves one out and has one of its own.
	got := names("testdata/values/production.yaml")
	if len(got) != len(want) || slices.Contains(got, "FeedsinkFilesStalled") || !slices.Contains(got, "FeedsinkFilesStalledADay") {
		t.Errorf("with exceptions: got %q", got)
	}
}

// TestFreshnessIsOfItsAlertAlone: the chart's other alerts are the rules as they are, and
// the ages of the two lanes do not mix, whatever they are.
func TestFreshnessIsOfItsAlertAlone(t *testing.T) {
	type m = map[string]any
	rendered := func(freshness m) map[string]string {
		r := release(t, "")
		r.Values["prometheusRule"] = m{"enabled": true, "freshness": freshness}
		expressions := map[string]string{}
		for _, group := range one[*monitoringv1.PrometheusRule](t, objectsOf(t, r), "").Spec.Groups {
			for _, rule := range group.Rules {
				expressions[rule.Alert] = rule.Expr.String()
			}
		}
		return expressions
	}
	rules := map[string]string{}
	for _, alert := range newPrometheus(t, promqltest.LoadedStorage(t, "")).alerts() {
		rules[alert.Name()] = alert.Query().String()
	}
	for _, c := range []struct{ immediate, batch int }{{28800, 90000}, {60, 900}, {900, 28800}} {
		for name, query := range rendered(m{"immediate": c.immediate, "batch": c.batch}) {
			parsed, err := parser.NewParser(parser.Options{}).ParseExpr(query)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := rules[name]
			if name == "FeedsinkNotFresh" {
				want = strings.NewReplacer("> 900", fmt.Sprintf("> %d", c.immediate), "> 28800", fmt.Sprintf("> %d", c.batch)).Replace(want)
			}
			if parsed.String() != want {
				t.Errorf("%v: %s: got %s, want %s", c, name, parsed, want)
			}
		}
	}
}
