package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// This file is where the client is tolerant of what the interface does not
// show: the shapes of the token's life, of ids and of an execution's results.

// Lives of a token in which the client believes; without a usable expiresIn it
// takes a third of the documented life, and a 401 corrects it.
const (
	defaultLife = 5 * time.Minute
	minLife     = time.Second
	maxLife     = 24 * time.Hour
)

// depth is how many objects, or texts holding JSON, are opened in search of
// something.
const depth = 4

var (
	errNoJSON   = errors.New("the answer is not JSON")
	errNoToken  = errors.New("the answer holds no usable accessToken")
	errNoRecord = errors.New("the answer is not a record")
	errNoStatus = errors.New("the answer holds no status")
)

// tokenAnswer reads the answer of operation 14. Its errors do not quote it.
func tokenAnswer(body []byte) (text string, life time.Duration, err error) {
	v, err := parse(body)
	if err != nil {
		return "", 0, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return "", 0, errNoToken
	}
	text, ok = member(object, "accessToken").(string)
	if !ok || !headerSafe(text) || strings.ContainsRune(text, ' ') {
		return "", 0, errNoToken
	}
	return text, lifeOf(member(object, "expiresIn")), nil
}

// lifeOf reads "900s", "900", 900, and durations with other units.
func lifeOf(v any) time.Duration {
	text := strings.ReplaceAll(scalar(v), " ", "")
	life, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(seconds) {
			return defaultLife
		}
		life = time.Duration(min(max(seconds, 0), maxLife.Seconds()) * float64(time.Second))
	}
	return min(max(life, minLife), maxLife)
}

// names are the members that may hold an id, the likeliest first, and those
// that may hold an object with it. What they leave out matters as much: the id
// of an ETL must not be taken for that of its execution.
type names struct{ ids, around []string }

var (
	executionNames = names{
		[]string{"executionId", "etlExecutionId", "id"},
		[]string{"execution", "etlExecution", "data", "result", "response"},
	}
	etlNames     = names{[]string{"etlId", "id"}, []string{"etl", "data", "result", "response"}}
	profileNames = names{[]string{"id", "profileId"}, []string{"profile", "data", "result", "response"}}
	webhookNames = names{
		[]string{"webhookSubscriptionId", "subscriptionId", "id"},
		[]string{"webhookSubscription", "subscription", "data", "result", "response"},
	}
)

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
		for _, name := range n.ids {
			if id := plausible(scalar(member(v, name))); id != "" {
				return id
			}
		}
		for _, name := range n.around {
			if id := n.find(member(v, name), left-1); id != "" {
				return id
			}
		}
		return lastSegment(selfLink(v))
	}
	return ""
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

// parse reads exactly one JSON value, numbers as they are written.
func parse(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errNoJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoJSON
	}
	return v, nil
}

// member is the member of that name; failing that, of that name but for case,
// '_' and '-' (of several, the first in order, so that an answer always means
// the same); nil if there is none.
func member(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	wanted, found := plain(name), ""
	for candidate := range object {
		if plain(candidate) == wanted && (found == "" || candidate < found) {
			found = candidate
		}
	}
	return object[found]
}

// plain is a name in lower case without anything but letters and digits.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// scalar is a text or number as text; "" for everything else.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}
