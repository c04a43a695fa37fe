package config_test

import "testing"

func TestLogAndTracingAreLookedAtAtStart(t *testing.T) {
	for keys, want := range map[string]string{
		"log: {level: warn, format: json}": "",
		"log: {level: loud}":               "log.level",
		"log: {format: xml}":               "log.format",
		"tracing: {endpoint: \"http://collector:4318\", sampleRatio: 1}":  "",
		"tracing: {sampleRatio: 1e-3}":                                    "",
		"tracing: {endpoint: \"collector:4318\"}":                         "tracing.endpoint",
		"tracing: {endpoint: \"http://user:secret@collector:4318\"}":      "tracing.endpoint",
		"tracing: {sampleRatio: 1.5}":                                     "tracing.sampleRatio",
		"tracing: {sampleRatio: .NaN}":                                    "tracing.sampleRatio",
		"tracing: {sampleRatio: \"0.5\"}":                                 "tracing.sampleRatio",
		"tracing: {endpoint: \"http://localhost:4318\", sampleRatio: -1}": "tracing.sampleRatio",
	} {
		if want == "" {
			parse(t, base+keys+"\n")
			continue
		}
		if got := problems(t, base+keys+"\n"); len(got) != 1 || got[0].Path != want {
			t.Errorf("%s: got %+v, want one problem of %s", keys, got, want)
		}
	}
	cfg := parse(t, base)
	if cfg.Log.Level != "info" || cfg.Log.Format != "text" || cfg.Tracing.Endpoint != "" || cfg.Tracing.SampleRatio != 0.01 {
		t.Errorf("a file that says nothing: got %+v %+v, want info, text and no tracing", cfg.Log, cfg.Tracing)
	}
}
