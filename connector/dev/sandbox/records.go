package sandbox

import (
	"cmp"
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

// reserved are the properties that the service adds to a retrieved record.
var reserved = []string{"id", "creationMoment", "updateMoment", businessKey}

func (b *recordBody) values(t *table) (map[string]any, error) {
	if b.Properties == nil {
		return nil, refuse(http.StatusBadRequest, "properties: required")
	}
	values := make(map[string]any, len(b.Properties)+1)
	for _, p := range b.Properties {
		r, has := t.rule(p.Name)
		if !has || p.Name == "" || slices.Contains(reserved, p.Name) {
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
func (s *Sandbox) putRecord(r *http.Request, c *call) (apply, error) {
	var body recordBody
	values, err := s.values(r, c, &body)
	if err != nil {
		return nil, err
	}
	update, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("allowUpdate"), "false"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "allowUpdate: %s", wrongType[Boolean])
	}
	if body.BusinessKey == "" && update {
		return nil, refuse(http.StatusBadRequest, "businessKey: required with allowUpdate=true")
	}
	if c.Key = body.BusinessKey; c.Key == "" {
		c.Key = uuid.NewString()
	}
	values[businessKey] = c.Key
	return s.onTable(c, func(t *table, now time.Time) (*Row, error) {
		found, err := t.match(values)
		switch {
		case err != nil:
			return nil, err
		case found == nil:
			return t.insert(values, now), nil
		case !update:
			return nil, refuse(http.StatusConflict, "a record with this business key exists")
		}
		return found, t.replace(found, merged(found.Values, values), now)
	}, keyAnswer), nil
}

// updateRecord is operation 5: it changes the properties given and creates
// nothing. Its answer is not shown: Shapes.Updated.
func (s *Sandbox) updateRecord(r *http.Request, c *call) (apply, error) {
	var body recordBody
	values, err := s.values(r, c, &body)
	if err != nil {
		return nil, err
	}
	c.Key = r.PathValue("key")
	if body.BusinessKey != "" && body.BusinessKey != c.Key {
		return nil, refuse(http.StatusBadRequest, "businessKey: not the one of the path")
	}
	respond := keyAnswer
	switch s.conf.Shapes.Updated {
	case "record":
		respond = s.recordAnswer
	case "empty":
		respond = func(*table, *Row) answer { return answer{status: http.StatusNoContent} }
	}
	return s.onRow(c, http.StatusNotFound, func(t *table, found *Row, now time.Time) error {
		return t.replace(found, merged(found.Values, values), now)
	}, respond), nil
}

// getRecord is operation 6. What a record that does not exist is answered is
// not shown: Shapes.Status.
func (s *Sandbox) getRecord(r *http.Request, c *call) (apply, error) {
	c.Key = r.PathValue("key")
	return s.onRow(c, s.conf.Shapes.Status.NoRecord, func(*table, *Row, time.Time) error { return nil }, s.recordAnswer), nil
}

// deleteRecord is operation 7.
func (s *Sandbox) deleteRecord(r *http.Request, c *call) (apply, error) {
	c.Key = r.PathValue("key")
	return s.onRow(c, http.StatusNotFound, remove, func(*table, *Row) answer { return answerOK(nil) }), nil
}

// recordAnswer is a record as operation 6 shows it. A property is a number or a
// string, whatever the type of its field.
func (s *Sandbox) recordAnswer(_ *table, r *Row) answer {
	at := func(t time.Time) string { return t.In(s.conf.Location).Format("2006-01-02T15:04:05.000-07:00") }
	body := recordBody{BusinessKey: r.Key, Properties: []property{
		{"id", json.Number(r.ID)},
		{"creationMoment", at(r.Created)},
		{"updateMoment", at(r.Updated)},
	}}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		v := r.Values[name]
		if _, number := v.(json.Number); !number {
			v = textOf(v)
		}
		if name != businessKey {
			body.Properties = append(body.Properties, property{name, v})
		}
	}
	return answerOK(body)
}

func keyAnswer(_ *table, r *Row) answer { return answerOK(map[string]string{businessKey: r.Key}) }
