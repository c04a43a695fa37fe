package contract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/service"
)

// step is one call of the client and what has to come of it.
type step struct {
	method string // of feed.Client
	about  string
	call   func(ctx context.Context, c *service.Client, m *memory) error
	want   service.Kind
}

// Outcomes besides the client's kinds of error.
const (
	success service.Kind = 0
	foreign service.Kind = 255 // an error that is none of the client's
)

// memory is what later calls need from earlier ones, and what cannot be known
// before there is a service.
type memory struct {
	profile   string
	etl       string
	execution string
	finish    func(execution string) // ends an execution
	dir       string
}

const csv = "no,born\nC1,31/12/1999\nC2,yesterday\n"

var (
	profile = []byte(`{"attributes":{"customerNumber":"C1","emailAddress":"a@example.com","languages":["fr","en"],
		"birthDate":"1999-12-31","lastSeen":"2026-11-21T10:00:00Z","age":44,"score":-0.5,"active":true},
		"subscriptions":{"newsletter":true},"segments":{"vip":true,"tier":"gold"},
		"dataCollection":{"date":"2026-11-21T10:00:00+01:00","source":"shop","way":"checkout"}}`)
	// Its two unique keys are those of two profiles.
	torn   = []byte(`{"attributes":{"customerNumber":"C1","emailAddress":"b@example.com"}}`)
	record = service.JSON(`{"businessKey":"a/b","properties":[{"name":"total","value":12.50},{"name":"status","value":"PAID"}]}`)
	change = service.JSON(`{"properties":[{"name":"status","value":"SENT"}]}`)
)

func load(mode service.Mode) service.Load {
	return service.Load{
		CSV:             service.CSVFormat{Encoding: "UTF-8", Separator: ",", Enclosing: `"`},
		Transformations: []service.Transformation{{Header: "born", DateFormat: "dd/MM/yyyy"}},
		Destination: service.Destination{Type: service.ProfileTable, ID: "customers", Attributes: []service.Attribute{
			{Header: "no", Name: "customerNumber"},
			{Header: "born", Name: "birthDate", IgnoreEmptyValues: true, MergeValuesWhenMultivalued: true},
		}},
		Parameters: service.Parameters{Mode: mode, GenerateErrorFiles: true},
	}
}

func triggered(name string, mode service.Mode) service.TriggeredETL {
	return service.TriggeredETL{
		Name: name, Description: "every field", ReportRecipients: []string{"ops@example.com"},
		Files: []service.ETLFile{{
			Code: "customers", NamePattern: "customers-$YYYYMMDD.csv", Compression: service.Zip,
			CompressedNamePattern: "customers-$YYYYMMDD.zip", Load: load(mode),
		}},
		Output: &service.OutputLocation{Entity: "acme"},
	}
}

func oneShot() service.OneShotETL {
	return service.OneShotETL{
		Load: load(service.ModeUpdateOnly), ReportRecipients: []string{"ops@example.com"},
		Output: &service.OutputLocation{Entity: "acme"},
	}
}

func fetched() service.OneShotETL {
	e := oneShot()
	e.Remote = &service.RemoteFile{
		LocationID: "ftps-1", NamePattern: "customers-$YYYYMMDD.csv", Compression: service.Gzip,
		CompressedNamePattern: "customers-$YYYYMMDD.csv.gz", DeleteOnSuccess: true,
	}
	return e
}

func upload(name, content string) service.File {
	return service.File{Name: name, Open: func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader([]byte(content))), int64(len(content)), nil
	}}
}

// steps is every operation in an order in which each finds what it needs.
func steps() []step {
	return slices.Concat(profileSteps(), recordSteps(), importSteps(), []step{
		{"CreateWebhook", "", func(ctx context.Context, c *service.Client, m *memory) error {
			_, err := c.CreateWebhook(ctx, service.Webhook{
				ElementID: m.etl, TargetURL: "http://localhost:1/webhooks/executions",
				Headers: map[string]service.Secret{"X-Feedsink-Secret": service.NewSecret("s3cret")},
			})
			return err
		}, success},
		{"Authenticate", "", func(ctx context.Context, c *service.Client, _ *memory) error { return c.Authenticate(ctx) }, success},
	})
}

