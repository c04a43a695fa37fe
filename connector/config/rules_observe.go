package config

import "strings"

// observed checks what the sink says of itself: its log and its traces.
func (r *rules) observed(c *Config) {
	r.oneOf("log.level", c.Log.Level, []string{"debug", "info", "warn", "error"})
	r.oneOf("log.format", c.Log.Format, []string{"text", "json"})
	switch endpoint := c.Tracing.Endpoint; {
	case endpoint == "":
	case strings.Contains(endpoint, "@"):
		r.breaks("tracing.endpoint", "must not carry a user or password", "headers for the collector go into OTEL_EXPORTER_OTLP_HEADERS")
	default:
		r.address("tracing.endpoint", endpoint)
	}
	if ratio := c.Tracing.SampleRatio; !(0 <= ratio && ratio <= 1) { // nor is NaN between them
		r.breaks("tracing.sampleRatio", "must be from 0 to 1, is "+r.written("tracing.sampleRatio", ratio), "0.01 is one record in a hundred")
	}
}
