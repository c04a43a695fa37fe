package reload

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/connector/observe"
)

// Last is what became of the configuration file when it was read last. It is safe for
// concurrent use.
type Last struct {
	successful, at prometheus.Gauge

	mu     sync.Mutex
	status *observe.ReloadStatus
}

// NewLast registers the metrics. The file that a process starts with was read with success.
func NewLast(reg prometheus.Registerer) *Last {
	l := &Last{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "feedsink_config_last_reload_successful",
			Help: "1 if the configuration file could be used when it was read last, at the start or by a reload; 0: the one before is in use.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "feedsink_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration file was last read with success, in Unix time.",
		}),
	}
	reg.MustRegister(l.successful, l.at)
	l.successful.Set(1)
	l.at.SetToCurrentTime()
	return l
}

// Note notes how a reload has ended.
func (l *Last) Note(r Result) {
	st := &observe.ReloadStatus{At: time.Now(), NeedRestart: r.Restart}
	if r.Err != nil {
		st.Error = r.Err.Error()
		l.successful.Set(0)
	} else {
		l.successful.Set(1)
		l.at.SetToCurrentTime()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = st
}

// Status is how the last reload ended; nil: there was none.
func (l *Last) Status() *observe.ReloadStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}
