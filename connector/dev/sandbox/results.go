package sandbox

import (
	"net/http"
	"strconv"
)

// results is operation 11. Beside status, error and counters the answer
// carries the execution's id.
func (s *Sandbox) results(r *http.Request, _ *call) (func() (answer, error), error) {
	return func() (answer, error) {
		e, err := s.imports.find(r.PathValue("execution"))
		if err != nil {
			return answer{}, refuse(http.StatusNotFound, "no such execution")
		}
		s.imports.mu.Lock()
		state, first := e.state, !e.asked
		e.asked = true
		s.imports.mu.Unlock()
		body := map[string]any{"id": state.ID, "status": state.Status}
		switch {
		case state.Status == Failed:
			body["error"] = s.conf.Shapes.Failure.body(state.Error)
		case state.Status == Finished:
			body["integrationResults"] = s.conf.Shapes.integration(state)
		case first:
			body["status"] = s.conf.Shapes.Initial
		}
		return answer{status: http.StatusOK, body: body}, nil
	}, nil
}

// body is the error of an execution that FAILED.
func (f FailureShape) body(text string) any {
	one := map[string]string{"code": "IMPORT_FAILED", "message": text}
	switch f {
	case FailureObject:
		return one
	case FailureList:
		return []any{one}
	}
	return text
}

// integration is the integrationResults of an execution that is FINISHED.
func (s Shapes) integration(e Execution) any {
	switch s.Results {
	case ResultsNested:
		return map[string]any{"counters": s.counters(e.Results)}
	case ResultsFiles:
		files := make([]any, len(e.Loads))
		for i, l := range e.Loads {
			counters := s.counters(l.Results)
			counters["fileName"] = l.File
			files[i] = counters
		}
		return files
	}
	return s.counters(e.Results)
}

// counters are the configured names with their numbers.
func (s Shapes) counters(r Results) map[string]any {
	counters := map[string]any{}
	for i, n := range []int64{r.Read, r.InError, r.Inserted, r.Updated, r.Deleted} {
		if s.Results == ResultsText {
			counters[s.Counters[i]] = strconv.FormatInt(n, 10)
		} else {
			counters[s.Counters[i]] = n
		}
	}
	return counters
}
