package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Rejection puts rows of imports in error that break no rule: the service may
// have rules that no client knows.
type Rejection struct {
	Table  string `json:"table,omitempty"`  // "": every table
	Column string `json:"column"`           // field whose value is looked at
	Match  string `json:"match"`            // regular expression that its text has to match
	Code   string `json:"code,omitempty"`   // where the error file has one; "": REFUSED
	Reason string `json:"reason,omitempty"` // "": "refused by a rule of the table"

	pattern *regexp.Regexp
}

// RejectRows adds rejections; the first that matches a row gives its reason.
// They hold for executions that end from now on.
func (s *Sandbox) RejectRows(list ...Rejection) error {
	list = slices.Clone(list)
	for i, r := range list {
		pattern, err := regexp.Compile(r.Match)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		if r.Column == "" {
			return errors.New("column: the name of a field is needed")
		}
		list[i].pattern = pattern
		list[i].Code = cmp.Or(r.Code, "REFUSED")
		list[i].Reason = cmp.Or(r.Reason, "refused by a rule of the table")
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.refused = append(s.imports.refused, list...)
	return nil
}

// ClearRejections ends all rejections.
func (s *Sandbox) ClearRejections() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.refused = nil
}

// rejections are those of one table.
func (i *imports) rejections(table string) []Rejection {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.refused), func(r Rejection) bool { return r.Table != "" && r.Table != table })
}

// rejects reports why a row is refused, nil when it is not.
func rejects(list []Rejection, values map[string]any) error {
	for _, r := range list {
		if v, ok := values[r.Column]; ok && r.pattern.MatchString(textOf(v)) {
			return reason{r.Code, r.Reason}
		}
	}
	return nil
}
