package sandbox

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// property is a field of a table record on the wire.
type property struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// recordBody is the request of operations 4 and 5. That operation 5 takes the
// shape of operation 4 is the sandbox's choice: the document does not show it.
type recordBody struct {
	BusinessKey string     `json:"businessKey"`
	Properties  []property `json:"properties"`
}

// moment is how timestamps of a retrieved record are written.
const moment = "2006-01-02T15:04:05.000-07:00"

// reserved are the properties that the service adds to a retrieved record.
var reserved = []string{"id", "creationMoment", "updateMoment", businessKey}

func (b *recordBody) values(t *table) (map[string]any, error) {
	if b.Properties == nil {
		return nil, refuse(http.StatusBadRequest, "properties: required")
	}
	values := make(map[string]any, len(b.Properties)+1)
	for _, p := range b.Properties {
		r, ok := t.rule(p.Name)
		if !ok || p.Name == "" || slices.Contains(reserved, p.Name) {
			return nil, refuse(http.StatusBadRequest, "property %q: the table has no such field to write", p.Name)
		}
		if _, twice := values[p.Name]; twice {
			return nil, refuse(http.StatusBadRequest, "property %s: given twice", p.Name)
		}
		checked, err := r.fromProperty(p.Value)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "property %s: %s", p.Name, err)
		}
		values[p.Name] = checked
	}
	return values, nil
}

// putRecord is operation 4. An existing record keeps the properties that the
// body does not name.
func (s *Sandbox) putRecord(r *http.Request, c *call) (func() (answer, error), error) {
	t, body, values, err := s.recordCall(r, c)
	if err != nil {
		return nil, err
	}
	update := false
	if text := r.URL.Query().Get("allowUpdate"); text != "" {
		if update, err = strconv.ParseBool(text); err != nil {
			return nil, refuse(http.StatusBadRequest, "allowUpdate: %s", errNotBoolean)
		}
	}
	if body.BusinessKey == "" {
		if update {
			return nil, refuse(http.StatusBadRequest, "businessKey: required with allowUpdate=true")
		}
		body.BusinessKey = uuid.NewString()
	}
	c.Key = body.BusinessKey
	values[businessKey] = body.BusinessKey
	return func() (answer, error) {
		now := s.conf.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		found, err := t.match(values)
		switch {
		case err != nil:
			return answer{}, err
		case found == nil:
			found = t.insert(values, now)
		case !update:
			return answer{}, refuse(http.StatusConflict, "a record with this business key exists")
		default:
			if err := t.replace(found, merged(found.Values, values), now); err != nil {
				return answer{}, err
			}
		}
		c.ID, c.Seq = found.ID, s.log.seq.Add(1)
		return keyAnswer(found), nil
	}, nil
}

// updateRecord is operation 5: it changes the properties given and creates
// nothing. Its answer is not shown: Shapes.Updated.
func (s *Sandbox) updateRecord(r *http.Request, c *call) (func() (answer, error), error) {
	t, body, values, err := s.recordCall(r, c)
	if err != nil {
		return nil, err
	}
	c.Key = r.PathValue("key")
	if body.BusinessKey != "" && body.BusinessKey != c.Key {
		return nil, refuse(http.StatusBadRequest, "businessKey: not the one of the path")
	}
	return func() (answer, error) {
		now := s.conf.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.index[businessKey][c.Key]
		if found == nil {
			return answer{}, noRecord()
		}
		if err := t.replace(found, merged(found.Values, values), now); err != nil {
			return answer{}, err
		}
		c.ID, c.Seq = found.ID, s.log.seq.Add(1)
		switch s.conf.Shapes.Updated {
		case UpdatedRecord:
			return s.recordAnswer(found), nil
		case UpdatedEmpty:
			return answer{status: http.StatusNoContent}, nil
		}
		return keyAnswer(found), nil
	}, nil
}

// getRecord is operation 6. What a record that does not exist is answered is
// not shown: Shapes.Status.
func (s *Sandbox) getRecord(r *http.Request, c *call) (func() (answer, error), error) {
	t, err := s.customTable(r)
	if err != nil {
		return nil, err
	}
	c.Key = r.PathValue("key")
	return func() (answer, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.index[businessKey][c.Key]
		if found == nil {
			return answer{}, refuse(s.conf.Shapes.Status.NoRecord, "no record has this business key")
		}
		c.ID = found.ID
		return s.recordAnswer(found), nil
	}, nil
}

// deleteRecord is operation 7.
func (s *Sandbox) deleteRecord(r *http.Request, c *call) (func() (answer, error), error) {
	t, err := s.customTable(r)
	if err != nil {
		return nil, err
	}
	c.Key = r.PathValue("key")
	return func() (answer, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.index[businessKey][c.Key]
		if found == nil {
			return answer{}, noRecord()
		}
		t.remove(found)
		c.ID, c.Seq = found.ID, s.log.seq.Add(1)
		return answer{status: http.StatusOK}, nil
	}, nil
}

// recordCall reads what operations 4 and 5 have in common.
func (s *Sandbox) recordCall(r *http.Request, c *call) (*table, *recordBody, map[string]any, error) {
	t, err := s.customTable(r)
	if err != nil {
		return nil, nil, nil, err
	}
	var body recordBody
	if err := s.body(r, c, &body); err != nil {
		return nil, nil, nil, err
	}
	values, err := body.values(t)
	c.Values = values
	return t, &body, values, err
}

// onWire is a stored value as a number or a string, which is all that a
// property can be.
func onWire(v any) any {
	if n, ok := v.(json.Number); ok {
		return n
	}
	return textOf(v)
}

// recordAnswer is a record as operation 6 shows it.
func (s *Sandbox) recordAnswer(r *Row) answer {
	at := func(moments time.Time) string { return moments.In(s.conf.Location).Format(moment) }
	body := recordBody{BusinessKey: r.Key, Properties: []property{
		{"id", json.Number(r.ID)},
		{"creationMoment", at(r.Created)},
		{"updateMoment", at(r.Updated)},
	}}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		if name != businessKey {
			body.Properties = append(body.Properties, property{name, onWire(r.Values[name])})
		}
	}
	return answer{status: http.StatusOK, body: body}
}

func keyAnswer(r *Row) answer {
	return answer{status: http.StatusOK, body: map[string]string{businessKey: r.Key}}
}

func noRecord() error { return refuse(http.StatusNotFound, "no record has this business key") }
