package config

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
)

// rules are what a value must fulfil beyond its type, each with its message
// beside it. They look at one file as a whole and so may compare its parts.
type rules struct {
	*findings
	cfg     *Config
	compile func([]router.Mapping) (*router.Router, []problem.Problem)
	flags   map[string]string // by path: what stands for a key where there is no file

	noSecrets bool // files that are named need not be there
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

// What a call, and a rebalance that waits for it, may take; and more calls at once than a
// member ever makes.
const (
	longestCall = 24 * time.Hour
	mostCalls   = 10_000
)

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
	if s.Timeout > longestCall {
		r.breaks("service.timeout", "must be at most 24h, is "+r.written("service.timeout", s.Timeout), "a minute is enough for most services")
	}
	r.atLeast("service.concurrency.start", s.Concurrency.Start, 1)
	r.atLeast("service.concurrency.max", s.Concurrency.Max, 1)
	if s.Concurrency.Max > mostCalls {
		r.breaks("service.concurrency.max", fmt.Sprintf("must be at most %d, is %s",
			mostCalls, r.written("service.concurrency.max", s.Concurrency.Max)), "the default is 256")
	}
	if s.Concurrency.Start > s.Concurrency.Max && s.Concurrency.Max > 0 {
		r.breaks("service.concurrency", "start must not be above max, is "+r.written("service.concurrency.start", s.Concurrency.Start)+
			" with max "+r.written("service.concurrency.max", s.Concurrency.Max), "lower start or raise max")
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
	case !isVisible(s.APIKey.Reveal()):
		r.breaks(path, "must be one line of text", "write it without line breaks and control characters, or name its file in apiKeyFile")
	}
}

func (r *rules) retry(t *Retry) {
	r.positive("retry.initial", t.Initial)
	r.positive("retry.max", t.Max)
	if t.Max > 0 && t.Initial > t.Max {
		r.breaks("retry", "initial must not be above max, is "+r.written("retry.initial", t.Initial)+
			" with max "+r.written("retry.max", t.Max), "lower initial or raise max")
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
	r.receipts(c.Receipts)
	r.required("spool.dir", c.Spool.Dir, "the directory for files that wait for their import")
	if c.Spool.MaxBytes <= 0 {
		r.breaks("spool.maxBytes", "must be above 0, is "+r.written("spool.maxBytes", c.Spool.MaxBytes), "")
	}
}

func (r *rules) receipts(c Receipts) {
	switch {
	case c.Topic == "" && c.KeyFile != "":
		r.breaks("receipts.keyFile", "has no use without receipts.topic", "name the topic, or remove keyFile")
	case c.Topic != "" && !isTopic(c.Topic):
		r.breaks("receipts.topic", "must be a topic's name, is "+r.written("receipts.topic", c.Topic),
			"up to 249 of the characters a-z A-Z 0-9 . _ -")
	case c.Topic != "" && c.Topic == r.cfg.DLQ.Topic:
		r.breaks("receipts.topic", "is the dead-letter topic: dead letters and receipts are read apart", "use another topic for receipts.topic")
	}
	if c.KeyFile != "" {
		r.secretFile("receipts.keyFile", c.KeyFile)
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
			if topic != "" && topic == r.cfg.Receipts.Topic {
				r.breaks(index(path+".topics", j), "is the receipts topic: its records would be read as events",
					"use another topic for receipts.topic")
			}
		}
		files := false
		for range m.Imports.All() {
			files = true
		}
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

// isHostPort reports whether text is a host that can be reached at a port.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if _, notIP := netip.ParseAddr(host); notIP != nil && !hostName.MatchString(host) {
		return false
	}
	return err == nil && isPort(port, 1)
}

// isPort reports whether text is a port number of at least least.
func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// isTopic reports whether Kafka takes text as a topic's name.
func isTopic(text string) bool { return text != "." && text != ".." && topicName.MatchString(text) }

// The session timeouts that a broker takes unless it was told otherwise
// (group.min.session.timeout.ms, group.max.session.timeout.ms).
const (
	minSession = 6 * time.Second
	maxSession = 30 * time.Minute
)

