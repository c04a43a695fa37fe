package said

import (
	"fmt"
	"slices"
	"sync"
)

// Executions are ids that the service has said of executions, the last ones. Its methods may
// be called from any goroutine; the zero value has none.
type Executions struct {
	mu  sync.Mutex
	ids []string
}

// mostExecutions is days of imports of hundreds of tables.
const mostExecutions = 10_000

// Add adds one.
func (e *Executions) Add(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ids) == mostExecutions {
		e.ids = slices.Delete(e.ids, 0, 1)
	}
	e.ids = append(e.ids, id)
}

// Has reports whether it is one of them.
func (e *Executions) Has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.ids, id)
}

// Repeated is an error if the answer to a trigger names one of them: something in between may answer with
// what the service said before, and whether the service has taken the file is not known.
func (e *Executions) Repeated(id string) error {
	if !e.Has(id) {
		return nil
	}
	return fmt.Errorf("the answer names execution %s, which is an earlier import's; check any gateway or proxy in between", id)
}
