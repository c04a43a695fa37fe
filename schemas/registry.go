package schemas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// RegistryConfig is how a schema registry with Confluent's interface is asked.
type RegistryConfig struct {
	URL  string       // without a user and a password: errors quote it
	HTTP *http.Client // makes the requests; its Timeout bounds each
	// Login is asked for user and password before each request, so that they
	// can change; nil: there are none.
	Login func() (user, password string, err error)
	// Backoff is the wait after that many failures in a row, counted from 1.
	Backoff func(failures int) time.Duration
	// Validate has records of the format json-schema checked against their
	// schema.
	Validate bool
	// Asked is told how each request ended: found, unknown or failed. May be nil.
	Asked func(outcome string)
	Log   *slog.Logger
}

// Limits of what is remembered. Text is what the registry sends: a schema made
// for reading takes a multiple of it.
const (
	maxSchemas    = 1000
	maxSchemaText = 8 << 20 // bytes, of all schemas with what they refer to
	maxSchema     = 1 << 20 // bytes, of one
)

// Registry knows writer schemas by their id or GUID. One that it does not know it
// fetches in the background, once for all that ask; until then, and while the
// registry cannot be reached, the answer is ErrSchemaUnavailable. It forgets the schemas
// that were not asked for longest. It is safe for concurrent use.
type Registry struct {
	cfg    RegistryConfig
	client *sr.Client

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	fetches sync.WaitGroup

	mu       sync.Mutex
	known    map[schemaID]*entry
	asks     uint64 // for known schemas
	text     int    // bytes of all entries
	fetching map[schemaID]bool
	failures int       // in a row
	rest     time.Time // nothing is asked before
	failure  error     // of the last request; nil: it was answered
	inVain   time.Time // when a schema was asked for last that is not known
	spared   time.Time // when records last began to wait for a schema that is said not to exist
	doubted  error     // why they wait
}

// entry is what the registry said of one id.
type entry struct {
	writer writer
	err    *schemaError // instead of writer
	text   int          // bytes
	used   uint64       // which ask was the last for it

	// Of a refusal: the registry may learn the schema later.
	since  time.Time     // the first one
	lasts  time.Duration // the last one is believed
	until  time.Time     // and when that ends
	spares bool          // records may wait for the schema
	waits  bool          // they do
}

// How long the registry's answer that there is no such schema is believed: one of its replicas
// may not know a new schema yet that a producer has from another one.
const (
	firstRefusal = 500 * time.Millisecond // each further one twice as long
	refusalLasts = time.Minute            // at most
	// For so long the records of one such schema in refusalLasts wait. Those of others do not: records
	// that name any schema would hold up their partition.
	spareFor = 5 * time.Second
)

