package service

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// names are the members that may hold an id, the likeliest first, and those
// that may hold an object with it. What they leave out matters as much: the id
// of an ETL must not be taken for that of its execution. of are objects that are
// what is looked for: an id in one of them counts before one beside it.
type names struct{ own, of, ids, around []string }

var (
	executionNames = names{
		[]string{"executionId", "etlExecutionId"},
		[]string{"execution", "etlExecution"},
		[]string{"id"},
		[]string{"data", "result", "response", "event", "payload"},
	}
	etlNames     = names{[]string{"etlId"}, []string{"etl"}, []string{"id"}, []string{"data", "result", "response"}}
	profileNames = names{nil, nil, []string{"id", "profileId"}, []string{"profile", "data", "result", "response"}}
	webhookNames = names{
		[]string{"webhookSubscriptionId", "subscriptionId"},
		[]string{"webhookSubscription", "subscription"},
		[]string{"id"},
		[]string{"data", "result", "response"},
	}
)

// ExecutionID finds the id of an execution in the body of a webhook call, whose
// shape is not shown either, as in an answer; "" if there is none. An id beside
// what a subscription is on is the subscription's.
func ExecutionID(body []byte) string {
	v, err := parse(body)
	if err != nil {
		v = string(body)
	}
	if object, ok := v.(map[string]any); ok && member(object, "onElementId") != nil {
		delete(object, "id")
	}
	return executionNames.find(v, depth)
}

// identifier finds an id in an answer: a member of a JSON object, a bare text
// or number, a link to itself, or the Location header. "" means none.
func identifier(body []byte, header http.Header, n names) string {
	v, err := parse(body)
	if err != nil {
		v = string(body)
	}
	if id := n.find(v, depth); id != "" {
		return id
	}
	return lastSegment(header.Get("Location"))
}

func (n names) find(v any, left int) string {
	if left == 0 {
		return ""
	}
	switch v := v.(type) {
	case json.Number:
		return plausible(v.String())
	case string:
		if inner, err := parse([]byte(v)); err == nil {
			return n.find(inner, left-1)
		}
		return plausible(v)
	case []any:
		if len(v) == 1 {
			return n.find(v[0], left-1)
		}
	case map[string]any:
		return n.inside(v, left)
	}
	return ""
}

func (n names) inside(object map[string]any, left int) string {
	direct := func(names []string) string {
		for _, name := range names {
			if id := plausible(scalar(member(object, name))); id != "" {
				return id
			}
		}
		return ""
	}
	if id := direct(n.own); id != "" {
		return id
	}
	for _, name := range n.of {
		if inner, ok := member(object, name).(map[string]any); ok {
			if id := n.find(inner, left-1); id != "" {
				return id
			}
		}
	}
	if id := direct(n.ids); id != "" {
		return id
	}
	for _, name := range slices.Concat(n.of, n.around) {
		if id := n.find(member(object, name), left-1); id != "" {
			return id
		}
	}
	return lastSegment(selfLink(object))
}

// selfLink is the text at _links.self.href.
func selfLink(object map[string]any) string {
	links, _ := member(object, "_links").(map[string]any)
	self, _ := member(links, "self").(map[string]any)
	href, _ := member(self, "href").(string)
	return href
}

func lastSegment(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	path := strings.TrimRight(u.Path, "/")
	return plausible(path[strings.LastIndexByte(path, '/')+1:])
}

// plausible drops what cannot be an id: an empty or very long text, one with
// white space, or the beginning of a page.
func plausible(id string) string {
	id = strings.TrimSpace(id)
	if len(id) == 0 || len(id) > 200 || !addressable(id) {
		return ""
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f || strings.IndexByte(`<>{}[]"\/`, id[i]) >= 0 {
			return ""
		}
	}
	return id
}
