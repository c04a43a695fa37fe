package schemas

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// desk is a registry without a network, so that it works in virtual time.
type desk struct {
	*srfake.Registry
	asked atomic.Int64
	trips func(*http.Request) (*http.Response, error) // nil: the registry answers
}

func (d *desk) RoundTrip(req *http.Request) (*http.Response, error) {
	d.asked.Add(1)
	if d.trips != nil {
		return d.trips(req)
	}
	return d.answer(req), nil
}

func (d *desk) answer(req *http.Request) *http.Response {
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, req)
	return w.Result()
}

// answers says the same to everybody.
func answers(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.WriteHeader(status)
		_, _ = w.WriteString(body)
		return w.Result(), nil
	}
}

func newDesk() *desk { return &desk{Registry: srfake.NewRegistry()} }

// open connects a registry to the desk.
func (d *desk) open(t testing.TB, change func(*RegistryConfig)) *Registry {
	t.Helper()
	cfg := RegistryConfig{
		URL: "http://registry", HTTP: &http.Client{Transport: d}, Log: slog.New(slog.DiscardHandler),
		Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Second },
	}
	if change != nil {
		change(&cfg)
	}
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (d *desk) register(t testing.TB, subject, text string, typ sr.SchemaType, refs ...sr.SchemaReference) uint32 {
	t.Helper()
	id, _, err := d.RegisterSchema(subject, sr.Schema{Schema: text, Type: typ, References: refs})
	if err != nil {
		t.Fatal(err)
	}
	return uint32(id)
}

func framed(id uint32, payload ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), payload...)
}

// soon decodes as often as it takes for the schema to come.
func soon(t testing.TB, d Decoder, data []byte) (Value, error) {
	t.Helper()
	for range 1000 {
		v, err := d.Decode(data)
		if !errors.Is(err, ErrSchemaUnavailable) {
			return v, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the schema never came")
	return Value{}, nil
}

const oneInt = `{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}`

func TestEachFormatIsDecodedByItsWriterSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		d.register(t, "address", `{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}`, sr.TypeAvro)
		d.register(t, "shared.proto", `syntax = "proto3"; package s; message Money { int64 cents = 1; }`, sr.TypeProtobuf)
		for _, c := range []struct {
			name    string
			format  Format
			id      uint32
			payload []byte
			want    string
		}{
			{"avro", FormatAvro, d.register(t, "a", oneInt, sr.TypeAvro), []byte{4}, `{"a":2}`},
			{"avro, evolved", FormatAvro, d.register(t, "a", `{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"b","type":"string","default":""}]}`, sr.TypeAvro), []byte{4, 2, 'x'}, `{"a":2,"b":"x"}`},
			{
				"avro with a reference", FormatAvro,
				d.register(t, "p", `{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}`, sr.TypeAvro, sr.SchemaReference{Name: "Address", Subject: "address", Version: 1}),
				[]byte{2, 'A'},
				`{"home":{"city":"A"}}`,
			},
			{"json-schema", FormatJSONSchema, d.register(t, "j", `{"type":"object"}`, sr.TypeJSON), []byte(`{"a":1.50}`), `{"a":1.50}`},
			{"protobuf", FormatProtobuf, d.register(t, "pb", `syntax = "proto3"; message A { string x = 1; } message B { message C { int32 y = 1; } }`, sr.TypeProtobuf), []byte{0, 0x0a, 1, 'v'}, `{"x":"v"}`},
			{"protobuf, a nested message", FormatProtobuf, d.register(t, "pb", `syntax = "proto3"; message A { string x = 1; } message B { message C { int32 y = 1; } }`, sr.TypeProtobuf), []byte{4, 2, 0, 8, 7}, `{"y":7}`},
			{
				"protobuf with an import", FormatProtobuf,
				d.register(t, "pc", `syntax = "proto3"; import "shared.proto"; import "confluent/meta.proto"; message O { s.Money total = 1 [(confluent.field_meta) = {doc: "all"}]; }`, sr.TypeProtobuf, sr.SchemaReference{Name: "shared.proto", Subject: "shared.proto", Version: 1}),
				[]byte{0, 0x0a, 2, 8, 9},
				`{"total":{"cents":9}}`,
			},
		} {
			v, err := soon(t, r.Decoder(c.format), framed(c.id, c.payload...))
			if got := string(v.AppendJSON(nil)); err != nil || got != c.want {
				t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
			}
		}
	})
}

func TestOneRequestServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		id := d.register(t, "a", oneInt, sr.TypeAvro)
		d.trips = func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return d.answer(req), nil
		}
		r := d.open(t, nil)
		defer r.Close()
		one, two := r.Decoder(FormatAvro), r.Decoder(FormatAvro)
		for range 10 {
			for _, decoder := range []Decoder{one, two} {
				if _, err := decoder.Decode(framed(id, 2)); !errors.Is(err, ErrSchemaUnavailable) {
					t.Fatalf("while it is fetched: got %v, want ErrSchemaAway", err)
				}
			}
		}
		time.Sleep(2 * time.Second)
		for _, decoder := range []Decoder{one, two} {
			if _, err := decoder.Decode(framed(id, 2)); err != nil {
				t.Error(err)
			}
		}
		if got := d.asked.Load(); got != 1 {
			t.Errorf("requests: got %d, want 1", got)
		}
	})
}

func TestAnOutageRejectsNothingAndIsNotHammered(t *testing.T) {
	for name, trip := range map[string]func(*http.Request) (*http.Response, error){
		"no connection":            func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") },
		"503":                      answers(503, `{"error_code":50301,"message":"no"}`),
		"401":                      answers(401, ``),
		"403":                      answers(403, ``),
		"429":                      answers(429, ``),
		"a proxy's 404":            answers(404, `<html>not found</html>`),
		"a 404 of another code":    answers(404, `{"error_code":404,"message":"HTTP 404 Not Found"}`),
		"an answer without an end": answers(200, strings.Repeat(" ", maxAnswer+1)),
		"no JSON":                  answers(200, `<html>log in</html>`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				id := d.register(t, "a", oneInt, sr.TypeAvro)
				d.trips = trip
				r := d.open(t, nil)
				defer r.Close()
				decoder := r.Decoder(FormatAvro)
				for range 600 { // a minute
					if _, err := decoder.Decode(framed(id, 2)); !errors.Is(err, ErrSchemaUnavailable) {
						t.Fatalf("got %v, want ErrSchemaAway", err)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := d.asked.Load(); got < 9 || got > 12 { // after 1, 2, 3 … seconds
					t.Errorf("requests: got %d, want about 11", got)
				}
				if r.Err() == nil || r.Waits() == nil {
					t.Error("trouble, or that a record waits: got none")
				}
				time.Sleep(10 * time.Second)
				if r.Waits() != nil {
					t.Errorf("no record asks any more: got that one waits: %v", r.Waits())
				}
				d.trips = nil
				time.Sleep(time.Minute)
				if _, err := soon(t, decoder, framed(id, 2)); err != nil {
					t.Errorf("after the outage: %v", err)
				}
				if r.Err() != nil {
					t.Errorf("trouble after the outage: got %v, want none", r.Err())
				}
			})
		})
	}
}

func TestOnlyTheRegistryItselfMakesASchemaUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		decoder := r.Decoder(FormatAvro)
		_, err := soon(t, decoder, framed(99, 2))
		if _, ok := errors.AsType[*DecodeError](err); !ok || err.Error() != "avro: offset 0: schema 99: the registry does not know it" {
			t.Fatalf("got %v, want a DecodeError that says so", err)
		}
		before := d.asked.Load()
		for range 50 {
			if _, err := decoder.Decode(framed(99, 2)); err == nil || errors.Is(err, ErrSchemaUnavailable) {
				t.Fatalf("asked again: got %v, want the same", err)
			}
		}
		if got := d.asked.Load() - before; got != 0 {
			t.Errorf("requests: got %d more, want none", got)
		}
		d.SeedSchema("late", 1, 99, sr.Schema{Schema: oneInt})
		time.Sleep(2 * refusalLasts)
		if _, err := soon(t, decoder, framed(99, 2)); err != nil {
			t.Errorf("after it was registered: %v", err)
		}
	})
}

