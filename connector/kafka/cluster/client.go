package cluster

import (
	"context"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// ClientMetrics counts what a client does, under the group's name.
func ClientMetrics(registry *prometheus.Registry, group string) []kgo.Hook {
	if registry == nil {
		return nil
	}
	return []kgo.Hook{kprom.NewMetrics("feedsink_kafka", kprom.Registry(clientRegistry{registry}),
		// By broker: topics may be many, and each has a leader elsewhere.
		kprom.FetchAndProduceDetail(kprom.UncompressedBytes, kprom.ByNode),
		kprom.WithStaticLabel(prometheus.Labels{"group": group}))}
}

// clientRegistry leaves out the client's gauges whose names say that they are counters:
// promtool objects to them, and their bytes are there beside them.
type clientRegistry struct{ *prometheus.Registry }

// MustRegister is kprom's way to register its metrics.
func (r clientRegistry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if gauge, ok := c.(prometheus.GaugeFunc); !ok || !strings.Contains(gauge.Desc().String(), `_total"`) {
			r.Registry.MustRegister(c)
		}
	}
}

// ClientLog passes a client's log on: trouble as warnings, since the client
// goes on by itself, and what it calls info for debugging.
type ClientLog struct{ *slog.Logger }

// Level implements kgo.Logger.
func (l ClientLog) Level() kgo.LogLevel {
	switch ctx := context.Background(); {
	case l.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (l ClientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	switch level {
	case kgo.LogLevelError, kgo.LogLevelWarn:
		to = slog.LevelWarn // it goes on by itself
	}
	l.Logger.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}