// instanceID is what brokers take as an instance id.
var instanceID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func (r *rules) kafka(k *Kafka) {
	if len(k.Brokers) == 0 {
		r.breaks("kafka.brokers", "is required", "write [localhost:9092]")
	}
	r.brokers(k)
	r.required("kafka.group", k.Group, "the consumer groups are named after it: feedsink-immediate, feedsink-batch")
	r.oneOf("kafka.startAt", k.StartAt, []string{"earliest", "latest"})
	if k.SessionTimeout < minSession || k.SessionTimeout > maxSession {
		r.breaks("kafka.sessionTimeout", "must be between 6s and 30m, is "+r.written("kafka.sessionTimeout", k.SessionTimeout), "write 30s")
	}
	if id := k.InstanceID; id != "" && (!instanceID.MatchString(id) || id == "." || id == "..") {
		r.breaks("kafka.instanceId", "must be 1 to 249 letters, digits and . _ -, is "+r.written("kafka.instanceId", id), "write ${POD_NAME}")
	}
	r.tls(&k.TLS)
	r.sasl(k)
}

// brokers takes apart what a variable may hold: several, with commas between them.
func (r *rules) brokers(k *Kafka) {
	var each []string
	for i, item := range k.Brokers {
		path := index("kafka.brokers", i)
		for broker := range strings.SplitSeq(item, ",") {
			broker = strings.TrimSpace(broker)
			if each = append(each, broker); !isHostPort(broker) {
				r.breaks(path, "must be host:port, is "+r.written(path, item), "write localhost:9092")
				break
			}
		}
	}
	k.Brokers = each
}

func (r *rules) oneOf(path, value string, words []string) {
	if slices.Contains(words, value) {
		return
	}
	hint := ""
	if i := slices.IndexFunc(words, func(word string) bool { return problem.Edits(plainKey(value), plainKey(word)) <= 2 }); i >= 0 {
		hint = "did you mean " + words[i] + "?"
	}
	r.breaks(path, "must be one of "+strings.Join(words, ", ")+", is "+r.written(path, value), hint)
}

// tls checks that the files hold what their keys say, so that a wrong one is
// found at start and not at the first handshake.
func (r *rules) tls(t *TLS) {
	const path = "kafka.tls"
	_, given := r.places[path]
	_, said := r.places[path+".enabled"]
	if files := t.CAFile+t.CertFile+t.KeyFile != ""; !t.Enabled && !r.unread[path+".enabled"] && (files || given && !said) {
		r.breaks(path, "is not enabled: brokers would be reached without encryption", "write enabled: true")
		return
	}
	r.certificates(path, Certificates{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile})
}

const enabledTLS = "tls: {enabled: true}"

// mechanisms are the SASL mechanisms that the Kafka side speaks.
var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"}

func (r *rules) sasl(k *Kafka) {
	const path = "kafka.sasl"
	s := &k.SASL
	oauth := s.OAuth.given()
	switch s.Mechanism {
	case "":
		if s.Username+s.PasswordFile != "" || oauth {
			r.breaks(path+".mechanism", "is required with credentials", "one of "+strings.Join(mechanisms, ", "))
		}
		return
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		needs := s.Mechanism + " needs " + r.say(path+".username", "username") + " and " + r.say(path+".passwordFile", "passwordFile")
		r.required(path+".username", s.Username, needs)
		r.required(path+".passwordFile", s.PasswordFile, needs)
		r.unused(path+".oauth", oauth, s.Mechanism)
	case "OAUTHBEARER":
		r.oauth(s)
		r.unused(path+".username", s.Username != "", s.Mechanism)
		r.unused(path+".passwordFile", s.PasswordFile != "", s.Mechanism)
	case "AWS_MSK_IAM":
		r.unused(path+".username", s.Username != "", s.Mechanism)
		r.unused(path+".passwordFile", s.PasswordFile != "", s.Mechanism)
		r.unused(path+".oauth", oauth, s.Mechanism)
		if !k.TLS.Enabled && !r.unread["kafka.tls.enabled"] {
			r.breaks("kafka.tls", "is required with AWS_MSK_IAM, which brokers take over TLS only", "add "+r.say("kafka.tls", enabledTLS))
		}
	default:
		r.oneOf(path+".mechanism", s.Mechanism, mechanisms)
	}
	r.secretFile(path+".passwordFile", s.PasswordFile)
	r.plaintext(k)
}