func profileSteps() []step {
	upsert := func(body service.JSON) func(context.Context, *service.Client, *memory) error {
		return func(ctx context.Context, c *service.Client, m *memory) error {
			ref, err := c.UpsertProfile(ctx, "customers", body)
			if err == nil {
				m.profile = ref.ID()
			}
			return err
		}
	}
	patch := func(ctx context.Context, c *service.Client, m *memory) error {
		_, err := c.PatchProfile(ctx, "customers", m.profile, service.JSON(`{"attributes":{"score":1}}`))
		return err
	}
	remove := func(ctx context.Context, c *service.Client, m *memory) error {
		return c.DeleteProfile(ctx, "customers", m.profile)
	}
	return []step{
		{"UpsertProfile", "another", upsert(service.JSON(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)), success},
		{"UpsertProfile", "", upsert(profile), success},
		{"UpsertProfile", "keys of two profiles", upsert(torn), service.Conflict},
		{"UpsertProfile", "an unknown attribute", upsert(service.JSON(`{"attributes":{"customerNumber":"C1","x":1}}`)), service.Rejected},
		{"PatchProfile", "", patch, success},
		{"DeleteProfile", "", remove, success},
		{"PatchProfile", "unknown id", patch, service.NotFound},
		{"DeleteProfile", "unknown id", remove, service.NotFound},
	}
}

func recordSteps() []step {
	upsert := func(update bool) func(context.Context, *service.Client, *memory) error {
		return func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.UpsertRecord(ctx, "orders", record, update)
			return err
		}
	}
	update := func(ctx context.Context, c *service.Client, _ *memory) error {
		_, err := c.UpdateRecord(ctx, "orders", "a/b", change)
		return err
	}
	get := func(ctx context.Context, c *service.Client, _ *memory) error {
		r, err := c.GetRecord(ctx, "orders", "a/b")
		if err == nil && (r.ID() == "" || r.Created().IsZero() || r.Updated().IsZero()) {
			return errors.New("the record lacks what the service adds")
		}
		return err
	}
	remove := func(ctx context.Context, c *service.Client, _ *memory) error {
		return c.DeleteRecord(ctx, "orders", "a/b")
	}
	return []step{
		{"UpsertRecord", "create", upsert(false), success},
		{"UpsertRecord", "create again", upsert(false), service.Conflict},
		{"UpsertRecord", "update", upsert(true), success},
		{"UpdateRecord", "", update, success},
		{"GetRecord", "", get, success},
		{"DeleteRecord", "", remove, success},
		{"UpdateRecord", "unknown key", update, service.NotFound},
		{"GetRecord", "unknown key", get, service.NotFound},
		{"DeleteRecord", "unknown key", remove, service.NotFound},
	}
}

func importSteps() []step {
	trigger := func(file service.File) func(context.Context, *service.Client, *memory) error {
		return func(ctx context.Context, c *service.Client, m *memory) error {
			e, err := c.Trigger(ctx, m.etl, file, nil)
			if err == nil {
				m.execution = e.ID
			}
			return err
		}
	}
	results := func(ctx context.Context, c *service.Client, m *memory) error {
		_, err := c.Results(ctx, m.execution)
		return err
	}
	outputs := func(ctx context.Context, c *service.Client, m *memory) error {
		_, err := c.OutputFiles(ctx, m.execution, io.Discard)
		return err
	}
	return []step{
		{"CreateETL", "", func(ctx context.Context, c *service.Client, m *memory) (err error) {
			m.etl, err = c.CreateETL(ctx, triggered("customers", service.ModeCreateOrUpdate))
			return err
		}, success},
		{"CreateETL", "the other spelling of its mode", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.CreateETL(ctx, triggered("customers again", service.ModeCreateUpdate))
			return err
		}, success},
		{"Trigger", "a file that fails", trigger(upload("c.csv", "no,no\n")), success},
		{"Results", "IN_PROGRESS", results, success},
		{"Results", "FAILED", func(ctx context.Context, c *service.Client, m *memory) error {
			m.finish(m.execution)
			return results(ctx, c, m)
		}, success},
		{"OutputFiles", "none", outputs, service.NotFound},
		{"Trigger", "", trigger(upload("c.csv", csv)), success},
		{"Results", "FINISHED", func(ctx context.Context, c *service.Client, m *memory) error {
			m.finish(m.execution)
			return results(ctx, c, m)
		}, success},
		{"OutputFiles", "", outputs, success},
		{"SaveOutputFiles", "", func(ctx context.Context, c *service.Client, m *memory) error {
			_, err := c.SaveOutputFiles(ctx, m.execution, filepath.Join(m.dir, "errors"))
			return err
		}, success},
		{"OneShot", "", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.OneShot(ctx, oneShot(), upload("c.csv", csv), nil)
			return err
		}, success},
		{"Results", "unknown id", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.Results(ctx, "none")
			return err
		}, service.NotFound},
	}
}

