package config_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

func TestFloodThatMeansNothingIsRefused(t *testing.T) {
	for keys, want := range map[string]string{
		"dlq: {topic: dlq, flood: {records: 0}}":              "",
		"dlq: {topic: dlq, flood: {records: 1, share: 1}}":    "",
		"dlq: {flood: {records: 20, share: 0.5}}":             "",
		"dlq: {topic: dlq, flood: {records: -1}}":             "dlq.flood.records",
		"dlq: {topic: dlq, flood: {records: 100000000}}":      "dlq.flood.records",
		"dlq: {topic: dlq, flood: {records: 0.5}}":            "dlq.flood.records",
		"dlq: {topic: dlq, flood: {share: 0}}":                "dlq.flood.share",
		"dlq: {topic: dlq, flood: {share: 95}}":               "dlq.flood.share",
		"dlq: {topic: dlq, flood: {share: -0.1}}":             "dlq.flood.share",
		"dlq: {topic: dlq, flood: {share: .NaN}}":             "dlq.flood.share",
		"dlq: {topic: dlq, flood: {share: 95%}}":              "dlq.flood.share",
		"dlq: {topic: dlq, flood: {records: 10, portion: 1}}": "dlq.flood.portion",
	} {
		if want == "" {
			parse(t, base+keys+"\n")
			continue
		}
		got := problems(t, base+keys+"\n")
		if len(got) != 1 || got[0].Path != want || got[0].Line == 0 {
			t.Errorf("%s: got %+v, want one problem of %s with its line", keys, got, want)
		}
	}
	if got, want := parse(t, base).DLQ.Flood, (config.Flood{Records: 100, Share: 0.95}); got != want {
		t.Errorf("a file that says nothing: got %+v, want %+v", got, want)
	}
}