// plaintext refuses mechanisms that would show a secret to all who listen. The
// SCRAMs never send their password.
func (r *rules) plaintext(k *Kafka) {
	const allow = "kafka.sasl.allowPlaintext"
	shows := k.SASL.Mechanism == "PLAIN" || k.SASL.Mechanism == "OAUTHBEARER"
	if !shows || k.TLS.Enabled || k.SASL.AllowPlaintext || local(k.Brokers) || r.unread[allow] || r.unread["kafka.tls.enabled"] {
		return
	}
	r.breaks("kafka.sasl.mechanism", k.SASL.Mechanism+" would send its secret without encryption",
		"add "+r.say("kafka.tls", enabledTLS)+", or "+r.say(allow, allow+": true")+" if the network is trusted")
}

func (o OAuth) given() bool {
	return o.TokenURL+o.ClientID+o.ClientSecretFile+o.Scope+o.TLS.CAFile+o.TLS.CertFile+o.TLS.KeyFile+o.TokenFile != "" || len(o.Extensions) > 0
}

func (r *rules) unused(path string, given bool, mechanism string) {
	if given {
		r.breaks(path, "has no part in "+mechanism, "remove it, or write another mechanism")
	}
}

func (r *rules) oauth(s *SASL) {
	const path = "kafka.sasl.oauth"
	o := &s.OAuth
	tokenFile, tokenURL := r.say(path+".tokenFile", "tokenFile"), r.say(path+".tokenURL", "tokenURL")
	for i, extension := range o.Extensions {
		if name, value, ok := strings.Cut(extension, "="); !ok || !isExtension(name) || name == "auth" || !isVisible(value) {
			r.breaks(index(path+".extensions", i), "must be name=value, with a name of letters that is not auth", "write logicalCluster=lkc-1")
		}
	}
	if o.TokenFile != "" {
		if o.TokenURL+o.ClientID+o.ClientSecretFile != "" {
			r.breaks(path+".tokenFile", "only one of "+tokenFile+" and "+tokenURL+" can be given", "with "+tokenFile+", something else renews the token")
		}
		r.secretFile(path+".tokenFile", o.TokenFile)
		return
	}
	needs := "OAUTHBEARER needs " + tokenURL + ", " + r.say(path+".clientId", "clientId") + " and " + r.say(path+".clientSecretFile", "clientSecretFile") + ", or " + tokenFile
	r.required(path+".clientId", o.ClientID, needs)
	if o.TokenURL == "" {
		r.required(path+".tokenURL", "", needs)
	} else {
		r.address(path+".tokenURL", o.TokenURL)
		r.encrypted(path+".tokenURL", o.TokenURL, "kafka.sasl.allowPlaintext", s.AllowPlaintext)
	}
	r.required(path+".clientSecretFile", o.ClientSecretFile, needs)
	r.secretFile(path+".clientSecretFile", o.ClientSecretFile)
	r.certificates(path+".tls", o.TLS)
}

