//go:build !image

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// besideImmediate runs a sink whose customers go by an immediate route, or an auto route with a
// file of that age.
func (w *world) besideImmediate(age string) {
	w.t.Helper()
	sink := w.start(head + deadLetters + strings.NewReplacer("{lane: batch}", "{lane: auto}", "age: 500ms", "age: "+age).Replace(mappings))
	w.has(sink, "immediate", "batch") // what is there before goes by file
}

func TestRowsBesideAnImmediateRouteAreCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.besideImmediate("1h")
	for seq := range 3 {
		for i := range 20 {
			w.produce(customer(fmt.Sprint("C", i), []string{"basic", "gold"}[i%2], seq))
		}
		w.landed()
	}
	if got := len(w.service.Executions()); got != 0 {
		t.Errorf("imports: got %d, want none", got)
	}
}
