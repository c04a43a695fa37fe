package service

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is where the client is tolerant of what the interface does not
// show: the shapes of the token's life, of ids, of records and of an execution's
// results; ids.go is where ids are. What a refusal means is told in refusal.go, what a counter of lines
// means in results.go.

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
	if len(strings.TrimSpace(string(body))) == 0 {
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
	r.BusinessKey = scalar(member(object, "businessKey"))
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
	return r, nil
}

func statusObject(v any, left int) (map[string]any, string) {
	object, ok := v.(map[string]any)
	if !ok || left == 0 {
		return nil, ""
	}
	if status := plausible(scalar(member(object, "status"))); status != "" {
		return object, status
	}
	for _, name := range slices.Concat(executionNames.of, executionNames.around) {
		if inner, status := statusObject(member(object, name), left-1); inner != nil {
			return inner, status
		}
	}
	return nil, ""
}

// describe is an error as text, whatever its shape.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return printable(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return printable(string(text))
}