// NewRegistry connects to nothing yet: an error is one of configuration.
func NewRegistry(cfg RegistryConfig) (*Registry, error) {
	bounded := *cfg.HTTP
	bounded.Transport = boundedBodies{bounded.Transport}
	opts := []sr.ClientOpt{sr.URLs(cfg.URL), sr.HTTPClient(&bounded), sr.UserAgent("feedsink")}
	if cfg.Login != nil {
		opts = append(opts, sr.PreReq(func(r *http.Request) error {
			user, password, err := cfg.Login()
			if err == nil {
				r.SetBasicAuth(user, password)
			}
			return err
		}))
	}
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	r := &Registry{cfg: cfg, client: client, known: map[schemaID]*entry{}, fetching: map[schemaID]bool{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Close ends the requests under way and waits for them.
func (r *Registry) Close() {
	r.stop()
	r.fetches.Wait()
	r.cfg.HTTP.CloseIdleConnections()
}

// Err is why the last request was not answered, nil if it was.
func (r *Registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// waitsFor is how long after a record has asked for its schema it is taken for waiting: it
// is offered again much sooner.
const waitsFor = 5 * time.Second

// Waits is why records wait for their schema: Err, or that the registry does not know one that
// may be new; nil: none does.
func (r *Registry) Waits() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.inVain) > waitsFor {
		return nil
	}
	return cmp.Or(r.failure, r.doubted)
}

// writer is the writer schema of that id or GUID, a *schemaError where there can be
// none, or ErrSchemaUnavailable.
func (r *Registry) writer(id schemaID) (writer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.known[id]; e != nil {
		r.asks++
		e.used = r.asks
		switch {
		case e.err == nil:
			return e.writer, nil
		case time.Now().Before(e.until) && e.waits:
			r.inVain, r.doubted = time.Now(), fmt.Errorf("schema %v: %w; it may be new", id, e.err)
			return writer{}, ErrSchemaUnavailable
		case time.Now().Before(e.until):
			return writer{}, e.err
		}
	}
	if !r.fetching[id] && !time.Now().Before(r.rest) && r.ctx.Err() == nil {
		r.fetching[id] = true
		r.fetches.Go(func() { r.fetch(id) })
	}
	r.inVain = time.Now()
	return writer{}, ErrSchemaUnavailable
}

// fetch asks for one schema and remembers the answer.
func (r *Registry) fetch(id schemaID) {
	w, text, err := r.ask(r.ctx, id)
	refused, ok := errors.AsType[*schemaError](err)
	if ok {
		err = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.fetching, id)
	if r.ctx.Err() != nil {
		return
	}
	r.failure, r.doubted = err, nil
	e := &entry{writer: w, err: refused, text: text}
	switch {
	case err != nil:
		r.failed(id, err)
		return
	case refused != nil:
		r.refuse(id, e)
		r.asked("unknown")
	default:
		r.asked("found")
	}
	if r.failures > 0 {
		r.failures, r.rest = 0, time.Time{}
		r.cfg.Log.Info("the schema registry answers again")
	}
	if r.known[id] != nil {
		r.forget(id)
	}
	r.asks++
	e.used = r.asks
	r.known[id] = e
	r.text += text
	r.makeRoom()
}

// refuse says how long a refusal is believed, and whether the schema's records wait that long.
func (r *Registry) refuse(id schemaID, e *entry) {
	now := time.Now()
	e.since, e.lasts = now, refusalLasts
	if before := r.known[id]; before != nil {
		e.since, e.lasts, e.spares = before.since, min(2*before.lasts, refusalLasts), before.spares
	} else if e.err.missing { // else the schema itself is at fault, which does not change
		e.lasts = firstRefusal
		if e.spares = now.Sub(r.spared) >= refusalLasts; e.spares {
			r.spared = now
		}
	}
	left := spareFor - now.Sub(e.since)
	if e.waits = e.spares && e.err.missing && left > 0; e.waits {
		e.lasts = min(e.lasts, left)
		r.cfg.Log.Info("the records of a schema wait, which may be new", "schema", id.String(), "reason", e.err)
	} else {
		r.cfg.Log.Warn("records of a schema cannot be decoded", "schema", id.String(), "reason", e.err)
	}
	e.until = now.Add(e.lasts)
}

// failed makes requests wait for a while. Several requests that were under way
// together count as one failure.
func (r *Registry) failed(id schemaID, err error) {
	r.asked("failed")
	if time.Now().Before(r.rest) {
		return
	}
	r.failures++
	wait := r.cfg.Backoff(r.failures)
	r.rest = time.Now().Add(wait)
	r.cfg.Log.Warn("a schema cannot be fetched; the records that need it wait; check schemaRegistry.url and its login, and that the registry runs", "schema", id.String(), "wait", wait, "error", err)
}

func (r *Registry) asked(outcome string) {
	if r.cfg.Asked != nil {
		r.cfg.Asked(outcome)
	}
}

// makeRoom forgets the schemas asked for longest ago as long as there are too many.
func (r *Registry) makeRoom() {
	for len(r.known) > 1 && (len(r.known) > maxSchemas || r.text > maxSchemaText) {
		oldest, used := schemaID{}, uint64(math.MaxUint64)
		for id, e := range r.known {
			if e.used < used {
				oldest, used = id, e.used
			}
		}
		r.forget(oldest)
	}
}

func (r *Registry) forget(id schemaID) {
	r.text -= r.known[id].text
	delete(r.known, id)
}

// ask fetches the schema of that id with what it refers to, and makes it ready; text
// is how long they are. A *schemaError is final, another error one that the next try
// may not meet.
func (r *Registry) ask(ctx context.Context, id schemaID) (w writer, text int, err error) {
	schema, err := r.schema(ctx, id)
	if err != nil {
		return w, 0, err
	}
	parts := &parts{texts: map[string]string{}}
	if err := r.gather(ctx, parts, schema.References, 0); err != nil {
		return w, len(schema.Schema), err
	}
	if text = len(schema.Schema) + parts.bytes; text > maxSchema {
		return w, text, &schemaError{reason: "it is larger than 1 MiB"}
	}
	switch schema.Type {
	case sr.TypeAvro:
		root, broken := parseAvro(schema.Schema, parts.ordered)
		w, err = writer{FormatAvro, func(d *wire, payload []byte) (Value, error) { return d.avro.decode(root, payload) }}, broken
	case sr.TypeJSON:
		check, broken := parseJSONSchema(schema.Schema, parts.texts, r.cfg.Validate)
		types := jsonTypes(schema.Schema)
		w, err = writer{FormatJSONSchema, func(d *wire, payload []byte) (Value, error) {
			v, err := d.checked(check, payload)
			return types.apply(v), err
		}}, broken
	case sr.TypeProtobuf:
		file, broken := parseProtobuf(ctx, schema.Schema, parts.texts)
		w, err = writer{FormatProtobuf, func(d *wire, payload []byte) (Value, error) { return d.proto.decode(file, d.indexes, payload) }}, broken
	default:
		return w, text, &schemaError{reason: "its type is not known here"}
	}
	if ctx.Err() != nil {
		return w, text, ctx.Err()
	}
	if err != nil {
		return w, text, &schemaError{reason: fmt.Sprintf("it cannot be used: %v", err)}
	}
	return w, text, nil
}

// schema asks for the schema itself.
func (r *Registry) schema(ctx context.Context, id schemaID) (schema sr.Schema, err error) {
	if id.guid == (guid{}) {
		schema, err = r.client.SchemaByID(ctx, int(id.number))
	} else {
		var found sr.SubjectSchema
		found, err = r.client.SchemaByGUID(ctx, id.String())
		schema = found.Schema
	}
	switch {
	case missing(err):
		return schema, &schemaError{"the registry does not know it", true}
	case id.guid != (guid{}) && unknownPath(err):
		return schema, fmt.Errorf("%w: the registry, or a proxy before it, does not find schemas by GUID; "+
			"upgrade it, or have the producers write the schema's id into values and keys", shortened(err))
	case err != nil:
		return schema, shortened(err)
	}
	return schema, nil
}

// Subject is what the registry has under a subject.
type Subject struct {
	Versions int    // 0: the registry does not know it
	Format   Format // of the newest version; "" where Unusable says why it has none
	Unusable error  // why nothing can be read with the newest version; nil: it can be used
}

// Subject asks the registry about a subject. An error says that it could not be asked.
func (r *Registry) Subject(ctx context.Context, name string) (Subject, error) {
	versions, err := r.client.SubjectVersions(ctx, name)
	switch {
	case missing(err):
		return Subject{}, nil
	case err != nil:
		return Subject{}, shortened(err)
	}
	newest, err := r.client.SchemaByVersion(ctx, name, -1)
	if err != nil {
		return Subject{}, shortened(err)
	}
	found := Subject{Versions: len(versions)}
	w, _, err := r.ask(ctx, schemaID{number: uint32(newest.ID)})
	if _, final := errors.AsType[*schemaError](err); err != nil && !final {
		return Subject{}, err
	}
	found.Format, found.Unusable = w.format, err
	return found, nil
}

// parts are the schemas that one refers to, directly or through others.
type parts struct {
	ordered []string          // those first that others refer to
	texts   map[string]string // by the name they are referred to by
	bytes   int
}

const maxReferences = 200 // of one schema

func (r *Registry) gather(ctx context.Context, p *parts, refs []sr.SchemaReference, depth int) error {
	for _, ref := range refs {
		if _, seen := p.texts[ref.Name]; seen {
			continue
		}
		if depth > maxDepth || len(p.texts) >= maxReferences {
			return &schemaError{reason: fmt.Sprintf("it refers to more than %d others", maxReferences)}
		}
		part, err := r.client.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), ref.Subject, ref.Version)
		if missing(err) {
			return &schemaError{fmt.Sprintf("it refers to version %d of the subject %s, which the registry does not know", ref.Version, ref.Subject), true}
		}
		if err != nil {
			return fmt.Errorf("version %d of the subject %s: %w", ref.Version, ref.Subject, shortened(err))
		}
		p.texts[ref.Name] = part.Schema.Schema
		p.bytes += len(part.Schema.Schema)
		if p.bytes > maxSchema {
			return &schemaError{reason: "with what it refers to it is larger than 1 MiB"}
		}
		if err := r.gather(ctx, p, part.References, depth+1); err != nil {
			return err
		}
		p.ordered = append(p.ordered, part.Schema.Schema)
	}
	return nil
}

