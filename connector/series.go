package connector

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/schemas"
)

// remembered keeps the series of a metric that every record or call touches, by a
// key that is cheaper to look up than a list of label values. There are as many
// as the configuration has mappings and topics, so none is ever let go.
type remembered[K comparable, S any] struct {
	find  func(K) S
	known atomic.Pointer[map[K]S] // never changed, only replaced
	mu    sync.Mutex              // held to replace it
}

// of is the series of that key. It appears with its first use.
func (r *remembered[K, S]) of(key K) S {
	if known := r.known.Load(); known != nil {
		if s, ok := (*known)[key]; ok {
			return s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[K]S{}
	if known := r.known.Load(); known != nil {
		maps.Copy(next, *known)
	}
	s := r.find(key)
	next[key] = s
	r.known.Store(&next)
	return s
}

type recordsKey struct{ topic, outcome string }

type writesKey struct {
	mapping string
	lane    schemas.Lane
	op      schemas.Op
	outcome string
}

type durationKey struct {
	mapping string
	op      schemas.Op
}

// cachedSeries are the series of what happens with every record.
type cachedSeries struct {
	records  remembered[recordsKey, prometheus.Counter]
	writes   remembered[writesKey, prometheus.Counter]
	duration remembered[durationKey, prometheus.Observer]
}

func (m *metrics) remember() {
	m.cached.records.find = func(k recordsKey) prometheus.Counter {
		return m.records.WithLabelValues(k.topic, k.outcome)
	}
	m.cached.writes.find = func(k writesKey) prometheus.Counter {
		return m.writes.WithLabelValues(k.mapping, k.lane.String(), k.op.String(), k.outcome)
	}
	m.cached.duration.find = func(k durationKey) prometheus.Observer {
		return m.duration.WithLabelValues(k.mapping, k.op.String())
	}
}
