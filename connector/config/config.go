// Package config reads the configuration file: one YAML document, its
// environment variables, its secret files, its defaults and its rules. It
// answers either with a Config that can work or with every mistake of the file
// at once, each with its line, its key, the rule it breaks and a hint.
//
// It knows keys, positions and rules. It connects to nothing: whether brokers,
// topics and the service are there is seen when they are used.
package config

import (
	"math"
	"time"

	"github.com/feedsink/feedsink/router"
)

// Config is the whole configuration file. Its fields carry the file's keys;
// what the file leaves out, or leaves empty, has its default.
type Config struct {
	Kafka          Kafka            `yaml:"kafka"`
	SchemaRegistry SchemaRegistry   `yaml:"schemaRegistry"`
	Service        Service          `yaml:"service"`
	Retry          Retry            `yaml:"retry"`
	DLQ            DLQ              `yaml:"dlq"`
	Receipts       Receipts         `yaml:"receipts"`
	Memory         Memory           `yaml:"memory"`
	Spool          Spool            `yaml:"spool"`
	Admin          Admin            `yaml:"admin"`
	Log            Log              `yaml:"log"`
	Tracing        Tracing          `yaml:"tracing"`
	Mappings       []router.Mapping `yaml:"mappings"`
}

// Kafka is the cluster and how the sink reads from it.
type Kafka struct {
	Brokers        []string      `yaml:"brokers"`        // host:port each
	Group          string        `yaml:"group"`          // the lanes' groups are GROUP-immediate and GROUP-batch
	StartAt        string        `yaml:"startAt"`        // earliest | latest, for topics of which nothing is committed
	SessionTimeout time.Duration `yaml:"sessionTimeout"` // 6s to 30m
	InstanceID     string        `yaml:"instanceId"`     // of one process at a time, in the groups of both lanes; empty: none
	TLS            TLS           `yaml:"tls"`
	SASL           SASL          `yaml:"sasl"`
}

// TLS is how brokers are reached under encryption. Paths name PEM files.
type TLS struct {
	Enabled  bool   `yaml:"enabled"`
	CAFile   string `yaml:"caFile"`   // empty: the system's certificate authorities
	CertFile string `yaml:"certFile"` // with KeyFile: the client's certificate
	KeyFile  string `yaml:"keyFile"`
}

// SASL is how the sink authenticates to the brokers. PLAIN, SCRAM-SHA-256 and
// SCRAM-SHA-512 take a user name and a password, OAUTHBEARER takes OAuth, and
// AWS_MSK_IAM finds its credentials where AWS's own tools do.
type SASL struct {
	Mechanism      string `yaml:"mechanism"` // empty: none
	Username       string `yaml:"username"`
	PasswordFile   string `yaml:"passwordFile"` // read again whenever a broker asks
	OAuth          OAuth  `yaml:"oauth"`
	AllowPlaintext bool   `yaml:"allowPlaintext"` // PLAIN and OAUTHBEARER without TLS, and a token endpoint without
}

// OAuth is where the token of OAUTHBEARER comes from: an OAuth 2.0 server, by
// client credentials, or a file that something else renews.
type OAuth struct {
	TokenURL         string       `yaml:"tokenURL"`
	ClientID         string       `yaml:"clientId"`
	ClientSecretFile string       `yaml:"clientSecretFile"` // read again for each token
	Scope            string       `yaml:"scope"`            // several with spaces between them
	TLS              Certificates `yaml:"tls"`              // of TokenURL
	TokenFile        string       `yaml:"tokenFile"`        // instead of all that; read again whenever a broker asks
	Extensions       []string     `yaml:"extensions"`       // name=value each, sent with the token
}

// SchemaRegistry is where the schemas of Avro, JSON Schema and Protobuf
// records are looked up.
type SchemaRegistry struct {
	URL            Address      `yaml:"url"`          // empty: none; may carry a user and a password
	Username       string       `yaml:"username"`     // with PasswordFile, instead of those in the address
	PasswordFile   string       `yaml:"passwordFile"` // read again for each request
	TLS            Certificates `yaml:"tls"`
	AllowPlaintext bool         `yaml:"allowPlaintext"` // a login over plain HTTP
	Validate       bool         `yaml:"validate"`       // json-schema records are checked against their schema
}