// missing reports whether the registry itself said that there is no such thing. A
// plain 404 may come from a proxy that knows of no registry.
func missing(err error) bool {
	e, ok := errors.AsType[*sr.ResponseError](err)
	if !ok || e.StatusCode != http.StatusNotFound {
		return false
	}
	said := e.SchemaError()
	return said == sr.ErrSubjectNotFound || said == sr.ErrVersionNotFound || said == sr.ErrSchemaNotFound
}

// unknownPath reports whether an answer says that there is no such endpoint.
func unknownPath(err error) bool {
	e, ok := errors.AsType[*sr.ResponseError](err)
	return ok && (e.StatusCode == http.StatusNotFound || e.StatusCode == http.StatusMethodNotAllowed)
}

// shortened says what a request met, with the status and the beginning of the
// answer, which may be any proxy's page.
func shortened(err error) error {
	e, ok := errors.AsType[*sr.ResponseError](err)
	if !ok {
		return err
	}
	const enough = 200
	text := e.Error()
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	return &answerError{e.StatusCode, fmt.Sprintf("%s %s: %d: %s", e.Method, e.URL, e.StatusCode, strconv.QuoteToGraphic(text))}
}

// answerError is an answer that is neither a schema nor says that there is none.
type answerError struct {
	status int
	text   string
}

// Error says which request had which answer.
func (e *answerError) Error() string { return e.text }

// Refused reports whether a registry's Err is an answer that is likely to stay, such as
// one to an unknown path or a wrong password. After 408, 429 and a server's errors the next
// request may have another one.
func Refused(err error) bool {
	e, ok := errors.AsType[*answerError](err)
	return ok && e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout && e.status != http.StatusTooManyRequests
}

// boundedBodies is a transport whose answers end in an error where they are
// longer than any schema.
type boundedBodies struct{ next http.RoundTripper }

// maxAnswer leaves room for a schema's JSON escapes.
const maxAnswer = 4 * maxSchema

// RoundTrip implements http.RoundTripper.
func (b boundedBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

var errAnswer = errors.New("the answer is longer than 4 MiB")

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errAnswer
	}
	return n, err
}
