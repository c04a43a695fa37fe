package sandbox

import (
	"net/http"
	"net/url"
	"time"
)

// profileBody is the request of operations 1 and 2.
type profileBody struct {
	Attributes     map[string]any `json:"attributes"`
	Subscriptions  map[string]any `json:"subscriptions"`
	Segments       map[string]any `json:"segments"`
	DataCollection *struct {
		Date   *string `json:"date"`
		Source *string `json:"source"`
		Way    *string `json:"way"`
	} `json:"dataCollection"`
}

// values checks a body against the table and flattens it to column names.
func (b *profileBody) values(t *table) (map[string]any, error) {
	values := make(map[string]any, len(b.Attributes)+len(b.Subscriptions)+len(b.Segments))
	for name := range b.Attributes {
		if _, ok := technical[name]; ok {
			return nil, refuse(http.StatusBadRequest, "attributes.%s: a technical attribute is taken from CREATE_ONLY imports alone", name)
		}
	}
	for _, section := range []struct {
		name, mark, prefix string
		members            map[string]any
	}{
		{"attributes", "", "", b.Attributes},
		{"subscriptions", "subscriptions", subscriptionPrefix, b.Subscriptions},
		{"segments", "segments", segmentPrefix, b.Segments},
	} {
		for name, v := range section.members {
			r, ok := t.rule(section.prefix + name)
			if !ok || !r.free && r.section != section.mark {
				return nil, refuse(http.StatusBadRequest, "%s.%s: the table has no such field", section.name, name)
			}
			checked, err := r.fromJSON(v)
			if err != nil {
				return nil, refuse(http.StatusBadRequest, "%s.%s: %s", section.name, name, err)
			}
			values[section.prefix+name] = checked
		}
	}
	return values, b.consent(values)
}

// consent adds the context of the consent.
func (b *profileBody) consent(values map[string]any) error {
	if b.DataCollection == nil {
		return nil
	}
	for name, v := range map[string]*string{
		"date": b.DataCollection.Date, "source": b.DataCollection.Source, "way": b.DataCollection.Way,
	} {
		if v == nil {
			continue
		}
		if _, err := time.Parse(time.RFC3339, *v); name == "date" && err != nil {
			return refuse(http.StatusBadRequest, "dataCollection.date: not a timestamp with Z or an offset")
		}
		values[consentPrefix+name] = *v
	}
	return nil
}

// profileReference is the response of operations 1 and 2.
func profileReference(entity string, t *table, id string) answer {
	href := "/profiles/v5/entities/" + url.PathEscape(entity) + "/profile-tables/" + url.PathEscape(t.conf.Name) + "/profiles/" + id
	return answer{status: http.StatusOK, body: struct {
		ID    string         `json:"id"`
		Links map[string]any `json:"_links"`
	}{id, map[string]any{"self": map[string]string{"href": href}}}}
}

// putProfile is operation 1: the whole profile is replaced by the body where
// its unique keys match one, and created where they match none.
func (s *Sandbox) putProfile(r *http.Request, c *call) (func() (answer, error), error) {
	t, values, err := s.profileCall(r, c)
	if err != nil {
		return nil, err
	}
	c.Key = t.keyOf(values)
	return func() (answer, error) {
		now := s.conf.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		found, err := t.match(values)
		if err != nil {
			return answer{}, err
		}
		if found == nil {
			found = t.insert(values, now)
		} else if err := t.replace(found, values, now); err != nil {
			return answer{}, err
		}
		c.ID, c.Seq = found.ID, s.log.seq.Add(1)
		return profileReference(s.conf.Entity, t, found.ID), nil
	}, nil
}

// patchProfile is operation 2. What an id that does not exist is answered is
// not shown: Shapes.Status.
func (s *Sandbox) patchProfile(r *http.Request, c *call) (func() (answer, error), error) {
	t, values, err := s.profileCall(r, c)
	if err != nil {
		return nil, err
	}
	c.ID, c.Key = r.PathValue("id"), t.keyOf(values)
	return func() (answer, error) {
		now := s.conf.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.rows[c.ID]
		if found == nil {
			return answer{}, refuse(s.conf.Shapes.Status.NoProfile, "no profile has this id")
		}
		if err := t.replace(found, merged(found.Values, values), now); err != nil {
			return answer{}, err
		}
		c.Key, c.Seq = found.Key, s.log.seq.Add(1)
		return profileReference(s.conf.Entity, t, found.ID), nil
	}, nil
}

// profileCall reads what operations 1 and 2 have in common.
func (s *Sandbox) profileCall(r *http.Request, c *call) (*table, map[string]any, error) {
	t, err := s.profileTable(r)
	if err != nil {
		return nil, nil, err
	}
	var body profileBody
	if err := s.body(r, c, &body); err != nil {
		return nil, nil, err
	}
	values, err := body.values(t)
	c.Values = values
	return t, values, err
}

// deleteProfile is operation 3.
func (s *Sandbox) deleteProfile(r *http.Request, c *call) (func() (answer, error), error) {
	t, err := s.profileTable(r)
	if err != nil {
		return nil, err
	}
	c.ID = r.PathValue("id")
	return func() (answer, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.rows[c.ID]
		if found == nil {
			return answer{}, refuse(http.StatusNotFound, "no profile has this id")
		}
		t.remove(found)
		c.Key, c.Seq = found.Key, s.log.seq.Add(1)
		return answer{status: http.StatusNoContent}, nil
	}, nil
}
