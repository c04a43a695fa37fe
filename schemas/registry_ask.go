package schemas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/twmb/franz-go/pkg/sr"
)

// The codes with which a registry says that something does not exist. A plain
// 404 may come from a proxy that knows of no registry.
const (
	noSubject = 40401
	noVersion = 40402
	noSchema  = 40403
)

// ask fetches the schema of that id with what it refers to, and makes it ready.
// An error is one that another try may not meet.
func (r *Registry) ask(ctx context.Context, id uint32) (*entry, error) {
	e := &entry{id: id}
	refuse := func(format string, args ...any) (*entry, error) {
		e.err = &schemaError{reason: fmt.Sprintf(format, args...)}
		return e, nil
	}
	schema, err := r.client.SchemaByID(ctx, int(id))
	switch {
	case missing(err):
		e.err = &schemaError{"the registry does not know it", true}
		return e, nil
	case err != nil:
		return nil, worded(err)
	}
	e.text = len(schema.Schema)
	parts := &parts{registry: r, texts: map[string]string{}}
	err = parts.gather(ctx, schema.References, 0)
	if broken, ok := errors.AsType[*schemaError](err); ok {
		e.err = broken
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	if e.text += parts.bytes; e.text > maxSchema {
		return refuse("it is larger than 1 MiB")
	}
	switch schema.Type {
	case sr.TypeAvro:
		var root *avroType
		root, err = parseAvro(schema.Schema, parts.ordered())
		e.writer = avroWriter{root}
	case sr.TypeJSON:
		e.writer, err = parseJSONSchema(schema.Schema, parts.texts, r.cfg.Validate)
	case sr.TypeProtobuf:
		e.writer, err = parseProtobuf(ctx, schema.Schema, parts.texts)
	default:
		return refuse("its type is not known here")
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return refuse("it cannot be used: %v", err)
	}
	return e, nil
}

// Versions is how many schemas are registered under a subject, 0 for a subject
// that the registry does not know.
func (r *Registry) Versions(ctx context.Context, subject string) (int, error) {
	versions, err := r.client.SubjectVersions(ctx, subject)
	switch {
	case missing(err):
		return 0, nil
	case err != nil:
		return 0, worded(err)
	}
	return len(versions), nil
}

// parts are the schemas that one refers to, directly or through others.
type parts struct {
	registry *Registry
	names    []string          // those first that others refer to
	texts    map[string]string // by the name they are referred to by
	bytes    int
}

const maxReferences = 200 // of one schema

func (p *parts) gather(ctx context.Context, refs []sr.SchemaReference, depth int) error {
	for _, ref := range refs {
		if _, seen := p.texts[ref.Name]; seen {
			continue
		}
		if depth > MaxDepth || len(p.texts) >= maxReferences {
			return &schemaError{reason: fmt.Sprintf("it refers to more than %d others", maxReferences)}
		}
		part, err := p.registry.client.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), ref.Subject, ref.Version)
		if missing(err) {
			return &schemaError{fmt.Sprintf("it refers to version %d of the subject %s, which the registry does not know", ref.Version, ref.Subject), true}
		}
		if err != nil {
			return fmt.Errorf("version %d of the subject %s: %w", ref.Version, ref.Subject, worded(err))
		}
		p.texts[ref.Name] = part.Schema.Schema
		p.bytes += len(part.Schema.Schema)
		if p.bytes > maxSchema {
			return &schemaError{reason: "with what it refers to it is larger than 1 MiB"}
		}
		if err := p.gather(ctx, part.References, depth+1); err != nil {
			return err
		}
		p.names = append(p.names, ref.Name)
	}
	return nil
}

func (p *parts) ordered() []string {
	texts := make([]string, len(p.names))
	for i, name := range p.names {
		texts[i] = p.texts[name]
	}
	return texts
}

// missing reports whether the registry itself said that there is no such thing.
func missing(err error) bool {
	e, ok := errors.AsType[*sr.ResponseError](err)
	return ok && e.StatusCode == http.StatusNotFound &&
		(e.ErrorCode == noSubject || e.ErrorCode == noVersion || e.ErrorCode == noSchema)
}

// worded says what a request met, with the status and the beginning of the
// answer, which may be any proxy's page.
func worded(err error) error {
	e, ok := errors.AsType[*sr.ResponseError](err)
	if !ok {
		return err
	}
	const enough = 200
	text := e.Error()
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	return fmt.Errorf("%s %s: %d: %s", e.Method, e.URL, e.StatusCode, strconv.QuoteToGraphic(text))
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
	if b.left <= 0 {
		// One byte more tells the end from too much.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errAnswer
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