// everyField is a definition that has each field of the interface, of two files.
func everyField() service.TriggeredETL {
	e := triggered("customers and orders", service.ModeCreateOnly)
	e.Paused, e.RemoteLocationID = true, "ftps-1"
	e.Output = &service.OutputLocation{RemoteLocationID: "ftps-2"}
	e.Files[0].Parameters.GenerateResultFiles = true
	e.Files[0].Destination.Attributes[1] = service.Attribute{
		Header: "born", Name: "birthDate", IgnoreEmptyValues: true, IgnoreInvalidValues: true,
		IgnoreValuesWhenAlreadyKnown: true, MergeValuesWhenMultivalued: true,
	}
	e.Files = append(e.Files, service.ETLFile{
		Code: "orders", NamePattern: "orders-$YYYYMMDD.csv", Compression: service.Plain,
		Load: service.Load{
			CSV: service.CSVFormat{Separator: ";"},
			Destination: service.Destination{Type: service.CustomTable, ID: "orders", Attributes: []service.Attribute{
				{Header: "key", Name: "businessKey"}, {Header: "state", Name: "status"},
			}},
			Parameters: service.Parameters{Mode: service.ModeDelete},
		},
	})
	return e
}

// remoteETL is one whose file is fetched.
func remoteETL() service.TriggeredETL {
	e := triggered("customers from afar", service.ModeCreateOrUpdate)
	e.RemoteLocationID = "ftps-1"
	return e
}

// remoteSteps name the remote locations ftps-1 and ftps-2.
func remoteSteps() []step {
	return []step{
		{"CreateETL", "every field", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.CreateETL(ctx, everyField())
			return err
		}, success},
		{"OneShotRemote", "", func(ctx context.Context, c *service.Client, _ *memory) error {
			_, err := c.OneShotRemote(ctx, fetched(), nil)
			return err
		}, success},
		{"TriggerRemote", "", func(ctx context.Context, c *service.Client, _ *memory) error {
			etl, err := c.CreateETL(ctx, remoteETL())
			if err == nil {
				_, err = c.TriggerRemote(ctx, etl, nil)
			}
			return err
		}, success},
	}
}

// do makes one call and wants its outcome.
func (s step) do(t *testing.T, c *service.Client, m *memory) {
	t.Helper()
	err := s.call(t.Context(), c, m)
	got := kind(err)
	if got != s.want {
		t.Errorf("%s %s: got %v (%v), want %v", s.method, s.about, got, err, s.want)
	}
}

// kind is the outcome that err, or no err, is.
func kind(err error) service.Kind {
	if e, ok := errors.AsType[*service.Error](err); ok {
		return e.Kind()
	}
	if err != nil {
		return foreign
	}
	return success
}

// TestNoOperationOfTheClientIsLeftOut fails when the client gets a method that
// no step calls.
func TestNoOperationOfTheClientIsLeftOut(t *testing.T) {
	called := map[string]bool{"Close": true, "TokenOK": true, "TokenRefused": true, "TokenErr": true, "TakeToken": true, "While": true} // these call nothing
	for _, s := range slices.Concat(steps(), remoteSteps()) {
		called[s.method] = true
	}
	for method := range reflect.TypeFor[*service.Client]().Methods() {
		if !called[method.Name] {
			t.Errorf("no step calls service.Client.%s", method.Name)
		}
		delete(called, method.Name)
	}
	for name := range called {
		t.Errorf("a step names feed.Client.%s, which does not exist", name)
	}
}
