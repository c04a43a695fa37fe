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
		if _, is := technical[name]; is {
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
			r, has := t.rule(section.prefix + name)
			if !has || !r.free && r.section != section.mark {
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
func (s *Sandbox) profileReference(t *table, r *Row) answer {
	href := "/profiles/v5/entities/" + url.PathEscape(s.conf.Entity) + "/profile-tables/" + url.PathEscape(t.conf.Name) + "/profiles/" + r.ID
	return answerOK(struct {
		ID    string         `json:"id"`
		Links map[string]any `json:"_links"`
	}{r.ID, map[string]any{"self": map[string]string{"href": href}}})
}

// putProfile is operation 1: the whole profile is replaced by the body where
// its unique keys match one, and created where they match none.
func (s *Sandbox) putProfile(r *http.Request, c *call) (apply, error) {
	values, err := s.values(r, c, &profileBody{})
	if err != nil {
		return nil, err
	}
	c.Key = c.table.keyOf(values)
	return s.onTable(c, func(t *table, now time.Time) (*Row, error) {
		found, err := t.match(values)
		switch {
		case err != nil:
			return nil, err
		case found == nil:
			return t.insert(values, now), nil
		}
		return found, t.replace(found, values, now)
	}, s.profileReference), nil
}

// patchProfile is operation 2. What an id that does not exist is answered is
// not shown: Shapes.Status.
func (s *Sandbox) patchProfile(r *http.Request, c *call) (apply, error) {
	values, err := s.values(r, c, &profileBody{})
	if err != nil {
		return nil, err
	}
	c.ID, c.Key = r.PathValue("id"), c.table.keyOf(values)
	return s.onRow(c, s.conf.Shapes.Status.NoProfile, func(t *table, found *Row, now time.Time) error {
		return t.replace(found, merged(found.Values, values), now)
	}, s.profileReference), nil
}

// deleteProfile is operation 3.
func (s *Sandbox) deleteProfile(r *http.Request, c *call) (apply, error) {
	c.ID = r.PathValue("id")
	return s.onRow(c, http.StatusNotFound, remove, func(*table, *Row) answer { return answer{status: http.StatusNoContent} }), nil
}
