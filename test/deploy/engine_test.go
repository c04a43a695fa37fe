package deploy

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
)

const rulesFile = root + "/deploy/alerts/feedsink.rules.yaml"

// prometheus evaluates the alert rules over samples in a store, as Prometheus does.
type prometheus struct {
	t     *testing.T
	store storage.Storage
	group *rules.Group
	now   time.Time // of the next evaluation
}

// every is the interval of evaluations.
const every = time.Minute

// newPrometheus begins at the epoch, which is where promtool begins too.
func newPrometheus(t *testing.T, store storage.Storage) *prometheus {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(engine, store),
		Appendable: store, Queryable: store,
		Context:    t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     slog.New(slog.DiscardHandler),
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	p := &prometheus{t: t, store: store, now: time.Unix(0, 0).UTC()}
	for _, p.group = range groups {
		for _, r := range p.alerts() {
			r.SetRestored(true) // there is nothing to restore
		}
	}
	return p
}

// alerts are the rules, all of which are alerts.
func (p *prometheus) alerts() (all []*rules.AlertingRule) {
	for _, r := range p.group.Rules() {
		alert, ok := r.(*rules.AlertingRule)
		if !ok {
			p.t.Fatalf("%s: is no alert", r.Name())
		}
		all = append(all, alert)
	}
	return all
}

// until evaluates up to and including a time after the beginning.
func (p *prometheus) until(after time.Duration) {
	p.t.Helper()
	for ; !p.now.After(time.Unix(0, 0).Add(after)); p.now = p.now.Add(every) {
		p.group.Eval(p.t.Context(), p.now)
		for _, r := range p.group.Rules() {
			if err := r.LastError(); err != nil {
				p.t.Fatalf("%s: %v", r.Name(), err)
			}
		}
	}
}

// firing are the alerts of a name that are raised now, as their labels and
// annotations in text, sorted.
func (p *prometheus) firing(name string) (all []raised) {
	for _, r := range p.alerts() {
		for _, a := range r.ActiveAlerts() {
			if r.Name() == name && a.State == rules.StateFiring {
				all = append(all, raised{a.Labels.MatchLabels(false, labels.AlertName), a.Annotations})
			}
		}
	}
	slices.SortFunc(all, func(a, b raised) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// raised is an alert as its receiver gets it, without its name.
type raised struct{ labels, annotations labels.Labels }

func (r raised) String() string { return r.labels.String() + r.annotations.String() }
