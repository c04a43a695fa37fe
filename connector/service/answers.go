package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is where the client is tolerant of what the interface does not show: the
// shapes of the token's life, of ids, of records and of an execution's results. What a
// refusal means is told in errors.go, what a counter of lines means in imports.go.

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
	errNoJSON      = errors.New("the answer is not JSON")
	errNoToken     = errors.New("the answer holds no usable accessToken")
	errNoRecord    = errors.New("the answer is not a record")
	errOtherRecord = errors.New("the answer is another record than the one asked for")
	errNoStatus    = errors.New("the answer holds no status")

	errOtherExecution = errors.New("the answer is about another execution than the one asked for")
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

// businessKeyOf is the key in an answer of operation 4 or 5, as a member or as
// all there is; "" if the answer does not tell.
func businessKeyOf(body []byte) string {
	v, err := parse(body)
	if err != nil {
		return ""
	}
	if object, ok := v.(map[string]any); ok {
		v = member(object, "businessKey")
	}
	return scalar(v)
}

// recordAnswer reads the answer of operation 6. What the service says where
// there is no record is not shown; besides 404 (which comes as an error) it may
// be nothing, null or an object without anything: found is false then. Properties
// may be the list of the interface or an object of values by name.
func recordAnswer(body []byte) (r Record, found bool, err error) {
	if len(trimmed(body)) == 0 {
		return r, false, nil
	}
	v, err := parse(body)
	if err != nil {
		return r, false, err
	}
	object, ok := v.(map[string]any)
	if v == nil || ok && len(object) == 0 {
		return r, false, nil
	}
	properties := member(object, "properties")
	r.BusinessKey, r.Properties = scalar(member(object, "businessKey")), []Property{}
	switch properties := properties.(type) {
	case nil:
		if r.BusinessKey == "" {
			return r, false, errNoRecord // an object of something else, or no object
		}
	case []any:
		for _, one := range properties {
			property, _ := one.(map[string]any)
			name, _ := member(property, "name").(string)
			r.Properties = append(r.Properties, Property{name, raw(member(property, "value"))})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			r.Properties = append(r.Properties, Property{name, raw(properties[name])})
		}
	default:
		return r, false, errNoRecord
	}
	if slices.ContainsFunc(r.Properties, func(p Property) bool { return p.Name == "" }) {
		return Record{}, false, errNoRecord
	}
	return r, true, nil
}

// parseResults finds status, error and counters at the top of the answer or in
// an object around them.
func parseResults(body []byte) (Results, error) {
	v, err := parse(body)
	if err != nil {
		return Results{}, err
	}
	object, status := statusObject(v, depth)
	if object == nil {
		return Results{}, errNoStatus
	}
	r := Results{
		Status: ExecutionStatus(strings.ToUpper(status)),
		Error:  describe(member(object, "error")),
	}
	r.Counters = countersOf(member(object, "integrationResults"))
	// A bare id may be that of the results.
	r.id = names{own: executionNames.own}.find(object, depth)
	return r, nil
}

// isStatus reports whether a status is one of the interface's: that of an object around an
// execution may be a gateway's.
func isStatus(status string) bool {
	switch ExecutionStatus(strings.ToUpper(status)) {
	case InProgress, Finished, Failed:
		return true
	}
	return false
}

func statusObject(v any, left int) (map[string]any, string) {
	object, ok := v.(map[string]any)
	if !ok || left == 0 {
		return nil, ""
	}
	own := plausible(scalar(member(object, "status")))
	if isStatus(own) {
		return object, own
	}
	for _, name := range slices.Concat(executionNames.of, executionNames.around) {
		if inner, status := statusObject(member(object, name), left-1); inner != nil && (own == "" || isStatus(status)) {
			return inner, status
		}
	}
	if own == "" {
		return nil, ""
	}
	return object, own
}

// describe is an error as text, whatever its shape.
func describe(v any) string {
	if v == nil {
		return ""
	}
	text, ok := v.(string)
	if !ok {
		text = string(raw(v))
	}
	return printable(text)
}

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

// namesOf are those of the operations whose answer names what was begun or created.
var namesOf = map[operation]names{opOneShot: executionNames, opTrigger: executionNames, opCreateETL: etlNames, opCreateWebhook: webhookNames}

// Ended finds the id of an execution in the body of a webhook call, whose shape is not
// shown either, as in an answer, and that of its ETL; "" where there is none. An id beside
// what a subscription is on is the subscription's; what it is on is the ETL.
func Ended(body []byte) (execution, etl string) {
	v, err := parse(body)
	if err != nil {
		v = string(body)
	}
	etl = etlOf(v, depth)
	if object, ok := v.(map[string]any); ok && member(object, "onElementId") != nil {
		delete(object, "id")
	}
	return executionNames.find(v, depth), etl
}

// etlOf is the id of the ETL that an object, or one in it, says that it is of.
func etlOf(v any, left int) string {
	object, ok := v.(map[string]any)
	if !ok || left == 0 {
		return ""
	}
	etl := member(object, "etl")
	if inner, ok := etl.(map[string]any); ok {
		etl = member(inner, "id")
	}
	for _, v := range []any{member(object, "etlId"), etl, member(object, "onElementId")} {
		if id := plausible(scalar(v)); id != "" {
			return id
		}
	}
	for _, name := range slices.Concat(executionNames.of, executionNames.around) {
		if id := etlOf(member(object, name), left-1); id != "" {
			return id
		}
	}
	return ""
}

// identifier finds an id in an answer: a member of a JSON object, a bare text
// or number, a link to itself, or the Location header. "" means none.
func identifier(body []byte, header http.Header, n names) string {
	v, err := parse(body)
	if err != nil {
		v = string(body)
	}
	return cmp.Or(n.find(v, depth), lastSegment(header.Get("Location")))
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
		if !strings.ContainsAny(v, "0123456789") { // OK, Accepted, started: all is well, and no more
			return ""
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
	last := path.Base(u.Path)
	if _, execution, ok := strings.Cut(u.Path, "/etl-executions/"); ok { // or what there is of it
		last, _, _ = strings.Cut(execution, "/")
	}
	if ofPaths[last] { // a link to an operation, as .../etls/101/trigger-execution, names none
		return ""
	}
	return plausible(last) // "." and "/" are not
}

// ofPaths are the segments of the operations' paths.
var ofPaths = func() map[string]bool {
	segments := map[string]bool{}
	for _, has := range interfaceHas {
		for segment := range strings.SplitSeq(has.path, "/") {
			segments[segment] = true
		}
	}
	return segments
}()

// plausible drops what cannot be an id: an empty or very long text, one with
// white space, or the beginning of a page.
func plausible(id string) string {
	id = strings.TrimSpace(id)
	if len(id) == 0 || len(id) > 200 || !Addressable(id) {
		return ""
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f || strings.IndexByte(`<>{}[]"\/`, id[i]) >= 0 {
			return ""
		}
	}
	return id
}

// parse reads exactly one JSON value, which a byte order mark may precede, numbers as they are
// written.
func parse(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(trimmed(body)))
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

// add does not overflow: the numbers come from outside.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// raw is a value as JSON, numbers as they were written.
func raw(v any) json.RawMessage {
	text, _ := json.Marshal(v) // of what was read from JSON, or texts: it cannot fail
	return text
}
