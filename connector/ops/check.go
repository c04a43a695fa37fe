package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Report is what is known of a configuration before it runs.
type Report struct {
	File          string           `json:"file"`
	Configuration []config.Problem `json:"configuration"` // mistakes; none: it can work
	Online        []Check          `json:"online,omitempty"`
}

// Check is one thing that was asked of the cluster or the service.
type Check struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // what was found, or what is wrong
}

// Failed reports whether some online check did not pass.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Online, func(c Check) bool { return !c.OK })
}

// String is the report for a terminal; mistakes are listed elsewhere.
func (r Report) String() string {
	if len(r.Configuration) > 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the configuration can work", r.File)
	for _, c := range r.Online {
		word := "ok    "
		if !c.OK {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "\n%s %s", word, c.What)
		if c.Detail != "" {
			b.WriteString(": " + c.Detail)
		}
	}
	return b.String()
}

const checkTimeout = 20 * time.Second

// CheckOnline asks the brokers for the topics and the service for a token. It
// sends no write and joins no group.
func CheckOnline(ctx context.Context, cfg *config.Config) []Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	checks := append(checkTopics(ctx, cfg), CheckRegistry(ctx, cfg)...)
	checks = append(checks, checkToken(ctx, cfg))
	return append(checks, TrustedETLs(cfg)...)
}

// TrustedETLs says what is taken for granted of ETLs that `etl create` did not
// create: the service has no operation that shows a definition.
func TrustedETLs(cfg *config.Config) (checks []Check) {
	r, problems := router.CompileUnfinished(cfg.Mappings)
	if len(problems) > 0 {
		return nil // said elsewhere
	}
	for _, m := range r.Mappings() {
		for op := schemas.Upsert; op <= schemas.Delete; op++ {
			load := m.Import(op)
			if load == nil || load.Fingerprint != "" {
				continue
			}
			var kept []string
			for _, c := range m.FileColumns(op) {
				if c.IgnoresEmpty {
					kept = append(kept, c.Header)
				}
			}
			if len(kept) == 0 {
				continue
			}
			checks = append(checks, Check{
				What: fmt.Sprintf("ETL %s for %v of %s", load.ETL, op, m.Name), OK: true,
				Detail: "not checked, since the service cannot be asked: its definition must have ignoreEmptyValues: true for " +
					strings.Join(kept, ", ") + "; without it, what a row leaves empty is erased",
			})
		}
	}
	return checks
}

// CheckRegistry asks the registry how many schemas it has for the values of
// each topic that needs them. None under the usual name is no mistake: writers
// may name their subjects otherwise.
func CheckRegistry(ctx context.Context, cfg *config.Config) (checks []Check) {
	for _, m := range cfg.Mappings {
		if m.Format == "" || m.Format == string(schemas.FormatJSON) {
			continue
		}
		for _, topic := range m.Topics {
			checks = append(checks, checkSubject(ctx, cfg, topic+"-value"))
		}
	}
	return checks
}

func checkSubject(ctx context.Context, cfg *config.Config, subject string) Check {
	c := Check{What: "schemas of " + subject}
	registry, err := build.NewRegistry(cfg, nil, schemas.RegistryConfig{}) // asked once: no chance, no back-off
	if err == nil {
		defer registry.Close()
		var versions int
		versions, err = registry.Versions(ctx, subject)
		c.Detail = fmt.Sprintf("%d registered", versions)
		if versions == 0 {
			c.Detail = "the registry has no such subject; it is no matter if writers register their schemas under another name"
		}
	}
	if c.OK = err == nil; !c.OK {
		c.Detail = err.Error()
	}
	return c
}

func checkTopics(ctx context.Context, cfg *config.Config) []Check {
	brokers := "brokers " + strings.Join(cfg.Kafka.Brokers, ", ")
	var names []string
	for _, m := range cfg.Mappings {
		names = append(names, m.Topics...)
	}
	if cfg.DLQ.Topic != "" {
		names = append(names, cfg.DLQ.Topic)
	}
	slices.Sort(names)
	partitions, err := kafka.Topics(ctx, build.KafkaConnection(cfg.Kafka, nil), slices.Compact(names))
	if err != nil {
		return []Check{{What: brokers, Detail: err.Error()}}
	}
	checks := []Check{{What: brokers, OK: true}}
	for _, name := range slices.Compact(names) {
		c := Check{What: "topic " + name, OK: partitions[name].Err == nil, Detail: fmt.Sprintf("%d partitions", partitions[name].Partitions)}
		if !c.OK {
			c.Detail = partitions[name].Err.Error()
		}
		checks = append(checks, c)
	}
	return checks
}

func checkToken(ctx context.Context, cfg *config.Config) Check {
	c := Check{What: "token from " + cfg.Service.AuthURL}
	client, err := build.NewService(cfg.Service)
	if err == nil {
		defer client.Close()
		err = client.Authenticate(ctx)
	}
	if c.OK = err == nil; !c.OK {
		c.Detail = err.Error()
	}
	return c
}