// isExtension reports whether RFC 7628 takes text as a key.
func isExtension(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// isVisible reports whether text has no control character: they separate what
// is sent.
func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

func (r *rules) schemaRegistry(s *SchemaRegistry) {
	const path = "schemaRegistry"
	if s.URL.IsZero() {
		if s.Username+s.PasswordFile+s.TLS.CAFile+s.TLS.CertFile+s.TLS.KeyFile != "" && !r.unread[path+".url"] {
			r.breaks(path+".url", "is required with a login or certificates", "write https://host")
		}
		return
	}
	r.address(path+".url", s.URL.Reveal())
	switch {
	case (s.Username == "") != (s.PasswordFile == ""):
		missing, given := "passwordFile", "username"
		if s.Username == "" {
			missing, given = given, missing
		}
		r.breaks(path+"."+missing, "is required with "+given, "a login is both")
	case s.Username != "" && strings.Contains(s.URL.Reveal(), "@"):
		r.breaks(path+".url", "must not carry a user or password beside username and passwordFile", "keep one of the two logins")
	case s.Login() != nil:
		r.encrypted(path+".url", s.URL.Reveal(), path+".allowPlaintext", s.AllowPlaintext)
	}
	r.secretFile(path+".passwordFile", s.PasswordFile)
	r.certificates(path+".tls", s.TLS)
}

// schemaSource checks that the schemas that a mapping's records need can be had.
func (r *rules) schemaSource(path string, m router.Mapping) {
	if !r.cfg.SchemaRegistry.URL.IsZero() || r.unread["schemaRegistry.url"] {
		return
	}
	const missing, hint = " needs schemaRegistry.url", "write schemaRegistry: {url: https://host}"
	for _, key := range []struct{ name, format string }{{"format", m.Format}, {"kafkaKey", m.KafkaKey}} {
		switch key.format {
		case "avro", "json-schema", "protobuf":
			r.breaks(path+"."+key.name, key.format+missing, hint)
		}
	}
}

// headerName is RFC 9110's token, which names of HTTP headers are.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders say how a request is sent: a secret in them is refused, or does not arrive.
var ownHeaders = []string{"Connection", "Content-Length", "Expect", "Host", "Trailer", "Transfer-Encoding"}

// hostName is a name as DNS has it.
var hostName = regexp.MustCompile(`^([0-9A-Za-z_]([0-9A-Za-z_-]*[0-9A-Za-z_])?\.)*[0-9A-Za-z_]([0-9A-Za-z_-]*[0-9A-Za-z_])?\.?$`)

func (r *rules) admin(a *Admin) {
	if _, port, err := net.SplitHostPort(a.Listen); err != nil || !isPort(port, 0) {
		r.breaks("admin.listen", "must be host:port, is "+r.written("admin.listen", a.Listen), "write :8080 for all addresses")
	}
	for i, host := range a.Hosts {
		if path := fmt.Sprintf("admin.hosts[%d]", i); !hostName.MatchString(host) {
			r.breaks(path, "must be the name of a host, is "+r.written(path, host), "write feedsink.example.com, without a scheme or port")
		}
	}
	r.certificates("admin.tls", Certificates{CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile})
	r.secretFile("admin.tokenFile", a.TokenFile)
	if a.ProtectReads && a.TokenFile == "" && !r.unread["admin.tokenFile"] {
		r.breaks("admin.protectReads", "needs admin.tokenFile: there is no token to ask for", "write tokenFile: /run/secrets/admin-token")
	}
	switch header := a.Webhook.Header; {
	case !headerName.MatchString(header):
		r.breaks("admin.webhook.header", "must be the name of an HTTP header, is "+r.written("admin.webhook.header", header), "")
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(header)):
		r.breaks("admin.webhook.header", "must not be a header of HTTP's own, is "+r.written("admin.webhook.header", header), "write X-Feedsink-Secret")
	}
	if a.Webhook.Members != "" && !isHostPort(a.Webhook.Members) {
		r.breaks("admin.webhook.members", "must be host:port, is "+r.written("admin.webhook.members", a.Webhook.Members),
			"a name that resolves to all members, such as that of a headless Service")
	}
	r.secretFile("admin.webhook.secretFile", a.Webhook.SecretFile)
}

// mostFloodRecords bounds the memory of what was refused last.
const mostFloodRecords = 1_000_000

// flood checks when a mapping halts whose records are refused alike.
func (r *rules) flood(f Flood) {
	const records, share = "dlq.flood.records", "dlq.flood.share"
	switch {
	case f.Records < 0:
		r.breaks(records, "must not be negative, is "+r.written(records, f.Records), "write 0 for never")
	case f.Records > mostFloodRecords:
		r.breaks(records, fmt.Sprintf("must be at most %d, is %s", mostFloodRecords, r.written(records, f.Records)), "write 0 for never")
	}
	if !(0 < f.Share && f.Share <= 1) { // nor is NaN between them
		r.breaks(share, "must be above 0 and at most 1, is "+r.written(share, f.Share), "0.95 is 95 of 100 records")
	}
}

