package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog passes the client's log on: trouble as warnings, since the client
// goes on by itself, and what it calls info for whoever debugs it.
type clientLog struct{ log *slog.Logger }

func (l clientLog) Level() kgo.LogLevel {
	switch ctx := context.Background(); {
	case l.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelNone
}

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	switch level {
	case kgo.LogLevelError, kgo.LogLevelWarn:
		to = slog.LevelWarn // it goes on by itself
	}
	l.log.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}