// Certificates are what a connection to an https address trusts and shows.
// Paths name PEM files.
type Certificates struct {
	CAFile   string `yaml:"caFile"`   // empty: the system's certificate authorities
	CertFile string `yaml:"certFile"` // with KeyFile: the client's certificate
	KeyFile  string `yaml:"keyFile"`
}

// Service is the Data Feeding Interface and how hard it may be driven.
type Service struct {
	BaseURL        string        `yaml:"baseURL"`
	AuthURL        string        `yaml:"authURL"`
	Entity         string        `yaml:"entity"`
	APIKey         Secret        `yaml:"apiKey"` // exactly one of APIKey and APIKeyFile
	APIKeyFile     string        `yaml:"apiKeyFile"`
	TLS            Certificates  `yaml:"tls"`
	Proxy          Address       `yaml:"proxy"`          // empty: HTTPS_PROXY, HTTP_PROXY and NO_PROXY; may carry a user and a password
	AllowPlaintext bool          `yaml:"allowPlaintext"` // key, token and data over plain HTTP
	Timeout        time.Duration `yaml:"timeout"`        // of a call; of an upload, the time without a byte moving
	Concurrency    Concurrency   `yaml:"concurrency"`
	Rate           Rate          `yaml:"rate"`
	Breaker        Breaker       `yaml:"breaker"`
}

// Concurrency bounds the calls in flight, which adapt between 1 and Max.
type Concurrency struct {
	Start int `yaml:"start"`
	Max   int `yaml:"max"`
}

// Rate is the most calls in a span of time that the whole deployment makes.
type Rate struct {
	Calls int           `yaml:"calls"` // 0: no limit
	Per   time.Duration `yaml:"per"`
}

// Breaker says when calls for a table pause: after this many failures in a row,
// for this long before one call is tried.
type Breaker struct {
	Failures int           `yaml:"failures"`
	OpenFor  time.Duration `yaml:"openFor"`
}

// Retry is the back-off between two tries of what may succeed later.
type Retry struct {
	Initial     time.Duration `yaml:"initial"`
	Max         time.Duration `yaml:"max"`
	GiveUpAfter time.Duration `yaml:"giveUpAfter"` // 0: never
}

// DLQ is where records go that can never be applied.
type DLQ struct {
	Topic string `yaml:"topic"` // empty: none, a permanent failure halts its partition
	Flood Flood  `yaml:"flood"`
}

// Flood says when dead letters are a mistake: so large a share of a mapping's last
// records refused alike halts the mapping.
type Flood struct {
	Records int     `yaml:"records"` // 0: never
	Share   float64 `yaml:"share"`   // above 0, at most 1
}

// Receipts is where it is written what became of each event.
type Receipts struct {
	Topic   string `yaml:"topic"`   // empty: none
	KeyFile string `yaml:"keyFile"` // the secret that keys are hashed with, read again when it changes; empty: receipts have no key
}

// Memory bounds what records take of it, in bytes, however many and large they
// are. The lanes of a process share it.
type Memory struct {
	Pending router.Bytes `yaml:"pending"` // of records whose calls, or dead letters, are not confirmed
	Fetched router.Bytes `yaml:"fetched"` // of records fetched ahead, unpacked
	// Unchanged is what mappings with unchanged: skip may take for what was written, up to 30 bytes a key.
	Unchanged router.Bytes `yaml:"unchanged"`
}

// Spool is the disk space of files that wait for their import.
type Spool struct {
	Dir      string       `yaml:"dir"`
	MaxBytes router.Bytes `yaml:"maxBytes"` // at this size the batch lane's partitions pause
}