// What memory a record can pass with, and more than a member ever needs.
const (
	leastMemory router.Bytes = 1 << 20
	mostMemory  router.Bytes = 1 << 40
)

// memory checks the bounds against each other and against Go's own, where the
// environment sets that.
func (r *rules) memory(m Memory) {
	sound := true
	for path, size := range map[string]router.Bytes{"memory.pending": m.Pending, "memory.fetched": m.Fetched, "memory.unchanged": m.Unchanged} {
		if size < leastMemory || size > mostMemory {
			r.breaks(path, "must be between 1MiB and 1TiB, is "+r.written(path, size), "the default is enough for thousands of records of some kilobytes")
			sound = false
		}
	}
	what, sum := "pending and fetched", m.Pending+m.Fetched
	if slices.ContainsFunc(r.cfg.Mappings, func(m router.Mapping) bool { return m.Unchanged != "" }) {
		what, sum = "pending, fetched and unchanged", sum+m.Unchanged
	}
	if limit := debug.SetMemoryLimit(-1); sound && limit < math.MaxInt64 && int64(sum) > limit {
		r.breaks("memory", fmt.Sprintf("%s together are %d MiB, above GOMEMLIMIT, which is %d MiB",
			what, sum>>20, limit>>20), "lower them, or raise GOMEMLIMIT and the container's memory limit")
	}
}

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

// mappings has every mapping compiled and checked by package check, which knows
// what a mapping may say, and puts its findings at their lines.
func (r *rules) mappings() {
	if len(r.cfg.Mappings) == 0 {
		r.breaks("mappings", "is required", "at least one mapping, from topics to a table")
		return
	}
	_, problems := r.compile(r.cfg.Mappings)
	for _, p := range problems {
		r.compiled(p)
	}
}

// harmless is an address, or what is none, in which nothing can be a login or a secret
// that was meant as one.
var harmless = regexp.MustCompile(`^([a-z]+:)?(//)?[^/:@?#]*(:[0-9]{0,5})?(/[^/:@?#]*)?$`)

// address checks an absolute http or https address. Only the registry's may
// carry a user and a password, and no message shows an address that may.
func (r *rules) address(path, value string) {
	if value == "" {
		r.breaks(path, "is required", "write https://host")
		return
	}
	is := ""
	if at, inFile := r.places[path]; at.written != "" && harmless.MatchString(at.written) || !inFile && harmless.MatchString(value) {
		is = ", is " + r.written(path, value)
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || !isTarget(u, "http", "https"):
		r.breaks(path, "must be an absolute http or https address"+is, "write https://host")
	case u.RawQuery != "" || u.Fragment != "":
		r.breaks(path, "must not have a query or fragment"+is, "")
	case u.User != nil && path != "schemaRegistry.url":
		r.breaks(path, "must not carry a user or password", "secrets go into files")
	}
}

// proxy checks the address of a proxy, which may carry a user and a password.
func (r *rules) proxy(path string, value Address) {
	if value.IsZero() {
		return
	}
	u, err := url.Parse(value.Reveal())
	if err != nil || !isTarget(u, "http", "https", "socks5", "socks5h") || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		r.breaks(path, "must be the address of a proxy", "write http://host:3128; https, socks5 and socks5h can be had as well")
	}
}

// isTarget reports whether u names a host by one of the schemes.
func isTarget(u *url.URL, schemes ...string) bool {
	return slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && (u.Port() == "" || isPort(u.Port(), 1))
}

// encrypted refuses to send secrets over plain HTTP, unless the file allows it
// or they stay on this machine.
func (r *rules) encrypted(path, value, allow string, allowed bool) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || allowed || r.unread[allow] || loopback(u.Hostname()) {
		return
	}
	r.breaks(path, "would send secrets over plain HTTP", "write https://, or "+r.say(allow, allow+": true")+" if the network is trusted")
}

// loopback reports whether a host is this machine by its very name.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// local reports whether all brokers are on this machine.
func local(brokers []string) bool {
	return !slices.ContainsFunc(brokers, func(broker string) bool {
		host, _, err := net.SplitHostPort(broker)
		return err == nil && !loopback(host)
	})
}