func TestRecordsOfASchemaThatAReplicaDoesNotKnowYetWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		decoder, began := r.Decoder(FormatAvro), time.Now()
		for time.Since(began) < 4*time.Second {
			if _, err := decoder.Decode(framed(99, 2)); !errors.Is(err, ErrSchemaUnavailable) {
				t.Fatalf("after %v: got %v, want that it waits", time.Since(began), err)
			}
			if why := r.Waits(); time.Since(began) > 0 && (why == nil || why.Error() != "schema 99: the registry does not know it; it may be new") {
				t.Fatalf("after %v: got that it waits for %v", time.Since(began), why)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := d.asked.Load(); got != 4 { // after 0.5, 1.5 and 3.5 seconds again
			t.Errorf("requests: got %d, want 4", got)
		}
		if r.Err() != nil {
			t.Errorf("the registry answers: got %v", r.Err())
		}
		d.SeedSchema("new", 1, 99, sr.Schema{Schema: oneInt})
		if _, err := soon(t, decoder, framed(99, 2)); err != nil || time.Since(began) > 5100*time.Millisecond {
			t.Errorf("once it is there: got %v after %v", err, time.Since(began))
		}
		if why := r.Waits(); why != nil {
			t.Errorf("nothing waits any more: got %v", why)
		}
	})
}

// Records that name any schema hold up their partition for five seconds a minute.
func TestOneSchemaAMinuteIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		decoder := r.Decoder(FormatAvro)
		for _, c := range []struct {
			id   uint32
			want time.Duration // for so long its records wait
		}{{90, spareFor}, {91, 0}, {92, 0}, {90, 0}} {
			began := time.Now()
			_, err := soon(t, decoder, framed(c.id, 2))
			if took := time.Since(began); !errors.Is(err, ErrSchemaMissing) || took < c.want || took > c.want+100*time.Millisecond {
				t.Errorf("schema %d: got %v after %v, want that it is missing after %v", c.id, err, took, c.want)
			}
		}
		time.Sleep(time.Minute)
		began := time.Now()
		if _, err := soon(t, decoder, framed(93, 2)); !errors.Is(err, ErrSchemaMissing) || time.Since(began) < spareFor {
			t.Errorf("a minute later: got %v after %v, want that another one was waited for", err, time.Since(began))
		}
		if _, err := soon(t, decoder, framed(90, 2)); !errors.Is(err, ErrSchemaMissing) || time.Since(began) > spareFor+100*time.Millisecond {
			t.Errorf("one that was waited for before: got %v after %v", err, time.Since(began))
		}
	})
}

func TestASchemaThatIsSaidNotToExistIsAskedForMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.SeedSchema("broken", 1, 50, sr.Schema{Schema: `{"type":"what"}`})
		r := d.open(t, nil)
		defer r.Close()
		decoder := r.Decoder(FormatAvro)
		if _, err := soon(t, decoder, framed(1, 2)); err == nil { // the one that is waited for
			t.Fatal("got a schema that does not exist")
		}
		for _, c := range []struct { // in this order: a minute after the one that is waited for, another one would be
			id   uint32
			want int64
		}{
			{2, 11}, // after 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 123.5, 183.5 and 243.5 seconds again
			{50, 5}, // it is there, and stays as it is: each minute
		} {
			before := d.asked.Load()
			for began := time.Now(); time.Since(began) < 290*time.Second; time.Sleep(50 * time.Millisecond) {
				_, _ = decoder.Decode(framed(c.id, 2))
			}
			if got := d.asked.Load() - before; got != c.want {
				t.Errorf("schema %d: got %d requests in five minutes, want %d", c.id, got, c.want)
			}
		}
	})
}

func TestWhatCannotBeDecodedSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		avro := d.register(t, "a", oneInt, sr.TypeAvro)
		proto := d.register(t, "p", `syntax = "proto3"; message A { string x = 1; }`, sr.TypeProtobuf)
		d.SeedSchema("broken", 1, 50, sr.Schema{Schema: `{"type":"what"}`})
		d.SeedSchema("broken", 2, 51, sr.Schema{Schema: `syntax = "proto3"; import "gone.proto";`, Type: sr.TypeProtobuf})
		d.SeedSchema("large", 1, 52, sr.Schema{Schema: `"int"` + strings.Repeat(" ", maxSchema)})
		for _, c := range []struct {
			name   string
			format Format
			data   []byte
			want   string
		}{
			{"nothing", FormatAvro, nil, "avro: offset 0: does not begin with a zero byte and a schema's id: it was not written through a schema registry"},
			{"JSON on an Avro topic", FormatAvro, []byte(`{"a":1}`), "avro: offset 0: does not begin with a zero byte and a schema's id: it was not written through a schema registry"},
			{"another format's schema", FormatAvro, framed(proto, 0), "avro: offset 0: schema 2 is for protobuf"},
			{"an offset counts the header", FormatAvro, framed(avro, 2, 2), "avro: offset 6: data after the value"},
			{"a schema that is none", FormatAvro, framed(50), "avro: offset 0: schema 50: it cannot be used: "},
			{"an import that is not there", FormatProtobuf, framed(51), `protobuf: offset 0: schema 51: it cannot be used: writer.proto:1:27: could not resolve path "gone.proto": it is not among the references of the schema in the registry; register the schema with it`},
			{"a schema beyond any use", FormatAvro, framed(52), "avro: offset 0: schema 52: it is larger than 1 MiB"},
			{"a message that is not in the file", FormatProtobuf, framed(proto, 2, 8), "protobuf: offset 7: names a message that its schema does not have"},
			{"no message at all", FormatProtobuf, framed(proto), "protobuf: offset 5: ends too early"},
		} {
			if _, err := soon(t, r.Decoder(c.format), c.data); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.want)
			}
		}
	})
}

func TestSchemasAreForgottenBeyondTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		decoder := r.Decoder(FormatAvro)
		for id := range 20 {
			d.SeedSchema("a", id+1, id+1, sr.Schema{Schema: oneInt + strings.Repeat(" ", maxSchema-100-id)})
			if _, err := soon(t, decoder, framed(uint32(id+1), 2)); err != nil {
				t.Fatal(err)
			}
			if _, err := soon(t, decoder, framed(1, 2)); err != nil { // always in use
				t.Fatal(err)
			}
		}
		if r.text > maxSchemaText || len(r.known) != 8 {
			t.Errorf("remembered: got %d schemas of %d bytes, want 8 within %d", len(r.known), r.text, maxSchemaText)
		}
		if r.known[schemaID{number: 1}] == nil || r.known[schemaID{number: 20}] == nil {
			t.Error("the schemas in use were forgotten")
		}
	})
}

func TestTheRegistrysPasswordIsSentAndNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		var user, password string
		d.trips = func(req *http.Request) (*http.Response, error) {
			user, password, _ = req.BasicAuth()
			return nil, errors.New("refused")
		}
		r := d.open(t, func(c *RegistryConfig) {
			c.Login = func() (string, string, error) { return "me", "hidden", nil }
		})
		defer r.Close()
		_, _ = r.Decoder(FormatAvro).Decode(framed(1, 2))
		synctest.Wait()
		if user != "me" || password != "hidden" {
			t.Errorf("login: got %q, %q", user, password)
		}
		if err := r.Err(); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("trouble: got %v, want an error without the password", err)
		}
	})
}

func TestJSONIsCheckedAgainstItsSchemaWhereThatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, func(c *RegistryConfig) { c.Validate = true })
		defer r.Close()
		d.register(t, "address", `{"type":"object","required":["city"]}`, sr.TypeJSON)
		id := d.register(t, "p", `{"type":"object","properties":{"age":{"type":"integer","maximum":150},"home":{"$ref":"address.json"}}}`, sr.TypeJSON,
			sr.SchemaReference{Name: "address.json", Subject: "address", Version: 1})
		for text, want := range map[string]string{
			`{"age":42,"home":{"city":"A"}}`: "",
			`{"age":420}`:                    `json-schema: age: breaks the rule "maximum" of its schema`,
			`{"home":{}}`:                    `json-schema: home: breaks the rule "required" of its schema`,
			`{"age":1e999}`:                  `json-schema: a number is larger than a schema can check`,
			`{"age":`:                        `json-schema: offset 12: ends too early`,
		} {
			_, err := soon(t, r.Decoder(FormatJSONSchema), framed(id, []byte(text)...))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
			}
		}
	})
}