// Admin is the HTTP server for probes, metrics, status and webhooks.
type Admin struct {
	Listen       string      `yaml:"listen"` // host:port; an empty host means all addresses
	Hosts        []string    `yaml:"hosts"`  // names by which it may be asked, besides addresses, localhost and the machine's own
	TLS          Certificate `yaml:"tls"`
	TokenFile    string      `yaml:"tokenFile"`    // for whatever changes something; empty: none is asked for
	ProtectReads bool        `yaml:"protectReads"` // ask for the token everywhere but at the probes
	PProf        bool        `yaml:"pprof"`
	Webhook      Webhook     `yaml:"webhook"`
}

// Certificate is what a server shows. Paths name PEM files.
type Certificate struct {
	CertFile string `yaml:"certFile"` // empty: no TLS
	KeyFile  string `yaml:"keyFile"`
}

// Webhook is the shared secret that the service sends when an execution ends.
type Webhook struct {
	Header     string `yaml:"header"`
	SecretFile string `yaml:"secretFile"` // empty: the endpoint answers 403
	Members    string `yaml:"members"`    // host:port whose name resolves to every member; empty: the others are neither told nor asked for their tables
}

// Log is how much the process says, and in which form.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error; can be changed while the sink runs
	Format string `yaml:"format"` // text or json
}

// Tracing is where spans go, by OTLP over HTTP. What is not said here the
// environment may say (OTEL_EXPORTER_OTLP_ENDPOINT and its like).
type Tracing struct {
	Endpoint string `yaml:"endpoint"` // the collector's address; empty: no tracing, unless the environment names one
	// SampleRatio is the share of records that begin a trace, 0 to 1. One whose
	// producer traced it is traced whatever this says.
	SampleRatio float64 `yaml:"sampleRatio"`
}

// defaults is the configuration of a file that says nothing.
func defaults() Config {
	return Config{
		Kafka: Kafka{Group: "feedsink", StartAt: "earliest", SessionTimeout: 30 * time.Second},
		Service: Service{
			Timeout:     30 * time.Second,
			Concurrency: Concurrency{Start: 16, Max: 256},
			Rate:        Rate{Per: time.Minute},
			Breaker:     Breaker{Failures: 10, OpenFor: 15 * time.Second},
		},
		Retry:   Retry{Initial: 200 * time.Millisecond, Max: 30 * time.Second},
		Memory:  Memory{Pending: 64 << 20, Fetched: 32 << 20, Unchanged: 32 << 20},
		DLQ:     DLQ{Flood: Flood{Records: 100, Share: 0.95}},
		Spool:   Spool{Dir: "/var/lib/feedsink", MaxBytes: 20 << 30},
		Admin:   Admin{Listen: ":8080", Webhook: Webhook{Header: "X-Feedsink-Secret"}},
		Log:     Log{Level: "info", Format: "text"},
		Tracing: Tracing{SampleRatio: 0.01},
	}
}

// mappingDefaults is a mapping of which the file says nothing. Filled in
// before the file's own values, so that a 0 in the file stays a 0.
func mappingDefaults() router.Mapping {
	return router.Mapping{
		Format:   "json",
		Envelope: "none",

		UnchangedFor: 24 * time.Hour,
		Imports: router.Imports{
			CSV:         router.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8"},
			Roll:        router.Roll{Rows: 500_000, Bytes: 256 << 20, Age: 2 * time.Hour},
			MaxFile:     router.MaxFile{Bytes: 100 << 20},
			SlotsPerDay: 12,
			Reserve:     unwritten,
			RetryFailed: 1,
			Timezone:    "UTC",
		},
	}
}

// unwritten is the number of which the file says nothing, where the default depends on another.
const unwritten = math.MinInt

// usualReserve keeps two of a day's slots back, and of three at most all but one.
func (c *Config) usualReserve() {
	for i := range c.Mappings {
		if imports := &c.Mappings[i].Imports; imports.Reserve == unwritten {
			imports.Reserve = max(0, min(2, imports.SlotsPerDay-1))
		}
	}
}
