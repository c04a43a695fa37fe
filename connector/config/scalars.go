package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// parseScalar sets the value that into points to. It answers with the rule
// that text breaks, and a hint.
func parseScalar(text string, plain bool, into any) (message, hint string) {
	switch into := into.(type) {
	case *string:
		*into = text
		return "", ""
	case *router.Missing:
		*into = router.Missing(text)
		return "", ""
	case *router.Literal:
		*into = literal(text, plain)
		return "", ""
	case *Secret:
		*into = NewSecret(text)
		return "", ""
	case *Address:
		*into = NewAddress(text)
		return "", ""
	case *time.Duration:
		return parseDuration(text, into)
	case *router.Bytes:
		return parseBytes(text, into)
	case *bool:
		return parseBool(text, plain, into)
	case *float64:
		return parseFraction(text, plain, into)
	case *int:
		return parseInt(text, plain, into)
	case *int64:
		return parseInt(text, plain, into)
	}
	// A new type in the configuration without a way to read it: every test
	// that loads a file with it ends here.
	panic("config: no way to read a " + reflect.TypeOf(into).String())
}

// literal is a constant as YAML reads it: without quotes, true, false and
// numbers are what they look like.
func literal(text string, plain bool) router.Literal {
	if v, err := schemas.NewJSON().Decode([]byte(text)); plain && err == nil && v.Kind() != schemas.String {
		return router.Literal(v.AppendJSON(nil))
	}
	return router.Literal(schemas.StringValue(text).AppendJSON(nil))
}

func parseDuration(text string, into *time.Duration) (message, hint string) {
	d, err := time.ParseDuration(text)
	if err == nil {
		*into = d
		return "", ""
	}
	if _, err := strconv.ParseUint(text, 10, 32); err == nil {
		return "must be a duration with a unit", "write " + text + "s for seconds"
	}
	return "must be a duration", "write 30s; the units are ms, s, m and h"
}

func parseBytes(text string, into *router.Bytes) (message, hint string) {
	size, err := router.ParseBytes(text)
	if err != nil {
		return "must be a size", "write 128MiB; the units are KiB, MiB, GiB and TiB, or kB, MB, GB and TB"
	}
	*into = size
	return "", ""
}

func parseBool(text string, plain bool, into *bool) (message, hint string) {
	const rule = "must be true or false"
	if !plain {
		return rule, "write it without quotes"
	}
	switch text {
	case "true", "True", "TRUE":
		*into = true
	case "false", "False", "FALSE":
		*into = false
	default:
		return rule, ""
	}
	return "", ""
}

func parseFraction(text string, plain bool, into *float64) (message, hint string) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !plain {
		return "must be a number", "write it without quotes, such as 0.05"
	}
	*into = v
	return "", ""
}

func parseInt[T int | int64](text string, plain bool, into *T) (message, hint string) {
	const rule = "must be a whole number"
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || int64(T(v)) != v:
		return "must be a whole number of at most 64 bits", ""
	case err != nil:
		return rule, "write digits, such as 16"
	case !plain:
		return rule, "write it without quotes"
	}
	*into = T(v)
	return "", ""
}
