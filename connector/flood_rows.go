package connector

import (
	"slices"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/deadletter"
)

// rowsRefused is what all rows in error have in common.
var rowsRefused = refusal{stage: deadletter.Delivering, code: codeImportRow}

var _ batcher.Floods = (*floods)(nil)

// Suspects implements batcher.Floods.
func (f *floods) Suspects(mapping string, rows, inError int64) bool {
	g := f.gateNamed(mapping)
	if f.off() || g == nil || inError == 0 {
		return false
	}
	rows, inError = f.scaled(rows, inError)
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.answered.Load() + rows - f.window // what came up to it does not count any more
	older := 0
	for _, at := range g.refused[rowsRefused] {
		if at > first {
			older++
		}
	}
	return g.reason != "" || int64(older)+inError >= f.alike
}

// Ended implements batcher.Floods. A file of more rows than the window stands in it
// with its share of rows in error; one of fewer counts together with those before.
func (f *floods) Ended(mapping string, rows, inError int64) (reason string) {
	g := f.gateNamed(mapping)
	if f.off() || g == nil {
		return ""
	}
	rows, inError = f.scaled(rows, inError)
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.answered.Add(rows)
	if g.reason != "" || inError == 0 {
		return g.reason
	}
	var alike int64
	for i := range inError {
		alike = g.refused.add(rowsRefused, seen-rows+1+i, f.limits)
	}
	g.judge(rowsRefused, seen, alike)
	return g.reason
}

// scaled are a file's rows as a window can hold them.
func (f *floods) scaled(rows, inError int64) (scaledRows, scaledInError int64) {
	if inError = min(inError, rows); rows > f.window {
		return f.window, int64(float64(inError) / float64(rows) * float64(f.window))
	}
	return rows, inError
}

func (f *floods) gateNamed(mapping string) *gate {
	if i := slices.IndexFunc(f.gates, func(g *gate) bool { return g.mapping.Name == mapping }); i >= 0 {
		return f.gates[i]
	}
	return nil
}
