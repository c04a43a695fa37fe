package config

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rules are what a value must fulfil beyond its type, each with its message
// beside it. They look at one file as a whole and so may compare its parts.
type rules struct {
	*findings
	cfg     *Config
	compile compiler
	flags   map[string]string // by path: what stands for a key where there is no file
}

// say is a key in a message: the flag that stands for it, or as a file has it.
func (r *rules) say(path, written string) string {
	if flag, ok := r.flags[path]; ok {
		return flag
	}
	return written
}

func (r *rules) all() {
	r.kafka(&r.cfg.Kafka)
	r.service(&r.cfg.Service)
	r.retry(&r.cfg.Retry)
	r.stores(r.cfg)
	r.memory(r.cfg.Memory)
	r.admin(&r.cfg.Admin)
	r.observed(r.cfg)
	r.mappings()
	r.crossings()
}

func (r *rules) service(s *Service) {
	r.address("service.baseURL", s.BaseURL)
	r.address("service.authURL", s.AuthURL)
	r.encrypted("service.baseURL", s.BaseURL, "service.allowPlaintext", s.AllowPlaintext)
	r.encrypted("service.authURL", s.AuthURL, "service.allowPlaintext", s.AllowPlaintext)
	r.certificates("service.tls", s.TLS)
	r.proxy("service.proxy", s.Proxy)
	r.required("service.entity", s.Entity, "the name of the entity that owns the tables")
	r.apiKey(s)
	r.positive("service.timeout", s.Timeout)
	r.atLeast("service.concurrency.start", s.Concurrency.Start, 1)
	r.atLeast("service.concurrency.max", s.Concurrency.Max, 1)
	if s.Concurrency.Start > s.Concurrency.Max && s.Concurrency.Max > 0 {
		r.breaks("service.concurrency", fmt.Sprintf("start must not be above max, is %d with max %d",
			s.Concurrency.Start, s.Concurrency.Max), "lower start or raise max")
	}
	r.atLeast("service.rate.calls", s.Rate.Calls, 0)
	if s.Rate.Calls > 0 {
		r.positive("service.rate.per", s.Rate.Per)
	}
	r.atLeast("service.breaker.failures", s.Breaker.Failures, 1)
	r.positive("service.breaker.openFor", s.Breaker.OpenFor)
}

// apiKey checks that there is exactly one key and that it can be read.
func (r *rules) apiKey(s *Service) {
	const path, filePath = "service.apiKey", "service.apiKeyFile"
	switch inFile := s.APIKeyFile != ""; {
	case inFile && !s.APIKey.IsZero():
		r.breaks(filePath, "only one of apiKey and apiKeyFile can be given", "remove apiKey: a file can be rotated without a restart")
	case inFile:
		r.secretFile(filePath, s.APIKeyFile)
	case s.APIKey.IsZero() && !r.unread[path] && !r.unread[filePath]:
		r.breaks(path, "one of apiKey and apiKeyFile is required", "write apiKeyFile: /run/secrets/api-key")
	case strings.ContainsFunc(s.APIKey.Reveal(), func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.breaks(path, "must be one line of text", "")
	}
}

func (r *rules) retry(t *Retry) {
	r.positive("retry.initial", t.Initial)
	r.positive("retry.max", t.Max)
	if t.Max > 0 && t.Initial > t.Max {
		r.breaks("retry", fmt.Sprintf("initial must not be above max, is %v with max %v", t.Initial, t.Max), "lower initial or raise max")
	}
	if t.GiveUpAfter < 0 {
		r.breaks("retry.giveUpAfter", "must not be negative, is "+r.written("retry.giveUpAfter", t.GiveUpAfter), "write 0s for never")
	}
}

// stores checks where schemas come from and where records and files go.
func (r *rules) stores(c *Config) {
	r.schemaRegistry(&c.SchemaRegistry)
	if c.DLQ.Topic != "" && !isTopic(c.DLQ.Topic) {
		r.breaks("dlq.topic", "must be a topic's name, is "+r.written("dlq.topic", c.DLQ.Topic),
			"up to 249 of the characters a-z A-Z 0-9 . _ -")
	}
	r.flood(c.DLQ.Flood)
	r.required("spool.dir", c.Spool.Dir, "the directory for files that wait for their import")
	if c.Spool.MaxBytes <= 0 {
		r.breaks("spool.maxBytes", "must be above 0, is "+r.written("spool.maxBytes", c.Spool.MaxBytes), "")
	}
}

// crossings are the rules between the mappings and the rest of the file.
func (r *rules) crossings() {
	for i, m := range r.cfg.Mappings {
		path := index("mappings", i)
		r.schemaSource(path, m)
		for j, topic := range m.Topics {
			if topic != "" && topic == r.cfg.DLQ.Topic {
				r.breaks(index(path+".topics", j), "is the dead-letter topic: its records would be read as events",
					"use another topic for dlq.topic")
			}
		}
		files := m.Imports.Upsert != nil || m.Imports.Patch != nil || m.Imports.Create != nil || m.Imports.Delete != nil
		if most := r.cfg.Spool.MaxBytes; files && most > 0 && m.Imports.Roll.Bytes > most {
			rolled := path + ".imports.roll.bytes"
			r.breaks(rolled, "must not be above spool.maxBytes, is "+r.written(rolled, m.Imports.Roll.Bytes),
				"the spool would be full before a file is")
		}
	}
}

// The rules that many keys share.

func (r *rules) required(path, value, what string) {
	if strings.TrimSpace(value) == "" {
		r.breaks(path, "is required", what)
	}
}

func (r *rules) positive(path string, d time.Duration) {
	if d <= 0 {
		r.breaks(path, "must be above 0, is "+r.written(path, d), "")
	}
}

func (r *rules) atLeast(path string, value, least int) {
	if value < least {
		r.breaks(path, fmt.Sprintf("must be at least %d, is %s", least, r.written(path, value)), "")
	}
}

// secretFile checks that a secret can be read now.
func (r *rules) secretFile(path, file string) {
	if _, err := SecretFile(file)(); err != nil {
		r.badFile(path, file, err)
	}
}

// badFile reports a file that cannot be used. What does not look like a path
// is not shown: it may be the content that belongs into the file.
func (r *rules) badFile(path, file string, err error) {
	if strings.Contains(file, "\n") || !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, ".") {
		r.breaks(path, "names no readable file", "write a path such as /run/secrets/api-key, not the content")
		return
	}
	hint := ""
	if errors.Is(err, fs.ErrPermission) {
		hint = "make the file readable for the user that runs feedsink"
	}
	r.breaks(path, err.Error(), hint)
}

// isPort reports whether text is a port number of at least least.
func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// isTopic reports whether Kafka takes text as a topic's name.
func isTopic(text string) bool { return text != "." && text != ".." && topicName.MatchString(text) }
