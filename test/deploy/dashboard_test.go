package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	corev1 "k8s.io/api/core/v1"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

type dashboard struct {
	Title       string
	Panels      []panel
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/feedsink.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// filled puts values where Grafana would put those of its variables.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$job", ".*", "$mapping", ".*")

// busy is a sink that has done everything once: both lanes, a call that was
// repeated, a delete that found nothing, a dead letter, an import that has ended and
// one that has not, with an open file behind it.
func busy(t *testing.T) model.Vector {
	t.Helper()
	w := newWorld(t, 0, map[string]string{"AGE": "50ms", "SLOTS": "1000000"})
	w.api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Count: 1, Answer: sandbox.Status(503)})
	w.produce("shop", order("o1"), `{`)
	w.produce("crm", customer("C1", "now"), customer("C2", "later"))
	w.until("an import has ended", func(s model.Vector) bool { return value(s, "feedsink_imports_total", "status", "FINISHED") == 1 })
	w.api.Hold()
	w.produce("crm", customer("C3", "later"))
	w.until("another has not", func(s model.Vector) bool {
		return len(w.api.Executions()) == 2 && value(s, "feedsink_import_step_seconds", "step", "importing") > 0
	})
	w.produce("crm", customer("C4", "later"))
	return w.until("a file is open, calls were made", func(s model.Vector) bool {
		return value(s, "feedsink_batch_rows") == 1 && value(s, "feedsink_dead_letters_total") == 1 && value(s, "feedsink_writes_total", "outcome", "retried") == 1 &&
			value(s, "feedsink_writes_total", "lane", "immediate", "outcome", "applied") == 2
	})
}

// targetLabels are what Prometheus adds to each series.
var targetLabels = []string{"namespace", "job", "pod", "instance", "le"}

// metricsOf are the names in a scrape, each with its labels.
func metricsOf(samples model.Vector) map[string][]string {
	metrics := map[string][]string{}
	for _, s := range samples {
		name := string(s.Metric[model.MetricNameLabel])
		if metrics[name] == nil {
			metrics[name] = slices.Clone(targetLabels)
		}
		for label := range s.Metric {
			metrics[name] = append(metrics[name], string(label))
		}
	}
	return metrics
}

// named checks that an expression asks for metrics and labels that there are, and
// returns the metrics.
func named(t *testing.T, where, expr string, metrics map[string][]string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return nil
	}
	var every []string // labels of any of its metrics
	for _, selector := range parser.ExtractSelectors(parsed) {
		name := ""
		for _, m := range selector {
			if m.Name == model.MetricNameLabel {
				name = m.Value
			}
		}
		has, there := metrics[name]
		if !there {
			t.Errorf("%s: asks for %s, which is not in /metrics", where, name)
		}
		for _, m := range selector {
			if m.Name != model.MetricNameLabel && !slices.Contains(has, m.Name) {
				t.Errorf("%s: asks for %s{%s}, which has only %q", where, name, m.Name, has)
			}
		}
		names, every = append(names, name), append(every, has...)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range a.Grouping {
				if !slices.Contains(every, label) {
					t.Errorf("%s: groups by %s, which no metric of it has", where, label)
				}
			}
		}
		return nil
	})
	return names
}

// What the rules and the dashboard ask for is there, and what the sink says of itself
// is on the dashboard.
func TestEveryMetricNamedExists(t *testing.T) {
	samples := busy(t)
	metrics := metricsOf(samples)
	for _, alert := range newPrometheus(t, promqltest.LoadedStorage(t, "")).alerts() {
		named(t, alert.Name(), alert.Query().String(), metrics)
	}
	shown := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			for _, name := range named(t, p.Title, filled.Replace(target.Expr), metrics) {
				shown[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if own := strings.HasPrefix(name, "feedsink_") && !strings.HasPrefix(name, "feedsink_kafka_"); own && !shown[base] {
			t.Errorf("%s: is on no panel of the dashboard", name)
		}
	}
}

func TestPanelsShowSomethingOfABusySink(t *testing.T) {
	p := newPrometheus(t, promqltest.LoadedStorage(t, ""))
	samples := busy(t)
	p.remember(samples, samples, 10*time.Minute)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			query, err := engine.NewInstantQuery(t.Context(), p.store, nil, filled.Replace(target.Expr), time.Unix(0, 0).Add(calm+10*time.Minute))
			if err != nil {
				t.Errorf("%s: %v", panel.Title, err)
				continue
			}
			vector, err := query.Exec(t.Context()).Vector()
			if err != nil || len(vector) == 0 {
				t.Errorf("%s: %s: got no series, %v", panel.Title, target.Expr, err)
				continue
			}
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if label[1] != "instance" && vector[0].Metric.Get(label[1]) == "" { // outside of Kubernetes there is no pod but an instance
					t.Errorf("%s: its legend names %s, which its series do not have: %v", panel.Title, label[1], vector[0].Metric)
				}
			}
		}
	}
}

func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, taken := ids[p.ID]; taken {
			t.Errorf("%s: has the id %d of %s", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%s: has no description or no query", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("%s: lies over %q or the edge at %d, %d", p.Title, other, x, y)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
	variables := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/feedsink.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(variables, used[1]) {
			t.Errorf("$%s: is no variable of the dashboard", used[1])
		}
	}
}

func TestChartCarriesTheDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/feedsink.json"))
	if err != nil {
		t.Fatal(err)
	}
	got := one[*corev1.ConfigMap](t, objects(t, "testdata/values/production.yaml"), "-dashboard").Data["feedsink.json"]
	if strings.TrimSpace(got) != strings.TrimSpace(string(text)) {
		t.Errorf("got %s…, want the dashboard", fmt.Sprintf("%.200s", got))
	}
}
